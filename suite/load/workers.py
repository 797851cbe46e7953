"""Plays a round from several processes on one clock, where one process could not keep up."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import IO, Any

from suite.load import health
from suite.load.player import Player, PlayPlan, Progress, Report
from suite.load.raw_stream import clock
from suite.load.records import ClientHealth, LoadError, RequestRecord, Timeline
from suite.load.shapes import ClosedLoop

_HEAD_START_S = (
    0.3  # between "go" and the common start: time to open connections and build the first requests
)

Played = tuple[tuple[RequestRecord, ...], ClientHealth, float, float]
_Inbox = SimpleQueue[tuple[int, Progress | Played | None]]
"""What the workers say, by number: how far they are, then their part; None for one that died."""


def play_in_processes(plan: PlayPlan, count: int, progress: Report | None) -> Played:
    """The records of all workers on a common zero, their health merged, and that zero (clock, unix time).

    Raises LoadError if a worker dies, with its last words.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "suite.load.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(count)
    ]
    inbox: _Inbox = SimpleQueue()
    listeners = [
        threading.Thread(target=_listen, args=(number, process, inbox), daemon=True)
        for number, process in enumerate(processes)
    ]
    try:
        for number, process in enumerate(processes):
            _send(process, _share(plan, number, count))
        for process in processes:
            if _receive(process) != "ready":
                raise LoadError(f"a load worker died at its start: {_last_words(process)}")
        start_at = clock() + _HEAD_START_S
        for process in processes:
            _send(process, start_at)
        for listener in listeners:
            listener.start()
        parts = _gather(processes, inbox, progress)
    finally:
        for process in processes:
            process.kill()
        for listener in listeners:
            if listener.is_alive():
                listener.join()
        for process in processes:
            process.communicate()
    return _merge(parts)


def _gather(processes: list[subprocess.Popen[bytes]], inbox: _Inbox, progress: Report | None) -> list[Played]:
    """Pass on how far all are together, whenever all have spoken anew, until each has handed in its part."""
    parts: dict[int, Played] = {}
    latest: dict[int, Progress] = {}
    silent = set(range(len(processes)))
    while len(parts) < len(processes):
        number, said = inbox.get()
        if said is None:
            raise LoadError(f"a load worker died: {_last_words(processes[number])}")
        silent.discard(number)
        if not isinstance(said, Progress):
            parts[number] = said
            continue
        latest[number] = said
        if progress is not None and not silent:
            progress(_together(list(latest.values())))
            silent = set(range(len(processes))) - set(parts)
    return [parts[number] for number in range(len(processes))]


def _together(all_of_them: list[Progress]) -> Progress:
    """Several processes' progress as one."""
    furthest = max(all_of_them, key=lambda p: p.elapsed_s)
    totals = [p.total for p in all_of_them if p.total is not None]
    return Progress(
        phase=furthest.phase,
        elapsed_s=furthest.elapsed_s,
        done=sum(p.done for p in all_of_them),
        total=sum(totals) if len(totals) == len(all_of_them) else None,
        in_flight=sum(p.in_flight for p in all_of_them),
        failed=sum(p.failed for p in all_of_them),
        tokens=sum(p.tokens for p in all_of_them),
    )


def _share(plan: PlayPlan, number: int, count: int) -> PlayPlan:
    load = plan.load
    if isinstance(load, ClosedLoop):
        if load.requests is None and load.duration_s is None:
            load = replace(load, requests=plan.requests)
        load = load.share(number, count)
    return replace(plan, load=load, worker=number, workers=count)


def _merge(parts: list[Played]) -> Played:
    zero = min(part[2] for part in parts)
    records = [_moved(record, part[2] - zero) for part in parts for record in part[0]]
    records.sort(key=lambda record: record.index)
    return tuple(records), health.merged([part[1] for part in parts]), zero, min(part[3] for part in parts)


def _moved(record: RequestRecord, by_s: float) -> RequestRecord:
    """The record as seen from a zero that lies `by_s` earlier."""
    fault = record.fault
    if fault is not None and fault.at_s is not None:
        fault = replace(fault, at_s=fault.at_s + by_s)
    line = record.timeline
    return replace(
        record,
        fault=fault,
        intended_s=record.intended_s + by_s,
        started_s=record.started_s + by_s,
        origin_s=record.origin_s + by_s,
        ended_s=record.ended_s + by_s,
        timeline=Timeline(line.t_s + by_s, line.tokens, line.per_chunk),
    )


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None
    try:
        pickle.dump(message, process.stdin)
        process.stdin.flush()
    except OSError:
        raise LoadError(f"a load worker died at its start: {_last_words(process)}") from None


def _receive(process: subprocess.Popen[bytes]) -> Any:
    """The next message, or None if there will be no more."""
    assert process.stdout is not None
    try:
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        return None


def _listen(number: int, process: subprocess.Popen[bytes], inbox: _Inbox) -> None:
    while True:
        said: Progress | Played | None = _receive(process)
        inbox.put((number, said))
        if not isinstance(said, Progress):
            return


def _last_words(process: subprocess.Popen[bytes]) -> str:
    process.kill()
    _, said = process.communicate()
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {process.returncode}, nothing on stderr"


def _work(source: IO[bytes], sink: IO[bytes]) -> None:
    plan: PlayPlan = pickle.load(source)
    pickle.dump("ready", sink)
    sink.flush()
    start_at: float = pickle.load(source)

    def tell(message: Progress | Played) -> None:
        pickle.dump(message, sink)
        sink.flush()

    player = Player(plan, tell, start_at)
    threading.Thread(target=_end_with_parent, args=(source,), daemon=True).start()
    records, client = asyncio.run(player.play())
    tell((records, client, player.zero, player.zero_unix))


def _end_with_parent(source: IO[bytes]) -> None:
    """A parent that dies closes our stdin: stop loading a server for nobody."""
    source.read()
    os._exit(1)


if __name__ == "__main__":
    _work(sys.stdin.buffer, sys.stdout.buffer)
