"""The matrix of faults judges what was said, and is not satisfied by silence or by the wrong word."""

import pytest

from proofs.faults.checking import disturbed, said, shortcomings
from proofs.faults.lines import LINES, Line, Says
from proofs.faults.playing import Ended, Run
from simulator.faults import CATALOGUE, behaviour_of

DEAD = Line(
    "draft-dead",
    (Says("acceptance_length", "broken promise", r"below the floor"),),
    also=("decode_throughput",),
)
CAUGHT = Ended(
    "acceptance_length", "mtp-on-code", "broken promise", "BrokenPromise: 1.000 is below the floor\nmore"
)


def _run(*ended: Ended, status: int = 1, tables: str = "") -> Run:
    return Run(status, ended, tables, "")


def test_caught_as_it_must_be():
    run = _run(CAUGHT, Ended("decode_throughput", "", "regression", "Regression: slower"))
    assert shortcomings(DEAD, run) == []
    assert said(DEAD, run) == "acceptance_length: BrokenPromise: 1.000 is below the floor"


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (_run(Ended("acceptance_length", "", "passed", ""), status=0), "it said nothing"),
        (
            _run(Ended("acceptance_length", "", "regression", "Regression: below the floor")),
            "must say broken promise",
        ),
        (
            _run(Ended("acceptance_length", "", "broken promise", "BrokenPromise: x\nbelow the floor")),
            "must say",
        ),
        (_run(CAUGHT, Ended("answers_are_right", "", "broken promise", "x")), "answers_are_right"),
        (_run(CAUGHT, Ended("decode_throughput", "", "error", "TypeError: x")), "must not say error"),
        (_run(), "no scenario ran"),
        (_run(CAUGHT, status=0), "ended with status 0"),
    ],
)
def test_anything_else_is_a_shortcoming(run, complaint):
    assert any(complaint in sentence for sentence in shortcomings(DEAD, run))


def test_where_nothing_may_be_said_anything_is_too_much():
    nothing = Line("")
    assert shortcomings(nothing, _run(Ended("x", "", "passed", ""), status=0)) == []
    assert shortcomings(nothing, _run(Ended("x", "", "inconclusive", "y"), status=8))


def test_a_run_that_the_machine_disturbed_may_be_played_again_and_a_wrong_word_may_not():
    late = Ended(
        "x", "", "invalid", "InvalidMeasurement: client_saturated (the client's event loop was late)"
    )
    assert disturbed(_run(late))
    assert disturbed(_run(Ended("x", "", "inconclusive", "y")))
    assert not disturbed(_run(Ended("x", "", "invalid", "InvalidMeasurement: early_stop"), CAUGHT))


def test_where_scenarios_may_be_undecided_the_run_may_ask_for_another_but_not_fail():
    undecided = Line("warmup-slow", also=("x",), never=("error", "regression"))
    assert shortcomings(undecided, _run(Ended("x", "", "inconclusive", "y"), status=8)) == []
    assert shortcomings(undecided, _run(Ended("x", "", "inconclusive", "y"), status=1))
    assert shortcomings(undecided, _run(Ended("x", "", "regression", "y"), status=8))


def test_what_must_not_be_claimed_is_looked_for_in_all_that_was_printed():
    line = Line("other-rounding", unsaid=r"\bimprovement\b")
    passed = (Ended("x", "", "passed", ""),)
    assert shortcomings(line, Run(0, passed, "", "12 pass, 0 improvements")) == []
    assert shortcomings(line, Run(0, passed, "", "acceptance length +3.0 % improvement")) == [
        "it must not say 'improvement'"
    ]


def test_a_finding_must_stand_in_a_table():
    line = Line("flipped-default", finding="attention_backend .* triton")
    passed = Ended("x", "", "passed", "")
    assert shortcomings(line, _run(passed, status=0))
    assert shortcomings(line, _run(passed, status=0, tables="attention_backend fa3 -> triton")) == []


def test_every_fault_of_the_catalogue_has_a_line_and_every_line_a_fault():
    played = {part.partition("=")[0] for line in LINES for part in line.fault.split(",") if part}
    assert {fault.name for fault in CATALOGUE} - played == set()
    for line in LINES:
        behaviour_of([line.fault])


def test_nothing_may_be_recorded_of_a_server_with_a_fault():
    recording = Run(1, (CAUGHT,), "", "", recorded=("decode_throughput-c1--mtp-off.json",))
    assert shortcomings(DEAD, recording) == [
        "of a server with a fault it recorded decode_throughput-c1--mtp-off.json"
    ]


def test_every_line_has_a_name_of_its_own_by_which_its_runs_are_kept():
    names = [line.name for line in LINES]
    assert sorted(names) == sorted(set(names))


SENTENCE = "NO-GO: MTP drafts are dead (0 of 570 accepted): mtp_on < 1.2"
PRINTED = f"table\n{SENTENCE}\n1 failed in 3 s\n"
PAGE = "## NO-GO: MTP drafts are dead (0 of 570 accepted): mtp\\_on &lt; 1.2\n\ntarget x\n"


@pytest.mark.parametrize(
    ("page", "printed", "top", "complaint"),
    [
        (PAGE, PRINTED, SENTENCE, ""),
        ("## NO-GO\n", PRINTED, SENTENCE, "summary.md must begin with"),
        (PAGE, f"{SENTENCE}\n" + "table\n" * 9 + "1 failed in 3 s\n", SENTENCE, "the terminal must end with"),
        (PAGE, PRINTED, "The run", "on top in Allure"),
    ],
)
def test_the_sentence_stands_first_on_every_page_and_last_in_the_terminal(page, printed, top, complaint):
    line = Line("draft-dead", DEAD.must, sentence="drafts are dead")
    run = Run(1, (CAUGHT,), "", printed, SENTENCE, (), page, top)
    found = shortcomings(line, run)
    assert [complaint in sentence for sentence in found] == [True] * bool(complaint)
