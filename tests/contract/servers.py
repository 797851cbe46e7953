"""Starts a server, simulated or real, waits until it answers, and ends it wholly."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.sglang_cpu import install

ROOT = Path(__file__).resolve().parents[2]
NEXTN = ["--speculative-algorithm", "NEXTN"]
ARMS = {"off": [], "on": NEXTN, "thinking": [*NEXTN, "--reasoning-parser", "qwen3"]}
SIMULATOR_MODEL = "simulator/checkpoints/qwen3.5-397b-a17b-nvfp4"


def sglang_target() -> Mapping[str, Mapping[str, object]]:
    """The table of suite.toml that says how real SGLang is run here: the one place where that is written."""
    tables = tomllib.loads((ROOT / "suite.toml").read_text(encoding="utf-8"))
    target: Mapping[str, Mapping[str, object]] = tables["targets"]["sglang-cpu"]
    return target


def sglang_command(
    version: str = install.DEFAULT_VERSION, checkpoint: str = install.DEFAULT_CHECKPOINT
) -> list[str]:
    """The command line of real SGLang on the CPU, without a port."""
    command = [str(install.home() / f"venv-{version}" / "bin/python"), "-m", "sglang.launch_server"]
    command += ["--model-path", str(install.home() / "checkpoints" / checkpoint)]
    flags = {
        **sglang_target()["flags"],
        "sleep-on-idle": True,
    }  # several are up at once, each would take a core
    for name, value in flags.items():
        command += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return command


def sglang_environment() -> dict[str, str]:
    """The variables that real SGLang needs to run without a GPU."""
    return {name: str(value) for name, value in sglang_target()["env"].items()}


def simulator_command() -> list[str]:
    """The simulator, told the same as real SGLang where that shows in its answers."""
    command = [sys.executable, "-m", "simulator", "--model-path", SIMULATOR_MODEL, "--enable-metrics"]
    return [
        *command,
        "--served-model-name",
        "tiny",
        "--max-running-requests",
        "8",
        "--context-length",
        "2048",
    ]


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, ready_s: float = 240.0
) -> Iterator[str]:
    """Run a server on a free port for the length of a `with`, and give its URL once it answers."""
    port = free_port()
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_the_test_run,
        )
        try:
            wait_until_ready(process, f"http://127.0.0.1:{port}", log, ready_s)
            yield f"http://127.0.0.1:{port}"
        finally:
            end(process)


def end_with_the_test_run() -> None:
    """In the new process: ask Linux to kill it when pytest dies, however that happens (SIGKILL runs no `finally`)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path, ready_s: float) -> None:
    """Return once /health_generate answers 200; raise with the last lines of the log if that will not happen."""
    deadline = time.monotonic() + ready_s
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/health_generate", timeout=30) as response:
            if response.status == 200:
                return
        time.sleep(0.2)
    last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    state = "not ready in time" if process.poll() is None else f"exit {process.returncode}"
    raise RuntimeError(f"{' '.join(map(str, process.args))}: {state}\n{last}")  # type: ignore[arg-type]


def end(process: subprocess.Popen[bytes]) -> None:
    """End the server and everything in its session."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
