"""The ``measure`` fixture: a workload played round after round against the arm of this item, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from suite import metrics
from suite.gate import Invalid
from suite.gate.precision import rounds_wanted
from suite.gate.records import plain_facts
from suite.load import (
    ClientLimits,
    ClosedLoop,
    LoadError,
    Progress,
    Sampling,
    Workload,
    cache,
    contexts,
    play,
)
from suite.load import Round as LoadRound
from suite.session import entries
from suite.session.asked import Asked, asked_for, asked_of_each, loaded
from suite.session.beforehand import speculation_asked
from suite.session.collection import SeriesId
from suite.session.measured import Measured, require_answers, still_warming
from suite.session.mishaps import mishaps
from suite.session.outcomes import ArmNotInEffect
from suite.session.recording import STORED, Played
from suite.session.run import Run
from suite.session.served import Served
from suite.session.steadiness import Steady, windows
from suite.session.stopping import StoppedEarly
from suite.sglang import releases
from suite.terminal.figures import number

WARM_UP_BATCHES = 6
TELLING_TOKENS = 64
"""Answers shorter than this have no TPOT to speak of."""
TIMING = frozenset(
    {"client_saturated", "not_warmed_up", "clocks_throttled", "power_capped", "foreign_processes"}
)
"""Reasons of invalidity that spoil times and leave counts as they are: how much is accepted does not depend on speed."""
STEADY = 0.015
"""Warm-up ends when a batch of requests is less than this much faster than the one before, at the latest after six."""


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used."""

    extra_info: dict[str, Any]
    group: str | None

    def pedantic(self, target: Callable[..., Any], **options: Any) -> Any: ...


class Measure:
    """Plays a workload for the budget's rounds; a workload that this launch has played is not played again."""

    def __init__(
        self,
        run: Run,
        served: Served,
        series: SeriesId | None,
        benchmark: Callable[[], Benchmark],
        facts: Callable[[Served], dict[str, Any]],
        on_played: Callable[[Played], None],
    ) -> None:
        self._run = run
        self._served = served
        self._on_played = on_played
        self._series = series
        self._benchmark = benchmark
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
    ) -> Measured:
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
        return Measured(
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
    ) -> Measured:
        """Ask the budget's number of distinct prompts once each, many at a time, and keep what each yielded.

        For what does not depend on speed: acceptance, and whether two builds answer alike. A workload of fewer prompts
        is asked whole. With ``context``, prompts of that many tokens instead.

        Raises: as calling it does.
        """
        self._must_be_in_effect()
        sizes = self._run.sizes
        wanted = sizes.prompts_of(context)
        at_once = self._served.info.resolved.get("max_running_requests")
        return Measured(
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
            progress=lambda p: self._run.passing(_progress_line(f"{self._served.slot}: long run", p)),
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
                f"{self._served.slot.arm} is not in effect: " + "; ".join(self._served.not_as_asked)
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

    def _once(self, asked: Asked) -> Played:
        """The rounds of a workload: those that this launch has played, or fresh ones."""
        played = self._served.played.get(asked.key)
        if played is not None:
            self._answers(asked)
        else:
            played = Played(
                identity={
                    **self._served.info.identity(),
                    **self._run.surroundings.identity(),
                    **asked.identity,
                    "speculation_asked": speculation_asked(self._served.server.flags),
                },
                subject=self._facts(self._served),
            )
            try:
                self._play(asked, played)
            except LoadError:
                self._served.check()  # a server that died is the cause, not the client that could not reach it
                raise
            self._served.played[asked.key] = played
        self._on_played(played)
        return played

    def _answers(self, asked: Asked) -> None:
        """Note that the rounds of this workload answer the question of this item."""
        if self._series is None:
            return
        slot, ratio = self._served.slot, self._series.ratio
        self._run.note(
            entries.Answering(
                launch=self._served.number,
                arm=slot.arm,
                number=slot.launch,
                workload=asked.key,
                question=self._series.question,
                metrics=list(self._series.metrics),
                ratio=ratio.metric if ratio else "",
                parts=[ratio.numerator, ratio.denominator] if ratio else [],
            )
        )

    def _play(self, asked: Asked, played: Played) -> None:
        launch = self._served.number
        began = time.monotonic()
        if not asked.counts_only:
            self._warm_up(asked)
        warmup_s = time.monotonic() - began
        facts = (plain_facts(played.identity), plain_facts(played.subject))
        self._run.note(entries.Workload(launch, asked.key, *facts))
        self._answers(asked)
        with self._run.surroundings.watching() as watched:
            self._rounds(asked, played)
        if any(len(round_.ok) < len(round_.requests) for round_ in played.rounds):
            self._served.must_live()  # what looks like failing requests may be its end
        played.invalid.extend(
            self._run.surroundings.invalid(watched, self._run.target.arm_env(self._served.arm))
        )
        if "power_capped" not in self._run.target.tolerate:
            played.clocks = watched.clocks
        self._look_back(played, asked)
        facts = (plain_facts(played.identity), plain_facts(played.subject))
        self._run.note(
            entries.Measured(
                launch,
                asked.key,
                len(played.rounds),
                *facts,
                invalid=played.invalid,
                clocks=played.clocks,
                warmup_s=warmup_s,
            )
        )
        self._served.check()
        self._run.surroundings.must_have_stayed_sound(watched)
        if len(played.rounds) < asked.rounds:
            self._run.stopping.check()
        require_answers(played)
        self._run.progress.say(f"{self._served.slot}: {asked.label}: {_in_words(played)}")

    def _rounds(self, asked: Asked, played: Played) -> None:
        """Play the rounds, each on disk before the next begins; fewer where the run is to stop."""
        target = self._run.target
        results: list[LoadRound] = []

        def one_round() -> None:
            number_of_round = len(played.rounds) + 1
            label = f"{self._served.slot}: {asked.label}, round {number_of_round} of {asked.rounds}"
            self._served.doing = f"{asked.label}, round {number_of_round} of {asked.rounds}"
            unique = f"round {number_of_round}, prompt " if asked.cold else None
            result = play(
                self._served.endpoint,
                asked.workload.sized(unique_prefix=unique),
                ClosedLoop(asked.concurrency, asked.workload.requests),
                sampling=asked.sampling,
                timeout_s=target.timeouts.request_s,
                stall_s=target.timeouts.stall_s,
                keep_text=asked.counts_only and asked.sampling.temperature == 0,
                limits=ClientLimits(**target.client.model_dump()),
                progress=lambda progress: self._run.passing(_progress_line(label, progress)),
            )
            results.append(result)

        began = [0.0]

        def before() -> None:
            self._run.stopping.check(time.monotonic() - began[0] if played.rounds else 0.0)
            began[0] = time.monotonic()
            self.empty_cache()

        def after() -> None:
            result = results.pop()
            self._keep(asked, played, result, began[0])
            self._tell_mishaps(f"{asked.label}, round {len(played.rounds)} of {asked.rounds}", result)

        benchmark = self._benchmark()
        benchmark.group = asked.label
        counted = self._served.counters()
        try:
            benchmark.pedantic(one_round, setup=before, teardown=after, rounds=asked.rounds, iterations=1)
            while self._imprecise(asked, played) and self._run.can_spare(time.monotonic() - began[0]):
                before()
                one_round()
                after()
        except StoppedEarly:
            if not played.rounds:
                raise
        now = self._served.counters()
        graphs = now.graph_share(counted) if now is not None else None
        if graphs is not None:
            played.subject["decode_cuda_graphs"] = graphs == 1.0
        benchmark.extra_info.update(self._extra_info(played))

    def _imprecise(self, asked: Asked, played: Played) -> bool:
        """Whether more rounds are wanted and allowed: the standard error of what is judged is not yet what was asked for."""
        sizes = self._run.sizes
        most = sizes.rounds_max or asked.rounds
        if asked.counts_only or most <= len(played.rounds) or self._series is None:
            return False
        name = "ttft_s" if "ttft_s" in self._series.metrics else "step_s"
        precision = rounds_wanted(
            [values[name].value if name in values else None for values in played.values],
            sizes.precision,
            most,
        )
        if precision.standard_error is not None:
            self._run.passing(
                f"{self._served.slot}: {asked.label}: {name} known to {100 * precision.standard_error:.2f} %"
            )
        return precision.go_on

    def _keep(self, asked: Asked, played: Played, result: LoadRound, began: float) -> None:
        """A round with its metrics and what is wrong with it, into the journal."""
        resolved = self._served.info.speculation
        faults = metrics.validity(
            result,
            draft_tokens=resolved.draft_tokens if resolved.on and not resolved.adaptive else None,
            cached_share_max=0.1 if asked.cold else None,
        )
        sample = played.add(
            result,
            metrics.summarize(result, speculative=resolved.on),
            self._tolerated([Invalid(fault.name, fault.evidence) for fault in faults], asked),
        )
        slot = self._served.slot
        self._run.note(
            entries.Round(
                launch=self._served.number,
                arm=slot.arm,
                number=slot.launch,
                workload=asked.key,
                round=len(played.rounds) - 1,
                of=max(asked.rounds, len(played.rounds)),
                seconds=time.monotonic() - began,
                sample=sample,
                question=self._series.question if self._series else "",
            )
        )

    def _tell_mishaps(self, what: str, round_: LoadRound) -> None:
        """Keep what went wrong and may show in no figure: the run's end says so."""
        for told in mishaps(round_):
            self._run.tell("faults", f"{self._served.slot}: {what}: {told}")

    def _warm_up(self, asked: Asked) -> None:
        """Play some requests unmeasured until they get no faster: the first of a launch compile kernels and fill caches."""
        wanted = self._run.sizes.warmup_requests
        if wanted == 0:
            return
        self._served.doing = f"warm-up of {asked.label}"
        self._run.passing(f"{self._served.slot}: warming up")
        last: float | None = None
        for batch in range(WARM_UP_BATCHES):
            played = play(
                self._served.endpoint,
                asked.workload.sized(unique_prefix=f"warm-up {batch}, prompt "),
                ClosedLoop(asked.concurrency, max(wanted, asked.concurrency)),
                sampling=asked.sampling,
                timeout_s=self._run.target.timeouts.request_s,
                stall_s=self._run.target.timeouts.stall_s,
            )
            self._tell_mishaps(f"warm-up of {asked.label}", played)
            now = metrics.summarize(played)["output_tokens_per_s"].value
            if now is None or (last is not None and now < last * (1 + STEADY)):
                return
            last = now

    def _look_back(self, played: Played, asked: Asked) -> None:
        """What is wrong with the rounds together."""
        long_enough = (asked.sampling.max_tokens or 0) >= TELLING_TOKENS
        tpot_s = [values["tpot_s"].value for values in played.values]
        if long_enough and (warming := still_warming(tpot_s)):
            played.invalid.append(Invalid("not_warmed_up", warming))
        played.invalid = self._tolerated(played.invalid, asked)

    def _tolerated(self, found: list[Invalid], asked: Asked) -> list[Invalid]:
        """Without the reasons that this target is known for, and those that spoil nothing of what was asked."""
        harmless = {*self._run.target.tolerate, *(TIMING if asked.counts_only else ())}
        return [reason for reason in found if reason.name not in harmless]

    def _extra_info(self, played: Played) -> dict[str, Any]:
        medians = {name: played.median(name) for name in STORED}
        return {
            "arm": self._served.slot.arm,
            "launch": self._served.slot.launch,
            "sglang": self._served.info.version,
            **{name: value for name, value in medians.items() if value is not None},
        }


def _progress_line(label: str, progress: Progress) -> str:
    return f"{label}: {progress.done} of {progress.total} answers, {progress.tokens} tokens"


def _in_words(played: Played) -> str:
    """The figures people look for first."""
    shown = []
    for name, unit in (("output_tokens_per_s", "tokens/s"), ("ttft_s", "s"), ("acceptance_length", "")):
        value = played.median(name)
        if value is not None:
            label = {"output_tokens_per_s": "", "ttft_s": "TTFT ", "acceptance_length": "acceptance length "}[
                name
            ]
            shown.append(f"{label}{number(value, unit)}")
    faults = sum(len(round_.requests) - len(round_.ok) for round_ in played.rounds)
    if faults:
        shown.append(f"{faults} requests failed")
    return ", ".join(shown)
