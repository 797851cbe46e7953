"""What of an identity says what was asked: series of one question that ask otherwise are recorded beside each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from suite.gate.records import Scalar

WORKLOAD = (
    "workload",
    "workload_hash",
    "concurrency",
    "requests",
    "max_tokens",
    "temperature",
)
"""Names of the facts about a workload. Every other fact of an identity is about the place: cards, model, arm."""


def workload_of(identity: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The facts about what was asked; of a ratio those of its arms, where they differ."""
    return {k: v for k, v in sorted(identity.items()) if k.rpartition(": ")[2] in WORKLOAD}


def filed_by(identity: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The facts by which baselines lie beside each other: what was asked, and of which host, where they are by host."""
    host = {"host": identity["host"]} if "host" in identity else {}
    return {**host, **workload_of(identity)}


def label(identity: Mapping[str, Scalar]) -> str:
    """A short name for a workload in a file's name: its sizes for people, a hash of all of it; empty without one."""
    facts = workload_of(identity)
    if not facts:
        return ""
    sizes = "x".join(
        f"{facts[name]}{unit}" for name, unit in (("requests", "r"), ("max_tokens", "t")) if facts.get(name)
    )
    whole = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:6]
    return "-".join(part for part in (sizes, whole) if part)
