"""Reads whole Python packages, as directories or wheels, for what can give ``speculative_algorithm`` a value.

Arguments: the packages. Prints JSON: ``sites``, ``unread`` (files that could hide one), ``files``, ``parsed``.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from suite.probes.on_host.activation import Returns, Scan, Site
from suite.probes.on_host.algorithm import NAME

_MENTION = re.compile(rb"speculative[_-]algo|speculative[_-]?[\"'{]|_algorithm[\"']")
"""The setting or its flag by name, or a piece that its name could be built from."""

_IN_TEXT = re.compile(r"speculative[_-]algorithm[\"']?\]?\s*[,:= ](?!=)\s*[\"']?([^\s,\"'}\])]*)")
_DATA = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".env", ".jinja", ".sh", ".pth")
_COMPILED = (".so", ".pyd", ".pyc")
_OUTSIDE = re.compile(
    r"^[^/]+/(test|benchmark|auto_benchmark|bench_\w+\.py|eval|profiler\.py|multimodal_gen)"
)
"""Parts of SGLang that a server does not run, unless another part imports them."""

Read = Callable[[], bytes]


def files_of(root: str) -> Iterator[tuple[str, Read]]:
    """Each file of a directory, wheel or single file: its name from the root's parent on, and how to read it."""
    if os.path.isfile(root) and not root.endswith(".whl"):
        yield os.path.basename(root), lambda: _bytes(root)
        return
    if os.path.isfile(root):
        with zipfile.ZipFile(root) as archive:
            for name in archive.namelist():
                yield name, lambda name=name: archive.read(name)  # type: ignore[misc]
        return
    root = os.path.abspath(root)
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in ("__pycache__", ".git", "node_modules"))
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, os.path.dirname(root)), lambda path=path: _bytes(path)  # type: ignore[misc]


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Package:
    """What has been seen of one package. Files that do not mention the setting are read, not parsed."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.unread: list[dict[str, str]] = []
        self.files = self.parsed = 0
        self._resolvers: dict[str, list[Site]] = {}
        self._modules: list[tuple[str, bytes]] = []

    def scan(self, root: str) -> Package:
        """Everything under ``root``."""
        for name, read in files_of(root):
            if name.endswith((".py", *_DATA, *_COMPILED)):
                self._file(name, read)
        self._follow_resolvers()
        self.sites.sort(key=lambda site: (site["file"], site["line"]))
        self._mark_server()
        return self

    def _file(self, name: str, read: Read) -> None:
        self.files += 1
        try:
            data = read()
        except (OSError, zipfile.BadZipFile) as error:
            self.unread.append({"file": name, "why": str(error)})
            return
        if name.endswith(".py"):
            self._modules.append((name, data))
        if not _MENTION.search(data):
            return
        if name.endswith(".py"):
            self._module(name, data.decode("utf-8", "replace"))
        elif not name.endswith(_COMPILED):
            self.sites += _data_sites(name, data.decode("utf-8", "replace"))
        elif NAME.encode() in data:
            self.unread.append({"file": name, "why": f"compiled, and names {NAME}"})

    def _module(self, name: str, source: str) -> None:
        try:
            found = Scan(name, source)
            found.visit(ast.parse(source))
        except (SyntaxError, ValueError, RecursionError) as error:
            self.unread.append({"file": name, "why": f"cannot be parsed: {error}"})
            return
        self.parsed += 1
        self.sites += found.sites
        self._add_resolvers(found.resolvers)

    def _add_resolvers(self, found: dict[str, list[Site]]) -> None:
        for name, sites in found.items():
            self._resolvers.setdefault(name, []).extend(sites)

    def _follow_resolvers(self) -> None:
        """Judge what each function returns that is handed the algorithm, and what those that it calls return.

        One that is defined nowhere in the package may answer anything: what it is used for is an activation.
        """
        done: set[str] = set()
        while names := self._resolvers.keys() - done:
            name = min(names)
            done.add(name)
            if not self._follow(name):
                for site in self._resolvers[name]:
                    site["class"] = "activation"

    def _follow(self, resolver: str) -> bool:
        defined = re.compile(rf"\bdef {re.escape(resolver)}\b".encode())
        found = False
        for name, data in self._modules:
            if defined.search(data):
                source = data.decode("utf-8", "replace")
                scan = Returns(name, source, resolver)
                with contextlib.suppress(SyntaxError, ValueError, RecursionError):  # said by _module
                    scan.visit(ast.parse(source))
                found |= scan.found
                self.sites += scan.sites
                self._add_resolvers(scan.resolvers)
        return found

    def _mark_server(self) -> None:
        """Say of each site whether a server can run it: tests and benchmarks only when something else imports them."""
        inside = [data for name, data in self._modules if not _OUTSIDE.match(name)]
        outside = {site["file"] for site in self.sites if _OUTSIDE.match(site["file"])}
        run = {file: any(_imports(data, file) for data in inside) for file in outside}
        for site in self.sites:
            site["server"] = run.get(site["file"], True)


def _imports(data: bytes, file: str) -> bool:
    """Does a module's text name the module in ``file``?"""
    parent, _, last = file.rsplit(".", 1)[0].replace("/", ".").rpartition(".")
    if last.encode() not in data:
        return False
    wanted = rf"{re.escape(parent)}\.{re.escape(last)}\b|from {re.escape(parent)} import [^\n]*\b{re.escape(last)}\b"
    return re.search(wanted.encode(), data) is not None


def _data_sites(name: str, text: str) -> Iterator[Site]:
    for number, line in enumerate(text.splitlines(), 1):
        found = _IN_TEXT.search(line)
        if found and not line.lstrip().startswith("#"):
            empty = found[1].lower() in ("", "null", "none", "~", "{")
            place = {"file": name, "line": number, "function": "", "kind": "data file"}
            yield {**place, "class": "declaration" if empty else "activation", "text": line.strip()[:160]}


def main(arguments: Sequence[str]) -> None:
    """Scan each package and print what was found in all of them."""
    result: dict[str, Any] = {"sites": [], "unread": [], "files": 0, "parsed": 0}
    for root in arguments:
        package = Package().scan(root)
        for field in result:
            result[field] += getattr(package, field)
    json.dump(result, sys.stdout)
