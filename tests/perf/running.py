"""Runs ``pytest -m perf`` in a process of its own and tells what it said and what it left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 150

SMALL = ("--rounds=2", "--launches=1")
"""As little as can be judged."""


TARGET = """
default_target = "here"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = {{ speculative-algorithm = "NEXTN" }}
[budgets.quick]
max_tokens = 48
requests = 2
warmup_requests = 1
acceptance_prompts = 12
acceptance_context_tokens = 8192
scenarios = ["activation", "decode", "acceptance"]
[targets.here]
model = "{model}"
timeouts = {{ ready_s = {ready_s}, drain_s = 2.0, request_s = 20.0, stall_s = 3.0 }}
client = {{ lag_p99_s = 0.5, lag_of_itl = 100.0 }}
tolerate = ["client_saturated", "not_warmed_up"]
{more}
launch = {{ kind = "process", module = "simulator", cwd = "{root}" }}
flags = {{ enable-metrics = true }}
"""

MODEL = "simulator/checkpoints/qwen3.5-397b-a17b-nvfp4"


def config(tmp_path: Path, model: str = MODEL, ready_s: float = 30.0, more: str = "") -> str:
    """The option that names a small configuration, written into ``tmp_path``.

    Its client is allowed to be late, its rounds to differ: these tests run on whatever machine, and are not about its
    speed.
    """
    path = tmp_path / "suite.toml"
    path.write_text(TARGET.format(model=model, ready_s=ready_s, more=more, root=ROOT))
    return f"--suite-config={path}"


@dataclass(frozen=True)
class Ran:
    """A finished run."""

    code: int
    out: str
    results: Path

    @property
    def run(self) -> dict[str, Any]:
        """The only ``run.json`` it wrote."""
        (path,) = self.results.glob("*/run.json")
        loaded: dict[str, Any] = json.loads(path.read_text())
        return loaded

    @property
    def logs(self) -> list[Path]:
        """Server logs, one per launch."""
        return sorted(self.results.glob("*/logs/*.log"))

    def first_line_of(self, item: str) -> str:
        """The first line of the failure of the item whose id holds ``item``."""
        found = re.search(rf"^_+ .*{re.escape(item)}.* _+\n(.*)$", self.out, re.MULTILINE)
        assert found, f"no failure of {item} in:\n{self.out}"
        return found[1]


def command(tmp_path: Path, *arguments: str) -> list[str]:
    """The command line, with results and baselines of its own."""
    return [
        *(sys.executable, "-m", "pytest", "-m", "perf", "-p", "no:cacheprovider"),
        *(f"--results={tmp_path / 'results'}", f"--baselines={tmp_path / 'baselines'}"),
        *arguments,
    ]


def perf(tmp_path: Path, *arguments: str) -> Ran:
    """Run to the end, from the repository's root."""
    done = subprocess.run(
        command(tmp_path, *arguments), cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return Ran(done.returncode, done.stdout + done.stderr, tmp_path / "results")


def servers_of(tmp_path: Path) -> list[psutil.Process]:
    """Simulators that were started by a run with this ``tmp_path`` and are still there."""
    mark = str(tmp_path)
    return [
        process
        for process in psutil.process_iter(["cmdline", "environ"])
        if "simulator" in (process.info["cmdline"] or [])
        and (process.info["environ"] or {}).get("PERF_TEST_MARK") == mark
    ]


def start(tmp_path: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a run and leave it running; its servers carry a mark in their environment."""
    return subprocess.Popen(
        command(tmp_path, *arguments),
        cwd=ROOT,
        env={**os.environ, **(env or {}), "PERF_TEST_MARK": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def interrupt(process: subprocess.Popen[str]) -> str:
    """What Ctrl-C does, and what the run then said."""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT_S)
    return out
