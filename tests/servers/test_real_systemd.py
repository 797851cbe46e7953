"""The systemd way on the real systemd: what is quoted arrives, secrets stay hidden, the unit comes back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.booted import Booted, systemd
from tests.servers.conftest import STANDINS, run_suite_in

FLAGS = {"note": "", "tag": "x $y ${Z} %z 'q' \"p\"", "behave": ["orphan"]}
ENV = {"V": "a b$c%d", "API_KEY": "sh%h", "ARM": "1"}

RUN = """
import json, os, subprocess, sys
from pathlib import Path
from suite import config
from suite.servers import launcher_for
suite = config.load(Path(sys.argv[1]))
target = suite.target()
active = lambda: subprocess.run(["systemctl", "is-active", "sglang@big"], capture_output=True, text=True).stdout.strip()
subprocess.run(["systemctl", "start", "sglang@big"], check=True)
seen = {"before": active()}
with launcher_for(suite, target, Path(sys.argv[1]).parent / "logs", lambda line: None) as launcher:
    seen["meanwhile"] = active()
    server = launcher.start(target.arm("good"))
    seen["log"], seen["command"] = server.log_tail(99), server.command
    seen["running"] = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    seen["stray"] = server.stop().stray
    seen["ended"] = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    try:
        launcher.start(target.arm("bad"))
    except Exception as error:
        seen["bad"] = [type(error).__name__, str(error)]
    try:
        launcher.start(target.arm("killed"))
    except Exception as error:
        seen["killed"] = [type(error).__name__, str(error)]
seen["after"] = active()
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    with systemd(tmp_path_factory.mktemp("units")) as running:
        yield running


def test_the_systemd_way_on_the_real_systemd(booted: Booted, tmp_path: Path) -> None:
    (booted.units / "sglang@.service").write_text(
        f'[Service]\nEnvironment=PYTHONPATH={STANDINS} "WHO=%i $x"\nEnvironmentFile={tmp_path}/env\nRestart=always\n'
        f"ExecStartPre=/bin/echo before %i\nLimitMEMLOCK=infinity\nWorkingDirectory={tmp_path}\n"
        f"ExecStart={sys.executable} -m standin_server \\\n  --model-path '/old model' \\\n# comment\n  --port ${{PORT}}\n"
    )
    (tmp_path / "env").write_text("PORT=28765\nARM=file\n")
    note = tmp_path / "note"
    flags = {**FLAGS, "note": str(note)}
    (tmp_path / "suite.toml").write_text(
        'default_target = "t"\n[targets.t]\nmodel = "/m x"\n[targets.t.timeouts]\nready_s = 40.0\ndrain_s = 5.0\n'
        '[targets.t.launch]\nkind = "systemd"\nunit = "sglang@big.service"\n[targets.t.budgets.quick]\n'
        + f"[targets.t.arms.good.flags]\n{_toml(flags)}[targets.t.arms.good.env]\n{_toml(ENV)}"
        + '[targets.t.arms.bad]\nflags = { nope = 1 }\n[targets.t.arms.killed]\nflags = { behave = ["sigquit"] }\n'
    )
    done = booted.run([*run_suite_in(tmp_path, RUN), str(tmp_path / "suite.toml")])
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert [seen[key] for key in ("before", "meanwhile", "after")] == ["active", "inactive", "active"]
    got = json.loads(note.read_text())
    assert got["argv"][got["argv"].index("--tag") + 1] == FLAGS["tag"]
    assert {key: got["env"].get(key) for key in ("V", "API_KEY", "ARM", "WHO")} == {**ENV, "WHO": "big $x"}
    assert got["cwd"] == str(tmp_path)
    assert "before big" in seen["log"]
    assert "sh%h" not in seen["running"] + " ".join(seen["command"])
    assert seen["running"].count("time.sleep(300)") == 3
    assert (seen["stray"], seen["ended"].count("time.sleep(300)")) == ([], 0)
    assert seen["bad"][0] == "IncompatibleFlags"
    assert seen["killed"][0] == "ChildDied"
    assert booted.run(["systemctl", "list-units", "--all", "sglang-perf-gate-*", "--no-legend"]).stdout == ""


def _toml(table: dict[str, object]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
