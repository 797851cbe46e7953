"""A trace of torch's profiler (Chrome's format, gzipped) as the few facts that are used of it; bounded, never trusted."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from suite.foreign import MIB, one_line
from suite.traces.errors import TraceError

PACKED_BYTES = 128 * MIB
"""The largest file that is read: a dozen steps without stacks and shapes have some MiB a rank."""
UNPACKED_BYTES = 1024 * MIB
EVENTS = 6_000_000
NAME_CHARS = 400
LONGEST_US = 3.6e9
"""An hour: nothing in a dozen steps lasts longer."""

USED = ("user_annotation", "gpu_user_annotation", "cpu_op", "kernel", "gpu_memcpy", "gpu_memset")
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 1 << 20


class Span(msgspec.Struct, frozen=True, gc=False):
    """One span of a trace: microseconds from some start; lane: thread of the host, or stream of the GPU."""

    name: str
    kind: str
    start_us: float
    end_us: float
    lane: str


class _Raw(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str | None = None
    name: str = ""
    ts: float | None = None
    dur: float | None = None
    pid: int | str | None = None
    tid: int | str | None = None


class _TraceFile(msgspec.Struct):
    traceEvents: list[msgspec.Raw]  # noqa: N815 (the format's own name)


def read(data: bytes, name: str) -> list[Span]:
    """The spans of a trace that are annotations, operators or kernels, in order of their start, outer ones first.

    `name` is shown in errors. Raises TraceError for what is no trace, broken off, or larger than is read.
    """
    text = _unpacked(data, name) if data[:2] == b"\x1f\x8b" else data
    try:
        rows: Sequence[Any] = msgspec.json.decode(text, type=_TraceFile).traceEvents
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(
            f"{name} is not a trace of torch's profiler: {one_line(str(error))}; it may be incomplete"
        ) from None
    if len(rows) > EVENTS:
        raise TraceError(f"{name} holds {len(rows)} events, and {EVENTS} are read: profile fewer steps")
    decoder = msgspec.json.Decoder(_Raw)
    found = []
    for row in rows:
        try:
            raw = decoder.decode(row)
        except msgspec.MsgspecError:
            continue  # kinds that are not used have other shapes
        event = _event(raw)
        if event is not None:
            found.append(event)
    found.sort(key=lambda e: (e.start_us, -e.end_us))
    return found


def _event(raw: _Raw) -> Span | None:
    if raw.ph != "X" or raw.cat not in USED or raw.ts is None or raw.dur is None:
        return None
    if not (math.isfinite(raw.ts) and 0 <= raw.dur <= LONGEST_US):
        return None
    return Span(raw.name[:NAME_CHARS], raw.cat, raw.ts, raw.ts + raw.dur, f"{raw.pid}/{raw.tid}")


def _unpacked(data: bytes, name: str) -> bytes:
    if len(data) > PACKED_BYTES:
        raise TraceError(f"{name} has more than {PACKED_BYTES // MIB} MiB: profile fewer steps")
    unpacker, pieces, size = zlib.decompressobj(_GZIP), [], 0
    try:
        for at in range(0, len(data), _PIECE):
            piece = unpacker.decompress(data[at : at + _PIECE], UNPACKED_BYTES + 1 - size)
            size += len(piece)
            pieces.append(piece)
            if size > UNPACKED_BYTES or unpacker.unconsumed_tail:
                raise TraceError(
                    f"{name} unpacks to more than {UNPACKED_BYTES // MIB} MiB: profile fewer steps"
                )
    except zlib.error as error:
        raise TraceError(f"{name} is not readable gzip: {error}") from None
    if not unpacker.eof:
        raise TraceError(f"{name} breaks off before its end: it was read while the server still wrote it")
    return b"".join(pieces)
