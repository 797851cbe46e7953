"""Pictures of a run, drawn from what is stored of it, so that they can be drawn again at any time. Needs matplotlib."""

from __future__ import annotations

from suite.gate import Key
from suite.report.pictures.acceptance import acceptance
from suite.report.pictures.contexts import by_context
from suite.report.pictures.forest import forest
from suite.report.pictures.load import by_clients, users_and_cards
from suite.report.pictures.samples import samples
from suite.report.pictures.style import MISSING, Picture, can_draw
from suite.report.told import ToldRun


def of_run(run: ToldRun) -> list[Picture]:
    """What there is to see of the run as a whole, the forest plot first.

    Raises:
        ImportError: matplotlib is not installed.
    """
    against = run.session.against
    drawn = [
        forest(run.verdicts, against),
        by_clients(run.session),
        users_and_cards(run.session),
        acceptance(run.verdicts, run.tables, against),
        by_context(run.verdicts, against),
    ]
    return [picture for picture in drawn if picture is not None]


def of_series(run: ToldRun, key: Key) -> list[Picture]:
    """What there is to see of one series: its changes, and every round.

    Raises:
        ImportError: matplotlib is not installed.
    """
    verdicts = run.of(key.question, key.arm)
    series = run.session.find(key.question, key.arm)
    against, reference = run.session.against, run.session.reference
    before = reference.find(key.question, key.arm) if reference is not None else None
    drawn = [
        forest(verdicts, against, "Change"),
        samples(series, verdicts, against, before) if series else None,
    ]
    return [picture for picture in drawn if picture is not None]
