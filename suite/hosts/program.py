"""A program of this suite's own on a host: its modules go over the standard input of a Python there; nothing is copied."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from suite import redact

# Reads exactly so many bytes of program from its input, and leaves the rest of the input to the program.
_BOOT = """
import json, os, sys, types
n, b = {size}, b""
while len(b) < n:
    c = os.read(0, n - len(b))
    if not c: sys.exit("the suite went away")
    b += c
for name, text in json.loads(b.decode()):
    m = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), m.__dict__)
    if "." in name:
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], m)
m.main(sys.argv[1:])
"""


class Program(NamedTuple):
    """``python -c boot ARGUMENT...`` with ``source`` at the start of its input runs the last module's ``main``."""

    boot: str
    source: str


def program(package: str, modules: Sequence[str]) -> Program:
    """The program made of ``modules`` of ``package`` (standard library only), in the order they need each other.

    What a secret is (``suite.redact``) goes with them.
    """
    parents = [package[:end] for end, letter in enumerate(package) if letter == "."]
    sent = [(name, "") for name in (*parents, package)]
    sent[1:1] = [(redact.__name__, files("suite").joinpath("redact.py").read_text("utf-8"))]
    texts = files(package)
    sent += [(f"{package}.{name}", texts.joinpath(f"{name}.py").read_text("utf-8")) for name in modules]
    source = json.dumps(sent)  # ASCII: as many bytes as characters
    return Program(_BOOT.format(size=len(source)), source)
