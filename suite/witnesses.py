"""Is speculation on? Four witnesses that can contradict each other, and what their disagreement means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.outcomes import BrokenPromise


@dataclass(frozen=True, slots=True)
class Witness:
    """One source's word on speculation: ``True`` on, ``False`` off, ``None`` cannot tell, and its evidence."""

    name: str
    on: bool | None
    evidence: str

    def __str__(self) -> str:
        word = {True: "on", False: "off", None: "cannot tell"}[self.on]
        return f"{self.name}: {word} ({self.evidence})"


def require(witnesses: Sequence[Witness], *, on: bool, asked: str) -> None:
    """Every witness that can tell must say what was asked for, and at least one of behaviour must tell.

    Args:
        witnesses: what each source says.
        on: what was asked for.
        asked: the flags in question, for the message.

    Raises:
        BrokenPromise: a witness says otherwise; the text shows all of them.
    """
    told = [witness for witness in witnesses if witness.on is not None]
    against = [witness for witness in told if witness.on is not on]
    every = "\n".join(f"  {witness}" for witness in witnesses)
    wanted, found = ("on", "off") if on else ("off", "on")
    if against and len(against) == len(told):
        raise BrokenPromise(f"MTP is {found} although {asked}: all witnesses agree\n{every}")
    if against:
        names = ", ".join(witness.name for witness in against)
        raise BrokenPromise(
            f"MTP should be {wanted} ({asked}), but the witnesses disagree: {names} says {found}\n{every}"
        )
    if not told:
        raise BrokenPromise(f"MTP should be {wanted} ({asked}), but no witness can tell\n{every}")


def from_resolved(algorithm: object, absent: bool) -> Witness:
    """The resolved configuration, ``speculative_algorithm`` of ``/server_info``: null is off."""
    if absent:
        return Witness("resolved configuration", None, "/server_info has no key speculative_algorithm")
    return Witness("resolved configuration", algorithm is not None, f"speculative_algorithm {algorithm!r}")


def from_answers(verify_steps: int | None, tokens: int, steps_reported: int, answers: int) -> Witness:
    """The answers: speculative work that the requests themselves report.

    Args:
        verify_steps: verify steps over all answers, ``None`` if no answer reported any.
        tokens: completion tokens over all answers.
        steps_reported: answers that carried speculative details.
        answers: answers in all.
    """
    if answers == 0:
        return Witness("answers", None, "no answer came")
    if verify_steps is None:
        return Witness("answers", False, f"none of {answers} answers reports speculative work")
    if steps_reported < answers:
        return Witness("answers", None, f"only {steps_reported} of {answers} answers report speculative work")
    return Witness("answers", verify_steps > 0, f"{verify_steps} verify steps for {tokens} tokens")


def from_counter(before: float | None, after: float | None, *, counters_shown: bool) -> Witness:
    """The server's own counter ``sglang:spec_verify_calls_total``, which exists only with speculation on.

    Args:
        before: its value before some answers, ``None`` if there was none.
        after: its value after them.
        counters_shown: does the server show counters at all (``--enable-metrics``, and a version that has this one)?
    """
    if not counters_shown:
        return Witness("counter", None, "this server shows no counters; start it with --enable-metrics")
    if after is None:
        return Witness("counter", False, "/metrics has counters, but no spec_verify_calls_total")
    moved = after - (before or 0.0)
    return Witness("counter", moved > 0, f"spec_verify_calls_total moved by {moved:g}")
