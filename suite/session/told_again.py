"""The items of a run told once more from its journal: what each asked, how it ended, and what it measured; verdicts last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from suite.gate import Asked, Launch, Verdict
from suite.session.collection import SeriesId
from suite.session.entries import Item
from suite.session.fold import JournalIndex
from suite.session.outcomes import raised_again
from suite.session.plan import LaunchId
from suite.session.verdict_items import Judge


@dataclass(frozen=True, slots=True)
class ToldItem:
    """An item. nodeid: in pytest; error: what it raised, ``None`` if it ended well; measured: its rounds.

    verdicts: of one that judges, all that it is about.
    """

    nodeid: str
    question: str
    arm: str
    error: BaseException | None
    seconds: float = 0.0
    measured: Launch | None = None
    verdicts: Sequence[Verdict] = field(default=())


def items_of(found: JournalIndex) -> Iterator[ToldItem]:
    """All items that were put to a launch, in the order of the plan; those beside it last, as a server that died."""
    planned = found.begun.items if found.begun is not None else []
    others = [*found.items, *(found.reference.items if found.reference is not None else ())]
    for name in dict.fromkeys([*planned, *others]):
        item = found.item(name)
        if item is not None:
            yield _told(item, found, name in planned)


def _told(item: Item, found: JournalIndex, planned: bool) -> ToldItem:
    outcome = item.outcome
    nodeid = item.item if planned else LaunchId(outcome.arm, item.number, item.build).life
    error, measured = raised_again(outcome), found.measured(item) if planned else None
    return ToldItem(nodeid, outcome.item, outcome.arm, error, item.seconds, measured)


def verdicts_of(nodeids: Sequence[str], asked: Sequence[Asked], judge: Judge) -> Iterator[ToldItem]:
    """The items that judge, by their ids and what each asks."""
    for nodeid, one in zip(nodeids, asked, strict=False):
        series = SeriesId(one.question, one.arm, tuple(one.metrics))
        verdicts, error = judge.verdicts(series), _decided(judge, series)
        yield ToldItem(nodeid, one.question, one.arm, error, verdicts=verdicts)


def _decided(judge: Judge, series: SeriesId) -> BaseException | None:
    try:
        judge.decide(series)
    except (Exception, pytest.skip.Exception) as error:
        return error
    return None
