"""Every rule that makes a measurement invalid has an input: each fires in a whole run on the simulator."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from suite.gate import invalid
from suite.load.records import FaultKind
from tests.perf.running import MODEL, ROOT, Ran, perf

CONFIG = """
default_target = "here"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = {{ speculative-algorithm = "NEXTN" }}
[budgets.quick]
launches = 1
looks = 1
rounds = {rounds}
max_tokens = {max_tokens}
requests = 3
warmup_requests = {warm_up}
scenarios = ["decode"]
concurrencies = [1]
kinds = ["code"]
contexts = []
temperatures = [0.0]
[targets.here]
model = "{model}"
gpus = 8
nvidia_smi = "{root}/simulator/bin/nvidia-smi"
kernel_log = "{root}/simulator/bin/dmesg"
timeouts = {{ ready_s = 30.0, drain_s = 2.0, request_s = 20.0, stall_s = 3.0 }}
client = {{ lag_p99_s = 0.5, lag_of_itl = 100.0, cpu_share = {cpu_share} }}
tolerate = {tolerate}
launch = {{ kind = "process", module = "simulator", cwd = "{root}" }}
flags = {{ enable-metrics = true, enable-cache-report = true, tp-size = 8 }}
[targets.here.env]
SIMULATED_GPU_STATE = "{{run}}/gpus.json"
{env}
"""

NOISE = '["client_saturated", "not_warmed_up"]'
"""What a busy machine does; these runs are about other things."""


def run(
    tmp_path: Path,
    fault: str = "",
    *options: str,
    rounds: int = 3,
    max_tokens: int = 96,
    warm_up: int = 1,
    cpu_share: float = 1.0,
    tolerate: str = NOISE,
    env: str = "",
) -> Ran:
    """One arm's decode scenario against a simulator with ``fault``."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "suite.toml"
    shown = f'SIMULATED_FAULT = "{fault}"\n{env}' if fault else env
    path.write_text(
        CONFIG.format(
            rounds=rounds,
            max_tokens=max_tokens,
            warm_up=warm_up,
            cpu_share=cpu_share,
            tolerate=tolerate,
            env=shown,
            model=MODEL,
            root=ROOT,
        )
    )
    chosen = () if "-k" in options else ("-k", "mtp-on")
    return perf(tmp_path, f"--suite-config={path}", "-q", *chosen, *options)


FIRES: dict[str, tuple[str, dict[str, object]]] = {
    "clocks_throttled": ("throttle=0.2", {}),
    "foreign_processes": ("company=2", {}),
    "gpu_lost": ("card-answers=[GPU requires reset]", {}),
    "gpu_silent": ("card-answers=[N/A]", {}),
    "simulated_acceptance": ("", {"from_outside": {"SGLANG_SIMULATE_ACC_LEN": "2.5"}}),
    "client_saturated": ("", {"cpu_share": 1e-6, "tolerate": "[]"}),
    "early_stop": ("early-stop=0.4", {}),
    "failed_requests": ("aborts=3", {}),
    "mixed_answers": ("replicas=2", {}),
    "buffering": ("buffered-stream=4096", {}),
    "usage_missing": ("usage-missing", {}),
    "acceptance_identity": ("redefined-metric", {}),
    "not_warmed_up": ("warmup-slow=60", {"warm_up": 0, "rounds": 4, "tolerate": "[]"}),
}
"""Rules that one launch is enough for: the fault that makes each fire."""

BESIDE_A_BASELINE = {"power_capped": "power-cap=0.1", "no_cuda_graphs": "cuda-graph-off"}
"""Rules that need a sound baseline first."""

ELSEWHERE = {
    "cached_prompt_tokens": "test_metrics; prompts of a run are made new to the server",
    "no_requests": "a round without requests cannot be asked for",
}


def promised() -> set[str]:
    """The names of all rules, read off the code that makes them."""
    modules = (invalid, importlib.import_module("suite.metrics.validity"))
    made = "".join(inspect.getsource(module) for module in modules)
    names = set(re.findall(r'Invalid(?:Round)?\(\s*"(\w+)"', made))
    return names | {"failed_requests", "usage_missing", "not_warmed_up"}


def test_no_rule_is_without_a_case() -> None:
    assert promised() == {*FIRES, *BESIDE_A_BASELINE, *ELSEWHERE}
    assert FaultKind.usage_missing.value == "usage_missing"


@pytest.mark.parametrize("rule", FIRES)
def test_each_rule_fires_in_a_whole_run(tmp_path: Path, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, how = FIRES[rule]
    sizes = dict(how)
    outside = sizes.pop("from_outside", {})
    assert isinstance(outside, dict)
    for name, value in outside.items():
        monkeypatch.setenv(name, value)
    ran = run(tmp_path, fault, **sizes)  # type: ignore[arg-type]
    assert ran.code == (9 if rule == "gpu_lost" else 8), ran.out
    assert rule in ran.out


@pytest.mark.parametrize("rule", BESIDE_A_BASELINE)
def test_what_only_a_baseline_tells_fires_beside_one(tmp_path: Path, rule: str) -> None:
    sound = run(tmp_path / "sound", "", "--record-baseline")
    assert sound.code == 0, sound.out
    baselines = f"--baselines={tmp_path / 'sound' / 'baselines'}"
    ran = run(tmp_path / "bad", BESIDE_A_BASELINE[rule], baselines)
    assert ran.code in (1, 8), ran.out
    assert rule in ran.out


def test_what_a_target_tolerates_does_not_fire(tmp_path: Path) -> None:
    ran = run(tmp_path, "company=2", tolerate='["foreign_processes", "client_saturated", "not_warmed_up"]')
    assert "1 passed" in ran.out
    assert "invalid" not in ran.out
    assert "foreign_processes" not in ran.out


@pytest.mark.parametrize("number", [31, 13])
def test_an_xid_of_the_servers_own_kernels_is_a_broken_promise(tmp_path: Path, number: int) -> None:
    ran = run(tmp_path, f"xid={number}@2")
    assert ran.code == 1, ran.out
    assert f"this build's kernels failed on a GPU: Xid {number}" in ran.out


@pytest.mark.parametrize("number", [79])
def test_an_xid_of_the_machine_spoils_the_measurement_and_no_promise(tmp_path: Path, number: int) -> None:
    ran = run(tmp_path, f"xid={number}@2")
    assert ran.code == 9, ran.out
    assert "gpu_lost" in ran.out
    assert f"Xid {number} on PCI:0000:43:00" in ran.out


def test_an_xid_from_before_the_launch_or_of_another_card_is_nobodys(tmp_path: Path) -> None:
    sneaky = tmp_path / "dmesg"
    sneaky.write_text(
        "#!/bin/sh\n"
        "echo '[ 1.0] NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus.'\n"
        'echo "[ $(cut -d" " -f1 /proc/uptime)] NVRM: Xid (PCI:0000:99:00): 79, GPU has fallen off the bus."\n'
    )
    sneaky.chmod(0o755)
    text = CONFIG.replace("{root}/simulator/bin/dmesg", str(sneaky))
    path = tmp_path / "suite.toml"
    path.write_text(
        text.format(
            rounds=2, max_tokens=48, warm_up=0, cpu_share=1.0, tolerate=NOISE, env="", model=MODEL, root=ROOT
        )
    )
    ran = perf(tmp_path, f"--suite-config={path}", "-q", "-k", "mtp-on")
    assert "1 passed" in ran.out
    assert "invalid" not in ran.out
    assert "Xid" not in ran.out
