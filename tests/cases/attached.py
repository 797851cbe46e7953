"""Runs the suite as a user would against a server that runs already, given by its URL."""

from __future__ import annotations

from pathlib import Path

from tests.perf.running import Ran, perf

CONFIG = """
default_target = "here"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[budgets.quick]
max_tokens = 48
requests = 4
warmup_requests = 0
acceptance_prompts = 12
acceptance_context_tokens = 8192
lossless_prompts = 2
canary_questions = 4
scenarios = ["activation", "decode", "acceptance", "lossless", "canary"]
kinds = ["code"]
concurrencies = [1]
contexts = []
temperatures = [0.0]
[targets.here]
model = "/models/Qwen3.5-397B-A17B-NVFP4"
timeouts = { request_s = 20.0, stall_s = 5.0 }
client = { lag_p99_s = 0.5, lag_of_itl = 100.0 }
tolerate = ["client_saturated", "not_warmed_up"]
launch = { kind = "process", module = "simulator" }
"""


def attached(tmp_path: Path, url: str, *options: str) -> Ran:
    """``pytest -m perf --server-url URL`` with a small budget."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "suite.toml"
    path.write_text(CONFIG)
    return perf(tmp_path, f"--suite-config={path}", f"--server-url={url}", "--rounds=2", "-q", *options)
