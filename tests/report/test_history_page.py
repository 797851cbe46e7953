"""The page of every run of a target: lasting changes, builds and their commits, promotions, links; hostile names stay text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from suite.__main__ import main
from suite.gate import Baseline, Key, Rules
from suite.gate.baselines import BaselineSession
from suite.gate.history import Entry, History, entry_of, steps
from suite.report.history_page import TargetHistory, page, write
from suite.sglang.builds import compared
from tests.report import made

NAME = "decode_throughput[c1]/mtp-on/output_tokens_per_s"
KEY = Key("decode_throughput[c1]", "mtp-on", "output_tokens_per_s")


def rows(commit: str | None = None) -> list[Entry]:
    """Ten runs of one build, ten of the next at a level 6 % lower."""
    levels = [220.0 + 0.1 * (i % 3) for i in range(10)] + [207.0 + 0.1 * (i % 3) for i in range(10)]
    return [
        Entry(
            f"2026{11}{1 + i:02d}-020000-simulator",
            f"2026-11-{1 + i:02d}T02:00:00+00:00",
            {NAME: level},
            "0.5.22" if i < 10 else "0.5.23",
            commit,
        )
        for i, level in enumerate(levels)
    ]


def known(entries: list[Entry], **more: object) -> TargetHistory:
    return TargetHistory("simulator", entries, steps=steps(entries), **more)  # type: ignore[arg-type]


def test_a_lasting_change_is_told_with_the_commits_between_the_builds(tmp_path: Path) -> None:
    text = page(known(rows()), tmp_path)
    assert (
        "decode throughput, 1 client, mtp-on, output tokens/s <strong>-5.9 %</strong> from 20261111" in text
    )
    assert "https://github.com/sgl-project/sglang/compare/v0.5.22...v0.5.23" in text
    assert "commits since 0.5.22" in text


def test_the_drawing_marks_change_build_and_promotion(tmp_path: Path) -> None:
    entries = rows()
    promoted = [BaselineSession(entries[3].run_id, entries[3].started_at, {}, [])]
    text = page(known(entries, baselines=[Baseline(KEY.question, KEY.arm, {}, promoted)]), tmp_path)
    (drawn,) = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    for expected in ("-5.9 %", "0.5.22", "0.5.23", "promoted", "tokens/s"):
        assert expected in drawn


def test_runs_that_are_still_there_are_linked_and_spoken_for(tmp_path: Path) -> None:
    run = made.session(slow=0.05)
    folder = made.stored(tmp_path, run)
    history = History(tmp_path / "results" / "history", "simulator")
    history.append(run)
    where = tmp_path / "results" / "history.html"
    write(where, TargetHistory("simulator", history.read(), steps=[], folders={run.run_id: folder}))
    text = where.read_text()
    assert f'href="{run.run_id}/summary.md"' in text
    assert "NO-GO" in text
    assert text.count("<figure>") == len(_judged(folder))


def _judged(folder: Path) -> list[Key]:
    from suite.gate import load_verdicts

    gated = [v for v in load_verdicts(folder).verdicts if v.value is not None]
    return [v.key for v in gated if (rule := Rules().of(v.metric, v.arm)) is not None and rule.gated]


def test_a_commit_is_kept_of_each_run() -> None:
    assert entry_of(made.session()).commit == "5e2cda61"


@pytest.mark.parametrize(
    ("old", "new", "range_"),
    [
        (("0.5.22", None), ("0.5.23", None), "v0.5.22...v0.5.23"),
        (("0.5.22", "aaaaaaa1"), ("0.5.22", "bbbbbbb2"), "aaaaaaa1...bbbbbbb2"),
        (("0.5.22", None), ("0.5.24.dev20261130+g5e2cda61", None), "v0.5.22...5e2cda61"),
    ],
)
def test_builds_are_compared_by_what_git_knows_of_them(
    old: tuple[str, str | None], new: tuple[str, str | None], range_: str
) -> None:
    assert compared(old, new) == f"https://github.com/sgl-project/sglang/compare/{range_}"


def test_builds_that_git_cannot_find_are_not_compared() -> None:
    assert compared(("nightly", None), ("0.5.23", None)) is None
    assert compared(("0.5.23", None), ("0.5.23", None)) is None
    assert compared(("0.5.23", '"><script>'), ("0.5.23", None)) is None


def test_hostile_names_are_text(tmp_path: Path) -> None:
    entries = [Entry(made.HOSTILE, "2026-11-01", {f"{made.HOSTILE}/mtp-on/ttft_s": 1.0}, made.HOSTILE)]
    text = page(known(entries), tmp_path)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text


def test_the_page_fetches_nothing(tmp_path: Path) -> None:
    text = page(known(rows()), tmp_path)
    fetched = re.findall(r"<(?:script|link|img|iframe|image)\b[^>]*", text) + re.findall(
        r"url\((?!#)[^)]*", text
    )
    assert fetched == []


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in (20, 21):
        made.stored(tmp_path, made.session(f"202611{day}-100000-simulator", day=day))
    results = tmp_path / "results"
    file = tmp_path / "history.html"
    where = [
        "--results",
        str(results),
        "--history",
        str(results / "history"),
        "--baselines",
        str(tmp_path / "none"),
    ]
    assert main(["history", "--target", "simulator", *where, "--html", str(file)]) == 0
    assert f"page: {file}" in capsys.readouterr().out
    assert "simulator: 2 runs" in file.read_text()
