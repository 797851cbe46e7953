"""The copy of a server's log that people see: on this machine, without secrets, with its last lines at hand."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from suite import redact

_END_OF_LINE = re.compile(r"[\r\n]+")
KEPT_LINES = 2000


class LogCopy:
    """Takes text in pieces, passes on whole lines: to the file at ``path``, and to ``on_line``.

    Nothing here ever raises: a log may be lost, what else comes from the host may not. A file that cannot be
    written is given up and told once through ``on_failure``; the last lines stay at hand all the same.
    For two threads: one writes, the other closes.
    """

    def __init__(
        self,
        path: Path,
        secrets: Iterable[str],
        on_line: Callable[[str], None],
        on_failure: Callable[[OSError], None] = lambda error: None,
    ) -> None:
        self.path = path
        self._secrets = tuple(secrets)
        self._on_line = on_line
        self._on_failure = on_failure
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._pending = ""
        self._one_at_a_time = threading.Lock()
        self._file: TextIO | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8")
        except OSError as error:
            self._on_failure(error)

    def write(self, text: str) -> None:
        """Take a piece. A secret may be cut in two by its end, so the last, unfinished line waits.

        Progress bars end their lines with a carriage return; each state of one is a line here.
        """
        with self._one_at_a_time:
            *lines, self._pending = _END_OF_LINE.split(self._pending + text)
            self._pass_on(lines)

    def _pass_on(self, lines: Iterable[str]) -> None:
        clean = [redact.scrub(line, self._secrets) for line in lines]
        self._lines.extend(clean)
        self._to_file("".join(f"{line}\n" for line in clean))
        for line in clean:
            self._on_line(line)

    def _to_file(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            self._give_up()
            self._on_failure(error)

    def _give_up(self) -> None:
        """Nothing more goes into the file; what it still holds back may find no room either."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def close(self) -> None:
        """Nothing more will come."""
        with self._one_at_a_time:
            if self._pending:
                self._pass_on([self._pending])
                self._pending = ""
            self._give_up()

    def tail(self, n: int) -> list[str]:
        """The last ``n`` lines (of at most the last 2,000)."""
        with self._one_at_a_time:
            return list(self._lines)[-n:]
