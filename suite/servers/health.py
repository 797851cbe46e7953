"""Asks a server whether it is ready, and whether it is SGLang at all."""

from __future__ import annotations

import threading
from typing import Any

from suite.foreign import NotJSON, json_of, one_line
from suite.redact import Secret
from suite.servers.errors import NotSGLang
from suite.sglang import http
from suite.sglang.errors import ServerError


def get_json(base_url: str, path: str, api_key: Secret | None, timeout_s: float = 20.0) -> dict[str, Any]:
    """The JSON object that ``path`` answers.

    Raises:
        NotSGLang: it answers something else, or asks for another key.
        suite.sglang.errors.ServerError: nothing answers, or not as HTTP.
    """
    reply = http.ask(base_url + path, api_key=api_key, timeout_s=timeout_s)
    where = http.without_credentials(base_url) + path
    if reply.status in (401, 403):
        raise NotSGLang(
            f"{where} answers {reply.status}: it wants an API key", "Name its variable: api_key_env."
        )
    try:
        answer = json_of(reply.text)
    except NotJSON:
        answer = None
    if reply.status != 200 or not isinstance(answer, dict):
        raise NotSGLang(
            f"{where} answers {reply.status} with {one_line(reply.body, 120)!r}, not with SGLang's JSON",
            "Something else answers there (a proxy's page, another server). Check the URL and the port.",
        )
    return answer


class ReadyWatch:
    """Asks ``/health_generate`` in a thread of its own, so that nobody who waits misses the server's end."""

    def __init__(self, base_url: str, api_key: Secret | None, every_s: float = 0.2) -> None:
        self._url = f"{base_url}/health_generate"
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
                answer = http.ask(self._url, api_key=self._api_key, timeout_s=30.0)
                self.last = f"/health_generate answered {answer.status}"
                if answer.status == 200:
                    self.ready.set()
                    return
            except ServerError as error:
                self.last = str(error)
            self._stop.wait(every_s)
            every_s = min(every_s * 1.1, 2.0)

    def stop(self) -> None:
        """Ask no more; a question under way is left to end by itself."""
        self._stop.set()
