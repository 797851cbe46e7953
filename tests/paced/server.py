"""Builds and runs the paced server (C) and reads its log: when each chunk of each stream really left."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

_ENTRY = np.dtype([("seed", "<i4"), ("chunk", "<i4"), ("ns", "<i8")])


def compiler() -> str | None:
    """The C compiler there is, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@lru_cache(1)
def _binary() -> str:
    cc = compiler()
    if cc is None:
        raise RuntimeError(
            "the paced server needs a C compiler (cc, gcc or clang), and there is none on the PATH"
        )
    directory = tempfile.TemporaryDirectory(prefix="paced-")
    _kept.append(directory)
    out = Path(directory.name) / "paced"
    source = Path(__file__).with_name("paced.c")
    subprocess.run([cc, "-O2", "-Wall", "-o", str(out), str(source)], check=True)
    return str(out)


_kept: list[tempfile.TemporaryDirectory[str]] = []  # removed when the interpreter ends


@dataclass(frozen=True, slots=True)
class Truth:
    """One stream's truth, seconds on CLOCK_MONOTONIC: when its request had arrived and when each chunk left."""

    arrived_s: float
    left_s: NDArray[np.float64]


class PacedServer:
    """A running paced server; use as a context manager."""

    def __init__(self, interval_s: float = 0.010, first_s: float = 0.010, tokens_per_chunk: int = 1) -> None:
        self._arguments = [str(round(interval_s * 1e6)), str(round(first_s * 1e6)), str(tokens_per_chunk)]

    def __enter__(self) -> PacedServer:
        self._process = subprocess.Popen([_binary(), "0", *self._arguments], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def take_log(self) -> dict[int, Truth]:
        """The streams since the last call, by the seed in their request (or as paced.c says); empties the log."""
        with urllib.request.urlopen(f"{self.url}/log", timeout=10) as response:
            entries = np.frombuffer(response.read(), dtype=_ENTRY)
        truths = {}
        for seed in np.unique(entries["seed"]):
            mine = entries[entries["seed"] == seed]
            arrived = mine[mine["chunk"] < 0]["ns"][0] / 1e9
            chunks = mine[mine["chunk"] >= 0]
            truths[int(seed)] = Truth(float(arrived), np.sort(chunks["ns"]) / 1e9)
        return truths
