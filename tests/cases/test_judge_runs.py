"""What a whole run says and ends with, and the same again offline from its files alone: on the simulator, and attached."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.attached import CONFIG, attached
from tests.cases.lookalike import Odd, serving
from tests.perf.running import LIMIT_S, MODEL, ROOT, SMALL, TARGET, Ran, perf

TRITON = CONFIG.replace("[arms.mtp-off]", '[arms.mtp-off]\nflags = { attention-backend = "triton" }').replace(
    'speculative-algorithm = "NEXTN"', 'speculative-algorithm = "NEXTN", attention-backend = "triton"'
)


def _verdicts(ran: Ran) -> dict[str, object]:
    newest = max(ran.results.glob("*/verdicts.json"), key=lambda path: path.stat().st_mtime)
    told: dict[str, object] = json.loads(newest.read_text())
    return told


def _judged_again(tmp_path: Path, ran: Ran, config: str) -> tuple[int, str]:
    """Status and first line of ``python -m suite judge`` on the newest run."""
    newest = max(ran.results.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    command = [sys.executable, "-m", "suite", "judge", str(newest.parent), config]
    done = subprocess.run(
        [*command, f"--baselines={tmp_path / 'baselines'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()[0]


def _config(tmp_path: Path, scenarios: str, more: str = "") -> str:
    text = TARGET.format(model=MODEL, ready_s=30.0, more=more, root=ROOT)
    text = text.replace('scenarios = ["activation", "decode", "acceptance"]', f"scenarios = {scenarios}")
    longer = text.replace("[budgets.quick]", "[budgets.longer]").split("[targets.here]")[0]
    longer = longer[longer.index("[budgets.longer]") :].replace("max_tokens = 48", "max_tokens = 80")
    path = tmp_path / "suite.toml"
    path.write_text(text.replace("[targets.here]", f"{longer}[targets.here]"))
    return f"--suite-config={path}"


def test_a_server_that_is_no_arm_proves_nothing(tmp_path):
    """It attends with flashinfer, every arm with triton: all is skipped, and that is no success."""
    config = f"--suite-config={tmp_path / 'suite.toml'}"
    (tmp_path / "suite.toml").write_text(TRITON)
    with serving(Odd(info={"attention_backend": "flashinfer"})) as url:
        options = (config, f"--server-url={url}", "--rounds=2", "-q", "-k", "decode or acceptance")
        ran = perf(tmp_path, *options)
        required = perf(tmp_path, *options, "--require-baseline")
    assert ran.code == 8, ran.out
    assert "CANNOT TELL: nothing was measured: " in ran.out
    assert required.code == 1
    assert "NO-GO: nothing was measured: " in required.out
    assert _judged_again(tmp_path, required, config) == (1, _verdicts(required)["sentence"])


def test_figures_without_a_baseline_are_no_success_either(tmp_path):
    with serving(Odd()) as url:
        ran = attached(tmp_path, url, "-k", "decode")
    assert ran.code == 8
    assert "CANNOT TELL: nothing was judged: no baseline; record one" in ran.out


def test_a_server_that_is_not_there_is_said_once_and_is_no_verdict_on_sglang(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ran = attached(tmp_path, f"http://127.0.0.1:{port}")
    assert ran.code == 9
    assert _verdicts(ran)["sentence"].startswith("NOT MEASURED, infrastructure: ")
    assert " 1 error" in ran.out.splitlines()[-1]


def test_a_floor_is_part_of_the_verdict(tmp_path):
    """MTP that costs more than it gains: no baseline is needed to say so, and it is said again offline."""
    config = _config(tmp_path, '["speedup"]')
    ran = perf(tmp_path, *SMALL, config, "--flag=fault=draft-cost=6", "-k", "mtp_speedup and c1")
    assert ran.code == 1, ran.out
    verdict = next(v for v in _verdicts(ran)["verdicts"] if v["metric"] == "mtp_speedup")
    assert verdict["word"] == "broken promise"
    assert "is below the floor of 1.05" in verdict["headline"]
    assert _verdicts(ran)["sentence"].startswith("NO-GO: mtp_speedup[c1], mtp-on: MTP speed-up 0.")
    assert _judged_again(tmp_path, ran, config) == (1, _verdicts(ran)["sentence"])


def test_nothing_is_recorded_of_a_server_that_answers_wrongly(tmp_path):
    config = _config(tmp_path, '["canary", "decode"]', "canary_floor = 0.5")
    options = (*SMALL, config, "--record-baseline", "-k", "answers_are_right or decode")
    ran = perf(tmp_path, *options, "--flag=fault=mtp-lane-garbage")
    assert ran.code == 1, ran.out
    assert "nothing of mtp-on was recorded: answers_are_right: " in ran.out
    recorded = {path.name.split("--")[1] for path in (tmp_path / "baselines").glob("*/*.json")}
    assert recorded == {"mtp-off"}


def test_nothing_is_recorded_of_what_was_not_measured_well(tmp_path):
    config = _config(tmp_path, '["decode"]')
    ran = perf(tmp_path, *SMALL, config, "--record-baseline", "--flag=fault=buffered-stream", "-k", "decode")
    assert ran.code == 1, ran.out
    assert "nothing of mtp-on was recorded" in ran.out
    assert "buffering" in ran.out
    assert not list((tmp_path / "baselines").glob("*/*.json"))


def test_two_workloads_are_recorded_beside_each_other(tmp_path):
    config = _config(tmp_path, '["decode"]')
    options = (*SMALL, config, "-k", "decode and off")
    for budget in ("quick", "longer"):
        ran = perf(tmp_path, *options, f"--budget={budget}", "--record-baseline")
        assert ran.code == 0, ran.out
    assert len(list((tmp_path / "baselines").glob("*/decode_throughput-c1--mtp-off--*.json"))) == 2
    for budget in ("quick", "longer"):
        ran = perf(tmp_path, *options, f"--budget={budget}", "--require-baseline")
        assert "no baseline" not in ran.out
        assert ran.code in (0, 8)
    ran = perf(tmp_path, *options, "--budget=quick", "--rounds=2", "--flag=fault=recut-chunks")
    assert "unjudged" not in ran.out


def test_a_workload_that_was_never_recorded_says_which_were(tmp_path):
    config = _config(tmp_path, '["decode"]')
    options = (*SMALL, config, "-k", "decode and off")
    assert perf(tmp_path, *options, "--record-baseline").code == 0
    ran = perf(tmp_path, *options, "--budget=longer")
    assert ran.code == 8
    assert "no baseline of this workload; recorded with max_tokens 48, not 80" in ran.out


@pytest.mark.parametrize("option", ["--accept-regression=a new card", "--accept-regression= "])
def test_a_reason_to_accept_a_regression_needs_something_to_record(tmp_path, option):
    ran = perf(tmp_path, _config(tmp_path, '["decode"]'), option, "--collect-only")
    assert ran.code == 4  # a reason without a recording, or no reason at all
    assert "--accept-regression" in ran.out


@pytest.mark.parametrize("spoiled", ["another model", "a damaged file", "a folder that cannot be written"])
def test_what_cannot_be_recorded_is_known_before_anything_is_launched(tmp_path, spoiled):
    config = _config(tmp_path, '["decode"]')
    options = (*SMALL, config, "-k", "decode and off", "--record-baseline")
    assert perf(tmp_path, *options).code == 0
    (stored,) = (tmp_path / "baselines").glob("*/*.json")
    before = stored.read_bytes()
    logs = len(list((tmp_path / "results").glob("*/logs/*.log")))
    if spoiled == "another model":
        options = (*options, "--flag=model-path=simulator/checkpoints/qwen3.5-397b-a17b-no-mtp")
    elif spoiled == "a damaged file":
        before = before[:100]
        stored.write_bytes(before)
    else:
        options = (*options, "--baselines=/proc/nowhere")
    ran = perf(tmp_path, *options)
    assert ran.code == 4, ran.out
    assert "nothing was launched" in ran.out or "--baselines /proc/nowhere: cannot be written" in ran.out
    assert len(list((tmp_path / "results").glob("*/logs/*.log"))) == logs
    assert stored.read_bytes() == before
