"""Does speculation change answers? Greedy texts with and without MTP, and how often in a token they part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from suite.load import ClosedLoop, Sampling, play, workloads
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.served import Served

MIXED = "code+maths+prose"
ENOUGH = 2
"""Partings below this many prove nothing: one near tie can go either way."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A greedy answer and how many tokens it has."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """Over some prompts: how many answers parted, and the tokens up to where they did (or to their end).

    Two sound lanes part now and then, where two tokens are all but equally likely and the sum over a batch of
    another shape tips the choice (SGLang computes verification of several tokens with other kernels than decoding
    of one). Such near ties come at some small rate in a token; a broken lane parts at once, on every prompt.
    """

    partings: int
    tokens: float
    prompts: int
    earliest: str = ""

    @property
    def per_token(self) -> float:
        """Partings in a token: the maximum-likelihood rate of a constant hazard, events over exposure."""
        return self.partings / self.tokens if self.tokens else float(self.partings > 0)

    def __str__(self) -> str:
        return (
            f"{self.partings} of {self.prompts} answers part, once in {1 / self.per_token:.0f} tokens"
            if (self.partings)
            else f"all {self.prompts} answers are equal over {self.tokens:.0f} tokens"
        )


def compare(off: Mapping[str, Answer], on: Mapping[str, Answer]) -> Divergence:
    """Compare the answers to the same prompts; tokens before a parting are its share of the text's characters."""
    partings, tokens = 0, 0.0
    earliest: tuple[float, str] = (float("inf"), "")
    shared = [prompt for prompt in off if prompt in on]
    for prompt in shared:
        a, b = off[prompt], on[prompt]
        agreed = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a.text, b.text, strict=False)))
        if a.text == b.text:
            tokens += a.tokens
            continue
        before = a.tokens * agreed / max(1, len(a.text))
        partings, tokens = partings + 1, tokens + before
        if before < earliest[0]:
            shown = f"{prompt}, after {before:.0f} tokens: off {_from(a.text, agreed)!r}, on {_from(b.text, agreed)!r}"
            earliest = (before, shown)
    return Divergence(partings, tokens, len(shared), earliest[1])


def _from(text: str, place: int) -> str:
    return text[max(0, place - 10) : place + 40]


class Answers:
    """The greedy answers of every arm that was asked, and their comparison.

    Args:
        served: the server to ask.
        noted: answers by arm and prompt, kept for the whole run.
    """

    def __init__(
        self, served: Served, noted: dict[str, Mapping[str, Answer]], prompts: int, max_tokens: int
    ) -> None:
        self._served = served
        self._noted = noted
        self._prompts = prompts
        self._max_tokens = max_tokens

    def note(self) -> None:
        """Ask this server, one request at a time, and keep what it answers; once a run is enough."""
        if self._served.slot.arm in self._noted:
            return
        limits = self._served.target.timeouts
        asked = workloads.load(MIXED).sized(
            requests=self._prompts, max_tokens=self._max_tokens, prompt_chars_max=400
        )
        played = play(
            self._served.endpoint,
            asked,
            ClosedLoop(1, self._prompts),
            sampling=Sampling(
                self._max_tokens,
                temperature=0.0,
                ignore_eos=True,
                chat_template_kwargs={"enable_thinking": False},
            ),
            timeout_s=limits.request_s,
            stall_s=limits.stall_s,
            keep_text=True,
        )
        self._served.check()
        if not played.ok:
            raise InvalidMeasurement(f"no request was answered; the first: {played.requests[0].fault}")
        self._noted[self._served.slot.arm] = {
            f"{record.prompt}#{record.index}": Answer(
                f"{record.reasoning or ''}{record.text or ''}", record.completion_tokens or 0
            )
            for record in played.ok
        }

    def against(self, arm: str) -> Divergence | None:
        """How far they agree with ``arm``'s, which must have been noted in this run; ``None`` if it was not."""
        if arm not in self._noted:
            return None
        return compare(self._noted[arm], self._noted[self._served.slot.arm])

    def must_agree_with(self, arm: str, ceiling: float) -> Divergence | None:
        """Assert that they part no oftener than ``ceiling`` in a token.

        Raises:
            BrokenPromise: they do; the text shows the earliest parting.
        """
        found = self.against(arm)
        if found is not None and found.partings >= ENOUGH and found.per_token > ceiling:
            raise BrokenPromise(
                f"MTP changes the answers: {found}, which is {found.per_token:.2g} a token and may be {ceiling:g}. "
                f"Speculation must not change greedy output beyond near ties\n  earliest: {found.earliest}"
            )
        return found
