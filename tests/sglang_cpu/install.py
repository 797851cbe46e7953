"""Makes what real SGLang needs to run here without a GPU: its environment and tiny checkpoints, outside version control.

    python tests/sglang_cpu/install.py [--versions 0.5.23,0.5.19]

Everything goes below `.sglang-cpu/` in the repository's root, or below $SGLANG_CPU_HOME. Each part is built aside
and linked into place when it is whole, under a name that holds the hash of what it was made from: a second run
does nothing, a run after a change or an interruption makes the part again. Standard library only.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEFAULT_VERSION = "0.5.23"
PYTHON = (3, 11)
DEFAULT_CHECKPOINT = "qwen3_5_moe_vl"
CHECKPOINTS = {
    DEFAULT_CHECKPOINT: ["--family", "qwen3_5_moe_vl"],
    "qwen3_5_moe_vl-dead-draft": ["--family", "qwen3_5_moe_vl", "--mtp-head", "random"],
    "qwen3_5_moe_vl-mtp-missing": ["--family", "qwen3_5_moe_vl", "--mtp-head", "missing"],
    "qwen3_5_moe_vl-no-mtp": ["--family", "qwen3_5_moe_vl", "--mtp-head", "none"],
    "mimo": ["--family", "mimo"],
}
CHECKPOINT_SOURCES = ("checkpoint.py", "tokenizer.py", "weights.py")
STANDINS = HERE / "standins"
CHECK_TORCH = "import torch; assert torch.version.cuda is None, f'torch {torch.__version__} is a CUDA build'"
CPU_TORCH = """\
torch must be a CPU build, and pip found another. Point pip to an index that has CPU wheels of torch (PyTorch's own
is described on its installation page), by PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS or pip's configuration, and run
this again."""


class InstallError(Exception):
    """The installation cannot go on; the text says why and what to do."""


# --------------------------------------------------------------------------------------------- versions
def home() -> Path:
    """The directory everything is made in."""
    return Path(os.environ.get("SGLANG_CPU_HOME") or ROOT / ".sglang-cpu").absolute()


def known_versions() -> list[str]:
    """The SGLang versions that have pins here, oldest first."""
    names = (path.stem.removeprefix("requirements-") for path in HERE.glob("requirements-*.txt"))
    return sorted(names, key=lambda version: [int(part) for part in version.split(".")])


def pins(version: str) -> dict[str, str]:
    """Package to version for one SGLang: the default's pins, changed where the version's own file says so."""

    def read(of: str) -> dict[str, str]:
        lines = (HERE / f"requirements-{of}.txt").read_text(encoding="utf-8").splitlines()
        pinned = (line.split("==") for line in lines if line and not line.startswith("#"))
        return {name.lower(): number for name, number in pinned}

    return read(DEFAULT_VERSION) | read(version)


def asked_versions(text: str) -> list[str]:
    """The versions named on the command line, checked."""
    versions = [version.strip() for version in text.split(",") if version.strip()]
    if not versions:
        raise InstallError(f"--versions names none; there are {', '.join(known_versions())}")
    if unknown := sorted(set(versions) - set(known_versions())):
        raise InstallError(
            f"no pins for SGLang {', '.join(unknown)}; there are {', '.join(known_versions())}"
        )
    return versions


def find_python() -> str:
    """An interpreter of the version that the pins were made for: this one, or one found on PATH."""
    wanted = ".".join(map(str, PYTHON))
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    found = shutil.which(f"python{wanted}")
    if (
        found
        and run([found, "-c", f"import sys; sys.exit(sys.version_info[:2] != {PYTHON})"]).returncode == 0
    ):
        return found
    raise InstallError(
        f"SGLang's pins are for Python {wanted}; this is {sys.version.split()[0]} and no working python{wanted} is on "
        f"PATH. Install Python {wanted} (on Debian with python{wanted}-venv), or run this script with it."
    )


# ----------------------------------------------------------------------------------------------- making
def make_environment(version: str, at: Path) -> None:
    """A virtual environment with the pins of one SGLang version, in which torch loads."""
    log = home() / f"install-{version}.log"
    log.unlink(missing_ok=True)
    python, requirements = str(at / "bin/python"), at / "requirements.txt"
    logged_step("make a virtual environment", [find_python(), "-m", "venv", str(at)], log)
    requirements.write_text(
        "".join(f"{name}=={number}\n" for name, number in pins(version).items()), encoding="utf-8"
    )
    pip = [python, "-m", "pip", "install", "--no-deps", "--progress-bar=off", "-r", str(requirements)]
    logged_step(f"install {len(pins(version))} packages", pip, log)
    logged_step("import torch", [python, "-c", CHECK_TORCH], log, hint=CPU_TORCH)


def logged_step(what: str, command: Sequence[str], log: Path, hint: str = "") -> None:
    """Run one step and append its output to the log; a failure shows the last lines."""
    print(f"  {what} ...", flush=True)
    outcome = run(command)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n{outcome.stdout}\n")
    if outcome.returncode:
        last = "\n".join("  | " + line for line in outcome.stdout.splitlines()[-15:])
        raise InstallError(
            f"could not {what} (exit {outcome.returncode}), see {log}:\n{last}\n{hint}".rstrip()
        )


def put_standins_into(environment: Path) -> None:
    """Copy the kernels' stand-ins into the environment, where every start of its Python finds them."""
    packages = next((environment / "lib").glob("python*/site-packages"))
    shutil.copytree(STANDINS, packages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / "sglang_cpu_start.pth").write_text("import sglang_cpu_start\n", encoding="utf-8")


def make_checkpoints(at: Path) -> None:
    """All checkpoints, by the maker beside this file."""
    for name, options in CHECKPOINTS.items():
        command = [sys.executable, "-m", "tests.sglang_cpu.checkpoint", *options, str(at / name)]
        outcome = run(command, cwd=ROOT)
        if outcome.returncode:
            raise InstallError(f"could not make checkpoint {name}:\n{outcome.stdout}")


def run(command: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; both its streams come back as text. No PYTHONPATH reaches it, pip's settings do."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run(
        command,
        cwd=cwd,
        env=clean,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


# --------------------------------------------------------------------------------------------- in place
def digest(*parts: str) -> str:
    """A short hash of what a part is made from."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def put_in_place(name: str, made_from: str, witness: str, make: Callable[[Path], None]) -> None:
    """Make one part in a directory of its own and link `name` to it, unless that was done before.

    `witness` is a path in the part that must exist (a virtual environment dies with the Python it was made from).
    """
    link, made = home() / name, home() / "made" / f"{name}-{made_from}"
    print(link, flush=True)
    if link.is_symlink() and link.resolve() == made.resolve() and (made / witness).exists():
        print("  is up to date", flush=True)
        return
    started = time.monotonic()
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    make(made)
    new_link = link.with_name(f".{name}-new")
    new_link.unlink(missing_ok=True)
    new_link.symlink_to(made.relative_to(home()))
    os.replace(new_link, link)
    for other in made.parent.glob(f"{name}-*"):
        if other.name.rpartition("-")[0] == name and other != made:
            shutil.rmtree(other, ignore_errors=True)
    print(f"  made in {time.monotonic() - started:.0f} s", flush=True)


@contextmanager
def alone() -> Iterator[None]:
    """Hold the directory's lock: two runs at once, as of two tox environments, do not disturb each other."""
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another installation in {home()} is running: waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(versions: Sequence[str]) -> None:
    """Bring every part up to date; says where it is and how long it took."""
    with alone():
        for version in versions:
            pinned = [f"{name}=={number}" for name, number in sorted(pins(version).items())]
            environment = f"venv-{version}"
            put_in_place(environment, digest(*pinned), "bin/python", partial(make_environment, version))
            put_standins_into(home() / environment)
        sources = [(HERE / name).read_text(encoding="utf-8") for name in CHECKPOINT_SOURCES]
        put_in_place("checkpoints", digest(*sources, repr(CHECKPOINTS)), DEFAULT_CHECKPOINT, make_checkpoints)
        link_default_home()


def link_default_home() -> None:
    """Where another home was chosen, let `.sglang-cpu` lead there: suite.toml names that path."""
    default = ROOT / ".sglang-cpu"
    if default != home() and (default.is_symlink() or not default.exists()):
        default.unlink(missing_ok=True)
        default.symlink_to(home())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 when everything is in place, 1 with a message when it is not."""
    parser = argparse.ArgumentParser(
        description="Install real SGLang for machines without a GPU, and its checkpoints."
    )
    parser.add_argument(
        "--versions",
        default=DEFAULT_VERSION,
        help=f"comma-separated SGLang versions, an environment each: {', '.join(known_versions())} (default %(default)s)",
    )
    try:
        install(asked_versions(parser.parse_args(arguments).versions))
    except InstallError as error:
        print(f"install.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
