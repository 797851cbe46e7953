"""The doctor on arms that this machine cannot resolve: rehearsed on pretended cards, and said to be that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from suite import config
from suite.doctor.line import Line, Status
from suite.rehearsal import builds
from suite.rehearsal.builds import RehearsedBuild
from suite.rehearsal.rehearse import cards_for, rehearse
from suite.rehearsal.told import outcomes
from suite.sglang.errors import ProbeError

_STATUS: dict[str, Status] = {"problem": "problem", "open": "warning", "ok": "ok"}
_TODO = {
    "problem": "correct the arm in suite.toml, or leave it out for this SGLang",
    "open": "only a launch can show the result",
}


def rehearsed(
    directory: Path,
    target: config.Target,
    build: RehearsedBuild,
    arms: Sequence[str] | None = None,
    why: str = "",
) -> Iterator[Line]:
    """What is pretended, then a line for each distinct answer of ``build`` to ``arms``; why not, where that cannot be.

    ``why`` is what this machine itself said when it was asked to resolve them.
    """
    try:
        cards = cards_for(target, build.runtime, None)
        found = rehearse(directory, target, build, cards, arms)
    except ProbeError as error:
        here = f"not resolved here ({why}), and" if why else "resolution"
        yield Line("warning", "arms", f"{here} not rehearsed: {error}", _TODO["open"])
        return
    on = f"pretended {found.cards}" if found.cards else "this machine as it is"
    files = f", config files {found.checkpoint}" if found.checkpoint else ""
    here = f"cannot be resolved on this machine ({why}): " if why else ""
    yield Line(
        "ok", "rehearsal", f"{here}SGLang {found.build} on {on}{files}; resolution only, nothing was started"
    )
    for status, said in outcomes(found):
        yield Line(_STATUS[status], "arms rehearsed", said, _TODO.get(status, ""))


def elsewhere(suite: config.Suite, target: config.Target, named: Sequence[str]) -> Iterator[Line]:
    """The arms on builds of this machine that a person named, for a host that cannot be asked."""
    if not named:
        return
    try:
        with builds.opened(suite, target, named, lambda text: None) as opened:
            for build in opened:
                yield from rehearsed(suite.path.resolve().parent, target, build)
    except ProbeError as error:
        yield Line("problem", "arms", str(error))
