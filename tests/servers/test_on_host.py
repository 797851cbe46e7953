"""What is sent to hosts runs on their own Python: 3.8 and later, standard library only."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suite.servers.on_host import claims, processes

_SUITE = Path(__file__).parents[2] / "suite"
MODULES = [*sorted((_SUITE / "servers" / "on_host").glob("*.py")), _SUITE / "redact.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_modules_sent_over_need_nothing_but_an_old_python(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            ours = name == "suite.redact" or name.startswith("suite.servers.on_host")
            assert ours or name.split(".")[0] in sys.stdlib_module_names


def test_a_port_is_free_taken_and_named() -> None:
    port = processes.free_port("127.0.0.1")
    assert processes.can_listen("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert not processes.can_listen("127.0.0.1", port)
        assert processes.listener_on(port) == os.getpid()
    assert processes.listener_on(port) is None


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("python -m x --api-key sesame --port 1", "python -m x --api-key *** --port 1"),
        ("x --admin-api-key=sesame y", "x --admin-api-key=*** y"),
        ("x --tokenizer-path /models/x --max-tokens 8", "x --tokenizer-path /models/x --max-tokens 8"),
    ],
)
def test_commands_are_shown_without_secrets(words: str, shown: str) -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(30)", *words.split()]
    process = subprocess.Popen(sleeping)
    try:
        deadline = time.monotonic() + 10
        while not (told := processes.command_of(process.pid)).endswith(shown) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert told.endswith(shown)
    finally:
        process.kill()
        process.wait()


def test_a_lock_that_is_dropped_can_be_taken_again(tmp_path: Path) -> None:
    first = claims.Lock(str(tmp_path), "GPU 0")
    first.take({"who": "me"}, 0.0)
    second = claims.Lock(str(tmp_path), "GPU 0")
    with pytest.raises(claims.Busy) as caught:
        second.take({"who": "you"}, 0.0)
    assert caught.value.holder == {"who": "me"}
    first.drop()
    second.take({"who": "you"}, 0.0)
    second.drop()
