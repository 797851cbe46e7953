"""A made-up run with four loads, three kinds of content and two lengths of prompts, judged by the gate; and its Allure results."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from suite.gate import (
    BaselineStore,
    Counts,
    Event,
    Launch,
    Outcome,
    Plan,
    Series,
    Session,
    judge,
    save_run,
    speedup,
)
from suite.report.allure_files import LOG_LINES
from suite.session.plan import BUILDS, REFERENCE

LOADS = {1: (100.0, 220.0), 4: (380.0, 700.0), 16: (1300.0, 1700.0), 64: (3600.0, 3100.0)}
"""Output tokens/s with MTP off and on, by clients: on loses at the most."""
CONTENTS = {"code": 92, "maths": 88, "prose": 60}
"""Correct drafts in 40 verify steps."""
CONTEXTS = {1024: 0.05, 10240: 0.42}
"""TTFT in seconds."""
ROUNDS, LAUNCHES = 5, 3
LOG = [
    f"[2026-11-20 10:00:{i % 60:02d}] Decode batch. #running-req: {i} {'#token: 1234, ' * 8}"
    for i in range(LOG_LINES - 2)
]
"""As much of a server's log as an item ever shows."""


def session(
    run_id: str = "20261120-100000-simulator", *, slow: float = 0.0, day: int = 20, **more: Any
) -> Session:
    """A run; ``slow`` is extra decode time of mtp-on (0.05 = 5 %). ``more`` replaces fields of the session."""
    draw = random.Random(run_id)
    series: list[Series] = []
    for clients, speeds in LOADS.items():
        pair = [
            _decode(arm, clients, speed / (1 + (slow if arm == "mtp-on" else 0.0)), draw)
            for arm, speed in zip(("mtp-off", "mtp-on"), speeds, strict=True)
        ]
        series += [*pair, speedup(f"mtp_speedup[c{clients}]", pair[1], pair[0])]
    series += [_acceptance(content, drafts) for content, drafts in CONTENTS.items()]
    series += [
        _ttft(arm, context, seconds, draw)
        for arm in ("mtp-off", "mtp-on")
        for context, seconds in CONTEXTS.items()
    ]
    fields: dict[str, Any] = {
        "run_id": run_id,
        "started_at": f"2026-11-{day:02d}T10:00:00+00:00",
        "target": "simulator",
        "plan": Plan(launches=LAUNCHES, rounds=ROUNDS, look_launches=[LAUNCHES]),
        "series": series,
    }
    return Session(**{**fields, **more})


def _series(
    question: str, arm: str, identity: dict[str, Any], launches: list[Launch], judged: list[str]
) -> Series:
    shared = {"gpu": "modelled", "gpus": 8, "model": "tiny", "tp_size": 4, "pp_size": 1, "dp_size": 1}
    subject = {"sglang": "0.5.23", "commit": "5e2cda61", "driver": "580.95", "attention_backend": "triton"}
    return Series(question, arm, {**shared, **identity}, subject, launches, judged=judged)


def _noisy(value: float, draw: random.Random, noise: float = 0.002) -> list[float | None]:
    return [value * (1 + draw.gauss(0, noise)) for _ in range(ROUNDS)]


def _decode(arm: str, clients: int, tokens_per_s: float, draw: random.Random) -> Series:
    launches = []
    for _ in range(LAUNCHES):
        speeds = _noisy(tokens_per_s, draw)
        launches.append(
            Launch({"output_tokens_per_s": speeds, "tpot_s": [clients / (v or 1.0) for v in speeds]})
        )
    judged = ["output_tokens_per_s", "tpot_s"]
    return _series(f"decode_throughput[c{clients}]", arm, {"concurrency": clients}, launches, judged)


def _acceptance(content: str, drafts: int) -> Series:
    length: list[float | None] = [1 + drafts / 40]
    launches = [
        Launch({"acceptance_length": length}, counts={"acceptance_length": [Counts([drafts] * 8, [40] * 8)]})
    ]
    return _series(
        f"acceptance_length[{content}-t0]", "mtp-on", {"workload": content}, launches, ["acceptance_length"]
    )


def _ttft(arm: str, context: int, seconds: float, draw: random.Random) -> Series:
    launches = [Launch({"ttft_s": _noisy(seconds, draw)}) for _ in range(LAUNCHES)]
    return _series(
        f"time_to_first_token[{context}]", arm, {"workload": f"long-{context}"}, launches, ["ttft_s"]
    )


@cache
def _baselines() -> tempfile.TemporaryDirectory[str]:
    """Five sessions without a change, recorded once for all tests; gone with the process."""
    folder = tempfile.TemporaryDirectory(prefix="made-baselines-")
    store = BaselineStore(Path(folder.name), "simulator")
    for day in range(1, 6):
        store.record(session(f"202611{day:02d}-100000-simulator", day=day))
    return folder


def stored(root: Path, run: Session) -> Path:
    """The folder of a run that was judged against five sessions without a change."""
    store = BaselineStore(Path(_baselines().name), "simulator")
    folder = root / "results" / run.run_id
    folder.mkdir(parents=True)
    save_run(folder, run, judge(run, store.sessions_for(run)))
    positions = {"code": (0.9, 0.8, 0.6), "maths": (0.88, 0.76, 0.56), "prose": (0.7, 0.5, 0.3)}
    rows = [
        {"content": content, "temperature": 0.0, **{f"position_{i}": v for i, v in enumerate(shares, 1)}}
        for content, shares in positions.items()
    ]
    (folder / "tables.json").write_text(json.dumps({"Acceptance": {"rows": rows, "notes": []}}))
    (folder / "summary.md").write_text("## the sentence\n")
    return folder


def allure_results(
    directory: Path, run: Session, parameters: dict[str, str] | None = None, worse: tuple[str, ...] = ()
) -> None:
    """What allure-pytest leaves of the run's items: each launch of each series, of both builds where two are compared,
    and its verdict, failed for arms in ``worse``."""
    directory.mkdir(parents=True, exist_ok=True)
    builds = BUILDS if run.reference is not None else ("",)
    for series in run.series:
        launches = [] if series.derived_from else [str(n) for n in range(1, len(series.launches) + 1)]
        for launch, build in (*itertools.product(launches, builds), ("verdict", "")):
            _result(directory, run, series, launch, build, parameters or {}, worse)


def _result(
    directory: Path,
    run: Session,
    series: Series,
    launch: str,
    build: str,
    parameters: dict[str, str],
    worse: tuple[str, ...],
) -> None:
    name = str(uuid.uuid4())
    attached = f"{uuid.uuid4()}-attachment.txt"
    (directory / attached).write_text("\n".join(["decode batch, #running-req: 1", HOSTILE, *LOG]))
    labels = {
        "parentSuite": "04 How fast are tokens made, once the first is there?",
        "severity": "critical",
        "question": series.question,
        "arm": series.arm,
        "launch": launch,
        "run": run.run_id,
        **({"build": build} if build else {}),
    }
    regressed = launch == "verdict" and series.arm in worse
    outcomes = run.reference.outcomes if build == REFERENCE and run.reference else run.outcomes
    failed = [o for o in outcomes if (o.item, o.arm, str(o.launch)) == (series.question, series.arm, launch)]
    result: dict[str, Any] = {
        "uuid": name,
        "name": f"test_{series.question}",
        "fullName": f"scenarios#{series.question}-{series.arm}",
        "historyId": str(uuid.uuid4()),
        "status": "failed" if regressed else "broken" if failed else "passed",
        "start": 1,
        "stop": 2,
        "labels": [{"name": key, "value": value} for key, value in labels.items()],
        "parameters": [{"name": key, "value": f"'{value}'"} for key, value in parameters.items()],
        "attachments": [{"name": "server log, this item's part", "source": attached, "type": "text/plain"}],
    }
    if regressed:
        result["statusDetails"] = {"message": f"suite.session.outcomes.Regression: {HOSTILE}"}
    elif failed:
        result["statusDetails"] = {"message": f"suite.hosts.errors.{failed[0].name}: {failed[0].text}"}
    (directory / f"{name}-result.json").write_text(json.dumps(result))
    steps = [{"name": "server::<lambda>"}, {"name": "server::0"}]
    container = {
        "uuid": str(uuid.uuid4()),
        "children": [name],
        "befores": [{"name": "server"}],
        "afters": steps,
    }
    (directory / f"{container['uuid']}-container.json").write_text(json.dumps(container))


def results(directory: Path) -> list[dict[str, Any]]:
    """Every result there is."""
    return [json.loads(path.read_text()) for path in sorted(directory.glob("*-result.json"))]


def lost(question: str, arm: str, launch: int, text: str) -> Outcome:
    """An item that could not reach its host."""
    return Outcome(question, "decode", arm, launch, "infrastructure", text, "HostUnreachable")


HOSTILE = (
    '<img src=x onerror=window.hostile=1><script>window.hostile=1</script>\x1b[31m $x_1$ **bold** & "quoted"'
)
"""What a server could say to break a page: HTML, a terminal's colours, mathematics of matplotlib's, markdown."""

SECRET = "hf_plantedZq91token"
"""A key that a server says again, in what it says of its driver."""


def hostile(run_id: str = "20261121-100000-simulator") -> Session:
    """A run in which everything that a server or a file may say is hostile."""
    made = session(run_id, day=21, slow=0.08, events=[Event("faults", HOSTILE)])
    series = [_hostile(one) for one in made.series]
    return Session(**{**{f: getattr(made, f) for f in made.__struct_fields__}, "series": series})


def _hostile(series: Series) -> Series:
    fields = {f: getattr(series, f) for f in series.__struct_fields__}
    told = {"sglang": HOSTILE, "attention_backend": HOSTILE, "driver": f"580 {SECRET}", "model": HOSTILE}
    return Series(**{**fields, "subject": {**series.subject, **told}})
