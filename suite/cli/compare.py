"""``python -m suite compare A B``: two runs in one table, with what changed between them on top."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from suite.cli import shared
from suite.cli.gate import rules_of
from suite.gate import Baseline, BaselineStore, GateError, Judgement, Rules, Series, Session, judge
from suite.gate.baselines import BaselineSession, Found
from suite.gate.records import differing
from suite.report import summary
from suite.session import stored_runs
from suite.sglang import config_diff
from suite.terminal.looks import Looks

Where = tuple[str, str]
BASELINE = "baseline"


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``compare`` to the suite's commands."""
    text = "compare two runs, or a run with its baselines; only comparable figures are compared"
    parser = subparsers.add_parser("compare", help=text, description=text)
    parser.add_argument(
        "a", metavar="A", help=f"what B is compared with: a run's id or folder, or the word {BASELINE!r}"
    )
    parser.add_argument("b", metavar="B", help="a run's id or folder")
    shared.add_paths(parser, "--results", "--baselines", "--suite-config")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Say what A and B are, what changed, the table, and what was not compared. The status is 0: this is no gate."""
    after = stored_runs.load(arguments.b, arguments.results).session
    before = _before(arguments, after)
    compared = compare(before, after, rules_of(arguments.suite_config, after.target))
    for line in compared.lines(arguments.a, after):
        print(line)
    return 0


def _before(arguments: argparse.Namespace, after: Session) -> dict[Where, Baseline]:
    if arguments.a == BASELINE and not (arguments.results / BASELINE).exists():
        good, bad = BaselineStore(arguments.baselines, after.target).all()
        if not good:
            raise GateError(
                f"no baselines of {after.target} in {arguments.baselines}" + "".join(f"; {e}" for e in bad)
            )
        return {(b.question, b.arm): b for b in good}
    stored = stored_runs.load(arguments.a, arguments.results).session
    return {(series.question, series.arm): _as_baseline(stored, series) for series in stored.series}


def _as_baseline(session: Session, series: Series) -> Baseline:
    """A run's series in the place of a baseline of one session."""
    recorded = BaselineSession(session.run_id, session.started_at, series.subject, series.launches)
    return Baseline(series.question, series.arm, series.identity, [recorded], series.derived_from)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs beside each other; ``otherwise`` says of series that both have why they cannot be compared."""

    judgement: Judgement
    table: list[str]
    changes: dict[str, list[str]]
    otherwise: dict[Where, str]
    only_before: list[Where]
    only_after: list[Where]

    def lines(self, a: str, after: Session) -> list[str]:
        """For a terminal: baseline column A, value column B."""
        said = [f"A (baseline): {a}", f"B (value):    {after.run_id}, {after.target}, {after.started_at}", ""]
        for change, arms in self.changes.items():
            said += [f"changed from A to B in {', '.join(arms)}: {change}"]
        if not self.changes:
            said += ["nothing is known to have changed from A to B: the build and its settings are the same"]
        said += ["", *(self.table or ["nothing can be compared: see below"]), ""]
        said += [f"not compared, {q} {arm}: {why}" for (q, arm), why in self.otherwise.items()]
        said += _named("only in A", self.only_before) + _named("only in B", self.only_after)
        return said


def _named(what: str, series: Iterable[Where]) -> list[str]:
    names = [f"{question} {arm}" for question, arm in series]
    return [f"{what}: {', '.join(names)}"] if names else []


def compare(before: dict[Where, Baseline], after: Session, rules: Rules) -> Compared:
    """Compare what can be compared, by the gate's own rule, and name the rest.

    Args:
        before: what ``after`` is compared with, by question and arm.
    """
    mine = {(series.question, series.arm): series for series in after.series}
    both = [where for where in mine if where in before]
    otherwise = {where: why for where in both if (why := _differing(before[where], mine[where]))}
    alike = {where: before[where] for where in both if where not in otherwise}
    shown = msgspec.structs.replace(after, series=[mine[w] for w in alike], asked=[], outcomes=[])
    judgement = judge(shown, Found(alike), rules)
    return Compared(
        judgement=judgement,
        table=summary.of_two(judgement, Looks(unfolded=True)),
        changes=_changes(alike, mine),
        otherwise=otherwise,
        only_before=sorted(before.keys() - mine.keys()),
        only_after=sorted(mine.keys() - before.keys()),
    )


def _differing(old: Baseline, new: Series) -> str:
    return ", ".join(f"{name} {a}, not {b}" for name, (a, b) in differing(old.identity, new.identity).items())


def _changes(before: dict[Where, Baseline], after: dict[Where, Series]) -> dict[str, list[str]]:
    """What changed, with the arms that it changed in; ratios repeat what their arms say."""
    said: dict[str, list[str]] = {}
    for where, old in before.items():
        if old.derived_from:
            continue
        change = config_diff.told(config_diff.changed(old.current.subject, after[where].subject))
        if change and where[1] not in said.setdefault(change, []):
            said[change].append(where[1])
    return said
