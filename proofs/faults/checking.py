"""Is what was said of a fault what must be said of it? Pure functions from a run to its shortcomings."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from proofs.faults.lines import BROKEN, INFRASTRUCTURE, INVALID, REGRESSION, Line, Says
from proofs.faults.playing import Ended, Run
from suite.gate.status import UNDECIDED


def shortcomings(line: Line, run: Run) -> list[str]:
    """Everything that is not as it must be, a sentence each; empty if all is well."""
    found = [*_unsaid(line, run.ended), *_confused(line, run.ended), *_summed_up(line, run)]
    if not run.ended:
        found.append(f"no scenario ran (pytest ended with status {run.status})")
    if line.finding and not re.search(line.finding, run.tables):
        found.append(f"no table shows {line.finding!r}")
    if not line.must and run.status not in ((0, UNDECIDED) if line.also else (0,)):
        found.append(f"pytest ended with status {run.status}, although nothing may fail")
    if line.unsaid and (match := re.search(line.unsaid, run.printed)):
        found.append(f"it must not say {match[0]!r}")
    if line.must and run.recorded:
        found.append(f"of a server with a fault it recorded {', '.join(run.recorded)}")
    if line.must and run.status == 0:
        found.append("pytest ended with status 0")
    return found


def disturbed(run: Run) -> bool:
    """Did the machine that plays, and not the server, spoil something, or leave it undecided?"""
    return any(
        ended.word == "inconclusive" or (ended.word == "invalid" and "client_saturated" in ended.text)
        for ended in run.ended
    )


def said(line: Line, run: Run) -> str:
    """The sentence by which this fault was caught; for a line where nothing must be said, that it was not."""
    for says in line.must:
        for ended in run.ended:
            if _is(says, ended):
                return f"{ended.scenario}: {ended.first_line}"
    if line.finding and (match := re.search(line.finding, run.tables)):
        return f"finding: {match[0]}"
    return "" if line.must else "nothing"


def _is(says: Says, ended: Ended) -> bool:
    return (
        ended.scenario == says.scenario
        and ended.word == says.word
        and says.where in ended.parameters
        and re.search(says.pattern, ended.first_line) is not None
        and re.search(says.why, ended.text) is not None
    )


def _unsaid(line: Line, ended: Iterable[Ended]) -> Iterable[str]:
    everything = list(ended)
    for says in line.must:
        if not any(_is(says, one) for one in everything):
            heard = [
                f"{e.word}: {e.first_line[:160]}" for e in everything if e.scenario == says.scenario and e.bad
            ]
            yield (
                f"{says.scenario}{f' ({says.where})' if says.where else ''} must say {says.word}, {says.pattern!r}; "
                f"it said {heard[0] if heard else 'nothing'}"
            )


def _summed_up(line: Line, run: Run) -> Iterable[str]:
    """A stranger who reads nothing but the run's sentence must know go or no-go, and why."""
    if not run.sentence:
        return
    words = {says.word for says in line.must}
    if words & {BROKEN, REGRESSION}:
        opening = "NO-GO: "
    elif INVALID in words or (not words and run.status == UNDECIDED):
        opening = "CANNOT TELL: "
    else:
        opening = "NOT MEASURED" if INFRASTRUCTURE in words else ""
    if not run.sentence.startswith(opening or ("GO: ", "NOT JUDGED: ")):
        yield f"the run must be summed up as {opening or 'GO'}, not {run.sentence!r}"
    if not re.search(line.sentence, run.sentence):
        yield f"the run's sentence must say {line.sentence!r}, not {run.sentence!r}"
    yield from _elsewhere(run)
    if not re.search(line.prints, run.printed):
        yield f"the run must print {line.prints!r}"


def _elsewhere(run: Run) -> Iterable[str]:
    """The same sentence first on the page for CI and in Allure, and last in the terminal, before pytest's count."""
    heading = run.page.split("\n", 1)[0].replace("\\", "")
    shown = html.unescape(heading.removeprefix("## "))
    if run.page and shown != run.sentence.replace("\\", ""):
        yield f"summary.md must begin with the run's sentence, not {heading!r}"
    if run.page and not run.top.endswith(run.sentence):
        yield f"the run's sentence must stand on top in Allure, not {run.top!r}"
    last = [line for line in run.printed.splitlines() if line.strip()][-5:]
    if run.page and run.sentence not in last:
        yield f"the terminal must end with the run's sentence, not {last!r}"


def _confused(line: Line, ended: Iterable[Ended]) -> Iterable[str]:
    allowed = {says.scenario for says in line.must} | set(line.also)
    for one in ended:
        if one.bad and (one.word in line.never or one.scenario not in allowed):
            yield f"{one.scenario}[{one.parameters}] must not say {one.word}: {one.first_line[:200]}"
