"""The page that CI shows: the sentence first, then what moved, and nothing that a server says is markup there."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.gate import judge
from suite.report import ci_summary
from suite.terminal.markdown import escaped
from tests.gate.sessions import recorded, session


def page(tmp_path: Path, **changes: object) -> str:
    store = recorded(tmp_path / "baselines", sessions=5)
    made = session("new", **changes)  # type: ignore[arg-type]
    return ci_summary.text(made, judge(made, store.sessions_for(made)), "sglang 0.5.22")


def test_a_loss_is_the_first_line_and_the_first_row(tmp_path: Path) -> None:
    said = page(tmp_path, slow={"mtp-off": 0.1}, version="0.5.24")
    lines = said.splitlines()
    assert lines[0].startswith("## NO-GO")
    first = next(line for line in lines if line.startswith("| **"))
    assert "**regression**" in first
    assert "mtp-off" in first
    assert "sglang 0.5.23 -&gt; 0.5.24" in said
    assert (
        "Back to the last build that passed, sglang 0.5.22: `python -m suite known-good --target simulator`"
        in said
    )
    assert "--accept-regression REASON` records it" in said


def test_a_pass_has_no_advice_and_a_plot_around_zero(tmp_path: Path) -> None:
    said = page(tmp_path)
    assert said.startswith("## GO")
    assert (
        "Nothing to do. To add this run to the baselines: `python -m suite baseline promote new --add`"
        in said
    )
    assert "a loss of 4 % or more is excluded (95 %)" in said
    assert "o" in said.split("```")[1]


@given(
    change=st.floats(-2, 2), half=st.floats(0, 1), margin=st.floats(0.001, 0.2), reach=st.floats(0.01, 0.5)
)
def test_a_bar_is_as_wide_as_all_and_holds_its_change(
    change: float, half: float, margin: float, reach: float
) -> None:
    row = ci_summary.bar(change, change - half, change + half, margin, reach)
    assert len(row) == ci_summary.PLOT_WIDTH
    assert row.count("o") <= 1
    if abs(change) + half <= reach:
        assert row.count("o") == 1
        assert "<" not in row
        assert ">" not in row
    assert ("<" in row) == (change - half < -reach)
    assert (">" in row) == (change + half > reach)


@given(foreign=st.text(max_size=40))
def test_what_a_server_says_is_no_markup(foreign: str) -> None:
    said = escaped(f"<script>{foreign}|`*_[x](y)\n# z</script>")
    assert "<" not in said
    assert "\n" not in said
    for place, letter in enumerate(said):
        if letter in "|`*_[]#":
            assert said[place - 1] == "\\"


def test_github_shows_the_page_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = tmp_path / "step"
    shown.write_text("before\n")
    monkeypatch.setenv(ci_summary.GITHUB, str(shown))
    assert ci_summary.write(tmp_path, "page\n").read_text() == "page\n"
    assert shown.read_text() == "before\npage\n"


def test_a_run_of_which_nothing_was_judged_says_so(tmp_path: Path) -> None:
    made = msgspec.structs.replace(session("new"), series=[])
    said = ci_summary.text(made, judge(made, recorded(tmp_path, sessions=1).sessions_for(made)))
    assert said.startswith("## ")
    assert "```" not in said
