"""Does speculation change answers? Greedy texts with and without MTP, and how often in a token they part."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from itertools import takewhile

from suite.load import ClosedLoop, Sampling, play, workloads
from suite.questions.text_completions import AFTER_PREFIX, TextCompletions
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.running_arm import RunningArm

MIXED = "code+maths+prose"
TEXT = "text completion"
AT_ONCE = 2.0
"""Tokens within which an answer must part to have parted at once."""
ENOUGH = 2
"""Partings below this many prove nothing: one near tie can go either way."""
NEIGHBOURS = 4
"""Neighbouring lengths of prompts that must part at once between two builds: the shortest prompts have many near ties."""


@dataclass(frozen=True, slots=True)
class GreedyAnswer:
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
        if not self.partings:
            return f"all {self.prompts} answers are equal over {self.tokens:.0f} tokens"
        often = "at once" if self.per_token >= 1 else f"once in {1 / self.per_token:.0f} tokens"
        return f"{self.partings} of {self.prompts} answers part, {often}"


def compare(off: Mapping[str, GreedyAnswer], on: Mapping[str, GreedyAnswer]) -> Divergence:
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


def lost_lengths(off: Mapping[str, GreedyAnswer], on: Mapping[str, GreedyAnswer]) -> list[int]:
    """The longest run of neighbouring prompt lengths whose answers part at once, in every way of asking.

    A near tie may part one prompt at once, and does so each time it is asked; that it hits neighbours is the length's
    doing. Names are as :meth:`TextCompletions.answers` gives them.
    """
    longest: list[int] = []
    for cached in (False, True):
        parted: dict[int, list[bool]] = {}
        for name in off.keys() & on.keys():
            size = re.search(r"(\d+) tokens", name)
            if size and (AFTER_PREFIX in name) is cached:
                parted.setdefault(int(size[1]), []).append(_agreed(off[name], on[name]) < AT_ONCE)
        run: list[int] = []
        for length in sorted(parted):
            run = [*run, length] if all(parted[length]) else []
            longest = max(longest, run, key=len)
    return longest


def _agreed(a: GreedyAnswer, b: GreedyAnswer) -> float:
    """Tokens up to where two answers part; infinite where they do not."""
    if a.text == b.text:
        return math.inf
    agreed = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a.text, b.text, strict=False)))
    return a.tokens * agreed / max(1, len(a.text))


def _from(text: str, place: int) -> str:
    return text[max(0, place - 10) : place + 40]


class GreedyAnswers:
    """The greedy answers of every arm that was asked, and their comparison.

    Args:
        served: the server to ask.
        noted: answers by arm and prompt, kept for the whole run.
        reference: of a candidate, those of the build that it is compared with.
    """

    def __init__(
        self,
        served: RunningArm,
        noted: MutableMapping[str, Mapping[str, GreedyAnswer]],
        prompts: int,
        max_tokens: int,
        reference: Mapping[str, Mapping[str, GreedyAnswer]] | None = None,
    ) -> None:
        self._reference = reference or {}
        self._served = served
        self._noted = noted
        self._prompts = prompts
        self._max_tokens = max_tokens

    def note(self) -> None:
        """Ask this server, chats one at a time and short text completions, and keep its answers; once a run is enough."""
        if self._served.launch_id.arm in self._noted:
            return
        texts = {
            f"{TEXT} of {name}": GreedyAnswer(answer.text, answer.tokens)
            for name, answer in TextCompletions(self._served).answers().items()
        }
        self._noted[self._served.launch_id.arm] = {**self._chats(), **texts}

    def _chats(self) -> dict[str, GreedyAnswer]:
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
        return {
            f"{record.prompt}#{record.index}": GreedyAnswer(
                f"{record.reasoning or ''}{record.text or ''}", record.completion_tokens or 0
            )
            for record in played.ok
        }

    def against(self, arm: str) -> Divergence | None:
        """How far they agree with ``arm``'s, which must have been noted in this run; ``None`` if it was not."""
        if arm not in self._noted:
            return None
        return compare(self._noted[arm], self._noted[self._served.launch_id.arm])

    def must_agree_with(self, arm: str, ceiling: float) -> Divergence | None:
        """Assert that they part no oftener than ``ceiling`` in a token, chats and short text completions each.

        Raises:
            BrokenPromise: they do; the text shows the earliest parting.
        """
        found = self.against(arm)
        for what, kind in (("the answers", False), ("the answers to short text completions", True)):
            self._must_agree(arm, ceiling, what, kind)
        return found

    def must_be_as_on_the_reference(self) -> None:
        """Assert that short text completions are answered as the other of two builds answers them.

        Builds round otherwise, and near ties part their answers now and then: at some length, in some way of asking.
        That neighbouring lengths part at once in every way is another server.

        Raises:
            BrokenPromise: they do.
        """
        arm = self._served.launch_id.arm
        mine, theirs = (
            {name: answer for name, answer in noted.get(arm, {}).items() if name.startswith(TEXT)}
            for noted in (self._noted, self._reference)
        )
        lost = lost_lengths(theirs, mine)
        if len(lost) >= NEIGHBOURS:
            found = compare(theirs, mine)
            raise BrokenPromise(
                f"other answers than the reference's to short text completions: all of {lost[0]} to {lost[-1]} prompt "
                f"tokens part at once, in every way of asking\n  earliest: {found.earliest}"
            )

    def _must_agree(self, arm: str, ceiling: float, what: str, texts: bool) -> None:
        if arm not in self._noted:
            return
        off, on = (
            {name: answer for name, answer in self._noted[each].items() if name.startswith(TEXT) is texts}
            for each in (arm, self._served.launch_id.arm)
        )
        found = compare(off, on)
        if texts and len(lost := lost_lengths(off, on)) >= ENOUGH:
            raise BrokenPromise(
                f"MTP changes {what}: all of {lost[0]} to {lost[-1]} prompt tokens part at once, however they "
                f"were asked\n  earliest: {found.earliest}"
            )
        if found.partings >= ENOUGH and found.per_token > ceiling:
            raise BrokenPromise(
                f"MTP changes {what}: {found}, which is {found.per_token:.2g} a token and may be {ceiling:g}. "
                f"Speculation must not change greedy output beyond near ties\n  earliest: {found.earliest}",
                short=f"MTP changes {what} ({found})",
            )
