"""docs/code.md and the import contract name every room, and no room that is not there; an import against the direction fails."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "code.md").read_text()
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]


def rooms() -> set[str]:
    """Packages and modules directly in suite/."""
    there = (ROOT / "suite").iterdir()
    return {path.stem for path in there if path.suffix == ".py" or (path / "__init__.py").exists()} - {
        "__init__"
    }


def test_the_page_lists_every_room_and_nothing_else() -> None:
    places = re.findall(r"`([\w/]+(?:\.py)?)`", "".join(re.findall(r"^\|([^|]+)\|", PAGE, re.M)))
    assert [place for place in places if not _is_there(place)] == []
    listed = {place.removeprefix("suite/").strip("/").removesuffix(".py") for place in places}
    assert rooms() - listed == {"__main__", "packaged"}


def _is_there(place: str) -> bool:
    return (ROOT / place).exists() or (ROOT / "proofs" / place).exists()


def test_the_pictures_arrows_are_those_of_the_contract() -> None:
    picture = re.search(r"```\nsuite\.toml -> (.*?)\n```", PAGE, re.S)
    assert picture is not None
    level = {
        room.strip().removeprefix("suite."): -number
        for number, layer in enumerate(CONTRACT["layers"])
        for room in layer.split(":")
    }
    drawn = [[level[room.strip()] for room in step.split(",")] for step in picture[1].split("->")]
    for left, right in itertools.pairwise(drawn):
        assert max(left) <= min(right)


def test_the_contract_holds_every_room() -> None:
    named = {room.strip() for layer in CONTRACT["layers"] for room in layer.split(":")}
    assert named == {f"suite.{room}" for room in rooms()}


def test_an_import_against_the_direction_fails(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "suite", tmp_path / "suite", ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(
        re.sub(r"root_packages = \[.*\]", 'root_packages = ["suite"]', text).partition(
            '[[tool.importlinter.contracts]]\nname = "The simulator'
        )[0]
    )
    assert _lint(tmp_path).returncode == 0
    with (tmp_path / "suite" / "gate" / "verdicts.py").open("a") as file:
        file.write("\nimport suite.session.fold\n")
    failed = _lint(tmp_path)
    assert failed.returncode != 0
    assert "suite.gate.verdicts -> suite.session.fold" in failed.stdout


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["lint-imports", "--no-cache"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
