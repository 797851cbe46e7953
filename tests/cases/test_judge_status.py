"""The exit status is the judgement's: the first that applies of 1, 9, 8; else 0. Scenarios here need no server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]

CONFIG = """
default_target = "toy"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[budgets.quick]
scenarios = ["activation", "canary", "decode"]
[targets.toy]
model = "nowhere"
known = { is_known = "SGLang 0.0 cannot" }
"""

HEAD = """
import pytest
from suite.hosts import HostUnreachable
from suite.servers import IncompatibleFlags, OutOfMemory, PortTaken, CannotStart, ServerDied, DriverError, Locked
from suite.session.outcomes import *
from suite.sglang.errors import ServerKeyRefused
pytestmark = [pytest.mark.perf, pytest.mark.activation, pytest.mark.once]

def died(cause):
    error = ServerDied("the server died")
    error.__cause__ = cause
    return error

@pytest.mark.arms("mtp-off")
def test_holds(arm, launch): pass
"""


@pytest.fixture(autouse=True)
def _suite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def _run(
    pytester: pytest.Pytester, *bodies: str, options: tuple[str, ...] = ()
) -> tuple[int, dict[str, object], str]:
    """Status, verdicts.json and output of a run of scenarios with these bodies."""
    pytester.makefile(".toml", suite=CONFIG)
    tests = "".join(
        f'\n@pytest.mark.arms("mtp-on")\ndef test_case_{number}(arm, launch):\n    {body}\n'
        for number, body in enumerate(bodies)
    )
    pytester.makepyfile(test_it=HEAD + tests)
    ran = pytester.runpytest_subprocess("-p", "suite.plugin", "-m", "perf", "-q", *options)
    stored = sorted(pytester.path.glob("results/*/verdicts.json"))
    said = json.loads(stored[-1].read_text()) if stored else {}
    return int(ran.ret), said, ran.stdout.str()


@pytest.mark.parametrize(
    ("bodies", "status", "opening"),
    [
        (["pass"], 0, "GO: 2 checks passed"),
        (["raise BrokenPromise('MTP is off')"], 1, "NO-GO: MTP is off"),
        (["assert 1 == 2, 'a plain assertion'"], 1, "NO-GO: mtp-on: a plain assertion"),
        (["pytest.fail('said so')"], 1, "NO-GO: mtp-on: said so"),
        (["raise InvalidMeasurement('throttled')"], 8, "CANNOT TELL: case_0, mtp-on: throttled"),
        (["raise KeyError('a fault of the scenario')"], 8, "CANNOT TELL: case_0, mtp-on: "),
        (["raise HostUnreachable('no route to box')"], 9, "NOT MEASURED, infrastructure: no route to box"),
        (["raise PortTaken('port 30000 is taken')"], 9, "NOT MEASURED, infrastructure: port 30000 is taken"),
        (["raise ServerKeyRefused('401')"], 9, "NOT MEASURED, infrastructure: 401"),
        (["raise Locked('another run holds it')"], 9, "NOT MEASURED, infrastructure: another run"),
        (["raise OSError(28, 'No space left on device')"], 9, "NOT MEASURED, infrastructure: [Errno 28]"),
        (["raise died(DriverError('Xid 79'))"], 9, "NOT MEASURED, infrastructure: the server died"),
        (["raise died(OutOfMemory('KV'))"], 1, "NO-GO: mtp-on: the server died"),
        (["raise IncompatibleFlags('--x is unknown')"], 1, "NO-GO: mtp-on does not start: --x is unknown"),
        (["raise HostUnreachable('gone')", "raise BrokenPromise('MTP is off')"], 1, "NO-GO: MTP is off"),
        (["raise InvalidMeasurement('late')", "raise HostUnreachable('gone')"], 9, "NOT MEASURED"),
    ],
)
def test_each_family_has_its_status_and_the_gravest_wins(
    pytester: pytest.Pytester, bodies: list[str], status: int, opening: str
) -> None:
    ended, said, out = _run(pytester, *bodies)
    assert (ended, said["status"]) == (status, status), out
    assert str(said["sentence"]).startswith(opening)
    assert str(said["sentence"]) in out


def test_a_known_failure_is_none_and_one_that_passes_is_told(pytester: pytest.Pytester) -> None:
    known = '\n@pytest.mark.arms("mtp-on")\ndef test_is_known(arm, launch):\n    '
    status, _, _ = _run(pytester, "pass" + known + "raise BrokenPromise('as known')")
    assert status == 0
    status, said, _ = _run(pytester, "pass" + known + "pass")
    assert status == 1
    assert "XPASS(strict)" in str(said["sentence"])


def test_a_run_that_judged_nothing_is_no_success(pytester: pytest.Pytester) -> None:
    options = ("-k", "case_0")
    status, said, out = _run(pytester, "pytest.skip('this server is no such arm')", options=options)
    assert status == 8
    assert said["sentence"] == "CANNOT TELL: nothing was measured: this server is no such arm"
    status, said, out = _run(pytester, "pytest.skip('no such arm')", options=(*options, "--require-baseline"))
    assert status == 1
    assert "NO-GO: nothing was measured: no such arm" in out


def test_a_failure_beside_the_scenarios_stays_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_other="import pytest\n@pytest.mark.perf\ndef test_other(): assert False")
    status, said, _ = _run(pytester, "pass")
    assert (status, said["status"]) == (1, 0)


def test_stopped_at_the_first_failure_the_rest_is_named_as_not_measured(pytester: pytest.Pytester) -> None:
    body = (
        "raise InvalidMeasurement('late')\n"
        '@pytest.mark.decode\n@pytest.mark.judges("tpot_s")\n@pytest.mark.arms("mtp-on")\n'
        "def test_speed(arm, launch): pass"
    )
    status, said, _ = _run(pytester, body, options=("-x",))
    assert status == 8
    verdicts = {v["question"]: v for v in said["verdicts"]}  # type: ignore[attr-defined]
    assert verdicts["speed"]["word"] == "invalid"
    assert verdicts["speed"]["reason"].startswith("not measured: ")


def test_last_failed_plays_only_what_failed(pytester: pytest.Pytester) -> None:
    assert _run(pytester, "raise BrokenPromise('MTP is off')")[0] == 1
    status, said, _ = _run(pytester, "pass", options=("--lf",))
    assert status == 0
    assert "1 check passed" in str(said["sentence"])


def test_offline_the_same_words_and_status(pytester: pytest.Pytester) -> None:
    status, said, _ = _run(pytester, "raise BrokenPromise('MTP is off')", "raise HostUnreachable('gone')")
    (run,) = (path.parent for path in pytester.path.glob("results/*/run.json"))
    (run / "verdicts.json").unlink()
    again = pytester.run(
        *(sys.executable, "-m", "suite", "judge", str(run), "--suite-config", "suite.toml", "--save")
    )
    assert again.ret == status == 1
    assert again.outlines[0] == said["sentence"]
    assert json.loads((run / "verdicts.json").read_text()) == said
