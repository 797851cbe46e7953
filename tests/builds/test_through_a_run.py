"""A build that is another under the same version is told as the change since the baseline, through a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builds import making
from tests.perf.running import MODEL, ROOT, perf

SUITE = """
default_target = "here"
[arms.mtp-off]
[budgets.quick]
max_tokens = 32
requests = 2
acceptance_prompts = 12
acceptance_context_tokens = 8192
rounds = 2
warmup_requests = 1
launches = 1
concurrencies = [1]
scenarios = ["decode", "configuration"]
[targets.here]
model = "{model}"
timeouts = {{ ready_s = 30.0, drain_s = 2.0, request_s = 20.0, stall_s = 3.0 }}
client = {{ lag_p99_s = 0.5, lag_of_itl = 100.0 }}
tolerate = ["client_saturated", "not_warmed_up"]
env = {{ {env} }}
launch = {{ kind = "process", python = "{python}", cwd = "{root}" }}
flags = {{ enable-metrics = true }}
"""


def run(tmp_path: Path, env: str, *options: str) -> tuple[str, dict[str, Any]]:
    """What a run of the checkout's server said, and its verdicts."""
    python = making.interpreter(tmp_path, tmp_path / "python")
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE.format(model=MODEL, python=python, root=ROOT, env=env))
    ran = perf(tmp_path, f"--suite-config={suite}", *options)
    newest = max(ran.results.glob("*/verdicts.json"), key=lambda path: path.stat().st_mtime)
    return ran.out, json.loads(newest.read_text())


def test_an_edited_file_a_pull_and_a_variable_are_each_named_first(tmp_path: Path) -> None:
    package = making.checkout(tmp_path)
    _, recorded = run(tmp_path, 'NCCL_P2P_LEVEL = "SYS"', "--record-baseline")
    assert not recorded["changes"]

    (package / "srt" / "server_args.py").write_text("speculative_algorithm: str = None  # patched\n")
    said, edited = run(tmp_path, 'NCCL_P2P_LEVEL = "SYS"')
    (change,) = set(edited["changes"].values())
    assert change.startswith("changed_files none -> python/sglang/srt/server_args.py; code ")
    assert "changed_files none -> python/sglang/srt/server_args.py" in said

    making.git(tmp_path, "commit", "--all", "--quiet", "--message", "pulled")
    _, pulled = run(tmp_path, 'NCCL_P2P_LEVEL = "PIX"')
    (change,) = set(pulled["changes"].values())
    names = [part.split()[0] for part in change.split("; ")]
    assert names[:4] == ["commit", "described", "code", "env.NCCL_P2P_LEVEL"]
    assert "env.NCCL_P2P_LEVEL SYS -> PIX" in change
