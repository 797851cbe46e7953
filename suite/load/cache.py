"""Empties SGLang's prefix cache, waiting until the server is idle, because it refuses while anything runs."""

from __future__ import annotations

import time

from suite.foreign import one_line
from suite.load.endpoint import Endpoint
from suite.load.records import LoadError
from suite.sglang import http
from suite.sglang.errors import ServerProbeError


def flush(endpoint: Endpoint, timeout_s: float = 30.0) -> None:
    """POST /flush_cache until it is done. SGLang answers 400 while requests are running or waiting.

    Raises LoadError if it stays busy for `timeout_s`, cannot be reached, refuses the key, or knows no such path.
    """
    url = f"{endpoint.root_url}/flush_cache"
    key = endpoint.admin_api_key or endpoint.api_key
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            answer = http.ask(
                url, method="POST", body=b"", headers=endpoint.headers, api_key=key, timeout_s=timeout_s
            )
        except ServerProbeError as error:
            raise LoadError(f"cannot reach the server to flush the prefix cache: {error}") from None
        if answer.status == 200:
            return
        said = one_line(answer.body)
        if answer.status != 400:
            raise LoadError(f"POST {url} answered {answer.status}: {said}{_HINTS.get(answer.status, '')}")
        if time.monotonic() > deadline:
            raise LoadError(f"{url} refused for {timeout_s:g} s, the server never became idle: {said}")
        time.sleep(0.05)


_ADMIN = (
    "; a server that was started with an admin key takes only that one here: name the variable that holds it as admin_api_key_env"
    " in the target's launch table."
)
_HINTS = {
    401: _ADMIN,
    403: _ADMIN,
    404: " Is this an SGLang server? Without it, play with unique prefixes.",
}
