"""Made-up sessions of two arms, with stated noise and stated changes."""

from __future__ import annotations

import random
from pathlib import Path

from suite.gate import BaselineStore, Counts, Launch, Plan, Series, Session, speedup

QUESTION = "decode_throughput[c1]"


def session(
    run_id: str = "new",
    *,
    slow: dict[str, float] | None = None,
    ttft: float = 0.0,
    accepted: int = 90,
    noise: float = 0.003,
    machine: float = 0.001,
    launches: int = 3,
    rounds: int = 5,
    looks: list[int] | None = None,
    day: int = 20,
    version: str = "0.5.23",
) -> Session:
    """A run of mtp-off and mtp-on.

    slow: extra decode time by arm (0.05 = 5 %); ttft: extra time to first token in both; accepted: correct drafts
    in 40 verify steps of a request; noise: of rounds, half of it of launches; machine: of the whole session.
    """
    draw = random.Random(run_id)
    speed = 1 + draw.gauss(0, machine)
    measured = [
        _series(
            arm,
            tokens_per_s * speed / (1 + (slow or {}).get(arm, 0.0)),
            ttft,
            accepted,
            noise,
            launches,
            rounds,
            draw,
            version,
        )
        for arm, tokens_per_s in (("mtp-off", 100.0), ("mtp-on", 220.0))
    ]
    return Session(
        run_id=run_id,
        started_at=f"2026-11-{day:02d}T10:00:00+00:00",
        target="simulator",
        plan=Plan(launches=launches, rounds=rounds, look_launches=looks or [launches]),
        series=[*measured, speedup("mtp_speedup[c1]", measured[1], measured[0])],
    )


def _series(
    arm: str,
    tokens_per_s: float,
    ttft: float,
    accepted: int,
    noise: float,
    launches: int,
    rounds: int,
    draw: random.Random,
    version: str,
) -> Series:
    made = []
    for _ in range(launches):
        level = tokens_per_s * (1 + draw.gauss(0, noise / 2))
        speeds = [level * (1 + draw.gauss(0, noise)) for _ in range(rounds)]
        values: dict[str, list[float | None]] = {
            "output_tokens_per_s": [*speeds],
            "tpot_s": [1 / v for v in speeds],
            "ttft_s": [0.05 * (1 + ttft) * (1 + draw.gauss(0, noise)) for _ in speeds],
        }
        counts = {}
        if arm == "mtp-on":
            values["acceptance_length"] = [1 + accepted / 40 for _ in speeds]
            counts["acceptance_length"] = [Counts([accepted] * 4, [40] * 4) for _ in speeds]
        made.append(Launch(values, counts=counts))
    return Series(
        QUESTION,
        arm,
        {"gpu": "modelled", "model": "tiny"},
        {"sglang": version, "attention_backend": "triton"},
        made,
    )


def recorded(root: Path, sessions: int = 5, **options: float) -> BaselineStore:
    """A store with so many sessions recorded, none of them changed."""
    store = BaselineStore(root, "simulator")
    for i in range(sessions):
        store.record(session(f"recorded-{i}", day=i + 1, **options))  # type: ignore[arg-type]
    return store
