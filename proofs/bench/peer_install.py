"""Where the load tools to compare with are installed: an environment each below `.bench/`, outside version control.

What cannot be installed leaves its reason there, which the benchmark then shows. bench_serving comes with SGLang itself:
the environment that tests/sglang_cpu/install.py makes is taken, and the one package that it lacks is put beside it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from proofs.bench import bounded
from proofs.bench.peer_tools import TOOLS, Tool
from tests.sglang_cpu import install as sglang_cpu

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".bench"
LIMIT_S = 900.0
"""For one step of an installation."""
START_LIMIT_S = 120.0

REQUIREMENTS = {
    "guidellm": ("guidellm==0.8.1", f"torch=={sglang_cpu.pins(sglang_cpu.DEFAULT_VERSION)['torch']}"),
    "aiperf": ("aiperf==0.13.0",),
    "bench_serving": (
        *("datasets==5.2.0", "multiprocess==0.70.19", "xxhash", "pyarrow>=24"),
        *("pandas", "python-dateutil", "six"),
    ),
}
"""The versions whose exports are read here. bench_serving's are what the import of `datasets` needs beside SGLang."""

KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")
"""What a tool's run sees of this process's environment."""

CUDA_TORCH = (
    "it needs torch, and pip would take a CUDA build (several GB): name an index that has CPU wheels of torch in "
    "PIP_EXTRA_INDEX_URL, or install with --any-torch"
)


class CannotInstall(Exception):
    """The reason, in one line."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A tool that can be run: with which Python, which packages from elsewhere, and the words that say what it is."""

    tool: Tool
    python: Path
    words: str
    path: Path | None = None

    def environment(self, home: Path) -> dict[str, str]:
        """Variables for a run: no hub, no proxy, no keys, no settings of the user's; all files below `home`."""
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "NO_COLOR": "1", "COLUMNS": "120"}
        places = {"HOME": str(home), "TMPDIR": str(home), "HF_HOME": str(home / "hf")}
        beside = {"PYTHONPATH": str(self.path)} if self.path else {}
        return kept | offline | quiet | places | beside


@dataclass(slots=True)
class Found:
    """What is there: tools that can be run, and why others cannot, by the names that `--peers` takes."""

    installed: dict[str, Installed] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------ what is there
def find(names: Sequence[str]) -> Found:
    """Look for the named tools; nothing is started."""
    found = Found()
    for name in names:
        there = _there(name)
        if there is not None:
            found.installed[name] = there
        else:
            reason = HOME / f"{name}.reason"
            found.missing[name] = (
                f"could not be installed: {reason.read_text(encoding='utf-8').strip()}"
                if reason.exists()
                else "not installed (python -m proofs.bench.peers install)"
            )
    return found


def _there(name: str) -> Installed | None:
    mark = HOME / name / "made-from"
    whole = mark.exists() and mark.read_text(encoding="utf-8") == _made_from(name)
    return _installed(name) if whole else None


def _installed(name: str) -> Installed | None:
    tool = TOOLS[name]
    if name != "bench_serving":
        python = HOME / name / "bin/python"
        versions = _versions(HOME / name)
        words = ", ".join(f"{part} {versions[part]}" for part in (tool.package, "torch") if part in versions)
        return Installed(tool, python, words) if python.exists() else None
    environment = _sglang_environment()
    if environment is None:
        return None
    words = f"sglang {_versions(environment)['sglang']} from {environment.name} of tests/sglang_cpu (stand-ins for the GPU's kernels)"
    return Installed(tool, environment / "bin/python", words, HOME / name / "packages")


def _sglang_environment() -> Path | None:
    """SGLang's environment, of the default version or else of the newest there is."""
    versions = [*sglang_cpu.known_versions(), sglang_cpu.DEFAULT_VERSION]
    there = (sglang_cpu.home() / f"venv-{version}" for version in reversed(versions))
    return next((path for path in there if (path / "bin/python").exists()), None)


def _versions(environment: Path) -> dict[str, str]:
    places = [str(path) for path in (environment / "lib").glob("python*/site-packages")]
    return {found.name.lower(): found.version for found in distributions(path=places)}


def _made_from(name: str) -> str:
    return "\n".join(REQUIREMENTS[name])


# -------------------------------------------------------------------------------------------------- installing
def install(names: Sequence[str], any_torch: bool = False) -> Found:
    """Make what is not there, one tool after another; prints a line for each, and leaves the reasons of failures."""
    HOME.mkdir(exist_ok=True)
    for name in names:
        if (there := _there(name)) is not None:
            print(f"{TOOLS[name].name}: {there.words}, was there", flush=True)
            continue
        print(f"{TOOLS[name].name}: installing ...", flush=True)
        reason = HOME / f"{name}.reason"
        reason.unlink(missing_ok=True)
        try:
            _make(name, any_torch)
        except (CannotInstall, bounded.GaveUp, OSError) as error:
            shutil.rmtree(HOME / name, ignore_errors=True)
            reason.write_text(f"{error}\n", encoding="utf-8")
            print(f"{TOOLS[name].name}: could not be installed: {error}", flush=True)
        else:
            there = _there(name)
            assert there is not None
            print(f"{TOOLS[name].name}: {there.words}", flush=True)
    return find(names)


def _make(name: str, any_torch: bool) -> None:
    place = HOME / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    log = HOME / f"{name}.log"
    if name == "bench_serving":
        if _sglang_environment() is None:
            _step([sys.executable, str(ROOT / "tests/sglang_cpu/install.py")], log)
        environment = _sglang_environment()
        if environment is None:
            raise CannotInstall(f"tests/sglang_cpu/install.py made no environment, see {log}")
        pip = [str(environment / "bin/python"), "-m", "pip", "install", "--no-deps"]
        _step([*pip, "--target", str(place / "packages"), *REQUIREMENTS[name]], log)
    else:
        python = str(place / "bin/python")
        _step([sys.executable, "-m", "venv", str(place)], log)
        torch = [needed for needed in REQUIREMENTS[name] if needed.startswith("torch")]
        if torch and not any_torch and takes_cuda(_resolved(python, torch)):
            raise CannotInstall(CUDA_TORCH)
        _step([python, "-m", "pip", "install", *REQUIREMENTS[name]], log)
    _check_that_it_starts(name, log)
    (place / "made-from").write_text(_made_from(name), encoding="utf-8")


def _check_that_it_starts(name: str, log: Path) -> None:
    there = _installed(name)
    if there is None:
        raise CannotInstall("it is not found where it was put")
    command = [str(there.python), "-m", there.tool.module, "--help"]
    with tempfile.TemporaryDirectory(prefix="peer-") as home:
        ended = bounded.run(command, there.environment(Path(home)), Path(home), log, START_LIMIT_S)
    if ended.status:
        raise CannotInstall(f"it is installed, but does not start: {last_words(ended.output)}")


def _step(command: Sequence[str], log: Path) -> None:
    """One step; a failure says what pip, or whatever it was, said last."""
    ended = bounded.run(command, _plain(os.environ), HOME, log, LIMIT_S)
    if ended.status:
        raise CannotInstall(last_words(ended.output))


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    clean = {key: value for key, value in environment.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    return clean | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off", "PIP_NO_INPUT": "1"}


def last_words(output: str) -> str:
    """The line that says best why a command failed: the last that pip calls an error, else the last there is."""
    lines = [line.strip(" |") for line in output.splitlines() if line.strip(" |")]
    errors = [line for line in lines if line.startswith(("ERROR:", "error:"))]
    return (errors or lines or ["it printed nothing"])[-1][:300]


def _resolved(python: str, requirements: Sequence[str]) -> str:
    """What pip would install, as the JSON of its report; nothing is installed."""
    pip = [python, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", *requirements]
    try:
        done = subprocess.run(
            pip, env=_plain(os.environ), capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotInstall("pip did not find out within 300 s which torch it would take") from error
    if done.returncode:
        raise CannotInstall(last_words(done.stderr))
    return done.stdout


def takes_cuda(report: str) -> bool:
    """Whether what pip would install holds CUDA's libraries."""
    names = [part["metadata"]["name"].lower() for part in json.loads(report)["install"]]
    return any(name.startswith(("nvidia-", "cuda-")) for name in names)
