"""Runs at the start of every Python process of the environment (a .pth file imports it), before anything else.

1. The published torchvision is a CUDA build: beside a CPU torch its compiled library does not load, and registering
   shapes for the operators in it fails. SGLang uses its Python transforms alone, so that one module is left empty.
2. SGLang's kernel files import triton and decorate functions with it. On the CPU none of them is launched, so an
   import that succeeds is enough. A real triton, where there is one, is found first and used.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")


class AbsentTriton(types.ModuleType):
    """A module of triton that is not there: any name in it exists, any decorator returns its function as it was."""

    __path__: Sequence[str] = []
    __version__ = "3.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper() or name == "constexpr":
            value: Any = type(
                name,
                (),
                {"__init__": lambda self, value=None, *rest, **named: vars(self).update(value=value)},
            )
        else:
            full_name = f"{self.__name__}.{name}"
            value = sys.modules.setdefault(full_name, AbsentTriton(full_name))
        setattr(self, name, value)
        return value

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1 and callable(arguments[0]) and not options:
            return arguments[0]  # @triton.jit
        return lambda function: function  # @triton.jit(...)


class TritonFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `triton` and whatever is imported from below it, when nobody else did."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname == "triton" or fullname.startswith("triton."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = AbsentTriton(spec.name)
        if spec.name == "triton":  # these two are also called outside kernels
            vars(module).update(cdiv=ceiling_division, next_power_of_2=next_power_of_2)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def ceiling_division(numerator: int, denominator: int) -> int:
    """As triton.cdiv."""
    return -(numerator // -denominator)


def next_power_of_2(number: int) -> int:
    """As triton.next_power_of_2."""
    return 1 << (number - 1).bit_length() if number > 0 else 1


sys.meta_path.append(TritonFinder())
