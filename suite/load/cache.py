"""Empties SGLang's prefix cache, waiting until the server is idle, because it refuses while anything runs."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

from suite.load.endpoint import Endpoint
from suite.load.records import LoadError


def flush(endpoint: Endpoint, timeout_s: float = 30.0) -> None:
    """POST /flush_cache until it is done. SGLang answers 400 while requests are running or waiting.

    Raises LoadError if it stays busy for `timeout_s`, cannot be reached, or knows no such path.
    """
    url = f"{endpoint.root_url}/flush_cache"
    headers = dict(endpoint.headers)
    if endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, b"", headers), timeout=timeout_s):
                return
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode("utf-8", "replace").strip()[:300]
            if error.code != 400:
                hint = (
                    " Is this an SGLang server? Without it, play with unique prefixes."
                    if error.code == 404
                    else ""
                )
                raise LoadError(f"POST {url} answered {error.code}: {said}{hint}") from None
            if time.monotonic() > deadline:
                raise LoadError(
                    f"{url} refused for {timeout_s:g} s, the server never became idle: {said}"
                ) from None
        except OSError as error:
            raise LoadError(f"cannot reach {url} to flush the prefix cache: {error}") from None
        time.sleep(0.05)
