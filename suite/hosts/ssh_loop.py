"""One event loop in a thread of its own, so that code which waits can use asyncssh, which does not."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ssh", daemon=True).start()
    return loop


def call(work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
    """Run ``work`` in the loop and wait for it; it is cancelled when we stop waiting.

    Raises:
        TimeoutError: it did not end in ``timeout_s``.
    """
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(timeout_s)
    except concurrent.futures.TimeoutError:
        future.cancel()
        raise TimeoutError from None
    except BaseException:
        future.cancel()
        raise


def soon(do: Callable[[], object]) -> None:
    """Have the loop call ``do`` and wait for nothing."""
    _loop().call_soon_threadsafe(do)
