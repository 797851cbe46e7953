"""The doctor on arms: would this SGLang take each command line, and what would come of it?"""

from __future__ import annotations

from collections.abc import Iterator

from suite.doctor.line import Line
from suite.hosts import HostError
from suite.probes.installation import CannotResolve, Refused, Resolved, resolve_all
from suite.servers.runtimes import Runtime
from suite.sglang import speculation_sources
from suite.sglang.flags import Flags, history_of

Outcome = Resolved | Refused | CannotResolve


def arms(runtime: Runtime) -> Iterator[Line]:
    """One line for the arms that resolve alike and as asked, one for each that does not."""
    alike: dict[str, list[str]] = {}
    for name, flags, outcome in _resolved(runtime):
        line = _line(runtime, name, flags, outcome)
        if line.status == "ok":
            alike.setdefault(line.said, []).append(name)
        else:
            yield line
    for said, names in alike.items():
        yield Line("ok", "arms", f"{said}: {', '.join(names)}")


def _resolved(runtime: Runtime) -> Iterator[tuple[str, Flags, Outcome]]:
    """Each arm with what it resolves to; arms with the same variables share one interpreter."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, arm in runtime.target.arms.items():
        groups.setdefault(tuple(sorted(runtime.env(arm).items())), []).append(name)
    for variables, names in groups.items():
        python = runtime.python(dict(variables))
        if runtime.attached or python is None:
            return
        lines = [runtime.flags(runtime.target.arm(name)) for name in names]
        outcomes = resolve_all(runtime.host, python, lines, dict(variables), runtime.cwd, runtime.module)
        yield from zip(names, lines, outcomes, strict=True)


def _line(runtime: Runtime, name: str, flags: Flags, outcome: Outcome) -> Line:
    what = f"arm {name}"
    if isinstance(outcome, Refused):
        known = [said for flag in flags if f"--{flag}" in outcome.reason and (said := history_of(flag))]
        return Line("problem", what, outcome.reason, "; ".join(known) or "correct the flags in suite.toml")
    if isinstance(outcome, CannotResolve):
        accepted = "its flags are accepted, but it is " if outcome.accepted else ""
        said = f"{accepted}not resolved without a launch: {outcome.reason}"
        return Line("warning", what, said, "only a launch can tell what comes of it")
    asked = _asks(runtime, flags)
    if asked is not outcome.speculation.on:
        said = f"would run with {outcome.speculation}, although it was {'' if asked else 'not '}asked for"
        todo = "look for what changes it: the lines source, plugins and environment above"
        return Line("problem", what, said, todo)
    return Line("ok", what, str(outcome.speculation))


def _asks(runtime: Runtime, flags: Flags) -> bool:
    """Does a flag ask for speculation, or a line of the ``--config`` file?"""
    if speculation_sources.asked_by(flags) is not None:
        return True
    if "config" not in flags:
        return False
    try:
        text = runtime.host.read_text(runtime.path(str(flags["config"])))
    except HostError:
        return False
    return speculation_sources.in_file(text) is not None
