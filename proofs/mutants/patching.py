"""Puts a mutant into an interpreter that has the code imported already, so that nothing is imported twice."""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from proofs.mutants.making import Mutant

OWN = ("suite", "tests")
PLAIN = (bool, int, float, str, bytes, type(None))

Place = tuple[str, int]
"""A code object within its file: its qualified name and its first line."""


def module_of(path: str) -> str:
    """The name under which a file is imported."""
    return path.removesuffix(".py").replace("/", ".")


def function_of(code: CodeType) -> str:
    """The outermost function that a code object is part of."""
    return code.co_qualname.partition(".<locals>")[0]


class Original:
    """A file as it was imported: its code objects, and the functions that are made of them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._module = importlib.import_module(module_of(path))
        self._codes = _codes(Path(path).read_text("utf-8"), path)
        where = self._module.__file__
        self._functions = [
            thing
            for thing in gc.get_objects()
            if isinstance(thing, FunctionType) and thing.__code__.co_filename == where
        ]

    def touched(self, mutant: Mutant) -> set[str]:
        """The functions that a mutant changes; with ``<module>`` among them it changes what imports have run."""
        changed = _codes(mutant.source, mutant.path)
        if changed.keys() != self._codes.keys():
            return {"<module>"}
        places = {place for place, code in changed.items() if _own(code) != _own(self._codes[place])}
        called = {(f.__code__.co_qualname, f.__code__.co_firstlineno) for f in self._functions}
        found = set()
        for place in places:
            inside = "<locals>" in place[0] or place in called
            found.add(function_of(changed[place]) if inside else "<module>")
        return found

    def put(self, mutant: Mutant) -> bool:
        """Give the functions that exist the mutant's code, and its constants to whoever imported them; whether that worked."""
        changed = _codes(mutant.source, mutant.path)
        if "<module>" in self.touched(mutant) and not self._constants(mutant):
            return False
        try:
            for function in self._functions:
                code = function.__code__
                function.__code__ = changed[code.co_qualname, code.co_firstlineno]
        except (KeyError, ValueError):
            return False
        return True

    def _constants(self, mutant: Mutant) -> bool:
        """Whether constants are all that differs of what importing the mutant makes."""
        fresh = ModuleType(self._module.__name__)
        fresh.__file__ = self._module.__file__
        try:
            exec(compile(mutant.source, mutant.path, "exec"), fresh.__dict__)
        except Exception:
            return False  # the slow way will tell
        old, found = vars(self._module), False
        for name, value in vars(fresh).items():
            if name.startswith("__") or not _plain(value) or old.get(name) == value:
                continue
            found = True
            for module in [m for key, m in sys.modules.items() if key.partition(".")[0] in OWN]:
                if vars(module).get(name) is old[name]:
                    setattr(module, name, value)
            old[name] = value
        return found


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant wherever its module is imported: the slow way, after :func:`forget`."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, name: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != module_of(self._mutant.path):
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=self._mutant.path)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.source, self._mutant.path, "exec"), module.__dict__)


def forget() -> None:
    """Forget what is our own, so that it is imported again."""
    for name in list(sys.modules):
        if name.partition(".")[0] in OWN:
            del sys.modules[name]


def _codes(source: str, path: str) -> Mapping[Place, CodeType]:
    return {(c.co_qualname, c.co_firstlineno): c for c in _inside(compile(source, path, "exec"))}


def _inside(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _inside(part)


def _own(code: CodeType) -> tuple[object, ...]:
    """What a code object does by itself; what it holds does its own."""
    # by their text, because 1, 1.0 and True are equal
    constants = [repr(part) for part in code.co_consts if not isinstance(part, CodeType)]
    return code.co_code, tuple(constants), code.co_names, code.co_varnames


def _plain(value: object) -> bool:
    return isinstance(value, PLAIN) or (
        isinstance(value, tuple | frozenset) and all(_plain(part) for part in value)
    )
