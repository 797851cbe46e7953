"""The doctor on arms: would this SGLang take each command line, and what would come of it?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.doctor.line import Line
from suite.doctor.rehearsed import rehearsed
from suite.probes.installation import CannotResolve, Refused, Resolved, resolve_all
from suite.rehearsal.builds import RehearsedBuild
from suite.rehearsal.rehearse import asks, by_variables
from suite.servers.runtimes import Runtime
from suite.sglang.flags import Flags, history_of

Outcome = Resolved | Refused | CannotResolve


def arms(runtime: Runtime, directory: Path) -> Iterator[Line]:
    """One line for the arms that resolve alike and as asked, one for each that does not.

    Those that cannot be resolved on this machine are rehearsed on pretended cards, with config files that may lie in
    ``directory``, that of ``suite.toml``.
    """
    alike: dict[str, list[str]] = {}
    unresolved: dict[str, str] = {}
    for name, flags, outcome in _resolved(runtime):
        if isinstance(outcome, CannotResolve) and not runtime.simulated:
            unresolved[name] = outcome.reason
            continue
        line = _line(runtime, name, flags, outcome)
        if line.status == "ok":
            alike.setdefault(line.said, []).append(name)
        else:
            yield line
    for said, names in alike.items():
        yield Line("ok", "arms", f"{said}: {', '.join(names)}")
    if unresolved:
        why = "; ".join(dict.fromkeys(unresolved.values()))
        yield from rehearsed(
            directory, runtime.target, RehearsedBuild("here", runtime), list(unresolved), why
        )


def _resolved(runtime: Runtime) -> Iterator[tuple[str, Flags, Outcome]]:
    """Each arm with what it resolves to; arms with the same variables share one interpreter."""
    for variables, names in by_variables(runtime, runtime.target.arms).items():
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
        return Line("warning", what, said, "only a launch can show the result")
    asked = asks(runtime, flags)
    if asked is not outcome.speculation.on:
        said = f"would run with {outcome.speculation}, although it was {'' if asked else 'not '}asked for"
        todo = "look for what changes it: the lines source, plugins and environment above"
        return Line("problem", what, said, todo)
    return Line("ok", what, str(outcome.speculation))
