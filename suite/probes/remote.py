"""Runs this suite's own standard-library scripts by an interpreter on a host, and reads the JSON they print."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suite import redact
from suite.hosts import CommandTimeout, Host, HostError
from suite.sglang.errors import ProbeHostError

_PACKAGE = "suite.probes.on_host"
_FOLDER = Path(__file__).parent / "on_host"
_BOOT = """\
import json, sys, types
for name, text in json.load(sys.stdin):
    module = types.ModuleType(name)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, name, "exec"), module.__dict__)
module.main(sys.argv[1:])
"""
"""Nothing is copied to the host: the scripts arrive on standard input, in the order they need each other."""


def run_script(
    host: Host,
    python: str | Sequence[str],
    modules: Sequence[str],
    arguments: Sequence[str] = (),
    *,
    timeout_s: float = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Any:
    """Run ``modules`` of ``suite/probes/on_host``; the last one's ``main`` prints the JSON that is returned.

    Raises:
        ProbeHostError: no such interpreter, too slow, or it failed; the text holds the end of what it said.
    """
    own = [("suite", ""), ("suite.redact", Path(redact.__file__).read_text("utf-8"))]
    scripts = [*own, (_PACKAGE, ""), *((f"{_PACKAGE}.{name}", _source(name)) for name in modules)]
    words = [python] if isinstance(python, str) else list(python)
    argv = [*words, "-c", _BOOT, *arguments]
    shown = f"{shlex.join(words)} on {host.name}"
    try:
        done = host.run(argv, input=json.dumps(scripts), timeout_s=timeout_s, env=env, cwd=cwd)
    except CommandTimeout:
        raise ProbeHostError(f"{shown}: the probe {modules[-1]} did not end within {timeout_s:g} s") from None
    except HostError as error:
        raise ProbeHostError(f"{shown}: {error}") from None
    if done.code == 127:
        raise ProbeHostError(f"{shown}: no such interpreter; set python in the target's launch table")
    try:
        return json.loads(done.stdout.rstrip().rpartition("\n")[2])
    except ValueError:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise ProbeHostError(
            f"{shown}: the probe {modules[-1]} ended with status {done.code}: {said}"
        ) from None


def _source(name: str) -> str:
    return (_FOLDER / f"{name}.py").read_text("utf-8")
