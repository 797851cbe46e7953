"""What scenarios of one run leave for one another: rows of tables, greedy answers and canary scores by arm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

from suite.questions.canary import Score
from suite.questions.lossless import GreedyAnswer
from suite.questions.tables import Tables
from suite.session.entries import Item

T = TypeVar("T")


class OfBuild(MutableMapping[str, T]):
    """What is kept by arm, seen by one of two builds: it neither sees nor touches the other's."""

    def __init__(self, whole: dict[str, T], build: str) -> None:
        self._whole = whole
        self._of = f" of the {build}" if build else ""

    def __getitem__(self, arm: str) -> T:
        return self._whole[arm + self._of]

    def __setitem__(self, arm: str, value: T) -> None:
        self._whole[arm + self._of] = value

    def __delitem__(self, arm: str) -> None:
        del self._whole[arm + self._of]

    def __iter__(self) -> Iterator[str]:
        return (name.removesuffix(self._of) for name in self._whole if name.endswith(self._of))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Memory:
    """Kept for the whole run, and with the journal for the next try of the same run."""

    def __init__(self) -> None:
        self.tables = Tables()
        self.answers: dict[str, Mapping[str, GreedyAnswer]] = {}
        self.scores: dict[str, Score] = {}
        self.mark()

    def answers_of(self, build: str) -> MutableMapping[str, Mapping[str, GreedyAnswer]]:
        """Greedy answers by arm, of one of two builds where two are compared."""
        return OfBuild(self.answers, build)

    def scores_of(self, build: str) -> MutableMapping[str, Score]:
        """Canary scores, likewise."""
        return OfBuild(self.scores, build)

    def mark(self) -> None:
        """From here on, what is left belongs to the next item."""
        self._rows = {title: list(rows) for title, rows in self.tables.rows.items()}
        self._notes = {title: list(notes) for title, notes in self.tables.notes.items()}
        self._answers, self._scores = dict(self.answers), dict(self.scores)

    def left(self) -> dict[str, Any]:
        """What was left since the mark, as an item's entry holds it."""
        rows = [
            (title, row)
            for title, now in self.tables.rows.items()
            for row in now
            if row not in self._rows.get(title, [])
        ]
        notes = [
            (title, note)
            for title, now in self.tables.notes.items()
            if now != self._notes.get(title, [])
            for note in now
        ]
        kept: dict[str, Any] = {
            f"answers {arm}": {name: [answer.text, answer.tokens] for name, answer in answers.items()}
            for arm, answers in self.answers.items()
            if self._answers.get(arm) is not answers
        }
        kept |= {
            f"score {arm}": [score.right, score.asked]
            for arm, score in self.scores.items()
            if self._scores.get(arm) is not score
        }
        return {"rows": rows, "notes": notes, "kept": kept}

    def restore(self, stored: Item) -> None:
        """Leave what an item left in an earlier try; of a table it changed, all that stood below it then."""
        for title, row in stored.rows:
            self.tables.add(title, row)
        for title in dict.fromkeys(title for title, _ in stored.notes):
            self.tables.notes[title] = [note for of, note in stored.notes if of == title]
        for name, value in stored.kept.items():
            what, _, arm = name.partition(" ")
            if what == "answers":
                self.answers[arm] = {prompt: GreedyAnswer(*answer) for prompt, answer in value.items()}
            elif what == "score":
                self.scores[arm] = Score(value[0], value[1], ())
