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

__all__ = ["MISSING", "Picture", "can_draw", "of_run", "of_series"]


def of_run(run: ToldRun) -> list[Picture]:
    """What there is to see of the run as a whole, the forest plot first.

    Raises:
        ImportError: matplotlib is not installed.
    """
    drawn = [
        forest(run.verdicts),
        by_clients(run.session),
        users_and_cards(run.session),
        acceptance(run.verdicts, run.tables),
        by_context(run.verdicts),
    ]
    return [picture for picture in drawn if picture is not None]


def of_series(run: ToldRun, key: Key) -> list[Picture]:
    """What there is to see of one series: its changes, and every round.

    Raises:
        ImportError: matplotlib is not installed.
    """
    verdicts = run.of(key.question, key.arm)
    series = run.session.find(key.question, key.arm)
    drawn = [forest(verdicts, "Change against the baseline"), samples(series, verdicts) if series else None]
    return [picture for picture in drawn if picture is not None]
