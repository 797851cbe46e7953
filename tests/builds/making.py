"""Makes a checkout of something that calls itself SGLang, and runs the simulator when it is launched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GIT = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org"} | {
    "GIT_COMMITTER_NAME": "t",
    "GIT_COMMITTER_EMAIL": "t@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
LAUNCHER = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
from simulator.launch import main
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *words],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **GIT},
    )
    return done.stdout.strip()


def package(folder: Path) -> Path:
    """A package ``sglang`` in ``folder``, with a version file that an installation left there."""
    root = folder / "sglang"
    (root / "srt").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "_version.py").write_text("__version__ = '0.5.20'\n__commit_id__ = 'g0123456789'\n")
    (root / "launch_server.py").write_text(LAUNCHER)
    (root / "srt" / "server_args.py").write_text("speculative_algorithm: str = None\n")
    return root


def checkout(folder: Path) -> Path:
    """The same in a repository with one commit and a tag, as ``python/sglang``."""
    root = package(folder / "python")
    git(folder, "init", "--quiet")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    git(folder, "tag", "v0.5.23")
    return root


def interpreter(folder: Path, package_folder: Path) -> Path:
    """An executable that is this Python with ``package_folder`` importable, as an editable installation makes one."""
    path = folder / "interpreter"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{package_folder}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return path
