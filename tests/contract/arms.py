"""One server per arm, started when it is first asked and asked everything once; all end together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from .answers import AnswerShape, ask
from .questions import questions_for

ASKED = [(arm, question) for arm in ("off", "on", "thinking") for question in questions_for(arm)]


@dataclass(slots=True)
class Arms:
    """The servers of one kind; `start` begins one arm's and gives its URL for the length of a `with`."""

    start: Callable[[str], AbstractContextManager[str]]
    urls: dict[str, str] = field(default_factory=dict)
    asked: dict[str, Mapping[str, AnswerShape]] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def url(self, arm: str) -> str:
        """Where this arm's server listens."""
        if arm not in self.urls:
            self.urls[arm] = self.stack.enter_context(self.start(arm))
        return self.urls[arm]

    def answers(self, arm: str) -> Mapping[str, AnswerShape]:
        """The shapes of its answers to all questions of the arm, in order (the metrics come after the requests)."""
        if arm not in self.asked:
            url = self.url(arm)
            self.asked[arm] = {name: ask(url, question) for name, question in questions_for(arm).items()}
        return self.asked[arm]

    def __enter__(self) -> Arms:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()
