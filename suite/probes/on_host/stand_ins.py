"""Kernel packages that are not here, as modules that answer to any name and keep a list of what decides on them.

Importing, subclassing, decorating and calling them yields more of the same. Where SGLang wants an answer (yes or no,
a version, a number), the question is noted with the place in its source, and the answer is what ``policy`` says: a
caller who resolves once with each policy knows which settings hang on it. A number cannot be answered at all.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import re
import sys
import types
from collections.abc import Iterator, MutableSequence
from typing import Any

KERNELS = {
    "cuda": "cuda-python",
    "cutlass": "nvidia-cutlass-dsl",
    "deep_ep": "sgl-deep-ep",
    "deep_gemm": "sgl-deep-gemm",
    "flash_mla": "sgl-flash-mla",
    "flashinfer": "flashinfer-python",
    "humming": "humming-kernels",
    "pynvml": "nvidia-ml-py",
    "quack": "quack-kernels",
    "sgl_kernel": "sglang-kernel",
    "tilelang": "tilelang",
    "torch_memory_saver": "torch-memory-saver",
}
"""Modules that need a card to be imported, and their package: stand-ins wherever cards are pretended."""

OTHERS = {
    "anthropic": "anthropic",
    "av": "av",
    "blobfile": "blobfile",
    "datasets": "datasets",
    "decord": "decord2",
    "deepseek_recipe": "deepseek-recipe",
    "flash_attn": "flash-attn-4",
    "kernels": "kernels",
    "modelscope": "modelscope",
    "numba": "numba",
    "outlines": "outlines",
    "smg_grpc_servicer": "smg-grpc-servicer",
    "timm": "timm",
    "torchaudio": "torchaudio",
    "torchao": "torchao",
    "torchcodec": "torchcodec",
    "torchvision": "torchvision",
    "triton": "triton",
    "watchfiles": "watchfiles",
    "xgrammar": "xgrammar",
}
"""Modules that a rehearsal's own environment leaves out: stand-ins where they are not installed."""

OLDER_NAMES = {"sglang-kernel": "sgl-kernel", "decord2": "decord", "flash-attn-4": "flash-attn"}
ALWAYS_THERE = frozenset({"triton", "sgl_kernel"})
"""What every SGLang for NVIDIA cards has, whether its own requirements name it or torch's."""

asked: list[dict[str, str]] = []
"""The questions so far: ``what`` was asked, and ``where`` in SGLang's source."""

MARK = "<not decided here: "
"""How a text begins that was made of something unknown."""

known: dict[str, Any] = {}
"""What is known of packages that are not here, by path: what the pretended cards tell, too."""

policy = {"answer": True}
"""What the next question is answered."""


class NotDecidedHere(BaseException):
    """SGLang needs a number that only the real package or card knows; no ``except Exception`` may swallow this."""


def note(what: str) -> None:
    """Keep a question, with the place in SGLang's source that asks it; questions of other packages do not count."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _passes_on(frame):
        frame = frame.f_back
    file = "" if frame is None else frame.f_code.co_filename.rpartition("/sglang/")[2]
    if frame is None or file == frame.f_code.co_filename:
        return
    question = {"what": what, "where": f"sglang/{file}:{frame.f_lineno}"}
    if question not in asked:
        asked.append(question)


def _passes_on(frame: types.FrameType) -> bool:
    """Is it the standard library, torch or this suite's own that asks, on behalf of whoever called it?"""
    name = frame.f_globals.get("__name__", "").partition(".")[0]
    return name in sys.stdlib_module_names or name in ("suite", "packaging", "importlib_metadata", "torch")


class Unknown:
    """Something of a package that is not here: any attribute, call or item of it is another such thing."""

    def __init__(self, path: str = "") -> None:
        self.__dict__["_path"] = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return of(f"{self._path}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        alone = len(arguments) == 1 and not options
        if alone and callable(arguments[0]) and not isinstance(arguments[0], Unknown):
            return arguments[0]  # a decorator leaves its function as it was
        return of(f"{self._path}()")

    def __getitem__(self, key: Any) -> Any:
        return Unknown(f"{self._path}[{key!r}]")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)

    def __instancecheck__(self, other: object) -> bool:
        return False

    def __subclasscheck__(self, other: object) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        note(f"the items of {self._path}")
        return iter(())

    def _reckoned(self, *others: Any) -> Any:
        return Unknown(f"{self._path} in a sum")

    __or__ = __ror__ = __and__ = __rand__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = (
        _reckoned
    )
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = (
        _reckoned
    )
    __neg__ = __abs__ = __round__ = _reckoned

    def __bool__(self) -> bool:
        return self._answer("whether")

    def __contains__(self, item: object) -> bool:
        return self._answer(f"whether {item!r} is in")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str | bytes | int | float | tuple | type(None)):
            return self._answer(f"whether {other!r} equals")
        return other is self

    def __lt__(self, other: object) -> bool:
        return self._answer(f"whether less than {other!r} is")

    __le__ = __gt__ = __ge__ = __lt__

    def __len__(self) -> int:
        raise self._number()

    def __int__(self) -> int:
        raise self._number()

    __index__ = __float__ = __int__

    def __repr__(self) -> str:
        return f"{MARK}{self._path}>"

    def _answer(self, question: str) -> bool:
        note(f"{question} {self._path}")
        return policy["answer"]

    def _number(self) -> NotDecidedHere:
        note(f"the number {self._path}")
        return NotDecidedHere(f"SGLang asks for the number {self._path}")


def of(path: str) -> Any:
    """What ``path`` of a package that is not here yields: what is known of it, or something unknown."""
    return known[path] if path in known else Unknown(path)


class StandIn(types.ModuleType):
    """A module whose every name exists."""

    __path__: MutableSequence[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return version_of(self.__name__.partition(".")[0])
        if name.startswith("__"):
            raise AttributeError(name)
        value = of(f"{self.__name__}.{name}")
        if self.__name__.startswith("triton"):
            value = _of_triton(self.__name__, name)
        setattr(self, name, value)
        return value


def _of_triton(module: str, name: str) -> Any:
    """Kernels are decorated and annotated with names of triton, and these two functions are called outside them."""
    plain = {"cdiv": lambda a, b: -(a // -b), "next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length()}
    if name in plain:
        return plain[name]
    if name[0].isupper() or name == "constexpr":
        return type(name, (), {"__init__": lambda self, value=None, *_, **__: setattr(self, "value", value)})
    return Unknown(f"{module}.{name}")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for a module of ``names``, and for whatever is imported from below it."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.partition(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        """The version that this SGLang requires of a package it has no other of, where it requires just one."""
        wanted = getattr(context, "name", None)
        for module in sorted(self.names):
            if (wanted is None or _plain(package(module)) == _plain(wanted)) and not _installed(
                package(module)
            ):
                yield _Pinned(module, asked_for=wanted is not None)


class _Pinned(importlib.metadata.Distribution):
    """A package in name; whoever walks over all packages (for entry points) does not ask for its version."""

    def __init__(self, module: str, asked_for: bool) -> None:
        self._module = module
        self._asked_for = asked_for

    def read_text(self, filename: str) -> str | None:
        if filename == "top_level.txt":
            return self._module
        if filename != "METADATA":
            return None
        version = version_of(self._module) if self._asked_for else "0"
        return f"Name: {package(self._module)}\nVersion: {version}\n"

    def locate_file(self, path: Any) -> Any:
        return path


def version_of(module: str) -> str:
    """The installed version, or the one that this SGLang requires; a question where it leaves that open."""
    name = package(module)
    if installed := _installed(name):
        return installed
    specifier = _required().get(_plain(name), "")
    if pinned := re.search(r"===?\s*([\w.+!-]+)", specifier):
        return pinned[1]
    note(f"the version of {name}")
    least = re.search(r">=\s*([\w.+!-]+)", specifier)
    return "9999.0" if policy["answer"] else (least[1] if least else "0.0.1")


def package(module: str) -> str:
    """The package that ``module`` comes in, by the name that this SGLang requires it."""
    name = {**KERNELS, **OTHERS}.get(module, module)
    older = OLDER_NAMES.get(name, name)
    return older if _plain(older) in _required() and _plain(name) not in _required() else name


def stand_in_for(module: str) -> None:
    """Stand in for one module more: SGLang imports it, and what it came with was left out here."""
    sys.meta_path.append(Finder(frozenset({module})))


def cuda_version() -> str:
    """The CUDA that this SGLang is made for, as its requirements tell; 13.0 where they do not."""
    found = re.search(r"(\d+)(?:\.(\d+))?", _required().get("cuda-python", ""))
    return f"{found[1]}.{found[2] or 0}" if found else "13.0"


def put_up(cards: bool) -> list[str]:
    """Stand in for what is missing and, where ``cards`` are pretended, for every kernel package; their names."""
    wanted = {
        module
        for module in {**KERNELS, **OTHERS}
        if module in ALWAYS_THERE or _plain(package(module)) in _required()
    }
    first = frozenset(KERNELS) & wanted if cards else frozenset()
    missing = frozenset(name for name in wanted - first if importlib.util.find_spec(name) is None)
    if "torchvision" not in missing:
        # beside a CPU torch the compiled part of the published torchvision does not load
        sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("empty"))
    sys.meta_path.insert(0, Finder(first))
    sys.meta_path.append(Finder(missing))
    return sorted(first | missing)


def _installed(name: str) -> str | None:
    for folder in importlib.metadata.MetadataPathFinder.find_distributions(
        importlib.metadata.DistributionFinder.Context(name=name)
    ):
        return folder.version
    return None


_KNOWN: dict[str, str] = {}


def _required() -> dict[str, str]:
    """The packages that the installed SGLang requires, with its specifiers."""
    if not _KNOWN:
        _KNOWN["sglang"] = ""
        try:
            lines = importlib.metadata.requires("sglang") or []
        except importlib.metadata.PackageNotFoundError:
            lines = []
        for line in lines:
            found = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)", line)
            if found and "extra ==" not in line:
                _KNOWN[_plain(found[1])] = found[2].strip()
    return _KNOWN


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
