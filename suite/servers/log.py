"""The copy of a server's log that people see: on this machine, without secrets, with its last lines at hand."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from suite import redact

_END_OF_LINE = re.compile(r"[\r\n]+")
KEPT_LINES = 2000


class LogCopy:
    """Takes text in pieces, passes on whole lines: to the file at ``path``, and to ``on_line``."""

    def __init__(self, path: Path, secrets: Iterable[str], on_line: Callable[[str], None]) -> None:
        self.path = path
        self._secrets = tuple(secrets)
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._pending = ""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")

    def write(self, text: str) -> None:
        """Take a piece. A secret may be cut in two by its end, so the last, unfinished line waits.

        Progress bars end their lines with a carriage return; each state of one is a line here.
        """
        *lines, self._pending = _END_OF_LINE.split(self._pending + text)
        for line in lines:
            self._pass_on(line)
        self._file.flush()

    def _pass_on(self, line: str) -> None:
        clean = redact.scrub(line, self._secrets)
        self._lines.append(clean)
        self._file.write(clean + "\n")
        self._on_line(clean)

    def close(self) -> None:
        """Nothing more will come."""
        if self._file.closed:
            return
        if self._pending:
            self._pass_on(self._pending)
            self._pending = ""
        self._file.close()

    def tail(self, n: int) -> list[str]:
        """The last ``n`` lines (of at most the last 2,000)."""
        return list(self._lines)[-n:]
