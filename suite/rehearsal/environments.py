"""A published SGLang in an environment of its own, without the packages that need a GPU: made once, kept in a cache."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from suite.rehearsal.errors import ReleaseError

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
_WAVES = 12
_LEAST_SHARED_BYTES = 1 << 16

Say = Callable[[str], None]


def cache() -> Path:
    """The folder that environments are kept in: ``$SGLANG_PERF_GATE_CACHE`` or the user's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "sglang-perf-gate"


def is_release(text: str) -> bool:
    """Is ``text`` a version number of SGLang (``0.5.20``, ``sglang==0.5.20``), not the path of an interpreter?"""
    return re.fullmatch(r"(sglang==)?\d+(\.\w+)+(\+\w+)?", text) is not None


def interpreter(release: str, say: Say = print) -> str:
    """The Python of an environment that holds ``release``; made when it is not there, which takes minutes.

    Raises:
        ReleaseError: it cannot be installed; the text holds the installer's last words and what to do.
    """
    version = release.removeprefix("sglang==")
    with _alone():
        made = cache() / "releases" / f"{version}-py{sys.version_info[0]}.{sys.version_info[1]}-torch{TORCH}"
        if not _works(made):
            say(f"SGLang {version} is installed into {made}, once (a few minutes)")
            part = made.with_name(made.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            try:
                _make(part, version)
                shutil.rmtree(made, ignore_errors=True)
                part.rename(made)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            _share(made)
    return str(_python(made))


def newest() -> str:
    """The newest release of SGLang on the package index that pip uses here.

    Raises:
        ReleaseError: the index could not be asked.
    """
    outcome = _run([sys.executable, "-m", "pip", "index", "versions", "sglang"])
    found = re.search(r"^sglang \((\S+)\)", outcome.stdout, re.MULTILINE)
    if outcome.returncode or not found:
        raise ReleaseError(
            f"the newest SGLang could not be asked for: {_last(outcome.stdout)}; name one: --build 0.5.23"
        )
    return found[1]


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


def _install(at: Path, wanted: Sequence[str]) -> None:
    _checked(_tried(at, wanted), f"install {', '.join(wanted)[:200]}")


def _tried(at: Path, wanted: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Install by uv, where it is there, and by pip, whose configuration uv does not read, where that fails."""
    uv = shutil.which("uv")
    if uv:
        by_uv = _run([uv, "pip", "install", "--quiet", "--no-deps", "--python", str(_python(at)), *wanted])
        if by_uv.returncode == 0:
            return by_uv
    pip = [str(_python(at)), "-m", "pip", "install", "--no-deps", "--quiet", "--no-compile"]
    return _run([*pip, *wanted])


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
def _alone() -> Iterator[None]:
    """Hold the cache's lock: two rehearsals at once do not make the same environment twice."""
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
    return " / ".join(line.strip() for line in text.strip().splitlines()[-3:])[:600] or "it said nothing"
