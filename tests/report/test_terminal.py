"""What the end of a run says in a terminal: the gravest first, passes folded, nothing wider than it may be, and why a pass passes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from suite.gate import Judgement, Outcome, Session, judge
from suite.gate.baselines import Found
from suite.gate.verdicts import Estimate, Factor, Verdict, Word
from suite.report import summary, terminal
from suite.report.terminal import of_verdicts
from suite.terminal import table
from suite.terminal.looks import Looks
from tests.gate.sessions import recorded, session

OFF, ON = "mtp-off", "mtp-on"


def verdict(
    word: Word,
    question: str = "decode_throughput[c1]",
    arm: str = ON,
    change: float | None = 0.001,
    half: float = 0.01,
    **more: Any,
) -> Verdict:
    ends = (None, None) if change is None else (change - half, change + half)
    estimate = Estimate("output tokens/s", "tokens/s", 501.23, 534.2, change, *ends)
    headline = f"output tokens/s {change}"
    return Verdict(question, arm, "output_tokens_per_s", word, headline, "reason", estimate, 0.02, **more)


def shown(verdicts: list[Verdict], looks: Looks | None = None) -> list[str]:
    return of_verdicts([(v.key, v) for v in verdicts], looks or Looks())


def test_the_gravest_word_comes_first_and_passes_of_a_scenario_share_a_line() -> None:
    lines = shown(
        [
            verdict("pass", "decode_throughput[c1]", OFF, -0.003),
            verdict("pass", "decode_throughput[c8]", ON, 0.004),
            verdict("pass", "mtp_speedup[c1]"),
            verdict("improvement", "decode_throughput[c4]", change=0.1),
            verdict("regression", "decode_throughput[c32]", change=-0.062, half=0.004),
        ]
    )
    words = [line for line in lines if line in terminal.COLOURS]
    assert words == ["regression", "improvement", "pass"]
    worse = lines[lines.index("regression") + 1]
    assert worse.split() == [
        "decode_throughput[c32]",
        ON,
        "output",
        "tokens/s",
        *["501.2", "534.2", "-6.2", "%", "(-6.6..-5.8)"],
    ]
    folded = [line.split() for line in lines[lines.index("pass") + 1 :]]
    assert folded[0] == ["decode_throughput", *["2", "arms", "2", "figures", "-0.3", "%", "to", "+0.4", "%"]]
    assert folded[1] == ["mtp_speedup", ON, *["1", "figure", "+0.1", "%"]]
    assert lines[-1] == "3 passes: a loss of 4 % or more is excluded (95 %)"


def test_unfolded_every_pass_has_its_line_and_says_why_where_its_interval_is_wider_than_the_margin() -> None:
    lines = shown(
        [
            verdict("pass", "a[c1]", half=0.005),
            verdict("pass", "b[c1]", half=0.06, stated=True),
            verdict("pass", "c[c1]", half=0.07, stated=True),
        ],
        Looks(unfolded=True),
    )
    rows = {line.split()[0]: line for line in lines if line.startswith("  ")}
    assert not rows["a[c1]"].endswith(")(1)")
    assert rows["a[c1]"].endswith("(-0.4..+0.6)")
    assert rows["b[c1]"].endswith("(-5.9..+6.1)  (1)")
    assert rows["c[c1]"].endswith("(-6.9..+7.1)  (1)")
    assert lines[-1] == (
        "(1) passes although its interval reaches beyond the margin of 2 %: a loss of 4 % or more is excluded "
        "(95 %, if sessions differ by no more than 0.5 %)"
    )


def test_folded_passes_tell_how_many_intervals_are_wider_than_the_margin() -> None:
    lines = shown(
        [verdict("pass", half=0.005), verdict("pass", half=0.06), verdict("pass", half=0.06, stated=True)]
    )
    assert lines[-2:] == [
        "2 passes: a loss of 4 % or more is excluded (95 %); 1 has an interval that reaches beyond the margin of 2 %",
        "1 pass: a loss of 4 % or more is excluded (95 %, if sessions differ by no more than 0.5 %); "
        "1 has an interval that reaches beyond the margin of 2 %",
    ]


def test_a_change_beside_the_other_arms_is_said_to_be_one() -> None:
    one = verdict("regression", change=-0.05)
    relative = msgspec.structs.replace(one.estimate, relative=True, raw_change=0.001)
    lines = shown([msgspec.structs.replace(one, estimate=relative)])
    assert lines[-1] == "(1) relative to the other arms; the value itself moved +0.1 %"


@pytest.mark.parametrize(("accepted", "told"), [(-0.02, True), (0.0004, False)])
def test_what_acceptance_did_is_told_where_it_did_anything(accepted: float, told: bool) -> None:
    one = verdict("regression", change=-0.05)
    factors = [Factor("steps", -0.03, -0.04, -0.02), Factor("acceptance", accepted, -0.03, -0.01)]
    lines = shown(
        [msgspec.structs.replace(one, estimate=msgspec.structs.replace(one.estimate, factors=factors))]
    )
    assert (lines[-1] == "(1) over all prompts: steps -3.0 % and acceptance -2.0 %") is told
    assert any("(1)" in line for line in lines) is told


def test_sizes_are_in_order_of_number(tmp_path: Path) -> None:
    verdicts = [verdict("pass", f"decode_throughput[c{clients}]") for clients in (32, 1, 8)]
    judgement = Judgement({v.key: v for v in verdicts}, {}, {}, [], [], None, [])
    assert [key.question[-4:] for key, _ in summary.by_severity(judgement)] == ["[c1]", "[c8]", "c32]"]


def test_a_loss_whose_interval_holds_no_change_says_what_it_rests_on() -> None:
    one = verdict("regression", change=-0.05, half=0.06)
    lines = shown(
        [msgspec.structs.replace(one, reason="common to all arms (5 %): the machine; under test: x")]
    )
    assert lines[-1] == "(1) common to all arms (5 %): the machine"


QUESTIONS = st.sampled_from(
    ["decode_throughput[c1]", "acceptance_by_context[131072]", "mtp_speedup_by_context[16384]", "x"]
)
VERDICTS = st.builds(
    verdict,
    word=st.sampled_from(list(terminal.COLOURS)),
    question=QUESTIONS,
    arm=st.sampled_from([OFF, ON, "mtp-adaptive"]),
    change=st.none() | st.floats(-0.99, 3),
    half=st.floats(0, 0.5),
)


@settings(deadline=None)
@given(verdicts=st.lists(VERDICTS, min_size=1, max_size=8), unfolded=st.booleans())
def test_no_line_is_wider_than_a_hundred_columns(verdicts: list[Verdict], unfolded: bool) -> None:
    lines = shown(verdicts, Looks(unfolded=unfolded, terminal=True))
    assert max(map(cell_len, lines)) <= 100


@pytest.mark.parametrize("width", [80, 100])
def test_where_a_table_does_not_fit_only_its_first_column_goes_on_below(width: int) -> None:
    (row,) = [
        shown(
            [verdict("regression", "mtp_speedup_by_context[131072]", change=-0.1)],
            Looks(width=width, terminal=True),
        )[2:]
    ]
    assert all(cell_len(line) <= width for line in row)
    assert row[0].endswith("501.2    534.2 -10.0 % (-11.0..-9.0)") or row[0].endswith(
        "501.2     534.2  -10.0 % (-11.0..-9.0)"
    )
    assert "".join(line.split()[0] for line in row).startswith("mtp_speedup_by_context[131072]")


def test_colours_only_where_they_are_asked_for_and_they_change_no_word() -> None:
    verdicts = [verdict("regression", change=-0.1), verdict("pass")]
    plain, coloured = shown(verdicts), shown(verdicts, Looks(colours=True))
    assert "\x1b" not in "".join(plain)
    assert coloured[1].startswith("\x1b[31mregression")
    assert [re.sub("\x1b\\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


@settings(deadline=None)
@given(foreign=st.text(max_size=30))
def test_what_a_server_says_is_neither_markup_nor_an_escape_sequence(foreign: str) -> None:
    said = f"[red]{foreign}\x1b[2J:smile:\x07[/red]"
    text = "\n".join(table.lines(["a", "b"], [(said, said)]))
    assert "[red]" in text
    assert ":smile:" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def end_of(made: Session, judgement: Judgement, looks: Looks | None = None) -> list[str]:
    ended: Any = SimpleNamespace(session=made, judgement=judgement, launches=2)
    return summary.of_run(ended, ["results in here"], looks or Looks())


def test_the_end_of_a_run_counts_broken_promises_and_names_what_changed(tmp_path: Path) -> None:
    store = recorded(tmp_path, sessions=5)
    made = session("new", slow={OFF: 0.1}, version="0.5.24")
    broke = Outcome(
        "log_is_clean", "log", ON, 1, "broken", "no graphs\x1b[2J", "BrokenPromise", "no graphs\x1b[2J"
    )
    made = msgspec.structs.replace(made, outcomes=[broke, broke])
    lines = end_of(made, judge(made, store.sessions_for(made)))
    assert any(line.startswith("1 broken promise, ") and line.endswith("; 2 launches") for line in lines)
    (changed,) = [line for line in lines if line.startswith("changed since the baseline")]
    assert "sglang 0.5.23 -> 0.5.24" in changed
    assert "broken promise, log_is_clean mtp-on: no graphs\\x1b[2J" in lines
    assert lines[-1] == "results in here"


def test_a_good_run_is_short(tmp_path: Path) -> None:
    made = session("new")
    lines = end_of(made, judge(made, recorded(tmp_path, sessions=5).sessions_for(made)))
    assert len(lines) < 20
    assert not any("changed" in line or "behind" in line for line in lines)


def test_more_faults_than_the_sentence_holds_are_listed_once() -> None:
    outcomes = [
        Outcome(f"q{n}", "steadiness", ON, 1, "broken", f"fault {n}", "B", f"fault {n}") for n in range(4)
    ]
    made = msgspec.structs.replace(session("new"), series=[], outcomes=outcomes)
    lines = end_of(made, judge(made, Found({})))
    assert [line for line in lines if "fault" in line] == [
        f"broken promise, q{n} mtp-on: fault {n}" for n in range(4)
    ]


def test_long_sentences_are_broken_between_words_on_a_terminal_only() -> None:
    line = "word " * 40 + "end"
    assert Looks(terminal=False).wrapped([line]) == [line]
    parts = Looks(terminal=True, width=60).wrapped([line, ""])
    assert all(len(part) <= 60 for part in parts)
    assert parts[1].startswith("  word")
    assert " ".join(part.strip() for part in parts[:-1]) == line


@given(
    cells=st.lists(
        st.tuples(st.text("ab_[ ", min_size=1, max_size=40), st.text("xy z", max_size=200)), min_size=1
    ),
    width=st.integers(50, 120),
)
@settings(deadline=None)
def test_sentences_at_the_end_of_a_row_go_on_below_and_no_letter_is_lost(
    cells: list[tuple[str, str]], width: int
) -> None:
    lines = table.lines(["arm", "finding"], cells, width=width)
    assert all(cell_len(line) <= width for line in lines)
    letters = sorted("".join(f"{a}{b}" for a, b in [("arm", "finding"), *cells]).replace(" ", ""))
    assert sorted("".join(lines).replace(" ", "")) == letters


def test_a_long_finding_leaves_the_arm_beside_it() -> None:
    said = "attention_backend flashinfer -> triton; " * 5
    first, *rest = table.lines(["arm", "finding"], [("mtp-off", said)], width=80)[1:]
    assert first.startswith("mtp-off  attention_backend")
    assert all(line.startswith(" " * 9) and len(line) <= 80 for line in rest)
    assert len(rest) > 1
