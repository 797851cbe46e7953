"""The container way on the real podman, with an image that is empty and lends this machine's own Python."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from tests.servers.conftest import STANDINS, run_suite_in

# podman's runtime wants cgroup v2 alone, which the machine at large may not have.
_INSIDE = """
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"
"""
_PYTHON = "/usr/bin/python3"

RUN = """
import json, os, subprocess, sys, time
from pathlib import Path
from suite import config
from suite.servers import launcher_for
suite = config.load(Path(sys.argv[1]))
target = suite.target()
seen = {}
def containers():
    words = [target.launch.engine, "ps", "--all", "--format", "{{.Names}} {{.Labels}}"]
    return subprocess.run(words, capture_output=True, text=True).stdout
with launcher_for(suite, target, Path(sys.argv[1]).parent / "logs", lambda line: None) as launcher:
    if sys.argv[2:] == ["hold"]:
        launcher.start(target.arm("good"))
        print("holding", flush=True)
        time.sleep(60)
    server = launcher.start(target.arm("good"))
    seen |= {"command": server.command, "phases": server.phases, "during": containers()}
    seen["processes"] = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    seen["how"] = server.stop().how
    for arm in ("bad", "killed"):
        try:
            launcher.start(target.arm(arm))
        except Exception as error:
            seen[arm] = [type(error).__name__, str(error)]
seen["after"] = containers()
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that run a command where podman can run containers."""
    if os.getuid() != 0 or not all(map(shutil.which, ("podman", "unshare", "catatonit"))):
        pytest.skip("real podman needs root, podman and catatonit")
    return ["unshare", "-m", "-C", "sh", "-c", _INSIDE, "sh"]


@pytest.fixture(scope="module")
def engine(inside: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """podman with a store of its own that holds one empty image."""
    store = tmp_path_factory.mktemp("podman")
    path = store / "podman"
    path.write_text(
        f"#!/bin/sh\nexport STORAGE_DRIVER=vfs\nexec {shutil.which('podman')} --root {store}/store "
        f'--runroot {store}/run --cgroup-manager cgroupfs "$@"\n'
    )
    path.chmod(0o755)
    with tarfile.open(store / "empty.tar", "w") as archive:
        for name in ("usr", "lib", "lib64", "bin", "tmp", "etc"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
    tried = [str(path), "import", str(store / "empty.tar"), "localhost/empty:1"]
    done = subprocess.run([*inside, *tried], capture_output=True, text=True, timeout=60, check=False)
    probe = [
        str(path),
        "run",
        "--rm",
        "--init",
        *_OPTIONS,
        *_volumes(),
        "localhost/empty:1",
        _PYTHON,
        "-c",
        "",
    ]
    if done.returncode == 0:
        done = subprocess.run([*inside, *probe], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"podman cannot run a container here: {done.stderr[-300:]}")
    return path


_OPTIONS = ["--cgroups=disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]


def _mounts() -> list[str]:
    lends = ["/usr:/usr:ro", "/usr/lib:/lib:ro", "/usr/bin:/bin:ro", f"{STANDINS}:/standins:ro"]
    return [*lends, "/usr/lib64:/lib64:ro"] if Path("/usr/lib64").exists() else lends


def _volumes() -> list[str]:
    return [word for mount in _mounts() for word in ("--volume", mount)]


@pytest.fixture
def toml(engine: Path, tmp_path: Path) -> Path:
    path = tmp_path / "suite.toml"
    path.write_text(
        f"""
default_target = "t"
[targets.t]
model = "/m x"
env = {{ PYTHONPATH = "/standins", V = "a b$c%d", API_KEY = "shh!shh!" }}
timeouts = {{ ready_s = 60.0, drain_s = 5.0 }}
[targets.t.launch]
kind = "docker"
engine = {json.dumps(str(engine))}
image = "localhost/empty:1"
mounts = {json.dumps(_mounts())}
options = {json.dumps(_OPTIONS)}
python = "{_PYTHON}"
module = "standin_server"
[targets.t.arms]
good = {{ flags = {{ behave = ["orphan"] }} }}
bad = {{ flags = {{ nope = 1 }} }}
killed = {{ flags = {{ behave = ["sigquit"] }} }}
[targets.t.budgets.quick]
""".replace('image = "localhost', 'gpus = ""\nimage = "localhost')
    )
    return path


def test_the_container_way_on_the_real_podman(inside: list[str], toml: Path, tmp_path: Path) -> None:
    run = [*inside, *run_suite_in(tmp_path, RUN), str(toml)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert "sglang-perf-gate.arm:good" in seen["during"]
    assert "shh!shh!" not in seen["processes"] + " ".join(seen["command"])
    assert seen["processes"].count("time.sleep(300)") >= 3
    assert seen["how"] == "SIGTERM"
    assert seen["bad"][0] == "IncompatibleFlags"
    assert seen["killed"][0] == "ChildDied"
    assert seen["after"] == ""


def test_teardown_of_a_real_container_when_the_suite_is_killed(
    inside: list[str], engine: Path, toml: Path, tmp_path: Path
) -> None:
    command = [*inside, *run_suite_in(tmp_path, RUN), str(toml), "hold"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "holding\n"
        list_them = [*inside, str(engine), "ps", "--all", "--quiet"]
        assert subprocess.run(list_them, capture_output=True, text=True, check=True).stdout
        run.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 30
        while subprocess.run(list_them, capture_output=True, text=True, check=True).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.2)
