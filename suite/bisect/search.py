"""The search for the build that brought a loss: what to ask next follows from what was answered, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")
Word: TypeAlias = Literal["go", "better", "no-go", "inconclusive", "invalid", "cannot start"]

PATIENCE = 4
"""Sessions that may be spent on one pair of builds before it counts as one that cannot be told apart."""


class Step(msgspec.Struct, frozen=True):
    """One session of two builds, by their places in the row: what the gate said of `candidate` against `reference`.

    loss with its 95 % interval: of the value that is followed, relative, + = worse; None where nothing was measured.
    where: the run's folder; why: a sentence of the gate's, or why the build could not start.
    """

    reference: int
    candidate: int
    word: Word
    loss: float | None = None
    loss_low: float | None = None
    loss_high: float | None = None
    why: str = ""
    where: str = ""


class Ask(msgspec.Struct, frozen=True):
    """A session to measure next. attempt: how often the same pair was measured before."""

    reference: int
    candidate: int
    attempt: int = 0


Ending: TypeAlias = Literal["found", "range", "no loss", "undecided", "cannot start", "contradiction"]


class SearchResult(msgspec.Struct, frozen=True):
    """How a search ended: the loss came with one of the builds `first` to `last` (places in the row).

    found: with exactly one, `first == last`; range: builds between could not be started or told apart; no loss: the
    bad end is as fast as the good one; undecided: the ends could not be told apart; cannot start: an end does not;
    contradiction: the build that was found and the one before it are alike, so a session before misled.
    """

    ending: Ending
    first: int | None = None
    last: int | None = None


def following(builds: int, steps: Sequence[Step], patience: int = PATIENCE) -> Ask | SearchResult:
    """What to measure next of a row of `builds`, good end first, or how the search ended.

    The ends are measured first. Then the middle of what is open is judged against the good end: a no-go is bad, a go
    whose interval excludes the loss of the ends is good, anything else is measured again, and after `patience`
    sessions passed over. What was found is confirmed against the build before it.
    Raises ValueError for fewer than two builds.
    """
    if builds < 2:
        raise ValueError("a search needs two builds: one that is good and one that is bad")
    told = _Told(steps, patience)
    end = told.of(0, builds - 1)
    if isinstance(end, Ask):
        return end
    if end.word != "no-go":
        return SearchResult(_of_the_ends(end))
    good, bad, passed = 0, builds - 1, set[int]()
    while True:
        between = [place for place in range(good + 1, bad) if place not in passed]
        if not between:
            break
        middle = min(between, key=lambda place: (abs(2 * place - good - bad), place))
        step = told.of(0, middle, whole=end)
        if isinstance(step, Ask):
            return step
        if step.word == "no-go":
            bad = middle
        elif is_good(told.sessions(0, middle), end):
            good = middle
        else:
            passed.add(middle)
    if bad - good > 1:
        return SearchResult("range", good + 1, bad)
    return _confirmed(told, good, bad)


def each(builds: int, steps: Sequence[Step], patience: int = PATIENCE) -> Ask | list[Step]:
    """What to measure next where every build between the ends is judged for itself, or the last word on each.

    The ends first: without a loss between them there is nothing to ask of the others, and theirs is the only word.
    """
    told = _Told(steps, patience)
    end = told.of(0, builds - 1)
    if isinstance(end, Ask):
        return end
    words = []
    for place in range(1, builds - 1) if end.word == "no-go" else ():
        step = told.of(0, place, whole=end)
        if isinstance(step, Ask):
            return step
        words.append(step)
    return [*words, end]


def _of_the_ends(end: Step) -> Ending:
    if end.word == "cannot start":
        return "cannot start"
    return "no loss" if end.word in ("go", "better") else "undecided"


def _confirmed(told: _Told, good: int, bad: int) -> Ask | SearchResult:
    """The build that was found, against the one before it: it must have lost by itself."""
    step = told.of(good, bad)
    if isinstance(step, Ask):
        return step
    if step.word in ("go", "better"):
        return SearchResult("contradiction", good, bad)
    return SearchResult("found", bad, bad)


def is_good(sessions: Sequence[Step], whole: Step) -> bool:
    """Is the build without the loss that the ends showed, by all sessions of it together?

    The last must be a go, and the interval that all give must exclude that loss: a go of two launches may be wide.
    """
    if not sessions or sessions[-1].word not in ("go", "better"):
        return False
    high = _most(sessions)
    if high is None or whole.loss_low is None:
        return True
    return high < max(whole.loss_low, (whole.loss or 0.0) / 2)


def _most(sessions: Sequence[Step]) -> float | None:
    """The upper end of the 95 % interval of the loss, sessions weighed by how sure each is; None where none tells."""
    weights, total = 0.0, 0.0
    for step in sessions:
        if step.word == "invalid" or step.loss is None or step.loss_low is None or step.loss_high is None:
            continue
        weight = max((step.loss_high - step.loss_low) / 2, 1e-6) ** -2
        weights += weight
        total += weight * step.loss
    return total / weights + weights**-0.5 if weights else None


class _Told:
    """What has been answered of each pair, and whether it is enough."""

    def __init__(self, steps: Iterable[Step], patience: int) -> None:
        self._steps = list(steps)
        self._patience = patience

    def sessions(self, reference: int, candidate: int) -> list[Step]:
        """Those of one pair."""
        return [s for s in self._steps if (s.reference, s.candidate) == (reference, candidate)]

    def of(self, reference: int, candidate: int, *, whole: Step | None = None) -> Ask | Step:
        """The last word on the pair, or the session that is missing.

        `whole`: the ends; given, a go counts only where it excludes their loss.
        """
        there = self.sessions(reference, candidate)
        if there and (_settled(there, whole) or len(there) >= self._patience):
            return there[-1]
        return Ask(reference, candidate, len(there))


def _settled(sessions: Sequence[Step], whole: Step | None) -> bool:
    word = sessions[-1].word
    if word in ("no-go", "cannot start"):
        return True
    if word not in ("go", "better"):
        return False
    return whole is None or is_good(sessions, whole)


Judge: TypeAlias = Callable[[Ask], Step]
"""Measures the session that is asked for."""


def search(
    builds: int,
    judge: Judge,
    steps: Sequence[Step] = (),
    *,
    patience: int = PATIENCE,
    after: Callable[[Step], None] = lambda step: None,
) -> tuple[SearchResult, list[Step]]:
    """Ask until the build is found or cannot be; `steps` were answered before, `after` is told each new one."""
    return _asked(lambda done: following(builds, done, patience), judge, steps, after)


def search_each(
    builds: int,
    judge: Judge,
    steps: Sequence[Step] = (),
    *,
    patience: int = PATIENCE,
    after: Callable[[Step], None] = lambda step: None,
) -> tuple[list[Step], list[Step]]:
    """The same where every build between the ends is judged for itself: the last word on each, and all sessions."""
    return _asked(lambda done: each(builds, done, patience), judge, steps, after)


def _asked(
    rule: Callable[[Sequence[Step]], Ask | T],
    judge: Judge,
    steps: Sequence[Step],
    after: Callable[[Step], None],
) -> tuple[T, list[Step]]:
    done = list(steps)
    while isinstance(next_ := rule(done), Ask):
        done.append(judge(next_))
        after(done[-1])
    return next_, done
