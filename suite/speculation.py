"""The question "does this server speculate?", put to a running arm and answered by its witnesses."""

from __future__ import annotations

from functools import cached_property

from suite import metrics
from suite.load import ClosedLoop, Round, Sampling, play, workloads
from suite.outcomes import BrokenPromise
from suite.probes.server import Counters
from suite.served import Served
from suite.witnesses import Witness, from_answers, from_counter, from_resolved, require

REQUESTS = 2
MAX_TOKENS = 96


class Speculation:
    """A few short requests, played once when first needed, and what every source says about them."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._before: Counters | None = None
        self._after: Counters | None = None

    @property
    def algorithm(self) -> str | None:
        """The resolved algorithm; ``None`` when off."""
        return self._served.info.speculation.algorithm

    @cached_property
    def answers(self) -> Round:
        """The requests, played between two readings of the server's counters."""
        self._before = self._served.counters()
        answers = play(
            self._served.endpoint,
            workloads.load("code").sized(requests=REQUESTS, max_tokens=MAX_TOKENS, prompt_chars_max=300),
            ClosedLoop(concurrency=1, requests=REQUESTS),
            sampling=Sampling(max_tokens=MAX_TOKENS, temperature=0.0, ignore_eos=True),
            timeout_s=self._served.target.timeouts.request_s,
            stall_s=self._served.target.timeouts.stall_s,
        )
        self._after = self._served.counters()
        if not answers.ok:
            raise BrokenPromise(f"no request was answered; the first: {answers.requests[0].fault}")
        return answers

    def witnesses(self) -> list[Witness]:
        """What the resolved configuration, the answers and the server's counters say."""
        done = self.answers.ok
        details = [request.spec for request in done if request.spec is not None]
        info = self._served.info
        return [
            from_resolved(info.speculation.algorithm, absent=not info.speculation.known),
            from_answers(
                sum(spec.verify_steps for spec in details) if details else None,
                tokens=sum(request.completion_tokens or 0 for request in done),
                steps_reported=len(details),
                answers=len(done),
            ),
            from_counter(
                self._before.verify_calls if self._before else None,
                self._after.verify_calls if self._after else None,
                counters_shown=self._after is not None,
            ),
        ]

    def must_be_off(self) -> None:
        """Assert that no witness saw any speculation."""
        require(self.witnesses(), on=False, asked=self._served.asked)

    def must_be_on(self) -> None:
        """Assert that every witness who can tell saw speculation."""
        require(self.witnesses(), on=True, asked=self._served.asked)

    def must_yield_more_than_one_token_a_step(self) -> None:
        """Assert that at least one draft was accepted: a server can speculate for ever in vain."""
        accepted = metrics.acceptance(self.answers)
        if accepted.length is None:
            raise BrokenPromise(f"acceptance length unknown: {accepted.reason}")
        if accepted.correct_drafts == 0:
            raise BrokenPromise(
                f"MTP is on, but dead: acceptance length {accepted.length:.3f}, not one draft accepted in "
                f"{accepted.verify_steps} verify steps. The draft's weights are missing, partial or not the model's"
            )
