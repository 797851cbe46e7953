"""The question "does this server speculate?", put to a running arm and answered by its witnesses."""

from __future__ import annotations

import warnings
from functools import cached_property

from suite.load import ClosedLoop, Round, Sampling, play, workloads
from suite.questions import accepted
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.running_arm import RunningArm
from suite.session.witnesses import (
    Witness,
    from_answers,
    from_counter,
    from_files,
    from_native,
    from_resolved,
    require,
)
from suite.sglang import releases, speculation_sources
from suite.sglang.errors import ServerProbeError
from suite.sglang.server import Counters, native
from suite.sglang.server.native import NativeAnswer

REQUESTS = 2
MAX_TOKENS = 96


class SpeculationQuestion:
    """A few short requests, played once when first needed, and what every source says about them."""

    def __init__(self, served: RunningArm) -> None:
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
        self._served.check()
        self._after = self._served.counters()
        if not answers.ok:
            raise InvalidMeasurement(f"no request was answered; the first: {answers.requests[0].fault}")
        return answers

    @cached_property
    def native(self) -> NativeAnswer | None:
        """What /generate tells, asked only of a server whose release may report nothing in other answers."""
        if releases.silence(self._served.info.version, releases.SPEC_IN_ANSWERS) is None:
            return None
        server = self._served.server
        try:
            return native.ask(
                server.base_url, MAX_TOKENS, server.api_key, self._served.target.timeouts.request_s
            )
        except ServerProbeError:
            self._served.check()
            return None

    def witnesses(self) -> list[Witness]:
        """What the resolved configuration, the answers and the server's counters say."""
        done = self.answers.ok
        details = [request.spec for request in done if request.spec is not None]
        info = self._served.info
        steps = sum(spec.verify_steps for spec in details) if details else None
        # beside verify steps in the answers a counter that is not there was dropped or renamed: no word against them
        dropped = (
            "not among the counters shown here, though the answers report verify steps" if steps else None
        )
        return [
            from_resolved(info.speculation.algorithm, absent=not info.speculation.known),
            from_answers(
                steps,
                tokens=sum(request.completion_tokens or 0 for request in done),
                steps_reported=len(details),
                answers=len(done),
                silence=releases.silence(info.version, releases.SPEC_IN_ANSWERS),
            ),
            from_counter(
                self._before.verify_calls if self._before else None,
                self._after.verify_calls if self._after else None,
                counters_shown=self._after is not None,
                silence=releases.silence(info.version, releases.VERIFY_COUNTER) or dropped,
                last_window=self._after.accept_length_window if self._after else None,
            ),
            *([from_native(self.native.verify_steps, info.version)] if self.native else []),
            from_files(self._served.asks_for_speculation, self._served.on_disk),
        ]

    def must_be_off(self) -> None:
        """Assert that no witness saw any speculation; if one did, say where it can have come from."""
        try:
            require(self.witnesses(), on=False, asked=self._served.asked)
        except BrokenPromise as error:
            raise BrokenPromise(f"{error}\n{self._where_from()}") from None

    def must_be_on(self) -> None:
        """Assert that every witness who can tell saw speculation."""
        require(self.witnesses(), on=True, asked=self._served.asked)

    @property
    def ignored(self) -> list[str]:
        """Speculative flags that were given and have no effect."""
        if self._served.asks_for_speculation:
            return []
        return [name for name in self._served.server.flags if name.startswith("speculative-")]

    def must_resolve_to(self, algorithm: str) -> None:
        """Assert what the usual names (NEXTN, EAGLE) stand for; any other algorithm stands for itself."""
        flags = self._served.server.flags
        asked = str(flags.get(speculation_sources.asked_by(flags) or "", algorithm)).upper()
        if asked not in ("NEXTN", "EAGLE"):
            algorithm = asked
        if self.algorithm != algorithm:
            raise BrokenPromise(
                f"{self._served.asked}, which resolved to {self.algorithm}, not to {algorithm}"
            )

    def must_come_from(self, origin: str) -> None:
        """Assert that this suite finds and names where speculation comes from, where no flag asks for it."""
        if not any(origin in place for place in self._served.origins):
            raise BrokenPromise(
                f"speculation comes with {origin}, but it was not found there\n{self._where_from()}"
            )

    def _where_from(self) -> str:
        places = self._served.origins
        if not places:
            return (
                "It comes from none of the flags, the --config file, the variables, plugins or source lines that "
                "could be read: a changed default, a wrapper or a fork"
            )
        return "It can come from:\n" + "\n".join(f"  {place}" for place in places)

    def _no_rank_may_be_dead(self) -> None:
        """A rank whose drafts all fail hides in the figures of several."""
        if len(self._served.info.states) < 2:
            return
        lengths = self._served.fresh_info().accept_lengths
        dead = [str(rank) for rank, length in enumerate(lengths) if length <= 1]
        if dead and len(dead) < len(lengths):
            every = ", ".join(f"{length:.2f}" for length in lengths)
            raise BrokenPromise(
                f"MTP is dead on data-parallel rank {' and '.join(dead)}: avg_spec_accept_length by rank {every}. "
                "Its draft's weights are missing, partial or not the model's"
            )

    def must_yield_more_than_one_token_a_step(self) -> None:
        """Assert that drafts are accepted: a server can speculate for ever in vain.

        Where neither answers nor counters of its release tell, that is a warning, and no promise is broken.
        """
        found = accepted.of(self._served, self.answers, self.native, self._before, self._after)
        if isinstance(found, accepted.AcceptanceUnknown):
            if not found.excused:
                raise BrokenPromise(f"acceptance length unknown: {found.reason}")
            warnings.warn(
                f"acceptance length of {self._served.launch_id} unknown: {found.reason}", stacklevel=2
            )
            return
        self._no_rank_may_be_dead()
        floor = self._served.target.acceptance_floor
        if not found.dead and found.length >= floor:
            return
        how = "dead" if found.dead else "all but dead"
        raise BrokenPromise(
            f"MTP is on, but {how}: acceptance length {found.length:.3f}, {found.evidence} (floor {floor:g}). "
            "The draft's weights are missing, partial or not the model's",
            short=f"MTP drafts are {how} ({found.evidence.partition(' in ')[0].replace('drafts ', '')})",
        )
