"""A search in words: each session as a line, and how it ended."""

from __future__ import annotations

from suite.bisect.journal import Search
from suite.bisect.search import SearchResult, Step
from suite.terminal.figures import interval, percent


def step_line(search: Search, step: Step) -> str:
    """One session: the build, what was said of it, and on what grounds."""
    builds = search.task.builds
    who = f"{builds[step.candidate]} against {builds[step.reference]}"
    if step.word == "cannot start":
        return f"{who}: cannot start, passed over: {step.why}"
    return f"{who}: {step.word}, {change(step)}"


def outcome_lines(search: Search, outcome: SearchResult) -> list[str]:
    """The answer first, then what it rests on and what to do next."""
    builds, task = search.task.builds, search.task
    ends = _last(search, 0, len(builds) - 1)
    of_what = task.metric + (f" of {search.followed[0]}, {search.followed[1]}" if search.followed else "")
    if outcome.ending == "found" and outcome.last is not None:
        return _found(search, outcome.last, ends, of_what)
    if outcome.ending == "range" and outcome.first is not None and outcome.last is not None:
        named = [builds[place] for place in range(outcome.first, outcome.last + 1)]
        return [
            f"the loss of {of_what} came with one of {len(named)} builds: {', '.join(named)}",
            *_passed_over(search, outcome.first, outcome.last),
        ]
    if outcome.ending == "contradiction" and outcome.first is not None and outcome.last is not None:
        return [
            f"cannot tell: {builds[outcome.last]} lost against {builds[0]}, {builds[outcome.first]} did not, and side by "
            "side the two are alike: one of these sessions misled. Search again on a quieter machine, or with more launches"
        ]
    said = change(ends) if ends is not None else ""
    return {
        "no loss": [f"nothing to search for: {builds[-1]} is not worse than {builds[0]} ({of_what}: {said})"],
        "undecided": [
            f"cannot tell: {builds[-1]} against {builds[0]} stayed undecided ({said}): more launches, or a quieter machine"
        ],
        "cannot start": [f"{builds[-1]} cannot start: {ends.why if ends else ''}; name another bad end"],
    }[outcome.ending]


def _found(search: Search, place: int, ends: Step | None, of_what: str) -> list[str]:
    builds = search.task.builds
    lines = [f"{builds[place]} brought the loss of {of_what}"]
    alone = _last(search, place - 1, place)
    if alone is not None:
        lines.append(f"against {builds[place - 1]}, the build before it: {change(alone)}")
        if alone.word != "no-go":
            lines.append("side by side the two stayed undecided: the loss is shown against the good end only")
        elif ends is not None and ends.loss is not None and alone.loss is not None:
            lines += _rest(search, place, ends.loss, alone)
    lines.append(f"why: python -m suite why --reference {builds[place - 1]} --candidate {builds[place]}")
    return lines


def _rest(search: Search, place: int, whole: float, alone: Step) -> list[str]:
    """What of the whole loss another build brought, where this one surely brought less."""
    if alone.loss_high is None or alone.loss_high >= whole or place == len(search.task.builds) - 1:
        return []
    return [
        f"that is less than the {100 * whole:.1f} % that were lost in all: search the rest with --good "
        f"{search.task.builds[place]} --bad {search.task.builds[-1]}"
    ]


def _passed_over(search: Search, first: int, last: int) -> list[str]:
    lines = []
    for place in range(first, last):
        step = _last(search, 0, place)
        if step is not None:
            why = step.why if step.word == "cannot start" else f"could not be decided: {change(step)}"
            lines.append(f"{search.task.builds[place]}: {why}")
    return lines


def _last(search: Search, reference: int, candidate: int) -> Step | None:
    there = [s for s in search.steps if (s.reference, s.candidate) == (reference, candidate)]
    return there[-1] if there else None


def change(step: Step) -> str:
    """The loss with its interval, in the direction of worse."""
    if step.loss is None:
        return step.why or "no figure"
    if step.loss_low is None or step.loss_high is None:
        return f"{percent(step.loss)} worse"
    return f"{percent(step.loss)} worse ({interval(step.loss_low, step.loss_high)})"
