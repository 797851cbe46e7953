"""JSON of `pytest --benchmark-json` (pytest-benchmark 5.3): one entry a benchmark, its rounds in `stats.data`.

The time of a round becomes `round_s`; figures in `extra_info` that carry a metric's name are taken as that metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.gate.imports.entries import ImportedRound, number, picked, table
from suite.gate.rules import DEFAULT_RULES

KNOWN = {rule.name for rule in DEFAULT_RULES}


def matches(data: Mapping[str, Any]) -> bool:
    """Whether the file has pytest-benchmark's top-level tables."""
    return "benchmarks" in data and "machine_info" in data and "commit_info" in data


def read(data: Mapping[str, Any]) -> list[ImportedRound]:
    """One entry a benchmark; one that stored no rounds (`--benchmark-save` without data) has its mean as the only one."""
    machine, commit = table(data.get("machine_info")), table(data.get("commit_info"))
    identity = picked(machine, {"node": "node", "machine": "machine", "processor": "processor"})
    subject = picked(machine, {"python_version": "python"}) | picked(commit, {"id": "commit"})
    return [
        _entry(table(one), identity | {"source": "pytest-benchmark"}, subject, data)
        for one in data["benchmarks"]
    ]


def _entry(one: Mapping[str, Any], identity: Any, subject: Any, data: Mapping[str, Any]) -> ImportedRound:
    stats, extra = table(one.get("stats")), table(one.get("extra_info"))
    rounds = stats.get("data") or [stats.get("mean")]
    return ImportedRound(
        workload=str(one.get("name") or one.get("fullname")),
        values={name: number(extra[name]) for name in sorted(KNOWN & set(extra))},
        identity=identity,
        subject=subject | picked(extra, {"sglang": "sglang"}),
        started_at=data.get("datetime"),
        rounds={"round_s": [number(seconds) for seconds in rounds]},
    )
