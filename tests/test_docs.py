"""What the pages say can be done: every command is one that the suite, pytest or tox knows, links lead somewhere, messages exist."""

from __future__ import annotations

import configparser
import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from suite.__main__ import main
from suite.cli.commands import parser
from suite.gate import judge, save_run
from suite.servers import diagnosis
from tests.gate.sessions import recorded, session

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PLACEHOLDER = re.compile(r"^(RUN\w*|[AB]|\.\.\.|results/(<run>|RUN))$")
OURS = (
    "python -m suite",
    "pytest ",
    "python -m pytest ",
    "tox run",
    "python -m proofs",
    "python -m tests",
    "python -m simulator",
)


def commands_of(page: Path) -> list[str]:
    """What a page says to type: lines behind `$` in blocks, and spans that begin as one of our commands."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"^```console\n(.*?)^```", text, re.M | re.S))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)]
    typed = [line.removeprefix("$ ") for line in blocks.splitlines() if line.startswith("$ ")]
    return list(dict.fromkeys([*typed, *(span for span in spans if span.startswith(OURS))]))


COMMANDS = sorted({command for page in PAGES for command in commands_of(page)})


@pytest.fixture
def pytest_options(pytestconfig: pytest.Config) -> set[str]:
    """Every option that this pytest takes, the suite's among them."""
    actions = pytestconfig._parser.optparser._actions
    return {name for action in actions for name in action.option_strings}


def words_of(command: str) -> list[list[str]]:
    """The simple commands that a line is made of, comments left out."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_known_to_what_they_are_given_to(page: Path, pytest_options: set[str]) -> None:
    for words in [words for command in commands_of(page) for words in words_of(command)]:
        if words[:3] == ["python", "-m", "suite"]:
            known_to_the_suite(words[3:])
        elif words[:1] == ["pytest"] or words[:3] == ["python", "-m", "pytest"]:
            given = [
                word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word) and word != "-m"
            ]
            assert [option for option in given if option not in pytest_options] == []
        elif words[:2] == ["tox", "run"]:
            known_to_tox(words)
        elif words[:2] == ["python", "-m"]:
            name = ROOT / words[2].replace(".", "/")
            assert name.is_dir() or name.with_suffix(".py").is_file() or words[2] in ("pip", "venv")


def known_to_the_suite(words: list[str]) -> None:
    if len(words) < 2 or "--" in words:
        names = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
        assert not words or words[0] in names or PLACEHOLDER.match(words[0])
        return
    told = io.StringIO()
    status = 2
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        parser().parse_args(words)
        status = 0
    said = told.getvalue()
    # a page may name a command and leave out what its own page tells
    assert status == 0 or "show this help" in said or "the following arguments are required" in said, said
    assert [
        word for word in words if word.startswith("--") and status and word.partition("=")[0] not in said
    ] == []


def known_to_tox(words: list[str]) -> None:
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    environments = {name.partition(":")[2] for name in tox.sections() if name.startswith("testenv:")}
    asked = words[words.index("-e") + 1] if "-e" in words else ""
    assert {name for name in asked.split(",") if name} <= environments | {""}


def test_commands_on_stored_runs_are_what_the_pages_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`judge`, `compare` and `history` of docs/first-run.md and docs/report.md, on two stored runs."""
    store = recorded(tmp_path / "baselines", sessions=3)
    for name in ("old", "new"):
        made = session(name)
        save_run(tmp_path / "results" / name, made, judge(made, store.sessions_for(made)))
    places = ["--baselines", str(tmp_path / "baselines")]
    assert main(["judge", str(tmp_path / "results" / "new"), *places]) == 0
    assert main(["compare", "old", "new", "--results", str(tmp_path / "results"), *places]) == 0
    history = ["--results", str(tmp_path / "results"), "--history", str(tmp_path / "history")]
    assert main(["history", "--target", "simulator", *history, *places]) == 0
    said = capsys.readouterr().out
    assert "2 runs of simulator" in said
    assert "GO: 6 figures within 2 %, 2 within 15 %" in said
    assert "B (value):    new" in said


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), target
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there), target


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [
        page.name for page in PAGES[1:] if page.name != "README.md" and f"({page.name}" not in index
    ] == []


def test_every_reason_not_to_start_or_to_measure_can_be_looked_up() -> None:
    """By the words of the message that stay the same: of a launch its rules, of a measurement the reason's name."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    launches = [rule.summary.partition("{")[0].partition(":")[0].strip() for rule in diagnosis.RULES]
    assert len(launches) > 10
    assert [said for said in launches if said and not any(said.startswith(m) for m in messages(page))] == []
    reasons = [
        name
        for path in (ROOT / "suite" / "gate" / "invalid.py", *(ROOT / "suite" / "metrics").glob("*.py"))
        for name in re.findall(r"Invalid\(\s*\"([a-z_]+)\"", path.read_text(encoding="utf-8"))
    ]
    assert len(reasons) > 4
    assert [
        name for name in reasons if name not in messages(page) and name != "gpu_lost"
    ] == []  # an event of its own


def messages(page: str) -> list[str]:
    """What stands between backticks in the first column of a page's tables."""
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return [message for cell in cells for message in re.findall(r"`([^`]+)`", cell)]


def test_every_message_that_is_explained_is_still_said() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "suite").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*(\(\s*)?f?"', "", source)  # strings in several parts
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    explained = messages(page)
    assert len(explained) > 30
    assert [message for message in explained if message not in source] == []
