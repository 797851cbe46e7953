"""One workload in one launch: warmed up, played round after round, each round in the journal before the next begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from suite import metrics
from suite.gate import Invalid
from suite.gate.precision import rounds_wanted
from suite.gate.records import plain_facts
from suite.load import ClientLimits, LoadShape, Progress, cache, play
from suite.load import Round as LoadRound
from suite.session import entries
from suite.session.asked import PlannedWorkload
from suite.session.collection import SeriesId
from suite.session.fitness import not_warmed_up, tolerated
from suite.session.gpu_monitor import Watched
from suite.session.measurement import require_answers
from suite.session.mishaps import mishaps
from suite.session.recording import STORED, WorkloadResult
from suite.session.run import Run
from suite.session.running_arm import RunningArm
from suite.session.stopping import StoppedEarly
from suite.session.turns import Turns
from suite.session.warm_up import warm_up
from suite.terminal.figures import number, times


class Benchmark(Protocol):
    """The part of pytest-benchmark's fixture that is used."""

    extra_info: dict[str, Any]
    group: str | None

    def pedantic(self, target: Callable[..., Any], **options: Any) -> Any: ...


class RoundPlayer:
    """Plays the rounds of workloads in one launch and notes them in the run's journal."""

    def __init__(
        self,
        run: Run,
        served: RunningArm,
        series: SeriesId | None,
        benchmark: Callable[[], Benchmark],
        question: str = "",
    ) -> None:
        self._question = question
        self._run = run
        self._served = served
        self._series = series
        self._benchmark = benchmark

    def answers(self, asked: PlannedWorkload) -> None:
        """Note that the rounds of this workload answer the question of this item."""
        if self._series is None:
            return
        launch_id, ratio = self._served.launch_id, self._series.ratio
        self._run.note(
            entries.Answering(
                launch=self._served.number,
                arm=launch_id.arm,
                number=launch_id.number,
                workload=asked.key,
                question=self._series.question,
                metrics=list(self._series.metrics),
                ratio=ratio.metric if ratio else "",
                parts=[ratio.numerator, ratio.denominator] if ratio else [],
            )
        )

    def play(self, asked: PlannedWorkload, played: WorkloadResult, beside: Beside | None = None) -> None:
        """Warm up, play every round, and note all of it.

        Args:
            beside: in a duet the other build's server, which is asked the same in turn: first in every second round.
        """
        warmup_s = self._warmed(asked, played)
        other_s = beside.rounds._warmed(asked, beside.played) if beside is not None else 0.0
        with self._run.gpu_monitor.watching() as watched:
            mine = _Turn(self, asked, played, watched)
            turns = Turns(mine)
            if beside is not None:
                other = _Turn(beside.rounds, asked, beside.played, watched)
                turns = Turns(mine, other, other_first=beside.first)
            if not asked.counts_only:
                turns.uncounted()
            warmup_s += mine.uncounted_s
            self._rounds(asked, played, turns, beside.played if beside is not None else None)
        self._over(asked, played, watched, warmup_s)
        if beside is not None:
            beside.rounds._over(asked, beside.played, watched, other_s + other.uncounted_s)

    def _warmed(self, asked: PlannedWorkload, played: WorkloadResult) -> float:
        """Warm up, and note what is about to be played; how long it took."""
        began = time.monotonic()
        if not asked.counts_only:
            for batch in warm_up(self._run, self._served, asked):
                self._tell_mishaps(f"warm-up of {asked.label}", batch)
        warmup_s = time.monotonic() - began
        facts = (plain_facts(played.identity), plain_facts(played.subject))
        self._run.note(entries.WorkloadBegun(self._served.number, asked.key, *facts))
        self.answers(asked)
        return warmup_s

    def _over(
        self, asked: PlannedWorkload, played: WorkloadResult, watched: Watched, warmup_s: float
    ) -> None:
        """All rounds were played: note what is known only now, and see that the server is still sound."""
        launch = self._served.number
        if any(len(round_.ok) < len(round_.requests) for round_ in played.rounds):
            self._served.must_live()  # what looks like failing requests may be its end
        played.invalid.extend(
            self._run.gpu_monitor.invalid(watched, self._run.target.arm_env(self._served.arm))
        )
        if "power_capped" not in self._run.target.tolerate:
            played.clocks = watched.clocks
        tpot_s = [values["tpot_s"].value for values in played.values]
        found = [*played.invalid, *not_warmed_up(tpot_s, asked)]
        played.invalid = tolerated(found, self._run.target.tolerate, asked)
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
        self._run.gpu_monitor.must_have_stayed_sound(watched)
        if len(played.rounds) < asked.rounds:
            self._run.stopping.check()
        require_answers(played)
        self._run.progress.say(f"{self._told(asked)}: {_in_words(played, asked)}")

    def _told(self, asked: PlannedWorkload) -> str:
        """For which question something is played: by this two with equal workloads are told apart."""
        return f"{self._served.launch_id}: {self._question or asked.label}"

    def _rounds(
        self,
        asked: PlannedWorkload,
        played: WorkloadResult,
        turns: Turns,
        other: WorkloadResult | None,
    ) -> None:
        """Play the rounds, each on disk before the next begins; fewer where the run is to stop."""
        mine = turns.mine

        def before() -> None:
            self._run.stopping.check(turns.seconds if played.rounds else 0.0)
            turns.before(len(played.rounds))

        def after() -> None:
            turns.after(len(played.rounds))

        benchmark = self._benchmark()
        benchmark.group = asked.label
        counted = self._served.counters()
        try:
            benchmark.pedantic(mine.play, setup=before, teardown=after, rounds=asked.rounds, iterations=1)
            if mine.unkept:  # --benchmark-disable plays one round, and keeps none
                after()
            while len(played.rounds) < asked.rounds or (
                self._imprecise(asked, played, other) and self._run.can_spare(turns.seconds)
            ):
                before()
                mine.play()
                after()
        except StoppedEarly:
            if not played.rounds:
                raise
        now = self._served.counters()
        graphs = now.graph_share(counted) if now is not None else None
        if graphs is not None:
            played.subject["decode_cuda_graphs"] = graphs == 1.0
        benchmark.extra_info.update(self._extra_info(played))

    def _imprecise(
        self, asked: PlannedWorkload, played: WorkloadResult, other: WorkloadResult | None = None
    ) -> bool:
        """Whether more rounds are wanted and allowed: the standard error of what is judged is not yet what was asked for.

        In a duet that is the difference from the other build, and not what the machine does to both.
        """
        sizes = self._run.sizes
        most = sizes.rounds_max or asked.rounds
        if asked.counts_only or most <= len(played.rounds) or self._series is None:
            return False
        name = "ttft_s" if "ttft_s" in self._series.metrics else "step_s"
        precision = rounds_wanted(
            played.told(name) if other is None else _ratios(played.told(name), other.told(name)),
            sizes.precision,
            most,
        )
        if precision.standard_error is not None:
            self._run.passing(f"{self._told(asked)}: {name} known to {100 * precision.standard_error:.2f} %")
        return precision.go_on

    def _keep(
        self,
        asked: PlannedWorkload,
        played: WorkloadResult,
        result: LoadRound,
        began: float,
        powers_w: Sequence[tuple[float, float]],
        more: Mapping[str, metrics.Value],
    ) -> None:
        """A round with its metrics and what is wrong with it, into the journal."""
        resolved = self._served.info.speculation
        faults = metrics.validity(
            result,
            draft_tokens=resolved.draft_tokens if resolved.on and not resolved.adaptive else None,
            cached_share_max=0.1 if asked.cold else None,
        )
        values = {**metrics.summarize(result, speculative=resolved.on), **more}
        if powers_w:
            values[metrics.ENERGY] = metrics.energy(result, powers_w)
        sample = played.add(
            result,
            values,
            tolerated(
                [Invalid(fault.name, fault.evidence) for fault in faults], self._run.target.tolerate, asked
            ),
        )
        launch_id = self._served.launch_id
        self._run.note(
            entries.RoundDone(
                launch=self._served.number,
                arm=launch_id.arm,
                number=launch_id.number,
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
            self._run.tell("faults", f"{self._served.launch_id}: {what}: {told}")

    def _extra_info(self, played: WorkloadResult) -> dict[str, Any]:
        medians = {name: played.median(name) for name in STORED}
        return {
            "arm": self._served.launch_id.arm,
            "launch": self._served.launch_id.number,
            "sglang": self._served.info.version,
            **{name: value for name, value in medians.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class Beside:
    """The other build of a duet: what plays its rounds, and what they come to."""

    rounds: RoundPlayer
    played: WorkloadResult
    first: bool = False
    """It goes first in the first round that counts."""


class _Turn:
    """One server's round after round of a workload."""

    def __init__(
        self, rounds: RoundPlayer, asked: PlannedWorkload, played: WorkloadResult, watched: Watched
    ) -> None:
        self._watched = watched
        self._rounds = rounds
        self._asked = asked
        self._played = played
        self._results: list[LoadRound] = []
        self._of_traffic: Mapping[str, metrics.Value] = {}
        self._began = 0.0
        self.uncounted_s = 0.0

    @property
    def unkept(self) -> bool:
        """Was a round played that is not noted yet?"""
        return bool(self._results)

    def before(self) -> None:
        self._began = time.monotonic()
        cache.flush(self._rounds._served.endpoint)

    def play(self) -> None:
        asked, served = self._asked, self._rounds._served
        number_of_round = len(self._played.rounds) + 1
        place = f"round {number_of_round} of {max(asked.rounds, number_of_round)}"
        label = f"{self._rounds._told(asked)}, {place}"
        served.doing = f"{asked.label}, {place}"
        unique = f"round {number_of_round}, prompt " if asked.cold else None
        result = self._once(asked.shape, unique, label)
        self._results.append(result)
        if asked.traffic is not None:
            self._of_traffic = asked.traffic.values(result, lambda shape: self._again(shape, label))

    def _again(self, shape: LoadShape, label: str) -> LoadRound:
        """The same requests in another shape, into an empty prefix cache."""
        self._rounds._run.stopping.check()
        cache.flush(self._rounds._served.endpoint)
        return self._once(shape, None, f"{label}, {shape}")

    def _once(self, shape: LoadShape, unique: str | None, label: str) -> LoadRound:
        asked, run = self._asked, self._rounds._run
        return play(
            self._rounds._served.endpoint,
            asked.workload.sized(unique_prefix=unique),
            shape,
            sampling=asked.sampling,
            timeout_s=run.target.timeouts.request_s,
            stall_s=run.target.timeouts.stall_s,
            keep_text=asked.counts_only and asked.sampling.temperature == 0,
            limits=ClientLimits(**run.target.client.model_dump()),
            progress=lambda progress: run.passing(progress_line(label, progress)),
        )

    def after(self) -> None:
        result = self._results.pop()
        asked, played = self._asked, self._played
        powers_w = self._watched.powers_w()
        self._rounds._keep(asked, played, result, self._began, powers_w, self._of_traffic)
        self._rounds._tell_mishaps(f"{asked.label}, round {len(played.rounds)} of {asked.rounds}", result)

    def uncounted(self) -> None:
        asked, began = self._asked, time.monotonic()
        self._rounds._run.stopping.check()
        self.before()
        label = f"{self._rounds._told(asked)}, a round that is not counted"
        result = self._once(asked.shape, "not counted, prompt " if asked.cold else None, label)
        self._rounds._tell_mishaps(f"{asked.label}, a round that is not counted", result)
        self.uncounted_s = time.monotonic() - began


def _ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float | None]:
    return [a / b if a and b else None for a, b in zip(ours, theirs, strict=False)]


def progress_line(label: str, progress: Progress) -> str:
    """How far a round has come."""
    return f"{label}: {progress.done} of {progress.total} answers, {progress.tokens} tokens"


SPEED = (("", "output_tokens_per_s", "tokens/s"), ("TTFT ", "ttft_s", "s"))
YIELD = (("acceptance length ", "acceptance_length", ""),)


def _in_words(played: WorkloadResult, asked: PlannedWorkload) -> str:
    """The figures people look for first; of prompts that are asked once for their counts no times."""
    shown = [f"{asked.workload.requests} prompts once"] if asked.counts_only else []
    for label, name, unit in YIELD if asked.counts_only else (*SPEED, *YIELD):
        value = played.median(name)
        if value is not None:
            shown.append(f"{label}{number(value, unit)}")
    faults = sum(len(round_.requests) - len(round_.ok) for round_ in played.rounds)
    if faults:
        shown.append(f"{times(faults, 'request', 'requests')} failed")
    return ", ".join(shown)
