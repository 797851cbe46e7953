"""A published SGLang in an environment of its own, made once and kept in a cache: whole, or without what needs a GPU."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from suite.builds.errors import ReleaseError
from suite.sglang import builds

CACHE_VARIABLE = "SGLANG_PERF_GATE_CACHE"
TORCH = "2.13.0"
"""The torch that every release is rehearsed with, as a CPU build; only what it reports of cards is asked of it."""

_NEEDS_A_GPU = re.compile(
    r"torch(vision|audio|codec|ao|-memory-saver)?|triton|flash-attn.*|flashinfer.*|flash-mla|humming-kernels|cuda-.*"
    r"|nvidia-.*|nvshmem.*|quack-kernels|sgl-(kernel|deep.*|flash-mla)|sglang-kernel|tilelang|tokenspeed.*|kernels"
    r"|fast-hadamard.*|cutlass.*|tml-renderers|deepseek-recipe"
)
_NOT_ASKED = re.compile(
    r"anthropic|av|blobfile|build|datasets|decord2?|modelscope|numba|outlines|py-spy|smg-.*|grpcio.*|timm|watchfiles"
)
"""Large, and of no use to whoever only reads a command line."""
_ALSO = ("dill",)
"""What SGLang imports although its own requirements do not name it: it comes with one of those left out."""
LOCK = "lock.txt"
_WAVES = 12
_LEAST_SHARED_BYTES = 1 << 16

Say = Callable[[str], None]


def cache() -> Path:
    """The folder that environments are kept in: ``$SGLANG_PERF_GATE_CACHE`` or the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "sglang-perf-gate"


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """An environment: its Python, and all that is installed in it, as pins."""

    python: str
    lock: tuple[str, ...]


def interpreter(release: str, say: Say = print) -> str:
    """The Python of an environment that holds ``release`` without what needs a GPU: enough to be rehearsed.

    Made when it is not there, which takes minutes.

    Raises:
        ReleaseError: it cannot be installed; the text holds the installer's last words and what to do.
    """
    version = release.removeprefix("sglang==")
    made = cache() / "releases" / f"{version}-{_here()}-torch{TORCH}"
    return str(_python(_kept(made, f"SGLang {version}", lambda part: _make(part, version), say)))


def whole(version: str, packages: Sequence[str] = (), say: Say = print) -> BuiltEnvironment:
    """An environment with a version of SGLang and all that it requires, fit to be launched.

    Args:
        packages: requirements put over what SGLang asks for (``flashinfer-python==0.6.1``): a swap of one dependency.

    Raises:
        ReleaseError: it cannot be installed.
    """
    return _whole(f"{version}", [f"sglang=={version}"], packages, f"SGLang {version}", say)


def whole_of(tree: Path, packages: Sequence[str] = (), say: Say = print) -> BuiltEnvironment:
    """The same of a tree of sources, which is installed as it lies there, so that git still tells what it is.

    Raises:
        ReleaseError: it cannot be installed.
    """
    source = tree / "python" if (tree / "python" / "pyproject.toml").exists() else tree
    return _whole(tree.name, ["--editable", str(source)], packages, f"SGLang of commit {tree.name[:12]}", say)


def _whole(
    name: str, wanted: Sequence[str], packages: Sequence[str], what: str, say: Say
) -> BuiltEnvironment:
    swapped = f"-{zlib.crc32(' '.join(sorted(packages)).encode()):08x}" if packages else ""
    swaps = f" with {', '.join(packages)}" if packages else ""

    def make(part: Path) -> None:
        part.parent.mkdir(parents=True, exist_ok=True)
        _step([sys.executable, "-m", "venv", str(part)], "make a virtual environment")
        _install(part, wanted, whole=True)
        if packages:
            _install(part, packages)
        (part / LOCK).write_text("".join(f"{pin}\n" for pin in _pins(part)), encoding="utf-8")

    at = _kept(cache() / "builds" / f"{name}-{_here()}{swapped}", f"{what}{swaps}", make, say)
    return BuiltEnvironment(str(_python(at)), tuple((at / LOCK).read_text(encoding="utf-8").split()))


def _kept(made: Path, what: str, make: Callable[[Path], None], say: Say) -> Path:
    """An environment of the cache, made where it is not there or its Python is gone."""
    with alone():
        if not _works(made):
            say(f"{what} is installed into {made}, once (a few minutes)")
            part = made.with_name(made.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            try:
                make(part)
                shutil.rmtree(made, ignore_errors=True)
                part.rename(made)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            _share(made)
    return made


def _here() -> str:
    return f"py{sys.version_info[0]}.{sys.version_info[1]}"


def _pins(at: Path) -> list[str]:
    return sorted(
        f"{canonicalize_name(found.metadata['Name'])}=={found.version}" for found in _distributions(at)
    )


def nightly(day: str) -> str:
    """The version of the nightly wheel of a day (``2026-11-30``) on the package index that pip uses here.

    Raises:
        ReleaseError: the index has none of that day, or could not be asked.
    """
    there = [version for version in versions("--pre") if builds.read(version).date == day]
    if not there:
        raise ReleaseError(
            f"the package index has no SGLang of {day}: point PIP_EXTRA_INDEX_URL to one that has nightlies, or name "
            "an image by its dated tag"
        )
    return there[0]


def newest() -> str:
    """The newest release of SGLang on the package index that pip uses here.

    Raises:
        ReleaseError: the index could not be asked.
    """
    return versions()[0]


def versions(*more: str) -> list[str]:
    """The versions that the index has, newest first."""
    outcome = _run([sys.executable, "-m", "pip", "index", "versions", *more, "sglang"])
    found = re.search(r"^sglang \((\S+)\)", outcome.stdout, re.MULTILINE)
    if outcome.returncode or not found:
        raise ReleaseError(
            f"the versions of SGLang could not be listed: {_last(outcome.stdout)}; name one: 0.5.23"
        )
    every = re.search(r"^Available versions: (.+)$", outcome.stdout, re.MULTILINE)
    return [version.strip() for version in every[1].split(",")] if every else [found[1]]


# ----------------------------------------------------------------------------------------------- making
def _make(at: Path, version: str) -> None:
    at.parent.mkdir(parents=True, exist_ok=True)
    _step([sys.executable, "-m", "venv", str(at)], "make a virtual environment")
    _torch(at)
    _install(at, [f"sglang=={version}", *_ALSO])
    for _ in range(_WAVES):
        wanted = _wanted(at)
        if not wanted:
            return _check_torch(at)
        _install(at, wanted)
    raise ReleaseError(f"SGLang {version}: its requirements contradict each other: {', '.join(_wanted(at))}")


def _torch(at: Path) -> None:
    """A CPU build of torch: by its own name first, because PyPI's plain one is a CUDA build on Linux."""
    if _tried(at, [f"torch=={TORCH}+cpu"]).returncode:
        _install(at, [f"torch=={TORCH}"])


def _check_torch(at: Path) -> None:
    check = "import torch; assert torch.version.cuda is None, f'torch {torch.__version__} is a CUDA build'"
    _step(
        [str(_python(at)), "-c", check],
        "load torch",
        "point pip to an index that has CPU wheels of torch (PyTorch's own is described on its installation page) by "
        "PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS, and run this again",
    )


def _install(at: Path, wanted: Sequence[str], *, whole: bool = False) -> None:
    _checked(_tried(at, wanted, whole=whole), f"install {', '.join(wanted)[:200]}")


def _tried(at: Path, wanted: Sequence[str], *, whole: bool = False) -> subprocess.CompletedProcess[str]:
    """Install by uv, where it is there, and by pip, whose configuration uv does not read, where that fails.

    whole: with all that is required; development versions of what is required are taken only where they are named.
    """
    deps = () if whole else ("--no-deps",)
    uv = shutil.which("uv")
    if uv:
        by_uv = _run([uv, "pip", "install", "--quiet", *deps, "--python", str(_python(at)), *wanted])
        if by_uv.returncode == 0:
            return by_uv
    compiling = () if whole else ("--no-compile",)
    return _run([str(_python(at)), "-m", "pip", "install", *deps, "--quiet", *compiling, *wanted])


def _wanted(at: Path) -> list[str]:
    """What the packages of the environment require and it lacks, as pip takes it: one entry a package."""
    installed = {canonicalize_name(found.metadata["Name"]): found for found in _distributions(at)}
    specifiers: dict[str, set[str]] = defaultdict(set)
    extras: dict[str, set[str]] = defaultdict(set)
    needed = [need for found in installed.values() for need in _requirements(found, "")]
    for need in needed:
        name = canonicalize_name(need.name)
        specifiers[name].add(str(need.specifier))
        if name in installed and (new := need.extras - extras[name]):
            extras[name] |= new
            needed += [more for extra in new for more in _requirements(installed[name], extra)]
    wanted = []
    for package, each in sorted(specifiers.items()):
        whole = ",".join(sorted(filter(None, each)))
        there = installed.get(canonicalize_name(package))
        if there is None or not Requirement(f"{package}{whole}").specifier.contains(there.version, True):
            wanted.append(f"{package}{whole}")
    return wanted


def _requirements(found: Distribution, extra: str) -> Iterator[Requirement]:
    """What a package needs here with an extra (``""`` for none), without what needs a GPU or is not asked."""
    environment = {**{k: str(v) for k, v in default_environment().items()}, "extra": extra}
    for text in found.requires or ():
        need = Requirement(text)
        name = canonicalize_name(need.name)
        left_out = _NEEDS_A_GPU.fullmatch(name) or _NOT_ASKED.fullmatch(name)
        if not left_out and (need.marker is None or need.marker.evaluate(environment)):
            yield need


def _distributions(at: Path) -> Iterator[Distribution]:
    yield from distributions(path=[str(folder) for folder in (at / "lib").glob("python*/site-packages")])


def _share(made: Path) -> None:
    """Files that another environment of the cache has alike become one file with two names."""
    others = [other for other in made.parent.iterdir() if other != made and not other.name.endswith(".part")]
    for file in made.rglob("*"):
        if file.is_symlink() or not file.is_file() or file.stat().st_size < _LEAST_SHARED_BYTES:
            continue
        for other in others:
            twin = other / file.relative_to(made)
            if twin.is_file() and _alike(twin, file):
                spare = file.with_name(f".{file.name}.part")
                os.link(twin, spare)
                os.replace(spare, file)
                break


def _alike(one: Path, two: Path) -> bool:
    return one.stat().st_size == two.stat().st_size and one.read_bytes() == two.read_bytes()


def _python(at: Path) -> Path:
    return at / "bin" / "python"


def _works(at: Path) -> bool:
    """Is there an environment, and is the Python that it was made from still there?"""
    return _python(at).exists() and _run([str(_python(at)), "-c", ""]).returncode == 0


@contextmanager
def alone() -> Iterator[None]:
    """Hold the cache's lock: two at once do not make the same environment twice."""
    try:
        cache().mkdir(parents=True, exist_ok=True)
        lock = (cache() / "lock").open("w")
    except OSError as error:
        raise ReleaseError(f"{cache()}: {error.strerror}; name another folder by {CACHE_VARIABLE}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _step(command: Sequence[str], what: str, todo: str = "see above, and run it again") -> None:
    _checked(_run(command), what, todo)


def _checked(
    outcome: subprocess.CompletedProcess[str], what: str, todo: str = "see above, and run it again"
) -> None:
    if outcome.returncode:
        raise ReleaseError(f"could not {what}: {_last(outcome.stdout)}; {todo}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command; both its streams come back as text. No PYTHONPATH reaches it, pip's settings do."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run(
        command,
        env=clean,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def _last(text: str) -> str:
    return " / ".join(line.strip() for line in text.strip().splitlines()[-3:])[:600] or "it printed nothing"
