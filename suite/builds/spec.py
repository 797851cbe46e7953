"""What a build is called on a command line: read into the same table that ``[builds.NAME]`` of ``suite.toml`` holds."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from suite import config
from suite.builds.build import OWN
from suite.builds.errors import BuildError
from suite.config.errors import nearest
from suite.foreign import one_line

_NIGHTLY = re.compile(r"nightly[=:-]{1,2}(20\d\d-[01]\d-[0-3]\d)")
_IMAGE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+|@sha256:[0-9a-f]{64})")
FORMS = (
    "a release (sglang==0.5.23), a nightly (nightly:2026-11-30), an image (lmsysorg/sglang:v0.5.23), a virtual "
    f"environment or interpreter, a checkout (PATH or PATH@COMMIT), `{OWN}` for the target's, `known-good`, or a "
    "name of [builds] in suite.toml; after a comma, packages that are exchanged (sglang==0.5.23,torch==2.9.1)"
)


def is_release(text: str) -> bool:
    """Is ``text`` a version number of SGLang (``0.5.20``, ``sglang==0.5.20``), not the path of an interpreter?"""
    return re.fullmatch(r"(sglang==)?\d+(\.\w+)+(\+\w+)?", text) is not None


def read(text: str, target: config.Target, directory: Path = Path()) -> config.BuildTable:
    """The table that a specification stands for; nothing is looked up, installed or asked.

    Args:
        text: a name of ``[builds]``, or one of the forms that need no table.
        directory: what relative paths start from.

    Raises:
        BuildError: it is none of them; the text names the forms.
    """
    if text in target.builds:
        return target.builds[text]
    base, comma, packages = text.partition(",")
    if comma:
        return _exchanged(read(base.strip(), target, directory), text, packages.split(","))
    if text == OWN:
        return config.BuildTable(name=OWN)
    if is_release(text):
        return config.BuildTable(name=text, version=text.removeprefix("sglang=="))
    if dated := _NIGHTLY.fullmatch(text):
        return config.BuildTable(name=text, nightly=dated[1])
    return _in_place(text, directory) or _unknown(text, target)


def _exchanged(table: config.BuildTable, text: str, packages: Sequence[str]) -> config.BuildTable:
    """The same with other packages than it asks for: `sglang==0.5.23,torch==2.9.1`."""
    wanted = []
    for package in packages:
        try:
            wanted.append(str(Requirement(package.strip())))
        except InvalidRequirement as error:
            raise BuildError(
                f"{one_line(text, 120)}: {one_line(package, 60)!r} names no package ({one_line(str(error), 80)}); after a "
                "comma comes what is exchanged, such as torch==2.9.1"
            ) from None
    return table.model_copy(update={"name": text, "packages": [*table.packages, *wanted]})


def _in_place(text: str, directory: Path) -> config.BuildTable | None:
    """A folder, a program or an image."""
    path = directory / os.path.expanduser(text)
    if (path / "bin" / "python").exists():
        return config.BuildTable(name=text, python=os.path.abspath(path / "bin" / "python"))
    if path.is_file() or (found := shutil.which(text)) is not None:
        return config.BuildTable(name=text, python=os.path.abspath(path if path.is_file() else str(found)))
    place, at, commit = text.rpartition("@")
    folder = directory / os.path.expanduser(place if at else text)
    if (folder / ".git").exists():
        return config.BuildTable(
            name=text, checkout=os.path.abspath(folder), commit=commit or "HEAD" if at else "HEAD"
        )
    if _IMAGE.fullmatch(text) and not text.startswith("nightly:"):
        return config.BuildTable(name=text, image=text)
    return None


def _unknown(text: str, target: config.Target) -> config.BuildTable:
    close = nearest(text, [*target.builds, OWN, "known-good"])
    raise BuildError(f"{one_line(text, 120)}: no build{close}. A build is {FORMS}")
