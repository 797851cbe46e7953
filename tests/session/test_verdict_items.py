"""How a series ends: by the gravest word among its verdicts, told once, as the exception that belongs to that word."""

from types import SimpleNamespace

import pytest

from suite.gate import Judgement, Plan, Session, Verdict
from suite.gate.verdicts import Estimate
from suite.session.collection import SeriesId, series_of
from suite.session.outcomes import (
    BaselineMissing,
    BrokenPromise,
    Inconclusive,
    InvalidMeasurement,
    Regression,
)
from suite.session.verdict_items import Judge, sentences, wanted_again

SERIES = SeriesId("decode[c1]", "mtp-on", ("output_tokens_per_s", "tpot_s", "ttft_s"))
LABELS = {
    "output_tokens_per_s": "output tokens/s",
    "tpot_s": "TPOT",
    "ttft_s": "TTFT",
    "ttft_p99_s": "TTFT p99",
}


def verdict(
    metric: str, word: str, needs: str = "", change: float | None = 0.05, reason: str = "why"
) -> Verdict:
    return Verdict(
        SERIES.question,
        SERIES.arm,
        metric,
        word,  # type: ignore[arg-type]
        f"{metric} is {word}",
        reason,
        Estimate(LABELS[metric], "s", 1.0, 1.0, change),
        0.02,
        needs,
    )


def judge(*verdicts: Verdict, asked: list[object] | None = None, **plan: object) -> Judge:
    """A judge of a run with these verdicts."""
    session = Session("run", "2026-01-01", "here", Plan(launches=3, rounds=5, look_launches=[3], **plan), [])  # type: ignore[arg-type]
    words = {v.key: v for v in verdicts}
    judgement = Judgement(words, {}, {}, [], [], None, [], sentence="the sentence")

    def said(session: Session) -> Judgement:
        if asked is not None:
            asked.append(session)
        return judgement

    return Judge(lambda: session, said)


def ends(one: Judge, kind: type[BaseException], match: str | None = None) -> str:
    """What the series ends with, which must be of that kind: a skip of the code must be no skip of the test."""
    with pytest.raises(BaseException, match=match) as end:
        one.decide(SERIES)
    assert type(end.value) is kind
    return str(end.value)


ENDS = {
    "broken promise": BrokenPromise,
    "regression": Regression,
    "invalid": InvalidMeasurement,
    "inconclusive": Inconclusive,
    "unjudged": pytest.skip.Exception,
}


@pytest.mark.parametrize(("word", "raised"), ENDS.items())
def test_a_word_ends_as_what_it_is_and_tells_headline_and_run(word: str, raised: type[BaseException]) -> None:
    told = ends(judge(verdict("tpot_s", word)), raised)
    assert told.startswith(f"tpot_s is {word}")
    assert ("the run: the sentence" in told) is (word != "unjudged")


@pytest.mark.parametrize("word", ["pass", "improvement"])
def test_what_is_well_ends_well(word: str) -> None:
    judge(verdict("tpot_s", word), verdict("ttft_s", "pass")).decide(SERIES)


@pytest.mark.parametrize(
    ("graver", "milder"), [(a, b) for i, a in enumerate(ENDS) for b in [*list(ENDS)[i + 1 :], "pass"]]
)
def test_the_gravest_word_decides_and_the_other_is_told_beside_it(graver: str, milder: str) -> None:
    told = ends(judge(verdict("output_tokens_per_s", milder), verdict("ttft_s", graver)), ENDS[graver])
    lines = told.splitlines()
    assert lines[0].startswith(f"ttft_s is {graver}")
    assert lines[1:] == [] or f"{milder}: output_tokens_per_s is {milder}" in lines


def test_what_a_run_is_for_changes_what_a_word_ends_as() -> None:
    skipped = pytest.skip.Exception
    right = judge(verdict("tpot_s", "regression"), accepted="a slower kernel that is right")
    ends(right, skipped, "tpot_s is regression")
    ends(judge(verdict("tpot_s", "inconclusive"), recording=True), skipped, "tpot_s is inconclusive")
    ends(judge(verdict("tpot_s", "unjudged"), require_baseline=True), BaselineMissing, "tpot_s is unjudged")
    for word in ("broken promise", "invalid"):  # neither recording nor accepting excuses these
        ends(judge(verdict("tpot_s", word), accepted="yes", recording=True), ENDS[word])


def test_a_series_without_a_verdict_is_skipped_in_words() -> None:
    with pytest.raises(pytest.skip.Exception, match=r"decode\[c1\] mtp-on is not judged: switched off"):
        judge().decide(SERIES)
    other = SeriesId("prefill", "mtp-on", ("tpot_s",))
    with pytest.raises(pytest.skip.Exception, match="prefill mtp-on is not judged"):
        judge(verdict("tpot_s", "regression")).decide(other)


def test_verdicts_come_in_the_scenarios_order_and_tails_after_their_metric() -> None:
    found = judge(verdict("ttft_p99_s", "pass"), verdict("ttft_s", "pass"), verdict("tpot_s", "pass"))
    assert [v.metric for v in found.verdicts(SERIES)] == ["tpot_s", "ttft_s", "ttft_p99_s"]
    plain = SeriesId(SERIES.question, SERIES.arm, ("tpot_s",))
    assert [v.metric for v in found.verdicts(plain)] == ["tpot_s"]


def test_the_run_is_judged_once_until_it_is_looked_at_again() -> None:
    seen: list[object] = []
    one = judge(verdict("tpot_s", "pass"), asked=seen)
    assert one.judged is seen[0]
    assert one.judgement() is one.judgement()
    assert len(seen) == 1
    half = Session("half", "2026-01-01", "here", Plan(launches=1, rounds=1, look_launches=[1]), [])
    one.look(half)
    assert one.judged is half
    assert len(seen) == 2


def test_a_reason_that_several_share_is_said_once_with_what_to_do() -> None:
    alike = [verdict(m, "invalid", "cool it", None, "throttled") for m in ("tpot_s", "ttft_s")]
    assert sentences(alike) == ["throttled (TPOT, TTFT); cool it"]
    assert sentences([verdict("tpot_s", "unjudged", "", None, "no baseline")]) == ["no baseline (TPOT)"]
    compared = [
        verdict("tpot_s", word, "more launches") for word in ("inconclusive", "improvement", "regression")
    ]
    assert sentences(compared) == [
        "tpot_s is inconclusive; more launches",
        "tpot_s is improvement; more launches",
        "tpot_s is regression",
    ]
    assert sentences([verdict("tpot_s", "inconclusive")]) == ["tpot_s is inconclusive"]


def test_only_the_items_of_undecided_series_are_wanted_again() -> None:
    def item(question: str, arm: str) -> SimpleNamespace:
        stash = pytest.Stash()
        stash[series_of] = SeriesId(question, arm)
        return SimpleNamespace(stash=stash)

    mine, other, asserts = (
        item("decode", "mtp-on"),
        item("decode", "mtp-off"),
        SimpleNamespace(stash=pytest.Stash()),
    )
    later = [asserts, other, mine]
    assert wanted_again(later, [("decode", "mtp-on"), ("prefill", "mtp-off")]) == [mine]  # type: ignore[arg-type]
    assert wanted_again(later, []) == []  # type: ignore[arg-type]


def test_a_broken_promise_is_told_by_its_headlines_and_the_rest_by_what_they_share() -> None:
    promises = (
        verdict(m, "broken promise", "do this", None, "below the floor") for m in ("tpot_s", "ttft_s")
    )
    ends(judge(*promises), BrokenPromise, r"\Atpot_s is broken promise\nttft_s is broken promise")
    throttled = (verdict(m, "invalid", "cool it", None, "throttled") for m in ("tpot_s", "ttft_s"))
    ends(judge(*throttled), InvalidMeasurement, r"\Athrottled \(TPOT, TTFT\); cool it")


def test_an_accepted_regression_is_no_missing_baseline() -> None:
    with pytest.raises(pytest.skip.Exception):
        judge(verdict("tpot_s", "regression"), accepted="known", require_baseline=True).decide(SERIES)


def test_what_was_not_measured_is_told_in_full_where_it_failed_and_here_by_its_first_reason() -> None:
    """Later failures of a series follow from its first; beside a figure that was measured it is invalid like any."""
    first, second = (
        verdict(m, "invalid", "", None, f"not measured: {m} is gone") for m in ("tpot_s", "ttft_s")
    )
    with pytest.raises(pytest.skip.Exception, match=r"\Anot measured: tpot_s is gone\Z"):
        judge(first).decide(SERIES)
    with pytest.raises(pytest.skip.Exception, match=r"\Anot measured: tpot_s is gone\Z"):
        judge(second, first).decide(SERIES)
    ends(judge(verdict("tpot_s", "pass"), second), InvalidMeasurement, "ttft_s is gone")
