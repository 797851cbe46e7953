"""The owner's own table: each cell once, gone on with after a kill, and nothing flattered in silence."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from suite.grid import table
from suite.grid.cells import Cell, GridPlan, KeptGrid, speedup
from tests.perf.running import ROOT
from tests.simulator.process import serving

ASKED = GridPlan("box", 64, 0.0, 2)


def cell(arm: str, clients: int, tokens_per_s: float | None, **more: object) -> Cell:
    return Cell(arm, 0, clients, 2 * clients, tokens_per_s, 50.0, 0.02, **more)  # type: ignore[arg-type]


def test_a_cell_is_kept_as_soon_as_it_is_there_and_not_measured_again(tmp_path: Path) -> None:
    kept = KeptGrid(tmp_path, ASKED)
    kept.add(cell("mtp-off", 1, 100.0))
    kept.add(cell("mtp-off", 2, None, note="the server went away"))
    again = KeptGrid(tmp_path, ASKED)
    assert again.cells == kept.cells
    assert again.has("mtp-off", 0, 1)
    assert not again.has("mtp-off", 0, 2)  # it has no figures: asked again
    assert not again.has("mtp-on", 0, 1)


@pytest.mark.parametrize("left", range(1, 60, 7))
def test_a_line_that_a_kill_tore_off_costs_its_own_cell_only(tmp_path: Path, left: int) -> None:
    kept = KeptGrid(tmp_path, ASKED)
    kept.add(cell("mtp-off", 1, 100.0))
    whole = kept.path.read_bytes()
    kept.add(cell("mtp-off", 2, 190.0))
    kept.path.write_bytes(kept.path.read_bytes()[: len(whole) + left])
    again = KeptGrid(tmp_path, ASKED)
    assert list(again.cells) == [("mtp-off", 0, 1)]
    again.add(cell("mtp-off", 2, 190.0))
    assert KeptGrid(tmp_path, ASKED).has("mtp-off", 0, 2)


def test_a_grid_that_was_asked_otherwise_is_not_mixed_with_this_one(tmp_path: Path) -> None:
    KeptGrid(tmp_path, ASKED).add(cell("mtp-off", 1, 100.0))
    with pytest.raises(ValueError, match=r"max_tokens 64.*max_tokens 128.*--out"):
        KeptGrid(tmp_path, GridPlan("box", 128, 0.0, 2))


def test_a_table_without_a_cell_makes_way(tmp_path: Path) -> None:
    """A mistyped URL measures nothing; the right one, typed next, must not be refused for it."""
    KeptGrid(tmp_path, ASKED)
    other = GridPlan("box", 128, 0.0, 2)
    KeptGrid(tmp_path, other).add(cell("mtp-off", 1, 100.0))
    assert KeptGrid(tmp_path, other).has("mtp-off", 0, 1)


@pytest.mark.parametrize("foreign", ['{"x": 1}\n', "[]\n", "text\n"])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, foreign: str) -> None:
    path = KeptGrid(tmp_path, ASKED).path
    path.write_text(foreign, encoding="utf-8")
    with pytest.raises(ValueError, match="--out"):
        KeptGrid(tmp_path, ASKED)
    assert path.read_text(encoding="utf-8") == foreign


def test_speedup_is_over_the_same_place_and_never_over_nothing() -> None:
    cells = {
        c.place: c
        for c in (cell("off", 1, 100.0), cell("on", 1, 160.0), cell("on", 2, 200.0), cell("off", 2, 0.0))
    }
    assert speedup(cells, cells["on", 0, 1], "off") == 1.6
    assert speedup(cells, cells["on", 0, 2], "off") is None
    assert speedup(cells, cells["off", 0, 1], "off") is None


def test_what_flatters_or_failed_is_said_under_the_table() -> None:
    cells = {
        c.place: c for c in (cell("off", 1, 100.0, cached=0.4), cell("off", 2, None, failed=3, note="a|b"))
    }
    text = table.markdown(cells, ["off"], "box")
    assert "off, context natural, 1 client: 40% of the prompt came from the prefix cache" in text
    assert "3 of 4 requests failed" in text
    assert "a|b" in text
    assert "| natural | 2 | off | 50.0 | - |" in text


def grid(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "suite", "grid", "--max-tokens=32", "--rounds=1", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_a_server_that_runs_is_measured_as_what_it_is(tmp_path: Path) -> None:
    with serving(tmp_path / "server.log", "--speculative-algorithm", "NEXTN") as server:
        url = f"http://127.0.0.1:{server.port}"
        done = grid(f"--server-url={url}", "--concurrency=1,2", f"--out={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert "EAGLE, 3 steps, topk 1, 4 draft tokens" in done.stdout
    rows = list(csv.DictReader((tmp_path / "grid.csv").read_text().splitlines()))
    assert [row["clients"] for row in rows] == ["1", "2"]
    assert all(float(row["tokens_per_s"]) > 0 and float(row["acceptance_length"]) > 1 for row in rows)
    assert (tmp_path / "grid.md").read_text().count("\n| ") == 4


def test_both_arms_are_launched_once_and_a_second_run_launches_none(tmp_path: Path) -> None:
    first = grid("--concurrency=1", f"--out={tmp_path}")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("launching") == 2
    (on,) = [
        r for r in csv.DictReader((tmp_path / "grid.csv").read_text().splitlines()) if r["arm"] == "mtp-on"
    ]
    assert float(on["speedup"]) > 1
    second = grid("--concurrency=1", f"--out={tmp_path}")
    assert second.returncode == 0
    assert "launching" not in second.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--arms=mtp-off,typo"], "typo"),
        (["--concurrency=0"], "--concurrency"),
        (["--contexts=x"], "--contexts"),
        (["--max-tokens=1"], "--max-tokens"),
        (["--server-url=http://127.0.0.1:9"], "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_launched(
    tmp_path: Path, options: list[str], said: str
) -> None:
    done = grid(*options, f"--out={tmp_path}")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
