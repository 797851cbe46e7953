"""Is speculation on? Four witnesses that can contradict each other, and what their disagreement means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.metrics import REPLICAS
from suite.session.outcomes import BrokenPromise
from suite.sglang import releases


@dataclass(frozen=True, slots=True)
class Witness:
    """One source's word on speculation: ``True`` on, ``False`` off, ``None`` cannot tell, and its evidence.

    ``running`` ones speak of what the server does, the others of what files on its host make possible. A witness of
    ``several`` saw more than one server: some answers speculated and some did not.
    """

    name: str
    on: bool | None
    evidence: str
    running: bool = True
    several: bool = False

    def __str__(self) -> str:
        word = {True: "on", False: "off", None: "cannot tell"}[self.on]
        return f"{self.name}: {word} ({self.evidence})"


def require(witnesses: Sequence[Witness], *, on: bool, asked: str) -> None:
    """Every witness that can tell must say what was asked for, and at least one of the running ones must tell.

    Args:
        witnesses: what each source says.
        on: what was asked for.
        asked: the flags in question, for the message.

    Raises:
        BrokenPromise: a witness says otherwise; the text shows all of them.
    """
    told = [witness for witness in witnesses if witness.on is not None]
    running = [witness for witness in told if witness.running]
    against = [witness for witness in told if witness.on is not on]
    every = "\n".join(f"  {witness}" for witness in witnesses)
    wanted, found = ("on", "off") if on else ("off", "on")
    for witness in witnesses:
        if witness.several:
            raise BrokenPromise(f"MTP should be {wanted} ({asked}): {witness.evidence}\n{every}")
    if not running:
        raise BrokenPromise(f"MTP should be {wanted} ({asked}), but no witness shows it\n{every}")
    if all(witness.on is not on for witness in running):
        raise BrokenPromise(
            f"MTP is {found} although {asked}: all witnesses of the running server agree\n{every}"
        )
    if against:
        names = " and ".join(witness.name for witness in against)
        says = "says" if len(against) == 1 else "say"
        raise BrokenPromise(
            f"MTP should be {wanted} ({asked}), but the witnesses disagree: {names} {says} {found}\n{every}"
        )


def from_resolved(algorithm: object, absent: bool) -> Witness:
    """The resolved configuration, ``speculative_algorithm`` of ``/server_info``: null is off."""
    if absent:
        return Witness("resolved configuration", None, "/server_info has no key speculative_algorithm")
    return Witness("resolved configuration", algorithm is not None, f"speculative_algorithm {algorithm!r}")


def from_answers(
    verify_steps: int | None, tokens: int, steps_reported: int, answers: int, silence: str | None = None
) -> Witness:
    """The answers: speculative work that the requests themselves report.

    Args:
        verify_steps: verify steps over all answers, ``None`` if no answer reported any.
        tokens: completion tokens over all answers.
        steps_reported: answers that carried speculative details.
        answers: answers in all.
        silence: why a server of this release may say nothing although it speculates; ``None`` where it would tell.
    """
    if answers == 0:
        return Witness("answers", None, "no answer came")
    if verify_steps is None and silence is not None:
        return Witness("answers", None, silence)
    if verify_steps is None:
        return Witness("answers", False, f"none of {answers} answers reports speculative work")
    if steps_reported < answers:
        evidence = f"only {steps_reported} of {answers} answers report speculative work: {REPLICAS}"
        return Witness("answers", None, evidence, several=True)
    return Witness("answers", verify_steps > 0, f"{verify_steps} verify steps for {tokens} tokens")


def from_native(verify_steps: int | None, version: str | None) -> Witness:
    """``meta_info`` of /generate: every release from 0.5.9 on reports verify steps there, and only with speculation on."""
    if verify_steps is not None:
        return Witness("/generate", verify_steps > 0, f"spec_verify_ct {verify_steps}")
    on = False if releases.has(version, releases.OLDEST_READ) else None
    return Witness("/generate", on, "meta_info has no spec_verify_ct")


def from_counter(
    before: float | None,
    after: float | None,
    *,
    counters_shown: bool,
    silence: str | None = None,
    last_window: float | None = None,
) -> Witness:
    """The server's own counter ``sglang:spec_verify_calls_total``, which exists only with speculation on.

    Args:
        before: its value before some answers, ``None`` if there was none.
        after: its value after them.
        counters_shown: does the server show counters at all (``--enable-metrics``)?
        silence: why a server of this release may not have this one although it speculates; ``None`` where it has.
        last_window: the gauge of acceptance length over the last window that was logged; 0 says nothing.
    """
    if not counters_shown:
        return Witness("counter", None, "this server shows no counters; start it with --enable-metrics")
    if after is None and last_window:
        return Witness(
            "counter", True, f"no spec_verify_calls_total, but spec_accept_length reads {last_window:g}"
        )
    if after is None and silence is not None:
        return Witness("counter", None, silence)
    if after is None:
        return Witness("counter", False, "/metrics has counters, but no spec_verify_calls_total")
    moved = after - (before or 0.0)
    return Witness("counter", moved > 0, f"spec_verify_calls_total moved by {moved:g}")


@dataclass(frozen=True, slots=True)
class OnDisk:
    """What the files on the host say: the checkpoint's MTP heads, and what could switch speculation on unasked.

    ``heads``: held and declared, ``None`` if they disagree or nothing could be read. ``activations``: lines of the
    installed source and plugins, ``None`` if it could not be read.
    """

    heads: bool | None
    heads_evidence: str
    activations: tuple[str, ...] | None
    activations_evidence: str


def from_files(asked: bool, found: OnDisk) -> Witness:
    """The files: a server can speculate only with MTP heads; unasked only if something on the host switches it on."""
    if asked:
        return Witness("checkpoint", found.heads, found.heads_evidence, running=False)
    on = False if found.activations == () else None
    return Witness("installed source", on, found.activations_evidence, running=False)
