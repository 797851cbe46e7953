"""The ``measure`` fixture: a workload played round after round against the arm of this item, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from suite.load import (
    ClientLimits,
    ClosedLoop,
    LoadError,
    Sampling,
    Workload,
    cache,
    contexts,
    play,
)
from suite.session.asked import PlannedWorkload, asked_for, asked_for_traffic, asked_of_each, loaded
from suite.session.beforehand import speculation_asked
from suite.session.collection import SeriesId
from suite.session.measurement import Measurement
from suite.session.outcomes import ArmNotInEffect
from suite.session.recording import WorkloadResult
from suite.session.rounds import Benchmark, Beside, RoundPlayer, progress_line
from suite.session.run import Run
from suite.session.running_arm import RunningArm
from suite.session.steadiness import Steady, windows
from suite.session.traffic import traffic_of
from suite.sglang import releases


class Measure:
    """Plays a workload for the budget's rounds; a workload that this launch has played is not played again."""

    def __init__(
        self,
        run: Run,
        served: RunningArm,
        series: SeriesId | None,
        benchmark: Callable[[], Benchmark],
        facts: Callable[[RunningArm], dict[str, Any]],
        on_played: Callable[[WorkloadResult], None],
        question: str = "",
    ) -> None:
        self._run = run
        self._served = served
        self._on_played = on_played
        self._rounds_of: Callable[[RunningArm], RoundPlayer] = lambda one: RoundPlayer(
            run, one, series, benchmark, question
        )
        self._rounds = self._rounds_of(served)
        self._facts = facts

    def __call__(
        self,
        workload: str | Workload = "prose",
        *,
        concurrency: int = 1,
        context: int | None = None,
        shared_prefix: int | None = None,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        requests: int | None = None,
        rounds: int | None = None,
    ) -> Measurement:
        """Play ``workload`` with ``concurrency`` clients and keep every round.

        Args:
            workload: a shipped kind, the path of a JSONL file, or a workload already made.
            context: play prompts of this many tokens instead (prose), all new to the server.
            shared_prefix: begin every prompt with the same text of about this many tokens, to be found in the
                prefix cache; ``None``: every prompt of a run is new to the server.
            max_tokens: length of every answer; the end of text is ignored, so that answers are equally long.
            requests: how many a round; at least one a client.

        Raises:
            ArmNotInEffect: the server does not run as the arm asks, so nothing was measured.
            InvalidMeasurement: not one request was answered.
            pytest.skip.Exception: the server's context is too short for ``context``.
        """
        self._must_be_in_effect()
        sizes = self._run.sizes
        length = max_tokens or sizes.max_tokens
        wanted = max(requests or sizes.requests, concurrency)
        return Measurement(
            self._once(
                asked_for(
                    sizes,
                    self._long(context, length, wanted) if context else workload,
                    concurrency=concurrency,
                    context=context,
                    shared_prefix=shared_prefix,
                    max_tokens=length,
                    temperature=temperature,
                    requests=requests,
                    rounds=rounds,
                )
            ),
            self._silence,
        )

    def each_prompt(
        self, workload: str | Workload = "prose", *, context: int | None = None, temperature: float = 0.0
    ) -> Measurement:
        """Ask the budget's number of distinct prompts once each, many at a time, and keep what each yielded.

        For what does not depend on speed: acceptance, and whether two builds answer alike. A workload of fewer prompts
        is asked whole. With ``context``, prompts of that many tokens instead.

        Raises: as calling it does.
        """
        self._must_be_in_effect()
        sizes = self._run.sizes
        wanted = sizes.prompts_of(context)
        at_once = self._served.info.resolved.get("max_running_requests")
        return Measurement(
            self._once(
                asked_of_each(
                    sizes,
                    self._long(context, sizes.max_tokens, wanted) if context else workload,
                    context=context,
                    temperature=temperature,
                    at_once=at_once if isinstance(at_once, int) else None,
                )
            ),
            self._silence,
        )

    def traffic(self, name: str) -> Measurement:
        """Replay the target's traffic of this name at its own pace each round, then ever faster, until its limits break.

        Raises:
            LoadError: its file cannot be read, or nothing of it fits into this server's context.
            ArmNotInEffect, InvalidMeasurement: as calling it does.
        """
        self._must_be_in_effect()
        limit = self._served.info.resolved.get("context_length")
        made = traffic_of(
            self._run.target.traffic[name],
            self._run.suite.path.resolve().parent,
            self._served.endpoint,
            limit if isinstance(limit, int) else None,
        )
        return Measurement(self._once(asked_for_traffic(self._run.sizes, made)), self._silence)

    @property
    def _silence(self) -> str | None:
        return releases.silence(self._served.info.version, releases.SPEC_IN_ANSWERS)

    def steadily(
        self, workload: str | Workload, *, concurrency: int, seconds: float, max_tokens: int
    ) -> Steady:
        """Keep ``concurrency`` clients busy for ``seconds`` and look at the run in windows; nothing is judged."""
        self._must_be_in_effect()
        played = play(
            self._served.endpoint,
            loaded(workload).sized(max_tokens=max_tokens, unique_prefix="long run, prompt "),
            ClosedLoop(concurrency, duration_s=seconds),
            sampling=Sampling(max_tokens=max_tokens, temperature=0.0, ignore_eos=True),
            timeout_s=self._run.target.timeouts.request_s,
            stall_s=self._run.target.timeouts.stall_s,
            limits=ClientLimits(**self._run.target.client.model_dump()),
            progress=lambda p: self._run.passing(progress_line(f"{self._served.launch_id}: long run", p)),
        )
        self._served.check()
        return Steady(played, windows(played, seconds), seconds, self._silence)

    def leave_early(self, workload: str | Workload, *, clients: int, after_s: float) -> int:
        """Send requests of ``clients`` clients who all hang up after ``after_s`` seconds; how many did."""
        played = play(
            self._served.endpoint,
            loaded(workload).sized(requests=clients, max_tokens=4096, unique_prefix="hang-up, prompt "),
            ClosedLoop(clients, clients),
            sampling=Sampling(max_tokens=4096, temperature=0.0, ignore_eos=True),
            timeout_s=after_s,
        )
        return len(played.requests) - len(played.ok)

    def empty_cache(self) -> None:
        """Flush the prefix cache, waiting until the server is idle."""
        cache.flush(self._served.endpoint)

    def _must_be_in_effect(self) -> None:
        if self._served.not_as_asked:
            raise ArmNotInEffect(
                f"{self._served.launch_id.arm} is not in effect: " + "; ".join(self._served.not_as_asked)
            )

    def _long(self, tokens: int, max_tokens: int, prompts: int) -> Workload:
        limit = self._served.info.resolved.get("context_length")
        if isinstance(limit, int) and tokens + max_tokens > limit:
            pytest.skip(
                f"{tokens} + {max_tokens} tokens do not fit into this server's --context-length of {limit}"
            )
        known = self._served.contexts.get(tokens)
        if known is None or len(known.prompts) < prompts:
            known = self._served.contexts[tokens] = contexts.of_tokens(self._served.endpoint, tokens, prompts)
        return known

    def _once(self, asked: PlannedWorkload) -> WorkloadResult:
        """The rounds of a workload: those that this launch has played, or fresh ones."""
        played = self._served.played.get(asked.key)
        if played is not None:
            self._rounds.answers(asked)
        else:
            played = self._fresh(asked)
        self._on_played(played)
        return played

    def _fresh(self, asked: PlannedWorkload) -> WorkloadResult:
        """Rounds played now; in a duet the other build's server is asked the same in turn, and keeps what is its own."""
        played = self._result(self._served, asked)
        partner = self._run.partner_of(self._served)
        beside = None
        if partner is not None and not partner.not_as_asked and asked.key not in partner.played:
            first = len(self._served.played) % 2 == 1  # neither build begins with every workload
            beside = Beside(self._rounds_of(partner), self._result(partner, asked), first)
        try:
            self._rounds.play(asked, played, beside)
        except LoadError:
            self._served.check()  # a server that died is the cause, not the client that could not reach it
            raise
        self._served.played[asked.key] = played
        if partner is not None and beside is not None:
            partner.played[asked.key] = beside.played
        return played

    def _result(self, served: RunningArm, asked: PlannedWorkload) -> WorkloadResult:
        return WorkloadResult(
            identity={
                **served.info.identity(),
                **self._run.environment.identity(),
                **asked.identity,
                "speculation_asked": speculation_asked(served.server.flags),
            },
            subject=self._facts(served),
        )
