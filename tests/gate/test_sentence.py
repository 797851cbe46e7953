"""The run in one sentence: made from causes, whose effects are grouped under them and not counted one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from suite.gate import (
    Asked,
    BaselineStore,
    Claim,
    Invalid,
    Judgement,
    Key,
    Outcome,
    Rules,
    Session,
    judge,
)
from suite.gate.conclude import conclude
from suite.gate.recordable import recordable, refused
from suite.gate.sentence import _texts
from suite.gate.verdicts import Cause, Estimate, Verdict, Word
from suite.metrics import METRICS
from tests.gate.sessions import QUESTION, recorded, session

OFF, ON = "mtp-off", "mtp-on"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BaselineStore:
    return recorded(tmp_path_factory.mktemp("baselines"))


def judged(store: BaselineStore, run: Session) -> Judgement:
    return judge(run, store.sessions_for(run))


def made(
    figures: dict[tuple[str, str, str], tuple[Word, float]],
    others: dict[tuple[str, str, str], float] | None = None,
    outcomes: list[Outcome] | None = None,
    asked: list[Asked] | None = None,
) -> Judgement:
    """A run whose figures are judged already: by question, arm and metric the word and the relative change."""
    verdicts = {}
    for (question, arm, metric), (word, change) in figures.items():
        estimate = Estimate(
            METRICS[metric].label, METRICS[metric].unit, 1.0, 1.0, change, change - 0.005, change + 0.005
        )
        verdict = Verdict(question, arm, metric, word, f"{metric} {change:+.1%}", "reason", estimate, 0.02)
        verdicts[verdict.key] = verdict
    informational = {
        Key(*key): Estimate(key[2], "u", 1.0, 1.0, change, change - 0.005, change + 0.005)
        for key, change in (others or {}).items()
    }
    run = msgspec.structs.replace(session(), series=[], outcomes=outcomes or [], asked=asked or [])
    return conclude(run, Judgement(verdicts, informational, {}, [], [], None, []), Rules())


def speeds(
    arm: str, changes: dict[int, float], word: Word = "regression"
) -> dict[tuple[str, str, str], tuple[Word, float]]:
    """Decode figures of one arm by number of clients; what moved less than the margin passes."""
    return {
        (f"decode_throughput[c{clients}]", arm, "output_tokens_per_s"): (
            word if change < -0.02 else "pass",
            change,
        )
        for clients, change in changes.items()
    }


def steps(arm: str, changes: dict[int, float]) -> dict[tuple[str, str, str], float]:
    return {(f"decode_throughput[c{clients}]", arm, "step_s"): change for clients, change in changes.items()}


def test_an_unchanged_run_is_a_go_with_its_figures_and_its_gain(store: BaselineStore) -> None:
    said = judged(store, session())
    assert said.sentence == "GO: 8 figures within 2 %, MTP on gains 120 % at 1 client"
    assert said.status == 0
    assert said.causes == []


def test_a_dead_draft_is_one_cause_whatever_it_slows(store: BaselineStore) -> None:
    run = session(accepted=0, slow={ON: 1.2})
    dead = Outcome(
        "mtp_is_on_when_asked_for",
        "activation",
        ON,
        1,
        "broken",
        "MTP is on, but dead: ...",
        "BrokenPromise",
        "MTP drafts are dead (0 of 570 accepted)",
    )
    floor = Outcome(QUESTION, "acceptance", ON, 1, "broken", "acceptance length 1.000 is below the floor")
    said = judged(store, msgspec.structs.replace(run, outcomes=[floor, dead]))
    worse = [v for v in said.verdicts.values() if v.word == "regression"]
    assert len(worse) > 2
    assert said.sentence.startswith("NO-GO: MTP drafts are dead (0 of 570 accepted): ")
    assert said.sentence.endswith("follow from it")
    (cause,) = [c for c in said.causes if c.kind == "promise"]
    assert len(cause.figures) >= len(worse)
    assert said.status == 1


def test_slower_steps_of_one_arm_name_the_arm() -> None:
    said = made(
        speeds(ON, {1: -0.2, 8: -0.18}) | speeds(OFF, {1: 0.001, 8: -0.004}), steps(ON, {1: 0.25, 8: 0.22})
    )
    assert said.sentence == (
        "NO-GO: decode steps are slower, time per step +25 % with mtp-on only: 2 figures follow from it"
    )


def test_only_from_so_many_clients_on_points_to_large_batches() -> None:
    said = made(
        speeds(ON, {1: 0.0, 4: -0.01, 8: -0.2, 32: -0.25})
        | speeds(OFF, {1: 0.0, 4: 0.0, 8: -0.21, 32: -0.2}),
        steps(ON, {1: 0.0, 4: 0.0, 8: 0.25, 32: 0.3}) | steps(OFF, {8: 0.26, 32: 0.25}),
    )
    assert (
        "decode steps are slower, time per step +30 %, only from 8 clients on: kernels of large batches"
        in said.sentence
    )
    assert said.sentence.endswith(": 4 figures follow from it")


def test_only_long_prompts_point_to_prefill() -> None:
    def first(context: int, change: float) -> dict[tuple[str, str, str], tuple[Word, float]]:
        word: Word = "regression" if change > 0.02 else "pass"
        return {(f"time_to_first_token[{context}]", arm, "ttft_s"): (word, change) for arm in (OFF, ON)}

    said = made(first(1024, 0.0) | first(16384, 0.3) | first(65536, 0.42))
    assert "prefill is slower, TTFT +42 %, only from prompts of 16384 tokens on" in said.sentence
    assert [c.kind for c in said.causes] == ["prefill"]


def test_slower_prefill_in_every_arm_is_not_the_machine_while_decode_stands_still() -> None:
    first: dict[tuple[str, str, str], tuple[Word, float]] = {
        ("time_to_first_token[4096]", arm, "ttft_s"): ("regression", 0.03) for arm in (OFF, ON)
    }
    said = made(first | speeds(OFF, {1: 0.001}) | speeds(ON, {1: -0.002}))
    assert "machine" not in said.sentence
    assert said.sentence.startswith("NO-GO: prefill is slower, TTFT +3.0 %")


def test_every_figure_of_every_arm_alike_is_the_machine_or_the_whole_build() -> None:
    first: dict[tuple[str, str, str], tuple[Word, float]] = {
        ("time_to_first_token[4096]", arm, "ttft_s"): ("regression", 0.11) for arm in (OFF, ON)
    }
    said = made(first | speeds(OFF, {1: -0.1, 8: -0.09}) | speeds(ON, {1: -0.1, 8: -0.11}))
    assert [c.kind for c in said.causes] == ["machine"]
    assert "in every arm alike" in said.sentence
    assert said.sentence.endswith(": 6 figures follow from it")


@pytest.mark.parametrize("other", [0.001, -0.03])
def test_arms_that_did_not_move_alike_are_not_called_the_machine(other: float) -> None:
    said = made(speeds(OFF, {1: other}) | speeds(ON, {1: -0.2}), steps(ON, {1: 0.25}))
    assert "machine" not in said.sentence
    assert "with mtp-on only" in said.sentence or "+25 %" in said.sentence


def test_fewer_accepted_drafts_take_the_speed_up_with_them() -> None:
    figures = speeds(ON, {1: -0.2})
    figures["acceptance_length[code-t0]", ON, "acceptance_length"] = ("regression", -0.28)
    said = made(figures, {("decode_throughput[c1]", ON, "acceptance_length"): -0.27, **steps(ON, {1: 0.0})})
    assert said.sentence == (
        "NO-GO: fewer drafts are accepted, acceptance length -28 %: 2 figures follow from it"
    )


def test_undecided_figures_say_what_would_settle_them() -> None:
    figures = speeds(OFF, {1: 0.0, 8: 0.0, 32: 0.0})
    figures["time_to_first_token[1024]", OFF, "ttft_s"] = ("inconclusive", 0.03)
    said = made(figures)
    assert said.status == 8
    assert said.sentence == "CANNOT TELL: 1 of 4 figures undecided: reason"


def test_figures_not_to_be_trusted_name_the_disturbance_once(store: BaselineStore) -> None:
    run = session()
    bad = [
        msgspec.structs.replace(
            s,
            launches=[
                msgspec.structs.replace(x, invalid=[Invalid("clocks_throttled", "GPU 3: 1965 -> 1580 MHz")])
                for x in s.launches
            ],
        )
        for s in run.series
    ]
    said = judged(store, msgspec.structs.replace(run, series=bad))
    assert said.status == 8
    assert said.sentence == (
        "CANNOT TELL: 8 of 8 figures not to be trusted: clocks_throttled (GPU 3: 1965 -> 1580 MHz)"
    )


def untrusted(*reasons: str) -> Judgement:
    verdicts = [
        Verdict(f"q[c{n}]", ON, "tpot_s", "invalid", "h", reason, Estimate("TPOT", "s", 1.0), 0.02)
        for n, reason in enumerate(reasons)
    ]
    run = msgspec.structs.replace(session(), series=[])
    return conclude(run, Judgement({v.key: v for v in verdicts}, {}, {}, [], [], None, []), Rules())


def test_one_disturbance_seen_in_several_figures_is_one_cause_with_the_first_of_its_evidence() -> None:
    said = untrusted(
        "launch 1: 3 of 3 rounds, first buffering (288 events came in 30 bursts (all late))",
        "launch 1: 2 of 3 rounds, first buffering (98 events came in 11 bursts)",
        "launch 2: clocks_throttled (GPU 3: 1965 -> 1580 MHz)",
        "baseline unusable: damaged (line 3)",
    )
    assert said.sentence == (
        "CANNOT TELL: 4 of 4 figures not to be trusted: "
        "buffering (first: 288 events came in 30 bursts (all late)); "
        "clocks_throttled (GPU 3: 1965 -> 1580 MHz); and 1 more"
    )
    assert [len(cause.figures) for cause in said.causes] == [2, 1, 1]


def test_figures_of_several_margins_are_counted_by_margin() -> None:
    figures = speeds(OFF, {1: 0.0, 8: 0.0})
    figures["time_to_first_token[1024]", OFF, "ttft_s"] = ("pass", 0.03)
    said = made(figures)
    verdicts = {
        key: msgspec.structs.replace(v, margin=0.15 if v.metric == "ttft_s" else v.margin)
        for key, v in said.verdicts.items()
    }
    run = msgspec.structs.replace(session(), series=[])
    again = conclude(run, Judgement(verdicts, {}, {}, [], [], None, []), Rules())
    assert again.sentence == "GO: 2 figures within 2 %, 1 within 15 %"


def test_what_was_asked_and_never_measured_is_named() -> None:
    asked = [Asked("decode_throughput[c8]", ON, ["output_tokens_per_s"], unmeasured="--minutes 10 were over")]
    said = made(speeds(ON, {1: 0.0}), asked=asked)
    assert said.status == 8
    assert said.sentence == "CANNOT TELL: 1 of 2 figures not measured: --minutes 10 were over"


def test_what_an_arm_was_skipped_for_was_not_asked() -> None:
    skipped = Outcome("decode_throughput[c8]", "decode", ON, 1, "skipped", "the server is mtp-off")
    said = made(
        speeds(OFF, {1: 0.0}),
        outcomes=[skipped],
        asked=[Asked("decode_throughput[c8]", ON, ["output_tokens_per_s"])],
    )
    assert said.sentence == "GO: 1 figure within 2 %"


def test_infrastructure_is_said_once_with_what_it_cost() -> None:
    outcomes = [
        Outcome(
            f"q{n}", "decode", arm, 1, "infrastructure" if not n else "unproven", "", name, "no route to box"
        )
        for n, (arm, name) in enumerate(
            [(OFF, "HostUnreachable"), (OFF, "ArmUnavailable"), (ON, "ArmUnavailable")]
        )
    ]
    said = made({}, outcomes=outcomes, asked=[Asked("q2", ON, ["tpot_s", "output_tokens_per_s"])])
    assert said.status == 9
    assert said.sentence == (
        "NOT MEASURED, infrastructure: no route to box (2 figures and 2 checks without an answer)"
    )


@pytest.mark.parametrize(("value", "word", "status"), [(1.04, "broken promise", 1), (1.06, "pass", 0)])
def test_a_floor_holds_whatever_the_baseline_says(value: float, word: str, status: int) -> None:
    estimate = Estimate("MTP speed-up", "x", value, value, 0.0, -0.01, 0.01)
    verdict = Verdict("mtp_speedup[c1]", ON, "mtp_speedup", "pass", "+0.0 %", "reason", estimate, 0.02)
    claim = Claim("mtp_speedup", 1.05, "MTP costs more than it gains")
    run = msgspec.structs.replace(
        session(), series=[], asked=[Asked("mtp_speedup[c1]", ON, ["mtp_speedup"], [claim], [ON, OFF])]
    )
    said = conclude(run, Judgement({verdict.key: verdict}, {}, {}, [], [], None, []), Rules())
    assert (said.verdicts[verdict.key].word, said.status) == (word, status)


def test_a_regression_is_recorded_only_for_a_reason(store: BaselineStore) -> None:
    run = session(slow={ON: 0.05})
    plan = msgspec.structs.replace(run.plan, recording=True)
    run = msgspec.structs.replace(run, plan=plan)
    said = judged(store, run)
    assert said.status == 1
    assert set(refused(run, said)) == {ON}
    assert "--accept-regression" in refused(run, said)[ON]
    assert {s.arm for s in recordable(run, said).series} == {OFF}
    taken = msgspec.structs.replace(run, plan=msgspec.structs.replace(plan, accepted="a new card"))
    said = judged(store, taken)
    assert refused(taken, said) == {}
    assert said.status == 0
    assert "accepted: a new card" in said.sentence


def test_a_recording_of_an_unchanged_build_is_good_although_some_figure_is_undecided(tmp_path: Path) -> None:
    store = recorded(tmp_path, sessions=1)
    run = session(machine=0.02, noise=0.02)
    undecided = judged(store, run)
    assert undecided.status == 8
    recording = msgspec.structs.replace(run, plan=msgspec.structs.replace(run.plan, recording=True))
    assert judged(store, recording).status == 0


def broke(item: str, kind: str, arm: str, short: str) -> Outcome:
    return Outcome(item, kind, arm, 1, "broken", short, "BrokenPromise", short)


def test_a_broken_promise_alone_is_a_no_go() -> None:
    said = made({}, outcomes=[broke("speed_holds", "steadiness", ON, "tokens/s fades")])
    assert (said.status, said.sentence) == (1, "NO-GO: mtp-on: tokens/s fades")


def test_two_arms_with_one_fault_are_one_cause_with_both_names() -> None:
    wrong = [broke("answers_are_right", "canary", arm, "wrong answers: 0 of 8 right") for arm in (OFF, ON)]
    said = made({}, outcomes=wrong)
    assert said.sentence == "NO-GO: mtp-off and mtp-on: wrong answers: 0 of 8 right"


def test_figures_that_are_undecided_and_worse_follow_from_the_promise_too() -> None:
    dead = broke("mtp_is_on", "activation", ON, "MTP drafts are dead (0 of 9 accepted)")
    said = made(speeds(ON, {1: -0.3, 8: -0.4}, word="inconclusive") | speeds(OFF, {1: 0.0}), outcomes=[dead])
    assert said.sentence.startswith("NO-GO: MTP drafts are dead (0 of 9 accepted): 2 figures follow from it")


def test_a_promise_of_one_arm_does_not_explain_another() -> None:
    dead = broke("mtp_is_on", "activation", ON, "MTP drafts are dead (0 of 9 accepted)")
    said = made(speeds(ON, {1: -0.3}) | speeds(OFF, {1: -0.2}), steps(OFF, {1: 0.25}), [dead])
    assert [c.kind for c in said.causes] == ["promise", "steps"]
    assert (
        "MTP drafts are dead (0 of 9 accepted): 1 figure follows from it; decode steps are slower"
        in said.sentence
    )


def test_a_lossless_fault_explains_no_speed() -> None:
    """Other words at the same speed: what is slower beside it is slower for a reason of its own."""
    other = broke("mtp_does_not_change_answers", "lossless", ON, "MTP changes the answers")
    said = made(speeds(ON, {1: -0.3}) | speeds(OFF, {1: 0.0}), steps(ON, {1: 0.4}), [other])
    assert [c.kind for c in said.causes] == ["promise", "steps"]


def test_more_causes_than_can_be_said_are_counted() -> None:
    outcomes = [broke(f"q{n}", "steadiness", ON, f"fault {n}") for n in range(4)]
    said = made({}, outcomes=outcomes)
    assert said.sentence == "NO-GO: mtp-on: fault 0; mtp-on: fault 1; and 2 more"


@pytest.mark.parametrize("word", ["unproven", "infrastructure"])
def test_an_arm_that_was_not_wholly_measured_is_not_recorded(store: BaselineStore, word: str) -> None:
    late = Outcome("answers_are_right", "canary", ON, 1, word, "no answer came")  # type: ignore[arg-type]
    run = session()
    run = msgspec.structs.replace(
        run, outcomes=[late], plan=msgspec.structs.replace(run.plan, recording=True)
    )
    said = judged(store, run)
    assert said.status == 1
    assert refused(run, said) == {ON: "answers_are_right: no answer came"}
    assert [s.arm for s in recordable(run, said).series] == [OFF], "no ratio of which it is a part either"


def test_the_first_recording_of_a_target_is_good(tmp_path: Path) -> None:
    run = session()
    asked = [Asked(s.question, s.arm, ["output_tokens_per_s"]) for s in run.series[:2]]
    for recording, status in ((True, 0), (False, 8)):
        plan = msgspec.structs.replace(run.plan, recording=recording)
        said = judged(
            BaselineStore(tmp_path, "simulator"), msgspec.structs.replace(run, asked=asked, plan=plan)
        )
        assert said.status == status
        assert "no baseline" in said.sentence


def test_a_baseline_that_is_required_and_missing_is_a_no_go(tmp_path: Path) -> None:
    run = session()
    plan = msgspec.structs.replace(run.plan, require_baseline=True)
    kept = Outcome("mtp_is_on", "activation", ON, 1, "kept")
    said = judged(
        BaselineStore(tmp_path, "simulator"), msgspec.structs.replace(run, plan=plan, outcomes=[kept])
    )
    assert said.status == 1
    assert said.sentence.startswith(
        "NO-GO: 8 figures without a baseline, and one is required: no baseline; record one"
    )


def test_one_figure_that_may_not_have_moved_speaks_against_the_machine() -> None:
    figures = speeds(OFF, {1: -0.05, 8: -0.05}) | speeds(ON, {1: -0.05, 8: -0.05})
    assert [c.kind for c in made(figures).causes] == ["machine"]
    said = made(figures)
    verdicts = {
        key: msgspec.structs.replace(
            v, word="inconclusive", estimate=msgspec.structs.replace(v.estimate, ci_low=-0.11, ci_high=0.01)
        )
        if v.arm == OFF and "c8" in v.question
        else v
        for key, v in said.verdicts.items()
    }
    run = msgspec.structs.replace(session(), series=[])
    doubtful = conclude(run, Judgement(verdicts, {}, {}, [], [], None, []), Rules())
    assert "machine" not in [c.kind for c in doubtful.causes]


def test_sizes_that_moved_on_both_sides_of_one_that_held_are_no_pattern() -> None:
    said = made(speeds(ON, {1: -0.2, 4: 0.0, 8: -0.2}), steps(ON, {1: 0.25, 8: 0.25}))
    assert "clients on" not in said.sentence


def test_where_both_factors_moved_the_larger_one_is_the_cause() -> None:
    figures = speeds(ON, {1: -0.25})
    key = ("decode_throughput[c1]", ON, "acceptance_length")
    assert [c.kind for c in made(figures, {**steps(ON, {1: 0.03}), key: -0.22}).causes] == ["acceptance"]
    assert [c.kind for c in made(figures, {**steps(ON, {1: 0.3}), key: -0.03}).causes] == ["steps"]


def test_a_figure_that_no_factor_explains_stands_for_itself() -> None:
    said = made(speeds(ON, {1: -0.25}), steps(ON, {1: 0.0}))
    assert said.sentence == "NO-GO: decode_throughput[c1], mtp-on: output tokens/s -25.0 %"


def test_another_machine_fault_is_another_cause() -> None:
    outcomes = [
        Outcome("q0", "decode", OFF, 1, "infrastructure", "", "PortTaken", "port 30000 is taken"),
        Outcome("q0", "decode", ON, 1, "infrastructure", "", "CannotStart", "no such image"),
        Outcome("q1", "decode", ON, 1, "unproven", "", "ArmUnavailable", "no such image"),
    ]
    said = made({}, outcomes=outcomes)
    assert [(c.text, c.arms, len(c.others)) for c in said.causes] == [
        ("port 30000 is taken", [OFF], 1),
        ("no such image", [ON], 2),
    ]


def test_a_measurement_that_is_not_to_be_trusted_breaks_no_floor() -> None:
    estimate = Estimate("MTP speed-up", "x", 0.4)
    verdict = Verdict(
        "mtp_speedup[c1]", ON, "mtp_speedup", "invalid", "h", "launch 1: late (x)", estimate, 0.02
    )
    asked = [Asked("mtp_speedup[c1]", ON, ["mtp_speedup"], [Claim("mtp_speedup", 1.05, "o")], [ON, OFF])]
    run = msgspec.structs.replace(session(), series=[], asked=asked)
    said = conclude(run, Judgement({verdict.key: verdict}, {}, {}, [], [], None, []), Rules())
    assert said.verdicts[verdict.key].word == "invalid"


def test_a_ratio_whose_other_arm_does_not_run_here_was_not_asked() -> None:
    skipped = Outcome("mtp_speedup[c1]", "speedup", OFF, 1, "skipped", "this server is mtp-on")
    asked = [Asked("mtp_speedup[c1]", ON, ["mtp_speedup"], [], [ON, OFF])]
    said = made(speeds(ON, {1: 0.0}), outcomes=[skipped], asked=asked)
    assert said.sentence == "GO: 1 figure within 2 %"


def test_long_evidence_is_cut_in_the_sentence_and_whole_with_the_figure() -> None:
    reason = "launch 1: buffering (" + "many words of evidence " * 20 + ")"
    verdict = Verdict("q[c1]", ON, "tpot_s", "invalid", "h", reason, Estimate("TPOT", "s", 1.0), 0.02)
    run = msgspec.structs.replace(session(), series=[])
    said = conclude(run, Judgement({verdict.key: verdict}, {}, {}, [], [], None, []), Rules())
    assert len(said.sentence) < 240
    assert said.sentence.startswith("CANNOT TELL: 1 of 1 figure not to be trusted: buffering (many words")
    assert said.verdicts[verdict.key].reason == reason


def test_two_cures_are_told_as_one_clause() -> None:
    said = ["an interleaved run of both builds would settle it", "6 rounds instead of 3 would settle it"]
    told = _texts([Cause("undecided", text) for text in said])
    assert (
        told
        == "an interleaved run of both builds would settle some of them, 6 rounds instead of 3 the others"
    )


def test_a_second_kind_of_doubt_is_counted_and_told_below_the_sentence() -> None:
    """Ten seconds: a disturbed machine is the thing to mend, whatever else it leaves undecided."""
    figures = speeds(OFF, {1: 0.0, 8: 0.0})
    figures["decode_throughput[c32]", OFF, "output_tokens_per_s"] = ("invalid", 0.0)
    figures["time_to_first_token[1024]", OFF, "ttft_s"] = ("inconclusive", 0.03)
    assert made(figures).sentence == "CANNOT TELL: 1 of 4 figures not to be trusted: reason; 1 more undecided"


def test_many_arms_that_do_not_start_are_counted() -> None:
    short = "does not start: the server ended with exit status 2 while starting"
    outcomes = [
        Outcome("q", "launch", f"arm-{n}", 1, "broken", short, "ExitedEarly", short) for n in range(5)
    ]
    said = made({}, outcomes=outcomes).sentence
    assert said.startswith(
        "NO-GO: arm-0, arm-1 and 3 more arms do not start: the server ended with exit status 2"
    )


def test_a_run_that_was_stopped_says_so_once_for_all_arms() -> None:
    asked = [
        Asked("decode_throughput[c8]", arm, ["tpot_s"], unmeasured=f"{arm} was not asked; ended by SIGINT")
        for arm in (OFF, ON)
    ]
    assert made({}, asked=asked).sentence == "CANNOT TELL: 2 of 2 figures not measured: ended by SIGINT"


def test_one_fault_of_several_spellings_is_one_cause() -> None:
    flags = {
        ON: "--speculative-algorithm NEXTN",
        "lower": "--speculative-algorithm nextn",
        "short": "--speculative-algo NEXTN",
    }
    outcomes = [
        Outcome(f"q-{arm}", "activation", arm, 1, "broken", said, "BrokenPromise", said)
        for arm, flag in flags.items()
        for said in [f"MTP is off although {flag} was given: all witnesses agree"]
    ]
    assert made({}, outcomes=outcomes).sentence == (
        "NO-GO: MTP is off although --speculative-algorithm NEXTN was given: all witnesses agree "
        "(mtp-on, lower and short)"
    )
