"""Names of questions, arms and figures in plain words: `decode_throughput[c4]` is decode throughput, 4 clients."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from suite.terminal.figures import times

FIGURE_SPACE = "\u2007"
"""As wide as a digit, and sorted before any."""


@dataclass(frozen=True, slots=True)
class QuestionParts:
    """A question with its sizes taken apart; a size that it does not have is None."""

    name: str
    clients: int | None = None
    context: int | None = None
    temperature: float | None = None
    others: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What is asked, without its sizes."""
        return self.name.replace("_", " ").replace("mtp", "MTP")

    def __str__(self) -> str:
        sizes = [
            times(self.clients, "client", "clients") if self.clients is not None else "",
            f"{self.context:,} tokens" if self.context is not None else "",
            *self.others,
            f"temperature {self.temperature:g}" if self.temperature is not None else "",
        ]
        return ", ".join([self.title, *filter(None, sizes)])


def asked(question: str) -> QuestionParts:
    """Take a question apart, as `suite.session.collection` puts it together."""
    match = re.fullmatch(r"([^\[]*)\[(.*)\]", question, re.DOTALL)
    if match is None:
        return QuestionParts(question)
    clients, context, temperature, others = None, None, None, []
    for part in match[2].split("-"):
        if re.fullmatch(r"c\d{1,9}", part):
            clients = int(part[1:])
        elif re.fullmatch(r"\d{1,9}", part):
            context = int(part)
        elif re.fullmatch(r"t\d{1,3}(\.\d{1,6})?", part):
            temperature = float(part[1:])
        else:
            others.append(part)
    return QuestionParts(match[1], clients, context, temperature, tuple(others))


def aligned(question: str, among: Iterable[str]) -> str:
    """A question in words, its sizes as wide as the widest of the questions of its name: sorted as text, 8 is before 32."""
    one = asked(question)
    alike = [other for name in among if (other := asked(name)).name == one.name]
    text = str(one)
    for size, sizes, unit in (
        (one.clients, [other.clients for other in alike], " client"),
        (one.context, [other.context for other in alike], " tokens"),
    ):
        if size is not None:
            width = max(len(f"{known:,}") for known in (size, *sizes) if known is not None)
            shown = f"{size:,}" if unit == " tokens" else f"{size}"
            text = text.replace(f"{shown}{unit}", f"{shown:{FIGURE_SPACE}>{width}}{unit}", 1)
    return text
