"""What an item shows of its server: the resolved configuration once for each launch, of the log each line once, with a log file or without."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from suite.report import allure_files
from suite.report.allure_files import ServerPages
from suite.session.running_arm import RunningArm


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Names and texts, in place of an Allure report."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(allure_files.allure, "attach", lambda text, name, **_: found.append((name, text)))
    return found


def arm(number: int, log: Path | None) -> RunningArm:
    server = SimpleNamespace(
        command=["serve"], env={}, log_path=log, log_tail=lambda count: ["all that is known"]
    )
    info = SimpleNamespace(version="0.5.23", resolved={"attention_backend": "triton"})
    return cast(RunningArm, SimpleNamespace(server=server, number=number, info=info))


@pytest.mark.parametrize("with_log", [True, False], ids=["log", "no log"])
def test_what_a_launch_resolved_to_is_attached_once(
    attached: list[tuple[str, str]], tmp_path: Path, with_log: bool
) -> None:
    log = tmp_path / "server.log" if with_log else None
    if log is not None:
        log.write_text("a line\n")
    pages = ServerPages()
    for served in (arm(1, log), arm(1, log), arm(2, log)):
        pages.attach(served, None)
    resolved = [text for name, text in attached if name == "resolved configuration"]
    assert len(resolved) == 2
    assert all('"attention_backend": "triton"' in text for text in resolved)


def test_each_line_of_a_log_is_shown_with_one_item(attached: list[tuple[str, str]], tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    pages = ServerPages()
    for line in ("first\n", "second\n"):
        with log.open("a") as file:
            file.write(line)
        pages.attach(arm(1, log), None)
    assert [text for name, text in attached if name.startswith("server log")] == ["first", "second"]


def test_of_a_long_log_the_end_is_shown_and_the_rest_is_counted(
    attached: list[tuple[str, str]], tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"line {i}\n" for i in range(allure_files.LOG_LINES + 5)))
    ServerPages().attach(arm(1, log), None)
    (text,) = [text for name, text in attached if name.startswith("server log")]
    assert text.splitlines()[0] == "(5 earlier lines are in server.log)"
    assert text.splitlines()[1] == "line 5"
