"""Which code an SGLang is, whatever its version says: the commit asked of git itself, and a hash of the package's files.

A checkout keeps the version of its last installation, an image may have a file mounted over: only the files tell.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from importlib import metadata

_GENERATED = frozenset({"_version.py"})
"""Written by an installation: says when it was installed, not what the code is."""
_CACHES = frozenset({"__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
_GIT_S = 20.0


def files_hash(root: str) -> tuple[str, int]:
    """A hash over paths and contents of all files below ``root``, caches and generated ones left out, and their number."""
    digest, count = hashlib.sha256(), 0
    for path in _files(root):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).hexdigest()
        digest.update(f"{os.path.relpath(path, root)}\0{content}\0".encode("utf-8", "surrogateescape"))
        count += 1
    return digest.hexdigest(), count


def _files(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _CACHES)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith((".pyc", ".pyo")) and name not in _GENERATED and os.path.isfile(path):
                yield path


_MADE = ("_version.py", "__pycache__/", ".pyc")
"""Ends of what installing and importing leave in a checkout."""


def checkout(root: str) -> dict[str, object] | None:
    """Commit, place between tags and changed files, if git keeps the package; ``None`` if it does not, or cannot be asked.

    An environment that merely lies inside somebody's repository is not that repository's code: git must know the
    package's own ``__init__.py``.
    """
    if _git(root, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = _git(root, "rev-parse", "HEAD")
    changed = _git(root, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    if head is None or changed is None:
        return None
    names = [line[3:] for line in changed.splitlines() if not line.endswith(_MADE)]
    described = _git(root, "describe", "--tags", "--always")
    return {"commit": head.strip(), "described": (described or "").strip(), "changed": names}


def _git(root: str, *words: str) -> str | None:
    """What git says of ``root``; ``None`` where there is no git, no repository, or it refuses.

    Nothing of the repository is run: no file system monitor, and a foreign owner is no reason to refuse to read.
    """
    argv = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", root, *words]
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_GIT_S, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def patched(distribution: metadata.Distribution, root: str) -> list[str] | None:
    """Files of an installed package that are not as its wheel brought them, by the hashes of its RECORD.

    ``None`` where the distribution keeps no hashes of files below ``root`` (an editable installation).
    """
    listed = 0
    changed = []
    for path in distribution.files or []:
        place = os.path.realpath(str(path.locate()))
        if (
            path.hash is None
            or path.hash.mode != "sha256"
            or not place.startswith(os.path.realpath(root) + os.sep)
        ):
            continue
        listed += 1
        if not path.name.endswith((".pyc", ".pyo")) and _record_hash(place) != path.hash.value:
            changed.append(str(path))
    return changed if listed else None


def _record_hash(path: str) -> str | None:
    """A file's hash as RECORD writes it (PEP 376): urlsafe base64 without padding; ``None`` for a file that is gone."""
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).digest()
    except OSError:
        return None
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def commit_of_url(distribution: metadata.Distribution) -> str | None:
    """The commit of an installation straight from a repository (PEP 610)."""
    try:
        text = distribution.read_text("direct_url.json")
        told = json.loads(text) if text else {}
    except (OSError, ValueError):
        return None
    return told.get("vcs_info", {}).get("commit_id") if isinstance(told, dict) else None


def required(distribution: metadata.Distribution) -> list[str]:
    """The distributions that this one asks for in every installation, by their normalized names."""
    asked = [line for line in distribution.requires or [] if "extra ==" not in line.replace("'", '"')]
    found = (re.match(r"[A-Za-z0-9._-]+", line) for line in asked)
    return [normalized(match[0]) for match in found if match]


def normalized(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def cuda_of(torch_root: Sequence[str]) -> str | None:
    """The CUDA that torch was built for, read from its ``version.py``: to import torch takes seconds."""
    for place in torch_root:
        try:
            with open(os.path.join(place, "version.py"), encoding="utf-8") as file:
                found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([^'\"]+)", file.read(), re.MULTILINE)
        except OSError:
            continue
        if found:
            return found[1]
    return None
