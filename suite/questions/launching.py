"""An attempt to launch an arm that may fail: not every backend starts, and some arms must not."""

from __future__ import annotations

import pytest

from suite import metrics
from suite.questions.speculation import SpeculationQuestion
from suite.servers import LaunchFailed, NotThisArm, OutOfMemory
from suite.session.outcomes import ArmUnavailable, BrokenPromise
from suite.session.plan import LaunchId
from suite.session.run import Run
from suite.session.running_arm import RunningArm

DRAFT_WORDS = ("mtp", "nextn", "draft", "speculative")


class LaunchAttempt:
    """One launch of one arm, begun when first asked for."""

    def __init__(self, run: Run, launch_id: LaunchId) -> None:
        self._run = run
        self._slot = launch_id

    def attempt(self) -> RunningArm | LaunchFailed | ArmUnavailable:
        """The server if it came up, otherwise why it did not."""
        try:
            return self._run.served(self._slot)
        except (LaunchFailed, ArmUnavailable) as error:
            return error
        except NotThisArm as other:
            pytest.skip(other.summary)

    def must_be_refused_for_its_draft(self) -> None:
        """Assert that the server does not start, and that its own words name the draft.

        Raises:
            BrokenPromise: it starts.
            LaunchFailed, ArmUnavailable: it fails for something else.
        """
        outcome = self.attempt()
        if isinstance(outcome, RunningArm):
            accepted = metrics.acceptance(SpeculationQuestion(outcome).answers)
            length = "unknown" if accepted.length is None else f"{accepted.length:.3f}"
            raise BrokenPromise(
                f"SGLang {outcome.info.version} starts with {outcome.asked.removesuffix(' was given')} on a checkpoint "
                f"without MTP heads ({outcome.on_disk.heads_evidence}); its draft is of random weights, acceptance "
                f"length {length}. Nothing but acceptance tells: check the checkpoint before it is deployed"
            )
        if isinstance(outcome, OutOfMemory) or not any(word in str(outcome).lower() for word in DRAFT_WORDS):
            raise outcome
