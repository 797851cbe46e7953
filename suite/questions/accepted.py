"""How many tokens each step yields, from whoever can tell: the answers, /generate, the counter, or a mean of the server's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from suite import metrics
from suite.load import RequestRecord, Round
from suite.session.running_arm import RunningArm
from suite.sglang import releases
from suite.sglang.server import Counters
from suite.sglang.server.native import NativeAnswer


@dataclass(frozen=True, slots=True)
class Accepted:
    """An acceptance length and where it was read. ``dead``: not one draft was accepted."""

    length: float
    evidence: str
    dead: bool


@dataclass(frozen=True, slots=True)
class AcceptanceUnknown:
    """Nobody told. ``excused``: a server of this release may say nothing although it speculates."""

    reason: str
    excused: bool


def of(
    served: RunningArm,
    answers: Round,
    native: NativeAnswer | None,
    before: Counters | None,
    after: Counters | None,
) -> Accepted | AcceptanceUnknown:
    """The acceptance length of some answers, by the sharpest source there is.

    Args:
        answers: played alone on this server between the readings ``before`` and ``after`` of its counters.
        native: what /generate told, where it was asked.
    """
    told = metrics.acceptance(answers)
    if told.length is not None:
        evidence = f"{told.correct_drafts} of {told.proposed_drafts} drafts accepted in {told.verify_steps} verify steps"
        return Accepted(told.length, evidence, dead=told.correct_drafts == 0)
    silence = releases.silence(served.info.version, releases.SPEC_IN_ANSWERS)
    if silence is None:
        return AcceptanceUnknown(told.reason or metrics.NOT_REPORTED, excused=False)
    return next(
        _elsewhere(served, answers.ok, native, before, after), AcceptanceUnknown(silence, excused=True)
    )


def _elsewhere(
    served: RunningArm,
    answers: Sequence[RequestRecord],
    native: NativeAnswer | None,
    before: Counters | None,
    after: Counters | None,
) -> Iterator[Accepted]:
    """What others than the answers say, the sharpest first."""
    if native is not None and (length := native.acceptance_length) is not None:
        yield Accepted(
            length, f"{native.verify_steps} verify steps by meta_info of /generate", dead=length <= 1
        )
    if before is not None and after is not None and after.verify_calls is not None:
        steps = after.verify_calls - (before.verify_calls or 0.0)
        if length := metrics.yield_of(answers, steps):
            yield Accepted(length, f"the counter moved by {steps:g} verify steps", dead=length <= 1)
    if after is not None and after.accept_length_window:
        length = after.accept_length_window
        yield Accepted(length, "gauge spec_accept_length, over its last window", dead=length <= 1)
    if length := served.fresh_info().accept_length_lifetime:
        yield Accepted(length, "avg_spec_accept_length of /server_info, over its lifetime", dead=length <= 1)
