"""One backend tried out: does it start, does it answer rightly, and how fast is it; a row of a table."""

from __future__ import annotations

from collections.abc import Callable

from suite.config import Target
from suite.questions.canary import Canary
from suite.questions.launching import LaunchAttempt
from suite.questions.tables import Cell
from suite.session.measure import Measure
from suite.session.outcomes import ArmNotInEffect, BrokenPromise
from suite.session.running_arm import RunningArm


class BackendTrial:
    """Tries the arm of one item.

    Args:
        launching: the attempt to launch it.
        canary: makes the questions for a server.
        measure: makes what measures a server.
    """

    def __init__(
        self,
        launching: LaunchAttempt,
        target: Target,
        canary: Callable[[RunningArm], Canary],
        measure: Callable[[RunningArm], Measure],
    ) -> None:
        self._launching = launching
        self._target = target
        self._canary = canary
        self._measure = measure

    def row(self) -> dict[str, Cell]:
        """What came of it, in cells."""
        outcome = self._launching.attempt()
        if not isinstance(outcome, RunningArm):
            return {
                "starts": "no",
                "right": None,
                "tokens_per_s": None,
                "remark": str(outcome).splitlines()[0],
            }
        try:
            right = self._canary(outcome).ask()
            measured = self._measure(outcome)("code")
        except (BrokenPromise, ArmNotInEffect) as error:
            return {
                "starts": "yes",
                "right": None,
                "tokens_per_s": None,
                "remark": str(error).splitlines()[0],
            }
        known = self._target.canary_floor > 0
        wrong = known and right.share < self._target.canary_floor
        return {
            "starts": "yes",
            "right": f"{right.right} of {right.asked}" if known else None,
            "tokens_per_s": measured["output_tokens_per_s"],
            "acceptance_length": measured["acceptance_length"],
            "remark": "answers wrongly: do not use it" if wrong else "",
        }
