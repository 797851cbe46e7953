"""The ``measure`` fixture: a workload played round after round against the arm of this item, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from suite import metrics
from suite.collection import SeriesId
from suite.flags import Flags
from suite.gate import Invalid
from suite.load import (
    ClientLimits,
    ClosedLoop,
    LoadError,
    Progress,
    Round,
    Sampling,
    Workload,
    cache,
    play,
    workloads,
)
from suite.outcomes import ArmNotInEffect, BrokenPromise, InvalidMeasurement
from suite.recording import STORED, Played, Recording
from suite.report.terminal import number
from suite.run import Run
from suite.served import Served


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used."""

    extra_info: dict[str, Any]
    group: str | None

    def pedantic(self, target: Callable[..., Any], **options: Any) -> Any: ...


class Measured:
    """What one ``measure`` call found in this launch."""

    def __init__(self, played: Played) -> None:
        self.played = played

    def __getitem__(self, metric: str) -> float | None:
        """The median of a metric over the rounds; ``None`` where the server does not report it."""
        return self.played.median(metric)

    def require_at_least(self, metric: str, floor: float, otherwise: str) -> None:
        """Assert a floor that holds whatever the baseline says.

        Raises:
            BrokenPromise: the metric is missing, or below the floor; ``otherwise`` says what that means.
        """
        label = metrics.METRICS[metric].title.lower() if metric in metrics.METRICS else metric
        value = self[metric]
        if value is None:
            raise BrokenPromise(f"{label} unknown: {self.played.reason(metric)}")
        if value < floor:
            raise BrokenPromise(f"{label} {value:.3f} is below the floor of {floor:g}: {otherwise}")


class Measure:
    """Plays a workload for the budget's rounds; a workload that this launch has played is not played again."""

    def __init__(
        self,
        run: Run,
        served: Served,
        recording: Recording,
        series: SeriesId | None,
        benchmark: Callable[[], Benchmark],
        facts: Callable[[Served], dict[str, Any]],
    ) -> None:
        self._run = run
        self._served = served
        self._recording = recording
        self._series = series
        self._benchmark = benchmark
        self._facts = facts

    def __call__(
        self,
        workload: str | Workload,
        *,
        concurrency: int = 1,
        max_tokens: int | None = None,
        temperature: float = 0.0,
        requests: int | None = None,
        rounds: int | None = None,
        shared_prefix: str | None = None,
    ) -> Measured:
        """Play ``workload`` with ``concurrency`` clients and keep every round.

        Args:
            workload: a shipped kind, the path of a JSONL file, or a workload already made.
            max_tokens: length of every answer; the end of text is ignored, so that answers are equally long.
            requests: how many a round; at least one a client.
            shared_prefix: text before every prompt alike, to be found in the prefix cache; ``None``: every prompt
                of a run is new to the server.

        Raises:
            ArmNotInEffect: the server does not run as the arm asks, so nothing was measured.
        """
        if self._served.not_as_asked:
            raise ArmNotInEffect(
                f"{self._served.slot.arm} is not in effect: " + "; ".join(self._served.not_as_asked)
            )
        sizes = self._run.sizes
        chosen = workload if isinstance(workload, Workload) else workloads.load(workload)
        length = max_tokens or sizes.max_tokens
        asked = chosen.sized(
            max_tokens=length,
            requests=max(requests or sizes.requests, concurrency),
            prompt_chars_max=chosen.prompt_chars_max or sizes.prompt_chars,
            shared_prefix=shared_prefix,
        )
        sampling = Sampling(max_tokens=length, temperature=temperature, ignore_eos=True)
        key = f"{asked.content_hash} c{concurrency} t{temperature:g} r{rounds or sizes.rounds}"
        played = self._served.played.get(key)
        if played is None:
            try:
                played = self._play(asked, concurrency, sampling, rounds or sizes.rounds)
            except LoadError:
                self._served.server.check()  # a server that died is the cause, not the client that could not reach it
                raise
            played.identity = self._identity(asked, concurrency, sampling)
            self._served.played[key] = played
        if self._series is not None:
            self._recording.add(self._series, self._served.slot.launch, played)
        return Measured(played)

    def _play(self, asked: Workload, concurrency: int, sampling: Sampling, rounds: int) -> Played:
        played = Played(subject=self._facts(self._served))
        self._warm_up(asked, concurrency, sampling)
        target = self._run.target

        def one_round() -> None:
            number_of_round = len(played.rounds) + 1
            label = f"{self._served.slot}: {asked.name}, {_clients(concurrency)}, round {number_of_round} of {rounds}"
            result = play(
                self._served.endpoint,
                asked.sized(unique_prefix=f"{number_of_round}-"),
                ClosedLoop(concurrency, asked.requests),
                sampling=sampling,
                timeout_s=target.timeouts.request_s,
                stall_s=target.timeouts.stall_s,
                limits=ClientLimits(**target.client.model_dump()),
                progress=lambda progress: self._run.progress.passing(_progress_line(label, progress)),
            )
            played.rounds.append(result)

        benchmark = self._benchmark()
        benchmark.group = f"{asked.name}, {_clients(concurrency)}"
        before = self._served.counters()
        with self._run.surroundings.watching() as watched:
            benchmark.pedantic(one_round, setup=self._empty_cache, rounds=rounds, iterations=1)
        after = self._served.counters()
        graphs = after.graph_share(before) if after is not None else None
        if graphs is not None:
            played.subject["decode_cuda_graphs"] = graphs == 1.0
        played.invalid.extend(
            self._run.surroundings.invalid(watched, self._run.target.arm_env(self._served.arm))
        )
        self._summarise(played)
        self._served.server.check()
        _require_answers(played)
        benchmark.extra_info.update(self._extra_info(played))
        self._run.progress.say(
            f"{self._served.slot}: {asked.name}, {_clients(concurrency)}: {_in_words(played)}"
        )
        return played

    def _warm_up(self, asked: Workload, concurrency: int, sampling: Sampling) -> None:
        """The first requests of a launch are slow (kernels are compiled, graphs replayed first): play some unmeasured."""
        wanted = self._run.sizes.warmup_requests
        if wanted == 0:
            return
        self._run.progress.passing(f"{self._served.slot}: warming up")
        play(
            self._served.endpoint,
            asked.sized(unique_prefix="warm-up-"),
            ClosedLoop(concurrency, max(wanted, concurrency)),
            sampling=sampling,
            timeout_s=self._run.target.timeouts.request_s,
            stall_s=self._run.target.timeouts.stall_s,
        )

    def _empty_cache(self) -> None:
        cache.flush(self._served.endpoint)

    def _summarise(self, played: Played) -> None:
        on = self._served.info.speculation.on
        for index, round_ in enumerate(played.rounds):
            played.values.append(metrics.summarize(round_, speculative=on))
            played.invalid.extend(
                Invalid(found.name, found.evidence, index) for found in self._faults(round_)
            )

    def _faults(self, round_: Round) -> list[metrics.Invalid]:
        resolved = self._served.info.speculation
        return metrics.validity(round_, draft_tokens=resolved.draft_tokens if resolved.on else None)

    def _identity(self, asked: Workload, concurrency: int, sampling: Sampling) -> dict[str, Any]:
        wished = {
            name: value
            for name, value in self._served.server.flags.items()
            if name.startswith("speculative-")
        }
        return {
            **self._served.info.identity(),
            **self._run.surroundings.identity(),
            "workload": asked.name,
            "workload_hash": asked.content_hash,
            "concurrency": concurrency,
            "requests": asked.requests,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "speculation_asked": " ".join(Flags(wished).argv()) or None,
        }

    def _extra_info(self, played: Played) -> dict[str, Any]:
        medians = {name: played.median(name) for name in STORED}
        return {
            "arm": self._served.slot.arm,
            "launch": self._served.slot.launch,
            "sglang": self._served.info.version,
            **{name: value for name, value in medians.items() if value is not None},
        }


def _require_answers(played: Played) -> None:
    """Some request of some round must have been answered wholly, or there is nothing to judge.

    Raises:
        InvalidMeasurement: none was; the text names the first fault.
    """
    requests = [request for round_ in played.rounds for request in round_.requests]
    if any(request.ok for request in requests):
        return
    first = requests[0].fault if requests else "no request was sent"
    raise InvalidMeasurement(f"nothing was measured: all {len(requests)} requests failed, the first: {first}")


def _clients(concurrency: int) -> str:
    return "1 client" if concurrency == 1 else f"{concurrency} clients"


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
