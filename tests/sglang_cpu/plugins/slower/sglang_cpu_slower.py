"""An SGLang plugin that makes every batch take a tenth longer: a build that is slower and in nothing else another."""

import time
from collections.abc import Callable
from typing import Any

SLOWER = 0.10


def activate() -> None:
    """Called by SGLang in each of its processes."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register("sglang.srt.managers.scheduler.Scheduler.run_batch", _slowed, HookType.AROUND)


def _slowed(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    began = time.perf_counter()
    result = original(*arguments, **named)
    time.sleep(SLOWER * (time.perf_counter() - began))
    return result
