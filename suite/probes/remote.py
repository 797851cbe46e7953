"""Runs this suite's own standard-library scripts by an interpreter on a host, and reads the JSON they print."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from suite.hosts import CommandTimeout, Host, HostError
from suite.hosts.program import program
from suite.sglang.errors import ProbeHostError


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
    boot, source = program("suite.probes.on_host", modules)
    words = [python] if isinstance(python, str) else list(python)
    argv = [*words, "-c", boot, *arguments]
    shown = f"{shlex.join(words)} on {host.name}"
    try:
        done = host.run(argv, input=source, timeout_s=timeout_s, env=env, cwd=cwd)
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
