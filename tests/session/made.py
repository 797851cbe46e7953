"""Journals as a run writes them, made without a server."""

from __future__ import annotations

from suite.gate import Asked, Counts, Invalid, Launch, Outcome, Plan
from suite.session.entries import (
    FORMAT,
    VERSION,
    Answering,
    Begun,
    Complete,
    Entry,
    Item,
    Launching,
    Measured,
    Ready,
    RoundDone,
    ServerEnded,
    WorkloadBegun,
)

ARMS = ("mtp-off", "mtp-on")
QUESTIONS = ("decode[c1]", "decode[c4]")


def begun(launches: int = 2, rounds: int = 3, looks: int = 1) -> Begun:
    return Begun(
        format=FORMAT,
        version=VERSION,
        run_id="20261201-070000-here",
        started_at="2026-12-01T07:00:00+00:00",
        target="here",
        plan=Plan("gate", launches, rounds, [launches * (look + 1) for look in range(looks)]),
        asked=[
            *(Asked(q, arm, ["output_tokens_per_s"]) for arm in ARMS for q in QUESTIONS),
            Asked("speedup[c1]", "mtp-on", ["mtp_speedup"], parts=["mtp-on", "mtp-off"]),
        ],
        ratios={"speedup[c1]": "output_tokens_per_s"},
    )


def sample(arm: str, number: int, question: str, round_: int) -> Launch:
    value = 100.0 + 40 * (arm == "mtp-on") + number + 0.1 * round_ + 50 * QUESTIONS.index(question)
    return Launch(
        rounds={"output_tokens_per_s": [value], "tpot_s": [1 / value]},
        counts={"acceptance_length": [Counts([10 + round_], [5])]} if arm == "mtp-on" else {},
        invalid=[Invalid("early_stop", "3 of 4", 0)] if round_ == 1 and number == 2 else [],
    )


def played(launch: int, arm: str, number: int, question: str, rounds: int, done: bool = True) -> list[Entry]:
    """A workload, round by round; the speed-up at one client is answered by the same rounds."""
    workload, identity = f"code {question}", {"concurrency": 1, "gpu": "made"}
    entries: list[Entry] = [
        WorkloadBegun(launch, workload, identity, {"sglang": "0.5.23"}),
        Answering(launch, arm, number, workload, question, ["output_tokens_per_s"]),
    ]
    for place in range(rounds):
        entries.append(
            RoundDone(
                launch,
                arm,
                number,
                workload,
                place,
                rounds,
                1.5,
                sample(arm, number, question, place),
                question,
            )
        )
    if done:
        entries.append(Measured(launch, workload, rounds, identity, {"sglang": "0.5.23", "graphs": True}))
        if question == QUESTIONS[0]:
            entries.append(
                Answering(
                    launch,
                    arm,
                    number,
                    workload,
                    "speedup[c1]",
                    ["mtp_speedup"],
                    "output_tokens_per_s",
                    ["mtp-on", "mtp-off"],
                )
            )
    outcome = Outcome(question, "decode", arm, number, "kept")
    entries.append(Item(f"test_{question}[{arm}-launch{number}]", number, outcome, 1.0))
    return entries


def launched(launch: int, arm: str, number: int, rounds: int = 3) -> list[Entry]:
    """All that one launch of an arm leaves."""
    return [
        Launching(launch, arm, number, 1.0),
        Ready(launch, 12.0, {"loading weights": 9.0}, {"sglang": "0.5.23"}),
        *(entry for question in QUESTIONS for entry in played(launch, arm, number, question, rounds)),
        ServerEnded(launch, 0.5),
        Complete(arm, number),
    ]


def whole(launches: int = 2, rounds: int = 3) -> list[Entry]:
    """A run from its beginning to its last launch."""
    launch_ids = [(arm, number) for number in range(1, launches + 1) for arm in ARMS]
    return [
        begun(launches, rounds),
        *(e for i, (arm, number) in enumerate(launch_ids, 1) for e in launched(i, arm, number, rounds)),
    ]
