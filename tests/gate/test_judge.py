"""What the gate says of runs whose truth is known."""

import re
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from suite.gate import (
    Baseline,
    BaselineSession,
    BaselineStore,
    Invalid,
    Key,
    Launch,
    Rules,
    Session,
    judge,
    speedup,
)
from suite.gate.baselines import _BaselineFile
from suite.gate.errors import BadMeasurement
from suite.gate.files import render
from tests.gate.sessions import QUESTION, recorded, session

SPEED = Key(QUESTION, "mtp-on", "output_tokens_per_s")
OFF = Key(QUESTION, "mtp-off", "output_tokens_per_s")
ACCEPTANCE = Key(QUESTION, "mtp-on", "acceptance_length")
SPEEDUP = Key("mtp_speedup[c1]", "mtp-on", "mtp_speedup")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> BaselineStore:
    """Five recorded sessions of a quiet machine."""
    return recorded(tmp_path_factory.mktemp("baselines"))


def words(store: BaselineStore, run: Session) -> dict[Key, str]:
    return {key: v.word for key, v in judge(run, store.sessions_for(run)).verdicts.items()}


def edited(run: Session, arm: str, change: object) -> Session:
    """The run with every launch of one arm's decode series changed by a function."""
    series = [
        msgspec.structs.replace(s, launches=[change(launch, i) for i, launch in enumerate(s.launches)])  # type: ignore[operator]
        if (s.question, s.arm) == (QUESTION, arm)
        else s
        for s in run.series
    ]
    return msgspec.structs.replace(run, series=series)


def test_an_unchanged_run_passes(store: BaselineStore) -> None:
    run = session()
    judgement = judge(run, store.sessions_for(run))
    assert {v.word for v in judgement.verdicts.values()} == {"pass"}
    assert judgement.worst == "pass"
    assert judgement.undecided == []
    assert len(judgement.verdicts) == 8


def test_five_percent_slower_in_one_arm_is_that_arms_regression(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05})
    verdicts = judge(run, store.sessions_for(run)).verdicts
    assert verdicts[SPEED].word == "regression"
    assert verdicts[OFF].word == "pass"
    assert verdicts[SPEEDUP].word == "regression"
    assert verdicts[ACCEPTANCE].word == "pass"
    assert verdicts[SPEED].change == pytest.approx(-0.0476, abs=0.006)


def test_the_headline_says_how_much_how_sure_and_against_what(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05, "mtp-off": 0.05})
    line = judge(run, store.sessions_for(run)).verdicts[SPEED].headline
    assert line.startswith("output tokens/s -4.")
    assert "(95 % CI -" in line
    assert line.endswith(", margin 2 %) against baseline of 2026-11-05, sglang 0.5.23")


def test_the_interval_holds_the_truth(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05})
    estimate = judge(run, store.sessions_for(run)).verdicts[SPEED].estimate
    assert estimate.ci_low is not None
    assert estimate.ci_high is not None
    assert estimate.ci_low < 1 / 1.05 - 1 < estimate.ci_high


def test_both_arms_slower_is_told_to_be_common(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05, "mtp-off": 0.05})
    verdicts = judge(run, store.sessions_for(run)).verdicts
    assert verdicts[SPEED].word == verdicts[OFF].word == "regression"
    assert "common to all arms" in verdicts[SPEED].reason
    assert verdicts[SPEEDUP].word == "pass"


def test_half_a_percent_is_nothing(store: BaselineStore) -> None:
    assert set(words(store, session(slow={"mtp-on": 0.005, "mtp-off": 0.005})).values()) == {"pass"}


def test_fewer_accepted_drafts_are_a_regression_of_acceptance_alone(store: BaselineStore) -> None:
    said = words(store, session(accepted=80))
    assert said.pop(ACCEPTANCE) == "regression"
    assert set(said.values()) == {"pass"}


def test_a_later_first_token_is_not_an_improvement_of_decoding(store: BaselineStore) -> None:
    said = words(store, session(ttft=0.2))
    slower = {key for key, word in said.items() if word == "regression"}
    assert slower == {Key(QUESTION, arm, "ttft_s") for arm in ("mtp-off", "mtp-on")}
    assert set(said.values()) == {"pass", "regression"}


def test_an_improvement_says_how_to_promote(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": -0.08})
    verdict = judge(run, store.sessions_for(run)).verdicts[SPEED]
    assert verdict.word == "improvement"
    assert "baseline promote new" in verdict.needs


def test_noise_is_inconclusive_and_says_what_would_settle_it(tmp_path: Path) -> None:
    store = recorded(tmp_path, noise=0.08)
    run = session("noisy", noise=0.08, slow={"mtp-on": 0.05})
    verdict = judge(run, store.sessions_for(run)).verdicts[SPEED]
    assert verdict.word == "inconclusive"
    assert "would settle it" in verdict.needs


def test_without_a_baseline_it_says_how_to_record_one(tmp_path: Path) -> None:
    run = session()
    judgement = judge(run, BaselineStore(tmp_path, "simulator").sessions_for(run))
    assert judgement.worst == "unjudged"
    assert "--record-baseline" in judgement.verdicts[SPEED].needs
    assert judgement.verdicts[SPEED].value == pytest.approx(220, rel=0.02)


def test_one_recorded_session_is_usable(tmp_path: Path) -> None:
    store = recorded(tmp_path, sessions=1)
    assert set(words(store, session()).values()) == {"pass"}
    assert words(store, session(slow={"mtp-on": 0.3}))[SPEED] == "regression"


def test_a_common_shift_on_one_session_is_no_verdict_on_an_arm(tmp_path: Path) -> None:
    store = recorded(tmp_path, sessions=1)
    run = session(slow={"mtp-on": 0.06, "mtp-off": 0.06})
    judgement = judge(run, store.sessions_for(run))
    assert judgement.verdicts[SPEED].word == "inconclusive"
    assert "interleaved run of both builds" in judgement.verdicts[SPEED].needs
    assert any(
        re.match(r"all arms slower by about [56]\.\d %, together: the machine, the build", n)
        for n in judgement.notes
    )
    assert re.search(
        r"undecided: common shift, all arms slower by about [56]\.\d %: an interleaved", judgement.sentence
    )


def test_what_more_rounds_cost_is_said_in_time(tmp_path: Path) -> None:
    def asked(made: Session) -> Session:
        facts = {"requests": 50, "max_tokens": 100}
        series = [
            msgspec.structs.replace(s, identity={**s.identity, **({} if s.derived_from else facts)})
            for s in made.series
        ]
        return msgspec.structs.replace(made, series=series)

    store = BaselineStore(tmp_path, "simulator")
    for number in range(5):
        store.record(asked(session(f"r{number}", day=number + 1, noise=0.05)))
    told = []
    for number in range(8):
        run = asked(session(f"n{number}", noise=0.05))
        told += [
            v.needs for v in judge(run, store.sessions_for(run)).verdicts.values() if "--rounds" in v.needs
        ]
    assert told
    for needs in told:
        rounds, now = map(int, re.findall(r"(\d+) rounds instead of (\d+)", needs)[0])
        cost = re.search(r"\((\d+) (s|min) more\) would settle it", needs)
        if cost is not None:  # a ratio is made of two arms' rounds, and tells no time
            seconds = 3 * (rounds - now) * 5000 / np.array([100, 220])
            assert min(abs(seconds - int(cost[1]) * (60 if cost[2] == "min" else 1))) < 60
    assert any(" more) would" in needs for needs in told)


def test_a_common_shift_of_prefill_alone_is_no_evidence_about_the_machine(tmp_path: Path) -> None:
    store = recorded(tmp_path, sessions=1, noise=0.001)
    run = session(ttft=0.3, noise=0.001)
    judgement = judge(run, store.sessions_for(run))
    shifted = [v for v in judgement.verdicts.values() if "common shift" in v.reason]
    assert shifted
    assert {v.metric for v in shifted} == {"ttft_s"}
    assert all("prefill of all arms slower by about " in v.reason for v in shifted)
    (note,) = [note for note in judgement.notes if "together" in note]
    assert "and not the machine: decode of the same servers is unchanged" in note
    assert "machine" not in judgement.sentence


def test_changes_of_the_subject_are_listed(store: BaselineStore) -> None:
    run = session(version="0.5.24")
    judgement = judge(run, store.sessions_for(run))
    assert judgement.changes[QUESTION, "mtp-on"] == "sglang 0.5.23 -> 0.5.24"
    assert "under test: sglang 0.5.23 -> 0.5.24" in judgement.verdicts[SPEED].reason


def test_another_identity_is_refused_with_the_keys(store: BaselineStore) -> None:
    run = session()
    series = [msgspec.structs.replace(s, identity=s.identity | {"gpu": "other"}) for s in run.series]
    verdict = judge(msgspec.structs.replace(run, series=series), store.sessions_for(run)).verdicts[SPEED]
    assert verdict.word == "unjudged"
    assert "gpu 'modelled' -> 'other'" in verdict.reason


def test_a_metric_gone_from_the_server_is_invalid_not_one(store: BaselineStore) -> None:
    def without(launch: Launch, number: int) -> Launch:
        rounds = {k: v for k, v in launch.rounds.items() if k != "acceptance_length"}
        return Launch(rounds, missing={"acceptance_length": "no spec details in the answers"})

    run = edited(session(), "mtp-on", without)
    verdict = judge(run, store.sessions_for(run)).verdicts[ACCEPTANCE]
    assert verdict.word == "invalid"
    assert "no spec details in the answers" in verdict.reason
    assert verdict.value is None


@pytest.mark.parametrize("value", [0.0, -3.0, float("nan"), float("inf"), None])
def test_impossible_values_are_invalid(store: BaselineStore, value: float | None) -> None:
    def broken(launch: Launch, number: int) -> Launch:
        return msgspec.structs.replace(launch, rounds=launch.rounds | {"tpot_s": [value] * 5})

    run = edited(session(), "mtp-on", broken)
    verdict = judge(run, store.sessions_for(run)).verdicts[Key(QUESTION, "mtp-on", "tpot_s")]
    assert verdict.word == "invalid"
    assert judge(run, store.sessions_for(run)).verdicts[SPEED].word == "pass"


def test_one_bad_round_is_set_aside(store: BaselineStore) -> None:
    def marked(launch: Launch, number: int) -> Launch:
        rounds = {k: [v[0] and v[0] / 3, *v[1:]] for k, v in launch.rounds.items()}
        return msgspec.structs.replace(launch, rounds=rounds, invalid=[Invalid("client_late", "0.4 s", 0)])

    run = edited(session(), "mtp-on", marked)
    verdict = judge(run, store.sessions_for(run)).verdicts[SPEED]
    assert verdict.word == "pass"
    assert "3 rounds set aside" in verdict.reason


def test_an_invalid_launch_makes_its_series_invalid_however_slow(store: BaselineStore) -> None:
    def throttled(launch: Launch, number: int) -> Launch:
        reasons = [Invalid("clocks_throttled", "SM clock 1965 -> 1580 MHz")] if number == 1 else []
        return msgspec.structs.replace(launch, invalid=reasons)

    run = edited(session(slow={"mtp-on": 0.15}), "mtp-on", throttled)
    verdicts = judge(run, store.sessions_for(run)).verdicts
    assert verdicts[SPEED].word == "invalid"
    assert "launch 2: clocks_throttled (SM clock 1965 -> 1580 MHz)" in verdicts[SPEED].reason
    assert verdicts[OFF].word == "pass"


def test_most_rounds_bad_is_an_invalid_launch(store: BaselineStore) -> None:
    def marked(launch: Launch, number: int) -> Launch:
        return msgspec.structs.replace(
            launch, invalid=[Invalid("early_stop", "775 of 2048", i) for i in range(3)]
        )

    run = edited(session(), "mtp-on", marked)
    assert judge(run, store.sessions_for(run)).verdicts[SPEED].word == "invalid"


def test_one_round_one_launch_is_judged(store: BaselineStore) -> None:
    run = session(launches=1, rounds=1)
    assert words(store, run)[SPEED] == "pass"
    assert words(store, session(launches=1, rounds=1, slow={"mtp-on": 0.2}))[SPEED] == "regression"


def test_one_launch_is_compared_with_the_first_launches(tmp_path: Path) -> None:
    """A machine that is 4 % faster from the second launch on is no regression of a run that has only a first one."""

    def warming(launch: Launch, number: int) -> Launch:
        factor = 1.0 if number == 0 else 1.04
        speeds = {"output_tokens_per_s": [v and v * factor for v in launch.rounds["output_tokens_per_s"]]}
        return msgspec.structs.replace(launch, rounds=launch.rounds | speeds)

    store = BaselineStore(tmp_path, "simulator")
    for i in range(5):
        store.record(edited(session(f"recorded-{i}", day=i + 1), "mtp-on", warming))
    assert words(store, edited(session(launches=1), "mtp-on", warming))[SPEED] == "pass"


def test_a_server_without_noise_divides_by_nothing(tmp_path: Path) -> None:
    store = recorded(tmp_path, noise=0.0, machine=0.0)
    assert set(words(store, session(noise=0.0, machine=0.0)).values()) == {"pass"}
    assert set(words(store, session(noise=0.0, machine=0.0, slow={"mtp-on": 0.001})).values()) == {"pass"}
    assert words(store, session(noise=0.0, machine=0.0, slow={"mtp-on": 0.03}))[SPEED] == "regression"


def test_looks_ask_for_every_arm_and_spend_the_error_rate(tmp_path: Path) -> None:
    store = recorded(tmp_path, noise=0.04)
    run = session("doubtful", noise=0.04, slow={"mtp-on": 0.04}, looks=[3, 6, 9])
    judgement = judge(run, store.sessions_for(run))
    assert judgement.next_launches == 6
    undecided = [k for k, v in judgement.verdicts.items() if v.word == "inconclusive"]
    assert undecided
    assert {k[:2] for k in undecided} == set(judgement.undecided)
    for question, _ in judgement.undecided:
        assert {(question, arm) for arm in ("mtp-off", "mtp-on")} <= set(judgement.extend)


def test_what_no_launch_can_settle_is_not_launched_again(tmp_path: Path) -> None:
    """All arms slower alike, beyond what single ones would show: more launches of the same two builds tell nothing new."""
    store = recorded(tmp_path, sessions=1)
    run = session("shifted", slow={"mtp-off": 0.05, "mtp-on": 0.05}, looks=[3, 6, 9])
    judgement = judge(run, store.sessions_for(run))
    assert [v for v in judgement.verdicts.values() if v.word == "inconclusive" and "common shift" in v.reason]
    assert judgement.undecided == judgement.extend == []


def test_a_verdict_once_given_stays(store: BaselineStore) -> None:
    """Three launches 5 % slower, then six as before: the first look has spoken."""
    bad, good = session("x", slow={"mtp-on": 0.05}, looks=[3, 6, 9]), session("y")
    first = judge(bad, store.sessions_for(bad))
    assert first.verdicts[SPEED].word == "regression"
    series = [
        msgspec.structs.replace(s, launches=[*s.launches, *t.launches, *t.launches])
        for s, t in zip(bad.series, good.series, strict=True)
    ]
    later = msgspec.structs.replace(bad, series=series)
    again = judge(later, store.sessions_for(later))
    assert again.verdicts[SPEED].word == "regression"
    assert again.verdicts[SPEED].look == 1


def test_a_promoted_level_is_what_runs_are_compared_with(tmp_path: Path) -> None:
    store = recorded(tmp_path)
    store.record(session("faster", slow={"mtp-on": -0.1, "mtp-off": -0.1}, day=10), promote=True)
    assert words(store, session("same again", slow={"mtp-on": -0.1, "mtp-off": -0.1}))[SPEED] == "pass"
    assert words(store, session("as it was"))[SPEED] == "regression"


def test_margins_of_an_arm_are_its_own(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05, "mtp-off": 0.05})
    wide = {"margin": 0.10}
    rules = Rules(arms={"mtp-on": {"output_tokens_per_s": wide, "tpot_s": wide}})
    verdicts = judge(run, store.sessions_for(run), rules).verdicts
    assert verdicts[SPEED].word == "pass"
    assert verdicts[OFF].word == "regression"


def test_informational_metrics_have_an_estimate_and_no_verdict(store: BaselineStore) -> None:
    run = session(ttft=0.2)
    judgement = judge(run, store.sessions_for(run), Rules(metrics={"ttft_s": {"gated": False}}))
    key = Key(QUESTION, "mtp-on", "ttft_s")
    assert key not in judgement.verdicts
    assert judgement.informational[key].change == pytest.approx(0.2, abs=0.02)
    assert judgement.worst == "pass"


def test_the_same_series_twice_is_named(store: BaselineStore) -> None:
    run = session()
    with pytest.raises(BadMeasurement, match="this series is there twice"):
        judge(msgspec.structs.replace(run, series=[*run.series, run.series[0]]), store.sessions_for(run))


def test_more_noise_is_never_more_certain(tmp_path: Path) -> None:
    quiet, loud = recorded(tmp_path / "quiet", noise=0.003), recorded(tmp_path / "loud", noise=0.03)
    seen = []
    for store, noise in ((quiet, 0.003), (loud, 0.03)):
        run = session(noise=noise)
        seen.append(judge(run, store.sessions_for(run)).verdicts[SPEED].estimate.sdc)
    assert np.all(np.diff(np.array(seen, dtype=float)) > 0)


def test_ten_thousand_baseline_rounds_are_judged_about_as_fast_as_a_hundred_are_read(tmp_path: Path) -> None:
    """66 sessions x 3 launches x 5 rounds x 10 values; time may grow with the data, not with its square."""
    took = []
    for sessions in (6, 66):
        store = BaselineStore(tmp_path / str(sessions), "simulator")
        for series in session().series:
            _write_sessions(store, series.question, series.arm, sessions)
        run = session()
        start = time.perf_counter()
        assert judge(run, store.sessions_for(run)).worst == "pass"
        took.append(time.perf_counter() - start)
    assert took[1] < 11 * 4 * took[0]
    assert took[1] < 10


def _write_sessions(store: BaselineStore, question: str, arm: str, count: int) -> None:
    """Record at once what a year of sessions would have recorded one by one."""
    made = [session(f"r{i:03d}", day=1 + i % 28) for i in range(count)]
    series = [next(s for s in m.series if (s.question, s.arm) == (question, arm)) for m in made]
    sessions = [
        BaselineSession(m.run_id, m.started_at, s.subject, s.launches)
        for m, s in zip(made, series, strict=True)
    ]
    baseline = Baseline(question, arm, series[0].identity, sessions)
    store.folder.mkdir(parents=True, exist_ok=True)
    store.path(question, arm).write_bytes(
        render(_BaselineFile("sglang-perf-baseline", 1, store.target, baseline))
    )


def test_an_arm_with_many_questions_is_not_all_arms(tmp_path: Path) -> None:
    """Three more series of mtp-on, all slower: still a regression of that arm, not of the machine."""
    store = BaselineStore(tmp_path, "simulator")
    for i in range(5):
        store.record(with_more_questions(session(f"recorded-{i}", day=i + 1)))
    run = with_more_questions(session(slow={"mtp-on": 0.05}))
    verdicts = judge(run, store.sessions_for(run)).verdicts
    assert verdicts[SPEED].word == "regression"
    assert "common to all arms" not in verdicts[SPEED].reason
    assert verdicts[OFF].word == "pass"


def with_more_questions(run: Session) -> Session:
    slow = msgspec.structs.replace
    on = run.series[1]
    more = [
        slow(
            on,
            question=f"acceptance[{kind}]",
            launches=[
                slow(x, rounds={k: [v and v * factor for v in r] for k, r in x.rounds.items()}, counts={})
                for x in on.launches
            ],
        )
        for kind, factor in (("code", 1.1), ("maths", 1.2), ("prose", 0.9))
    ]
    return slow(run, series=[*run.series, *more])


def test_a_question_judges_only_what_it_is_about(store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05})
    series = [msgspec.structs.replace(s, judged=["ttft_s"]) if s.arm == "mtp-on" else s for s in run.series]
    judgement = judge(msgspec.structs.replace(run, series=series), store.sessions_for(run))
    assert SPEED not in judgement.verdicts
    assert judgement.informational[SPEED].change == pytest.approx(-0.048, abs=0.006)
    assert judgement.verdicts[Key(QUESTION, "mtp-on", "ttft_s")].word == "pass"


@pytest.mark.parametrize(("launches", "noise"), [(1, 0.03), (1, 0.15), (3, 0.03), (3, 0.15)])
def test_a_disturbed_run_is_inconclusive_not_a_regression(
    store: BaselineStore, launches: int, noise: float
) -> None:
    """Ten to fifty times as noisy as its baseline, and unchanged."""
    told, cures = [], set()
    for i in range(10):
        run = session(f"disturbed-{i}", noise=noise, launches=launches)
        judgement = judge(run, store.sessions_for(run))
        told.append(judgement.worst)
        doubtful = [v for v in judgement.verdicts.values() if v.word == "inconclusive"]
        assert all("would settle it" in v.needs for v in doubtful)
        cures |= {v.needs.partition(" (")[0] for v in doubtful}
    assert "regression" not in told
    assert cures <= {"the same run on a quiet machine", "an interleaved run of both builds"}
    assert "the same run on a quiet machine" in cures
    assert told.count("inconclusive") >= 8


def test_a_disturbed_run_can_still_show_a_collapse(store: BaselineStore) -> None:
    run = session("collapse", noise=0.03, slow={"mtp-on": 1.0})
    assert words(store, run)[SPEED] == "regression"


def test_a_speedup_of_untrusted_rounds_is_invalid_too(store: BaselineStore) -> None:
    """Most rounds of the slow arm are bad: what is left of the ratio is no verdict, however large it is."""
    run = session(slow={"mtp-on": 0.2})
    off = run.series[0]
    late = [Invalid("client_saturated", "late by 150 ms", i) for i in range(3)]
    launches = [msgspec.structs.replace(launch, invalid=late) for launch in off.launches]
    ratio = speedup("mtp_speedup[c1]", run.series[1], msgspec.structs.replace(off, launches=launches))
    changed = msgspec.structs.replace(run, series=[*run.series[:2], ratio])
    verdict = judge(changed, store.sessions_for(changed)).verdicts[SPEEDUP]
    assert verdict.word == "invalid"
    assert "mtp-off: late by 150 ms" in verdict.reason
