"""`python -m suite why`, whole: two modelled builds launched, profiled through /start_profile, read, told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.__main__ import main
from tests.traces.made import RECORDED, gpu_trace

ROOT = Path(__file__).parents[2]
TOML = f"""
default_target = "t"
[targets.t]
model = "{ROOT}/simulator/checkpoints/qwen3.5-397b-a17b-nvfp4"
gpus = 1
timeouts = {{ ready_s = 60.0, drain_s = 5.0 }}
[targets.t.launch]
kind = "process"
python = "{{python}}"
module = "simulator"
[targets.t.builds.slow-draft]
flags = {{ fault = "draft-cost=1.5" }}
[targets.t.builds.no-start]
flags = {{ no-such-flag = true }}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "suite.toml"
    path.write_text(TOML)
    return path


def test_a_draft_that_costs_more_is_named_and_verification_is_not(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    asked = ["--reference", "own", "--candidate", "slow-draft", "--steps", "16", "--out", str(out)]
    assert main(["why", f"--suite-config={config}", *asked]) == 0
    said = capsys.readouterr().out
    assert said.startswith("draft +")
    table = json.loads((out / "why.json").read_text())
    changes = {p["part"]: p["change"]["after_s"] / p["change"]["before_s"] for p in table["parts"]
               if p["change"]["before_s"] > 1e-4}  # fmt: skip
    assert changes["draft"] == pytest.approx(1.5, abs=0.15)
    assert changes["draft-extend"] == pytest.approx(1.5, abs=0.15)
    assert changes["verify"] == pytest.approx(1.0, abs=0.15)
    assert (out / "why.txt").read_text() in said + "\n"
    traces = [str(out / f"{name}.trace.json.gz") for name in ("reference", "candidate")]
    assert main(["why", "--traces", *traces]) == 0, "the files tell the same again"
    assert capsys.readouterr().out.startswith("draft +")


def test_a_build_that_does_not_come_up_is_said(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--reference", "own", "--candidate", "no-start", "--steps", "4", f"--results={config.parent}"]
    assert main(["why", f"--suite-config={config}", *asked]) == 9
    assert "nothing to compare: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name both builds with --reference and --candidate"),
        (["--reference", "own", "--candidate", "slow-draf"], "slow-draft"),
        (["--traces", "no-such.gz", "none.gz"], "no-such.gz: No such file"),
        (
            [
                "--traces",
                *(str(RECORDED / f"sglang-0.5.20-cpu-{mtp}.trace.json.gz") for mtp in ("nextn", "off")),
            ],
            "the reference verifies drafts and the candidate does not",
        ),
    ],
)
def test_wrong_usage_is_a_sentence(
    config: Path, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", f"--suite-config={config}", *options]) == 2
    assert said in capsys.readouterr().err


def test_two_clocks_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gpu.gz").write_bytes(gpu_trace())
    host = RECORDED / "sglang-0.5.20-cpu-nextn.trace.json.gz"
    assert main(["why", "--traces", str(host), str(tmp_path / "gpu.gz")]) == 2
    assert "seen on the host and the candidate on the gpu" in capsys.readouterr().err
