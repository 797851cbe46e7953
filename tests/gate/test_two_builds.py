"""A run of two builds, judged whole: one sentence, the gate's words, and nothing launched again for nothing."""

from __future__ import annotations

import msgspec
import pytest

from suite.gate import (
    Asked,
    Found,
    Judgement,
    Outcome,
    Plan,
    Reference,
    Series,
    Session,
    judge,
    load_run,
    save_run,
)
from suite.gate.two_builds import more_pairs
from suite.gate.upgrade import lost_outright, shares
from suite.gate.verdicts import Estimate, Key
from tests.gate.builds import run

NOTHING = Found({}, {}, {})
SPEED = Key("decode_throughput[c1]", "mtp-on", "output_tokens_per_s")


def compared(
    launches: int = 4, *, looks: tuple[int, ...] = (), names: tuple[str, str] = ("r", "c"), **changed: float
) -> Session:
    """A candidate beside its reference; acceptance is asked in the first launch alone, as scenarios ask it."""
    old, new = (
        run(name, build, launches=launches, **(changed if build == "new" else {}))  # type: ignore[arg-type]
        for name, build in zip(names, ("old", "new"), strict=True)
    )
    plan = Plan(launches=(looks or (launches,))[0], look_launches=list(looks or (launches,)))
    asked = [Asked(s.question, s.arm, s.judged, parts=s.derived_from) for s in new.series]
    return msgspec.structs.replace(
        new,
        plan=plan,
        series=_asked_once(new.series),
        asked=asked,
        reference=Reference("0.5.20", "0.5.23", _asked_once(old.series)),
    )


def _asked_once(series: list[Series]) -> list[Series]:
    return [
        msgspec.structs.replace(s, launches=s.launches[:1]) if s.question.startswith("acceptance") else s
        for s in series
    ]


def said(session: Session) -> Judgement:
    return judge(session, NOTHING)


def without(session: Session, arm: str, side: str, outcome: Outcome) -> Session:
    """The same where one build's arm did not come up."""
    reference = session.reference
    assert reference is not None
    if side == "candidate":
        left = [s for s in session.series if arm not in (s.arm, *s.derived_from)]
        return msgspec.structs.replace(session, series=left, outcomes=[outcome])
    left = [s for s in reference.series if arm not in (s.arm, *s.derived_from)]
    return msgspec.structs.replace(
        session, reference=msgspec.structs.replace(reference, series=left, outcomes=[outcome])
    )


def test_a_build_as_good_as_the_reference_is_never_a_no_go_and_its_sentence_names_both() -> None:
    judgement = said(compared())
    assert {v.word for v in judgement.verdicts.values()} <= {"pass", "inconclusive"}
    assert judgement.sentence.split(" for ")[1].startswith("0.5.23 in place of 0.5.20: ")
    assert judgement.against == "reference"


def test_the_same_build_against_itself_goes() -> None:
    same = compared(spread=0.0)
    assert same.reference is not None
    itself = msgspec.structs.replace(
        same, reference=msgspec.structs.replace(same.reference, series=same.series)
    )
    judgement = said(itself)
    assert (judgement.status, judgement.undecided) == (0, [])
    assert judgement.sentence.startswith("GO for 0.5.23 in place of 0.5.20: ")


def test_slower_steps_are_a_no_go_by_their_factor_and_end_the_run() -> None:
    judgement = said(compared(looks=(4, 8), slower=0.08))
    assert judgement.status == 1
    assert judgement.sentence.startswith("NO-GO for 0.5.23 in place of 0.5.20: decode steps are slower")
    assert judgement.verdicts[SPEED].word == "regression"
    assert (judgement.extend, judgement.next_launches) == ([], None)


def test_fewer_accepted_drafts_are_told_from_slower_steps() -> None:
    judgement = said(compared(lower=0.08))
    assert "fewer drafts are accepted" in judgement.sentence
    assert "steps" not in judgement.sentence
    assert (
        "prompts compared one by one"
        in judgement.verdicts[Key("acceptance_length[code-t0]", "mtp-on", "acceptance_length")].reason
    )


@pytest.mark.parametrize(
    ("slower", "word"), [(0.3, "regression"), (0.05, "inconclusive"), (0.0, "inconclusive")]
)
def test_of_one_launch_each_only_a_loss_beyond_doubt_is_said(slower: float, word: str) -> None:
    judgement = said(compared(1, looks=(2, 4), slower=slower))
    assert judgement.verdicts[SPEED].word == word
    assert judgement.status == (1 if word == "regression" else 8)
    assert bool(judgement.next_launches) is (word == "inconclusive")


def test_launches_luck_is_not_called_a_loss() -> None:
    assert not lost_outright(0.13, 1)  # below the limit
    assert not lost_outright(
        0.16, 20
    )  # beyond the limit, not beyond the spread of launches in so many figures
    assert lost_outright(0.25, 20)


def test_what_is_undecided_is_launched_again_and_nothing_else() -> None:
    judgement = said(compared(2, looks=(2, 4, 6), noise=0.03))
    undecided = {arm for _, arm in judgement.undecided}
    assert undecided
    assert judgement.next_launches == 4
    for question, arm in judgement.extend:
        assert (question, arm) in judgement.undecided or question.startswith("mtp_speedup")
    inconclusive = [v for v in judgement.verdicts.values() if v.word == "inconclusive"]
    assert all("pair" in v.needs for v in inconclusive if v.metric != "acceptance_length")


def test_what_an_earlier_look_settled_stays_settled() -> None:
    first, whole = compared(2, looks=(2, 4), slower=0.5), compared(4, looks=(2, 4), slower=0.5)
    assert said(first).verdicts[SPEED].word == said(whole).verdicts[SPEED].word == "regression"
    assert said(whole).verdicts[SPEED].look == 1


def test_the_error_rate_is_spent_once() -> None:
    for looks in (1, 2, 3):
        assert sum(shares(looks)) == pytest.approx(1.0)


DOES_NOT_START = Outcome(
    "decode", "launch", "mtp-on", 1, "broken", name="OutOfMemory", short="does not start: no room"
)


def test_an_arm_that_does_not_start_on_the_candidate_is_a_no_go() -> None:
    judgement = said(without(compared(), "mtp-on", "candidate", DOES_NOT_START))
    assert judgement.status == 1
    assert "mtp-on does not start: no room" in judgement.sentence
    assert judgement.verdicts[Key("decode_throughput[c1]", "mtp-off", "tpot_s")].word == "pass"


def test_an_arm_that_does_not_start_on_the_reference_is_a_finding() -> None:
    judgement = said(without(compared(), "mtp-on", "reference", DOES_NOT_START))
    assert judgement.status == 0
    assert judgement.verdicts[SPEED].word == "unjudged"
    assert "does not start: no room" in judgement.verdicts[SPEED].reason


def test_builds_that_serve_with_other_settings_are_not_compared() -> None:
    session = compared()
    other = [msgspec.structs.replace(s, identity={**s.identity, "kv_cache": "fp8"}) for s in session.series]
    judgement = said(msgspec.structs.replace(session, series=other))
    assert {v.word for v in judgement.verdicts.values()} == {"invalid"}
    assert judgement.sentence.startswith("CANNOT TELL YET for 0.5.23 in place of 0.5.20")
    assert "kv_cache" in judgement.sentence


def test_the_files_give_the_same_answer(tmp_path) -> None:
    session = compared(slower=0.06)
    judgement = said(session)
    save_run(tmp_path, session, judgement)
    again = said(load_run(tmp_path))
    assert (again.sentence, again.status) == (judgement.sentence, judgement.status)
    assert again.verdicts == judgement.verdicts


def test_what_more_launches_would_buy_is_said_in_pairs() -> None:
    rule = _speed_rule()

    def needs(change: float, half: float) -> str:
        low, high = change - half, change + half
        return more_pairs(
            Estimate("output tokens/s", "tokens/s", 1.0, change=change, ci_low=low, ci_high=high), rule, 2
        )

    assert "about 2 more pairs of launches" in needs(0.0, 0.05)
    assert "as fast" in needs(0.0, 0.05)
    assert "show the loss" in needs(-0.05, 0.06)
    assert "too noisy" in needs(0.0, 0.5)


def _speed_rule():
    from suite.gate import Rules

    rule = Rules().of("output_tokens_per_s", "mtp-on")
    assert rule is not None
    return rule


def test_a_reference_that_could_not_be_measured_settles_nothing() -> None:
    lost = Outcome("decode", "decode", "mtp-on", 1, "infrastructure", short="the port is taken")
    judgement = said(without(compared(), "mtp-on", "reference", lost))
    assert judgement.status == 8
    assert judgement.verdicts[SPEED].word == "invalid"
    assert "the port is taken" in judgement.sentence


def test_a_reference_of_which_no_arm_starts_is_no_go_ahead() -> None:
    session = compared()
    assert session.reference is not None
    outcomes = [msgspec.structs.replace(DOES_NOT_START, arm=arm) for arm in ("mtp-off", "mtp-on")]
    nothing = msgspec.structs.replace(session.reference, series=[], outcomes=outcomes)
    kept = [Outcome("activation", "activation", "mtp-on", 1, "kept")]
    judgement = said(msgspec.structs.replace(session, reference=nothing, outcomes=kept))
    assert judgement.status == 8
    assert judgement.sentence.startswith("CANNOT TELL YET")
    assert "does not start: no room" in judgement.sentence
