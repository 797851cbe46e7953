"""`--why`: which arms are profiled, what is said where one cannot be, and what the page holds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.builds import Build
from suite.config import ProcessLaunch, Target
from suite.gate.records import Key
from suite.gate.verdicts import Cause, Estimate, Judgement, Verdict, Word
from suite.session import explaining
from suite.session.stopping import Stopping
from suite.traces import why
from suite.traces.compare import StepDifference, compare
from suite.traces.errors import TraceError
from suite.traces.steps import profile_of
from suite.traces.torch_trace import read
from tests.traces.made import gpu_trace


def judgement(*rows: tuple[str, str, str, Word, str]) -> Judgement:
    """Of figures (question, arm, metric) with their word and the kind of what is behind them."""
    verdicts = {
        Key(question, arm, metric): Verdict(question, arm, metric, word, "", "", Estimate("", "", None), 0.02)
        for question, arm, metric, word, _ in rows
    }
    causes = [
        Cause(kind, "", [arm], [f"{question}, {arm}: {metric}"])
        for question, arm, metric, word, kind in rows
        if word == "regression"
    ]
    return Judgement(verdicts, {}, {}, [], [], None, [], causes)


SLOWER = ("decode_throughput[c1]", "mtp-on", "output_tokens_per_s", "regression", "steps")
TARGET = Target(name="t", model="m", launch=ProcessLaunch(kind="process", python="p"), start_estimate_s=600.0)


def test_only_arms_whose_steps_got_slower_are_profiled() -> None:
    rows: list[tuple[str, str, str, Word, str]] = [
        ("decode_throughput[c1]", "mtp-off", "output_tokens_per_s", "pass", ""),
        ("decode_throughput[c1]", "less", "output_tokens_per_s", "regression", "acceptance"),
        ("acceptance_length[code]", "drafts", "acceptance_length", "regression", "acceptance"),
        ("speedup[c1]", "ratio", "mtp_speedup", "regression", "steps"),
        ("decode_throughput[c1]", "dead", "output_tokens_per_s", "regression", "promise"),
        ("decode_throughput[c8]", "whole", "tpot_s", "regression", "machine"),
        SLOWER,
    ]  # type: ignore[list-item]
    assert explaining.slowed(judgement(*rows)) == ["mtp-on", "whole"]


def explained(tmp_path: Path, spare: bool = True, stopped: str | None = None) -> dict[str, list[str]]:
    asked = SimpleNamespace(
        suite=None,
        passing=lambda line: None,
        extra_flags={"x": 1},
        directory=tmp_path,
        stopping=Stopping(),
        can_spare=lambda s: spare and s > 0,
    )
    if stopped:
        asked.stopping.ask(stopped)
    run: Any = asked
    return explaining.explain(run, TARGET, {"reference": Build("a")}, judgement(SLOWER), lambda line: None)


def difference() -> StepDifference:
    slow = {"b_gemm": 300.0}
    return compare(*(profile_of(read(t, "t")) for t in (gpu_trace(), gpu_trace(draft=slow))))


def test_what_the_profiles_say_is_told_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def profiled(asked: why.ProfileRequest, builds: object) -> StepDifference:
        assert (asked.arm, asked.target.flags, asked.folder) == ("mtp-on", {"x": 1}, tmp_path / "why-mtp-on")
        return why._kept(difference(), asked.folder)

    monkeypatch.setattr(why, "explain", profiled)
    told = explained(tmp_path)
    assert told["mtp-on"][0].startswith("draft +0.100 of +0.100 ms")
    page = explaining.page(told, tmp_path)
    assert page.startswith("**Why, mtp-on:** draft +0.100")
    assert "b_gemm" in page
    assert explaining.page({}, tmp_path) == ""


def test_a_profile_that_cannot_be_taken_is_said_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(asked: why.ProfileRequest, builds: object) -> StepDifference:
        raise TraceError("this server cannot profile itself")

    monkeypatch.setattr(why, "explain", refused)
    assert explained(tmp_path) == {"mtp-on": ["could not be profiled: this server cannot profile itself"]}


@pytest.mark.parametrize("how", [{"spare": False}, {"stopped": "told to stop"}])
def test_where_no_time_is_left_nothing_is_launched(tmp_path: Path, how: dict[str, Any]) -> None:
    assert explained(tmp_path, **how) == {
        "mtp-on": ["not profiled: no time is left for two launches more (22 minutes)"]
    }
