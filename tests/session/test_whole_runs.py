"""Whole runs in this process, without a server: pytest, plan, looks, journal, judge, verdict items and reports are real.

Only ``measure`` is not: it leaves in the journal what a measurement of a given speed would.
"""

import http.server
import json
import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.servers.standins.standin_server import Answers

pytest_plugins = ["pytester"]

CONFIG = """
default_target = "toy"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[budgets.quick]
scenarios = ["decode", "canary"]
concurrencies = [1]
launches = 2
looks = 3
rounds = 3
[targets.toy]
model = "nowhere"
acceptance_floor = 1.5
"""

MEASURE = """
import json, math, random, time
from pathlib import Path
import pytest
from suite.gate import Counts, Invalid, Launch
from suite.plugin.parts import parts_key
from suite.session.collection import series_of
from suite.session.entries import Answering, Launching, Measured, Ready, RoundDone, ServerEnded, WorkloadBegun

SPEEDS = json.loads(Path("speeds.json").read_text())
FACTS = {"concurrency": 1, "gpu": "made"}, {"sglang": "0.5.23"}

@pytest.fixture
def measure(request, arm, launch):
    def play(workload, concurrency):
        run, series = request.config.stash[parts_key].run, request.node.stash[series_of]
        number = max(run.told.launches, default=0) + 1
        draw = random.Random(f"{arm} {launch} {SPEEDS['run']}")
        run.note(Launching(number, arm, launch, time.time()))
        run.note(Ready(number, 1.0, {}, {"sglang": "0.5.23"}))
        run.note(WorkloadBegun(number, workload, *FACTS))
        run.note(Answering(number, arm, launch, workload, series.question, list(series.metrics)))
        level = SPEEDS[arm] * (1 + draw.gauss(0, SPEEDS["noise"]))
        for place in range(3):
            speed = level * (1 + draw.gauss(0, 0.001))
            accepted = int(40 * (SPEEDS["accepted"] - 1))
            sample = Launch(
                invalid=[Invalid("clocks_throttled", "hot", 0)] if Path("invalid").exists() else [],
                rounds={"output_tokens_per_s": [speed], "tpot_s": [1 / speed], "acceptance_length": [1 + accepted / 40]},
                counts={"acceptance_length": [Counts([accepted] * 4, [40] * 4)]},
            )
            run.note(RoundDone(number, arm, launch, workload, place, 3, 1.0, sample, series.question))
        run.note(Measured(number, workload, 3, *FACTS))
        run.note(ServerEnded(number, 0.1))
    return play
"""

SCENARIOS = """
import pytest
from suite.hosts import HostUnreachable

@pytest.mark.perf
@pytest.mark.decode
@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("output_tokens_per_s")
def test_decode(measure, concurrency):
    measure("code", concurrency)

@pytest.mark.perf
@pytest.mark.decode
@pytest.mark.arms("mtp-on")
@pytest.mark.judges("acceptance_length")
@pytest.mark.claims(metric="acceptance_length", floor="acceptance_floor", otherwise="MTP does next to nothing")
def test_accepted(measure, concurrency):
    measure("prose", concurrency)

@pytest.mark.perf
@pytest.mark.canary
@pytest.mark.once
@pytest.mark.arms("mtp-on")
def test_fails_by_hand(arm, launch):
    from pathlib import Path
    if Path("broken").exists():
        raise AssertionError("by hand")
    if Path("unreachable").exists():
        raise HostUnreachable("no route to box")
"""


class Runs:
    """Runs in one folder, each with speeds of its own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.count = 0
        pytester.makefile(".toml", suite=CONFIG)
        pytester.makeconftest(MEASURE)
        pytester.makepyfile(test_it=SCENARIOS)

    def __call__(
        self, *options: str, slower: float = 0.0, noise: float = 0.0005, accepted: float = 2.5
    ) -> tuple[int, dict[str, object], str]:
        """Status, verdicts.json and output of a run with MTP slower by a share, and launches apart by ``noise``."""
        self.count += 1
        speeds = {"mtp-off": 100.0, "mtp-on": 200.0 / (1 + slower), "noise": noise, "accepted": accepted}
        (self.pytester.path / "speeds.json").write_text(json.dumps({**speeds, "run": self.count}))
        ran = self.pytester.runpytest_inprocess("-p", "suite.plugin", "-m", "perf", "-v", *options)
        self.folders = sorted(self.pytester.path.glob("results/*/verdicts.json"))
        said = json.loads(self.folders[-1].read_text()) if self.folders else {}
        return int(ran.ret), said, ran.stdout.str()


@pytest.fixture
def runs(pytester: pytest.Pytester) -> Runs:
    return Runs(pytester)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that wants baselines leaves them for the others."""
    return tmp_path_factory.mktemp("kept") / "baselines"


@pytest.fixture
def recorded(runs: Runs, baselines: Path) -> Runs:
    """With three sessions recorded."""
    there = runs.pytester.path / "baselines"
    if not baselines.exists():
        for number in (1, 2, 3):
            status, _, out = runs("--record-baseline")
            assert f"recorded 3 series as session {number} of" in out
            assert status == 0, out
        shutil.copytree(there, baselines)
    runs.count = 3
    shutil.copytree(baselines, there, dirs_exist_ok=True)
    return runs


def test_without_a_baseline_nothing_is_judged_and_ci_may_forbid_that(runs: Runs) -> None:
    status, said, out = runs()
    assert status == 0, out
    assert "SKIPPED" in out
    assert {verdict["word"] for verdict in said["verdicts"]} == {"unjudged"}  # type: ignore[attr-defined, index]
    status, said, out = runs("--require-baseline")
    assert status == 1, out
    assert "3 figures without a baseline, and one is required" in str(said["sentence"])


def test_a_regression_is_1_and_its_absence_0(recorded: Runs) -> None:
    status, _, out = recorded()
    assert status == 0, out
    assert "-launch3]" not in out, "what is decided is not launched again"
    status, said, out = recorded(slower=0.2)
    assert status == 1, out
    assert str(said["sentence"]).startswith("NO-GO")
    assert "test_decode[mtp-on-c1-verdict] FAILED" in out
    assert "test_decode[mtp-off-c1-verdict] PASSED" in out


def test_a_floor_holds_whatever_the_baseline_says(runs: Runs) -> None:
    status, said, out = runs(accepted=1.1)
    assert status == 1, out
    assert "MTP does next to nothing" in str(said["sentence"]) + out


def test_a_broken_promise_and_a_host_that_is_gone(runs: Runs) -> None:
    (runs.pytester.path / "unreachable").touch()
    assert runs()[0] == 9
    (runs.pytester.path / "broken").touch()
    status, said, _ = runs()
    assert status == 1
    assert "by hand" in str(said["sentence"])


def test_a_selection_is_judged_by_itself_and_pytests_own_options_hold(recorded: Runs) -> None:
    status, said, out = recorded("-k", "decode and mtp-off")
    assert status == 0, out
    assert {verdict["arm"] for verdict in said["verdicts"]} == {"mtp-off"}  # type: ignore[attr-defined, index]
    (recorded.pytester.path / "broken").touch()
    status, _, out = recorded("-x")
    assert "test_fails_by_hand[mtp-on-launch1] FAILED" in out
    assert "test_decode[mtp-on-c1-launch1]" not in out.partition("FAILED")[2].partition("performance")[0]
    assert status == 1, out
    (recorded.pytester.path / "broken").unlink()
    status, _, out = recorded("--lf")
    assert "test_fails_by_hand[mtp-on-launch1] PASSED" in out
    assert "test_decode" not in out.partition("FAILURES")[0]
    assert status == 0, out


def test_the_noise_floor_is_told_at_the_end(recorded: Runs) -> None:
    status, _, out = recorded("--aa")
    assert status == 0, out
    assert "noise floor" in out


def test_what_is_undecided_gets_more_launches_in_every_arm_then_cannot_be_told_and_allure_says_so(
    recorded: Runs,
) -> None:
    status, said, out = recorded("--alluredir=allure", noise=0.03, slower=0.04)
    assert status == 8, out
    assert str(said["sentence"]).startswith("CANNOT TELL")
    launches = Counter(line.split("-c1-launch")[0] for line in out.splitlines() if "-c1-launch" in line)
    assert launches["test_it.py::test_accepted[mtp-on"] == 2, "decided at the first look"
    assert launches["test_it.py::test_decode[mtp-on"] == launches["test_it.py::test_decode[mtp-off"] > 2
    results = [json.loads(path.read_text()) for path in recorded.pytester.path.glob("allure/*-result.json")]
    ends = {r["name"]: r["status"] for r in results if r["fullName"].startswith("test_it")}
    assert Counter(ends.values()) == {"broken": 2, "passed": sum(launches.values()) + 2}
    assert all(("inconclusive" in name) is (end == "broken") for name, end in ends.items())


def test_a_measurement_that_is_not_to_be_believed_is_8_and_breaks_no_claim(runs: Runs) -> None:
    (runs.pytester.path / "invalid").touch()
    status, said, out = runs(accepted=1.1)
    assert status == 8, out
    assert {verdict["word"] for verdict in said["verdicts"]} == {"invalid"}  # type: ignore[attr-defined]
    assert "MTP does next to nothing" not in out


def test_a_running_server_is_judged_as_the_arm_that_it_is(recorded: Runs) -> None:
    class Running(Answers):
        info = {"version": "0.5.23", "model_path": "nowhere", "speculative_algorithm": "NEXTN"}  # noqa: RUF012

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Running) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        status, said, out = recorded(f"--server-url={url}", slower=0.2)
        server.shutdown()
    assert status == 1, out
    assert f"{url}: SGLang 0.5.23" in out
    assert {verdict["arm"] for verdict in said["verdicts"]} == {"mtp-on"}  # type: ignore[attr-defined]
