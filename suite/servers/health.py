"""Asks a server whether it is ready."""

from __future__ import annotations

import threading

from suite.redact import Secret
from suite.sglang import http
from suite.sglang.errors import ServerProbeError


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
            except ServerProbeError as error:
                self.last = str(error)
            self._stop.wait(every_s)
            every_s = min(every_s * 1.1, 2.0)

    def stop(self) -> None:
        """Ask no more; a question under way is left to end by itself."""
        self._stop.set()
