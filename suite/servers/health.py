"""Asks a server whether it is ready, and whether it is SGLang at all."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import urllib.error
import urllib.request
from typing import Any

from suite.servers.errors import NotSGLang


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay)
"""Through no proxy and after no redirect: a server under test is asked itself, and the key goes to nobody else."""


def get(base_url: str, path: str, api_key: str | None, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of a GET.

    Raises:
        OSError: no connection, a broken one, or none in time (``ssl.SSLError`` for TLS).
    """
    request = urllib.request.Request(base_url + path)
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with _DIRECT.open(request, timeout=timeout_s) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason)) from None
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP: {error!r}") from None


def get_json(base_url: str, path: str, api_key: str | None, timeout_s: float = 20.0) -> dict[str, Any]:
    """The JSON object that ``path`` answers.

    Raises:
        NotSGLang: it answers something else, or asks for another key.
        OSError: as for :func:`get`.
    """
    status, body = get(base_url, path, api_key, timeout_s)
    if status in (401, 403):
        raise NotSGLang(
            f"{base_url}{path} answers {status}: it wants an API key", "Name its variable: api_key_env."
        )
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if status != 200 or not isinstance(answer, dict):
        start = body[:120].decode("utf-8", "replace")
        raise NotSGLang(
            f"{base_url}{path} answers {status} with {start!r}, not with SGLang's JSON",
            "Something else answers there (a proxy's page, another server). Check the URL and the port.",
        )
    return answer


class ReadyWatch:
    """Asks ``/health_generate`` in a thread of its own, so that nobody who waits misses the server's end."""

    def __init__(self, base_url: str, api_key: str | None, every_s: float = 0.2) -> None:
        self._base_url = base_url
        self._api_key = api_key
        self._every_s = every_s
        self._stop = threading.Event()
        self.ready = threading.Event()
        self.last = "no answer yet"
        self._thread = threading.Thread(target=self._ask, name="ready?", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        every_s = self._every_s
        while not self._stop.is_set():
            try:
                status, _ = get(self._base_url, "/health_generate", self._api_key, 30.0)
                self.last = f"/health_generate answered {status}"
                if status == 200:
                    self.ready.set()
                    return
            except OSError as error:
                self.last = describe(error)
            self._stop.wait(every_s)
            every_s = min(every_s * 1.1, 2.0)

    def stop(self) -> None:
        """Ask no more; a question under way is left to end by itself."""
        self._stop.set()


def describe(error: OSError) -> str:
    """A connection's failure for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}; is it http:// rather than https://, or the other way round?"
    return str(error) or type(error).__name__
