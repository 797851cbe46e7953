"""Every command of docs/first-hour.md, one after the other, as its reader would type them; on the simulator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.perf.running import ROOT
from tests.simulator.process import MODEL, serving

PAGE = ROOT / "docs" / "first-hour.md"
URL = "http://127.0.0.1:30000"
SMALL = """
[targets.box.budgets.quick]
scenarios = ["activation", "decode"]
rounds = 2
rounds_max = 2
requests = 2
max_tokens = 32
concurrencies = [1]
warmup_requests = 1
[targets.box.client]
lag_p99_s = 0.5
lag_of_itl = 100.0
[targets.box.gate.metrics]
output_tokens_per_s = { margin = 0.6 }
tpot_s = { margin = 0.6 }
"""


def commands() -> list[str]:
    """The lines after a dollar sign, in order."""
    return re.findall(r"^\$ (.+)$", PAGE.read_text(), re.MULTILINE)


def typed(line: str, url: str, run: str) -> list[str]:
    """A line of the page with this machine's server and run; pytest on the scenarios of the checkout, from elsewhere."""
    words = [url if word == URL else run if word == "RUN" else word for word in line.split()]
    head = [sys.executable, "-m", "suite"]
    if words[:3] == ["pytest", "-m", "perf"]:
        return [*head, "perf", "--", *words[3:], "-p", "no:cacheprovider"]
    assert words[:3] == ["python", "-m", "suite"], line
    return [*head, *words[3:]]


def test_every_command_of_the_first_hour(tmp_path: Path) -> None:
    said: dict[str, str] = {}
    run = ""
    with serving(
        tmp_path / "log", "--model-path", MODEL, "--speculative-algorithm", "NEXTN", "--enable-metrics"
    ) as server:
        for line in commands():
            done = subprocess.run(
                typed(line, f"http://127.0.0.1:{server.port}", run),
                cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True, text=True, timeout=150, check=False,
            )  # fmt: skip
            said[line] = " ".join((done.stdout + done.stderr).split())
            # the doctor may find this machine busy, a run may be disturbed by it
            assert done.returncode in ((0, 1) if " doctor " in line else (0, 8)), (
                f"{line}:\n{done.stdout}{done.stderr}"
            )
            run = next(iter(re.findall(r"results in \S*/(\S+)", done.stdout)), run)
            if " init " in line:
                path = tmp_path / "suite.toml"
                text = re.sub(r"^client = .*$", "", path.read_text(), flags=re.MULTILINE)
                path.write_text(text + SMALL)
    assert len(said) == 9
    told = dict(
        zip(
            ("init", "doctor", "plan", "attach", "grid", "record", "run", "compare", "undo"),
            said.values(),
            strict=True,
        )
    )
    assert "written to suite.toml as target box" in told["init"]
    assert "mtp-off, launch 1" in told["plan"]
    assert "measured as arm mtp-on of target box" in told["attach"]
    assert "2 clients" in told["grid"]
    assert "A (baseline): baseline" in told["compare"]
    assert "took back the recording" in told["undo"]
