"""A commit of somebody's checkout, taken into a tree of its own: what is edited there meanwhile changes no build."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from suite.builds.environments import alone, cache
from suite.builds.errors import BuildError


def taken(repository: Path, commit: str, say: Callable[[str], None]) -> Path:
    """The tree of ``commit``, below the cache; made once.

    Raises:
        BuildError: there is no such repository or commit.
    """
    full = _git(repository, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}").strip()
    with alone():
        tree = cache() / "checkouts" / full
        if not tree.exists():
            say(f"commit {full[:12]} of {repository} is taken into {tree}")
            part = tree.with_name(f"{full}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.parent.mkdir(parents=True, exist_ok=True)
            _git(repository, "clone", "--quiet", "--no-checkout", str(repository), str(part))
            _git(part, "checkout", "--quiet", "--detach", full)
            part.rename(tree)
    return tree


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise BuildError(f"git cannot be run: {error.strerror}; install it, or name another build") from None
    if done.returncode:
        said = " / ".join(done.stderr.strip().splitlines()[-2:]) or "git printed nothing"
        raise BuildError(f"{folder}: git {words[0]}: {said[:300]}")
    return done.stdout
