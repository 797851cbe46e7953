"""pytest's habits: ids that a run prints select what they name, last failures are played again, nothing is counted twice."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from suite.plugin.steps import Steps
from suite.report import junit

pytest_plugins = ["pytester"]

CONFIG = """
default_target = "toy"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
[budgets.quick]
scenarios = ["decode", "speedup", "activation"]
concurrencies = [1, 4]
launches = 2
[targets.toy]
model = "nowhere"
"""

SCENARIOS = """
import pytest
pytestmark = pytest.mark.perf

@pytest.mark.decode
@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("tpot_s")
def test_decode(arm, launch, concurrency): pass

@pytest.mark.speedup
@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("mtp_speedup")
@pytest.mark.ratio("output_tokens_per_s", "mtp-on", "mtp-off")
def test_gain(arm, launch): pass

@pytest.mark.activation
@pytest.mark.once
@pytest.mark.arms("mtp-on")
def test_on(arm, launch): pass
"""

OF_C4 = ["test_decode[mtp-on-c4-launch1]", "test_decode[mtp-on-c4-launch2]", "test_decode[mtp-on-c4-verdict]"]
OF_GAIN = [f"test_gain[{arm}-launch{n}]" for n in (1, 2) for arm in ("mtp-off", "mtp-on")]


@pytest.fixture
def chosen(pytester, monkeypatch):
    """The names that a command line selects."""
    pytester.makefile(".toml", suite=CONFIG)
    pytester.makepyfile(test_it=SCENARIOS)

    def choose(*options: str) -> list[str]:
        result = pytester.runpytest("-p", "suite.plugin", "-m", "perf", "--collect-only", "-q", *options)
        return sorted(line.partition("::")[2] for line in result.outlines if line.startswith("test_it.py::"))

    return choose


def failed(pytester, *ids: str) -> None:
    folder = pytester.path / ".pytest_cache" / "v" / "cache"
    folder.mkdir(parents=True)
    (folder / "lastfailed").write_text(json.dumps(dict.fromkeys(ids, True)))


def test_a_pasted_verdict_is_its_measurements_and_the_judgement(chosen) -> None:
    assert chosen("test_it.py::test_decode[mtp-on-c4-verdict]") == OF_C4


def test_the_verdict_of_a_ratio_needs_both_arms(chosen) -> None:
    assert chosen("test_it.py::test_gain[verdict]") == sorted([*OF_GAIN, "test_gain[verdict]"])


def test_a_verdict_and_another_item_are_both_played(chosen) -> None:
    assert chosen("test_it.py::test_decode[mtp-on-c4-verdict]", "test_it.py::test_on") == [
        *OF_C4,
        "test_on[mtp-on-launch1]",
    ]


def test_a_measurement_alone_is_judged_too(chosen) -> None:
    assert chosen("test_it.py::test_decode[mtp-on-c4-launch1]") == [OF_C4[0], OF_C4[2]]


def test_words_of_a_verdict_select_what_it_judges(chosen) -> None:
    assert chosen("-k", "mtp-on-c4-verdict") == OF_C4


def test_a_failed_verdict_is_measured_again(chosen, pytester) -> None:
    failed(pytester, "test_it.py::test_decode[mtp-on-c4-verdict]")
    assert chosen("--lf") == OF_C4


def test_the_items_of_a_server_that_died_are_played_again(chosen, pytester) -> None:
    failed(pytester, "servers::lives[mtp-on-launch2]")
    assert [name for name in chosen("--lf") if "launch" in name] == [
        "test_decode[mtp-on-c1-launch2]",
        "test_decode[mtp-on-c4-launch2]",
        "test_gain[mtp-on-launch2]",
    ]


def test_last_failures_that_are_not_selected_leave_the_selection_whole(chosen, pytester) -> None:
    failed(pytester, "test_it.py::test_decode[mtp-on-c4-verdict]")
    assert chosen("--lf", "-k", "test_on") == ["test_on[mtp-on-launch1]"]


@pytest.mark.parametrize("options", [["-m", "perf"], []])
def test_two_processes_at_a_time_are_refused_in_one_line(pytester, options) -> None:
    pytester.makefile(".toml", suite=CONFIG)
    pytester.mkpydir("scenarios").joinpath("test_it.py").write_text(SCENARIOS)
    result = pytester.runpytest("-p", "suite.plugin", "-p", "xdist", "-n", "2", *options, "scenarios")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line.strip()] == [
        "ERROR: -n does not go with -m perf: one server is measured at a time, and two would disturb each other"
    ]


def test_items_of_later_looks_are_counted_so_that_no_more_than_all_are_done(monkeypatch) -> None:
    first, again = [SimpleNamespace(stash={})] * 2, [SimpleNamespace(stash={})] * 3
    looks = iter([again, []])
    parts: Any = SimpleNamespace(
        settings=SimpleNamespace(sizes=SimpleNamespace(launches=1)),
        arranged=SimpleNamespace(items=first),
        measured=True,
        compared={},
        first_starts=[],
        deadline=None,
        run=SimpleNamespace(
            stopping=SimpleNamespace(reason=None), told=SimpleNamespace(session=lambda up_to: None, ended="")
        ),
        judge=SimpleNamespace(look=lambda session=None: SimpleNamespace(next_launches=2)),
    )
    steps = Steps(parts)
    monkeypatch.setattr(steps, "_more", lambda judgement: next(looks))
    played: list[Any] = []
    playing: Any = SimpleNamespace(play=lambda session, items: played.extend(items))
    session: Any = SimpleNamespace(testscollected=2)
    steps._measure(session, playing)
    assert session.testscollected == len(played) == 5


def test_every_figure_of_an_item_has_its_registry_name() -> None:
    rounds = {"itl_s": [0.01, 0.03, None, 0.02], "ttft_s": [None, None]}
    assert junit.figures(rounds) == [("itl_s.value", 0.02)]
