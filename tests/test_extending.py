"""docs/extending.md: what it says is enough to add, is enough; its own blocks are put where it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```(?:text|python)\n(.*?)^```$", (ROOT / "docs" / "extending.md").read_text(), re.M | re.S
)

METRIC_IS_THERE = """
from suite import metrics
from suite.gate import Rules
from suite.session.recording import STORED
assert metrics.METRICS["prompt_tokens_per_s"].label == "prompt tokens/s"
assert "prompt_tokens_per_s" in STORED
metrics.require_known(["prompt_tokens_per_s"])
Rules(metrics={"prompt_tokens_per_s": {"gated": True, "margin": 0.05}})
import numpy as np
from suite.load import ClientHealth, RequestRecord, Round, Timeline
line = Timeline(np.array([0.1, 2.0]), np.array([1, 2]))
record = RequestRecord(0, "p", "code", 0.0, 0.0, 0.0, 2.0, line, 1000, 0, 2, 0, ("length",), None, None, 1, 2)
value = metrics.summarize(Round((record,), ClientHealth(0, 0, 0, 0, 0, 0), 2.0, 0.0, 0.0, "w", "h", "closed", 1))
assert value["prompt_tokens_per_s"].value == 500.0, value["prompt_tokens_per_s"]
"""

CONFIG = """
default_target = "toy"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[budgets.quick]
scenarios = ["tools"]
[targets.toy]
model = "nowhere"
"""

LAUNCH_IS_THERE = """
from pathlib import Path
from suite import config
from suite.hosts import LocalHost
from suite.servers.runtimes import LaunchRequest, runtime_of
from suite.sglang.flags import Flags
suite = config.load(Path("suite.toml"))
runtime = runtime_of(suite, suite.target(), LocalHost())
words = ["apptainer", "exec", "--nv", "box.sif", "python3"]
assert runtime.python({}) == words, runtime.python({})
plan = runtime.plan(LaunchRequest(Flags({"port": 1}), {}, "token", "toy", "mtp-off"))
assert plan.stages == [[*words, "-m", "sglang.launch_server", "--port", "1"]], plan.stages
Path("suite.toml").write_text(Path("suite.toml").read_text().replace("image", "imago"))
try:
    config.load(Path("suite.toml"))
except config.ConfigError as error:
    assert "there are: kind, image" in str(error), error
else:
    raise AssertionError("a key that is none")
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the suite to add to."""
    shutil.copytree(ROOT / "suite", tmp_path / "suite", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def _added(file: Path, before: str, block: str, before_this: str = "") -> None:
    text, place = file.read_text(), before + before_this
    assert text.count(place) == 1
    file.write_text(text.replace(place, before + block + before_this))


def _python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_metric_is_one_entry_in_one_file(copied: Path) -> None:
    _added(copied / "suite" / "metrics" / "registry.py", "_ENTRIES = (\n", BLOCKS[0])
    ran = _python(copied, "-c", METRIC_IS_THERE)
    assert ran.returncode == 0, ran.stderr


def test_a_kind_of_scenario_is_one_line_in_one_file(copied: Path) -> None:
    _added(copied / "suite" / "config" / "kinds.py", "SCENARIO_KINDS = {\n", BLOCKS[1])
    (copied / "suite.toml").write_text(CONFIG)
    (copied / "scenarios").mkdir()
    (copied / "scenarios" / "test_tools.py").write_text(BLOCKS[2])
    words = ("-m", "pytest", "-p", "suite.plugin", "-p", "no:cacheprovider", "--strict-markers", "-m", "perf")
    ran = _python(copied, *words, "-v", "--rootdir=.", "--suite-config=suite.toml", "scenarios")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "test_tool_calls[mtp-on-launch1] PASSED" in ran.stdout
    assert "2 passed" in ran.stdout


def test_a_kind_of_launch_is_a_table_a_file_and_a_line(copied: Path) -> None:
    launches = copied / "suite" / "config" / "launches.py"
    _added(launches, "", BLOCKS[3], before_this="Launch: TypeAlias")
    _added(launches, "SystemdLaunch", " | ApptainerLaunch", before_this=" | AttachLaunch, Field")
    runtimes = copied / "suite" / "servers" / "runtimes"
    (runtimes / "apptainer.py").write_text(BLOCKS[4])
    kinds = runtimes / "kinds.py"
    _added(kinds, "] = {\n", BLOCKS[5])
    _added(kinds, "from suite.hosts import Host\n", "from suite.config.launches import ApptainerLaunch\n")
    _added(kinds, "import docker", ", apptainer", before_this=", process")
    (copied / "suite.toml").write_text(
        CONFIG.replace("tools", "decode") + '[targets.toy.launch]\nkind = "apptainer"\nimage = "box.sif"\n'
    )
    ran = _python(copied, "-c", LAUNCH_IS_THERE)
    assert ran.returncode == 0, ran.stderr
