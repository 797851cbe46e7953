"""Plays a round from several processes on one clock, where one process could not keep up."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from typing import IO, Any

from suite.load import health
from suite.load.arrivals import clock
from suite.load.player import Plan, Player, Progress, Report
from suite.load.records import ClientHealth, LoadError, RequestRecord, Timeline
from suite.load.shapes import ClosedLoop

_HEAD_START_S = (
    0.3  # between "go" and the common start: time to open connections and build the first requests
)

Played = tuple[tuple[RequestRecord, ...], ClientHealth, float, float]


def play_in_processes(plan: Plan, count: int, progress: Report | None) -> Played:
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
    try:
        for number, process in enumerate(processes):
            _send(process, _share(plan, number, count))
        for process in processes:
            _receive(process)  # "ready"
        start_at = clock() + _HEAD_START_S
        for process in processes:
            _send(process, start_at)
        if progress is not None:
            progress(Progress(f"running in {count} processes", 0.0, 0, plan.requests, 0, 0, 0))
        parts: list[Played] = [_receive(process) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return _merge(parts)


def _share(plan: Plan, number: int, count: int) -> Plan:
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
    assert process.stdout is not None
    try:
        return pickle.load(process.stdout)
    except (EOFError, pickle.UnpicklingError):
        raise LoadError(f"a load worker died: {_last_words(process)}") from None


def _last_words(process: subprocess.Popen[bytes]) -> str:
    process.kill()
    _, said = process.communicate()
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit status {process.returncode}, nothing on stderr"


def _work(source: IO[bytes], sink: IO[bytes]) -> None:
    plan: Plan = pickle.load(source)
    pickle.dump("ready", sink)
    sink.flush()
    player = Player(plan, start_at=pickle.load(source))
    threading.Thread(target=_end_with_parent, args=(source,), daemon=True).start()
    records, client = asyncio.run(player.play())
    pickle.dump((records, client, player.zero, player.zero_unix), sink)
    sink.flush()


def _end_with_parent(source: IO[bytes]) -> None:
    """A parent that dies closes our stdin: stop loading a server for nobody."""
    source.read()
    os._exit(1)


if __name__ == "__main__":
    _work(sys.stdin.buffer, sys.stdout.buffer)
