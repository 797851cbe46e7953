"""Made-up runs of builds whose greedy answers part: acceptance prompt by prompt, as many distinct prompts give it."""

from __future__ import annotations

import math
import random
import zlib
from pathlib import Path

import msgspec

from suite.gate import Answers, BaselineStore, Launch, Plan, Series, Session, speedup

DRAFTS = 3
STEPS = 100


def answers(
    prompts: int,
    build: str,
    launch: str,
    *,
    spread: float,
    within: float = 0.0,
    lower: float = 0.0,
    kind: str = "code",
) -> Answers:
    """Of each prompt: its own acceptance, moved by `spread` (SD of its log) in each build and `within` in each launch."""
    steps, drafts, texts = [], [], []
    for p in range(prompts):
        own = _normal(kind, p) * 0.1
        moved = spread * _normal(kind, p, build) + within * _normal(kind, p, build, launch)
        length = 3.2 * math.exp(own + moved) * (1 - lower)
        steps.append(STEPS)
        drafts.append(max(0, round(STEPS * (length - 1))))
        texts.append(f"{kind}-{p}-{build if spread else ''}-{launch if within else ''}")
    return Answers([f"{kind}-{p}" for p in range(prompts)], steps, drafts, [128] * prompts, texts)


def _normal(*names: object) -> float:
    return random.Random(zlib.crc32(repr(names).encode())).gauss(0, 1)


def run(
    run_id: str,
    build: str = "old",
    *,
    prompts: int = 128,
    spread: float = 0.06,
    within: float = 0.0,
    lower: float = 0.0,
    slower: float = 0.0,
    launches: int = 3,
    noise: float = 0.003,
    requests: int = 4,
    day: int = 20,
    kinds: tuple[str, ...] = ("code",),
) -> Session:
    """mtp-off and mtp-on, one client; `lower` acceptance (0.05 = 5 %), `slower` verify steps of mtp-on."""
    of_build = {"spread": spread, "within": within, "lower": lower}
    draw = random.Random(run_id)
    series = [_decode("mtp-off", draw, 0.0, launches, noise, {}, requests, build)]
    series.append(_decode("mtp-on", draw, slower, launches, noise, of_build, requests, build))
    for kind in kinds:
        made = []
        for n in range(launches):
            told = answers(prompts, build, f"{run_id}{n}", kind=kind, **of_build)
            made.append(Launch({"acceptance_length": [1 + sum(told.drafts) / sum(told.steps)]}, answers=told))
        series.append(
            _series(f"acceptance_length[{kind}-t0]", "mtp-on", kind, build, made, "acceptance_length")
        )
    return Session(
        run_id=run_id,
        started_at=f"2026-11-{day:02d}T10:00:00+00:00",
        target="simulator",
        plan=Plan(launches=launches, look_launches=[launches]),
        series=[*series, speedup("mtp_speedup[c1]", series[1], series[0])],
    )


def _decode(
    arm: str,
    draw: random.Random,
    slower: float,
    launches: int,
    noise: float,
    of_build: dict[str, float],
    requests: int,
    build: str,
) -> Series:
    made = []
    for n in range(launches):
        level = (0.01 if arm == "mtp-off" else 0.0133) * (1 + slower) * math.exp(draw.gauss(0, noise / 2))
        rounds: dict[str, list[float | None]] = {
            name: []
            for name in ("output_tokens_per_s", "tpot_s", "ttft_s", "e2e_s", "step_s", "concurrency_achieved")
        }
        told = Answers([])
        for r in range(5):
            step = level * math.exp(draw.gauss(0, noise))
            one = (
                answers(requests, build, f"{draw.random()}", kind=f"decode-round{r}", **of_build)
                if of_build
                else None
            )
            took_steps = (
                [round(1000 / (1 + d / s)) for d, s in zip(one.drafts, one.steps, strict=True)]
                if one
                else [1000]
            )
            lengths = [1000 / n for n in took_steps] if one else [1.0] * requests
            tpots = sorted(step / length for length in lengths)
            ttft = 0.05 * math.exp(draw.gauss(0, noise))
            took = [ttft + 1000 * tpot for tpot in tpots]
            rounds["tpot_s"].append(sum(tpots[(requests - 1) // 2 : requests // 2 + 1]) / (2 - requests % 2))
            rounds["step_s"].append(step)
            rounds["ttft_s"].append(ttft)
            rounds["e2e_s"].append(sorted(took)[requests // 2])
            rounds["output_tokens_per_s"].append(1000 * requests / sum(took))
            rounds["concurrency_achieved"].append(1.0)
            if one:
                at = "" if r == 0 else f"@{r + 1}"
                told = Answers(
                    [*told.prompts, *(f"decode-{p}{at}" for p in range(requests))],
                    [*told.steps, *took_steps],
                    [*told.drafts, *(1000 - n for n in took_steps)],
                )
        made.append(Launch(rounds, answers=told if told.prompts else None))
    return _series(
        "decode_throughput[c1]", arm, "code", build, made, "output_tokens_per_s", "tpot_s", "ttft_s"
    )


def _series(question: str, arm: str, kind: str, build: str, launches: list[Launch], *judged: str) -> Series:
    identity = {"gpu": "modelled", "workload": kind, "temperature": 0.0}
    return Series(question, arm, identity, {"sglang": build}, launches, judged=list(judged))


def recorded(root: Path, builds: list[str], **options: float) -> BaselineStore:
    """A store with one session recorded of each build named."""
    store = BaselineStore(root, "simulator")
    for i, build in enumerate(builds):
        store.record(run(f"recorded-{i}", build, day=i + 1, **options))  # type: ignore[arg-type]
    return store


def stripped(session: Session) -> Session:
    """The run as it was kept before answers were: no prompt by prompt, no counts."""
    series = [
        msgspec.structs.replace(
            s, launches=[msgspec.structs.replace(x, answers=None, beside={}) for x in s.launches]
        )
        for s in session.series
    ]
    return msgspec.structs.replace(session, series=series)
