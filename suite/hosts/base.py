"""What a host is: a place where commands run as lists of arguments, files are read, and ports are reached."""

from __future__ import annotations

import queue
import shlex
import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

from suite.hosts.errors import CommandFailed


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended. ``code`` is 127 when there is no such program, negative for a signal."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str

    def check(self) -> Completed:
        """This, if the command succeeded.

        Raises:
            CommandFailed: it ended with another status than 0.
        """
        if self.code:
            said = (self.stderr or self.stdout).strip()
            raise CommandFailed(f"{shlex.join(self.argv)} ended with status {self.code}: {said[-2000:]}")
        return self


class Running(ABC):
    """A command that runs on a host, with lines going to it and coming from it.

    Its standard error comes in with its output. Closing the input tells a well-made command to end.
    """

    def __init__(self) -> None:
        # filled by each kind of host; None is the end
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._over = False

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Write to its input.

        Raises:
            ConnectionLost: it is gone.
        """

    def line(self, timeout_s: float) -> bytes | None:
        """Its next line without the end of line; ``None`` when none came in time.

        Raises:
            EOFError: there will be no more.
        """
        if self._over:
            raise EOFError
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if line is None:
            self._over = True
            raise EOFError
        return line

    @abstractmethod
    def ended(self) -> str | None:
        """How it ended, to follow its name ("was killed by SIGKILL"); ``None`` while it runs or if that is not known."""

    @abstractmethod
    def close_input(self, last: bytes = b"") -> None:
        """Send ``last``, close its input, and wait for nothing. For a signal's handler too: no locks, no errors."""

    @abstractmethod
    def close(self, timeout_s: float) -> None:
        """Close its input, wait for its end, and kill it after ``timeout_s``."""


class Host(ABC):
    """Where commands run. Arguments are data: no shell ever reads them unquoted.

    A path is absolute, or relative to the login directory (``SSHHost``) or current directory (``LocalHost``).
    """

    name: str
    is_local: bool
    address: str
    """Where other hosts reach this one."""

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        input: bytes | str | None = None,  # noqa: A002 (subprocess's own word for it)
    ) -> Completed:
        """Run a command to its end; ``env`` is added to the host's own environment.

        Raises:
            CommandTimeout: it did not end in ``timeout_s``; it was killed.
            ConnectionLost: the host went away meanwhile.
        """

    @abstractmethod
    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Running:
        """Start a command and talk with it.

        Raises:
            CommandFailed: there is no such program.
        """

    @abstractmethod
    def read_bytes(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        """``size`` bytes of a file (all when ``None``) from ``offset``.

        Raises:
            NoSuchFile: it is not there or may not be read.
        """

    @abstractmethod
    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file whole, or not at all.

        Raises:
            NoSuchFile: its directory is not there or may not be written.
        """

    @abstractmethod
    def size(self, path: str) -> int | None:
        """Bytes of a file or directory entry; ``None`` when there is none."""

    @abstractmethod
    def list_dir(self, path: str) -> list[str]:
        """Names in a directory, sorted.

        Raises:
            NoSuchFile: it is not there, is no directory, or may not be read.
        """

    @abstractmethod
    def forward(self, port: int, address: str = "127.0.0.1") -> int:
        """A port on this machine that leads to ``port`` on the host's ``address``."""

    def near(self, url: str) -> str:
        """``url`` as this host sees it, to be asked from this machine: through a tunnel where that is another."""
        if self.is_local:
            return url
        parts = urlsplit(url)
        port = self.forward(
            parts.port or (443 if parts.scheme == "https" else 80), parts.hostname or "127.0.0.1"
        )
        return f"{parts.scheme}://127.0.0.1:{port}{parts.path}"

    @abstractmethod
    def close(self) -> None:
        """End what was forwarded, and the connection."""

    def read_text(self, path: str) -> str:
        """A whole file as UTF-8; bytes that are not are replaced. Raises as :meth:`read_bytes`."""
        return self.read_bytes(path).decode("utf-8", "replace")

    def write_text(self, path: str, text: str) -> None:
        """As :meth:`write_bytes`, in UTF-8."""
        self.write_bytes(path, text.encode())

    def exists(self, path: str) -> bool:
        """Is there a file or directory of this name?"""
        return self.size(path) is not None

    def tail(self, path: str, size: int = 65536) -> str:
        """The last ``size`` bytes of a file as text. Raises as :meth:`read_bytes`."""
        whole = self.size(path) or 0
        return self.read_bytes(path, max(0, whole - size)).decode("utf-8", "replace")

    def listening(self, port: int) -> bool:
        """Does anybody on the host listen on TCP ``port``?"""
        tables = [self.read_text(path) for path in ("/proc/net/tcp", "/proc/net/tcp6") if self.exists(path)]
        return any(_listens(line, port) for table in tables for line in table.splitlines()[1:])

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def in_words(code: int) -> str:
    """A status as ``subprocess`` tells it: a negative one is a signal's number."""
    if code >= 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _listens(line: str, port: int) -> bool:
    fields = line.split()
    return fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port
