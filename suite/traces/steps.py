"""A trace cut into decoding steps, and each step into its parts, by the names that SGLang gives to spans of time.

SGLang names `step[VERIFY bs=1]`, `step[DRAFT bs=1]`, `step[DECODE bs=1]`, `draft`, `draft_extend` and
`scheduler.run_batch`. On a GPU the same names stand over the kernels that were launched under them; those are taken
where they are, because the host runs ahead of the GPU. One step lasts from the start of one verification (or decode)
to the start of the next: each holds one of every part, and nothing of the time between is left out.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from suite.traces.torch_trace import Span

Part: TypeAlias = Literal["verify", "decode", "draft", "draft-extend", "other work", "gaps"]
PARTS: tuple[Part, ...] = ("verify", "decode", "draft", "draft-extend", "other work", "gaps")
"""In the order of a step. other work: within the batch (host) or on the GPU, under none of the names before; gaps:
outside any batch (host: receiving, scheduling, sending), or nothing on the GPU."""

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_US = 1e-6


@dataclass(slots=True)
class StepTimes:
    """One step: its length, what each part took of it, and each kernel (host: operator) by part and name, in seconds."""

    length_s: float
    parts: dict[Part, float]
    kernels: dict[tuple[Part, str], tuple[float, int]] = field(default_factory=dict)
    """Seconds and how often."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The steps of one trace. by: whose clock; speculative: whether they verify drafts."""

    by: Literal["gpu", "host"]
    speculative: bool
    steps: tuple[StepTimes, ...]


@dataclass(frozen=True, slots=True)
class _Span:
    start: float
    end: float
    part: Part


def profile_of(events: Sequence[Span]) -> Profile:
    """The decoding steps of a trace as `reading.read` gives it. No steps where the release names none, or too few."""
    gpu = [e for e in events if e.kind == "gpu_user_annotation"]
    host = [e for e in events if e.kind == "user_annotation"]
    for by, named in (("gpu", gpu), ("host", host)):
        marks, anchor = _marks(named)
        starts = _starts(named, marks, anchor)
        if len(starts) > 1:
            profile = Profile("gpu" if by == "gpu" else "host", anchor == "verify", ())
            return _cut(profile, events, named, marks, starts)
    return Profile("gpu" if gpu else "host", False, ())


def _part_of(name: str) -> Part | None:
    if name.startswith("step[VERIFY"):
        return "verify"
    if name.startswith("step[DECODE"):
        return "decode"
    if name.startswith("draft_extend"):
        return "draft-extend"
    if name == "draft" or name.startswith("step[DRAFT"):
        return "draft"
    return None


def _marks(named: Iterable[Span]) -> tuple[list[_Span], Part]:
    """The outermost spans that are parts, those of several streams as one, in order; and what a step is counted by."""
    marks: list[_Span] = []
    for event in named:
        part = _part_of(event.name)
        if part is None:
            continue
        last = marks[-1] if marks else None
        if last is None or event.start_us >= last.end:
            marks.append(_Span(event.start_us, event.end_us, part))
        elif part == last.part:  # another stream's share of the same
            marks[-1] = _Span(last.start, max(last.end, event.end_us), part)
        elif event.end_us > last.end:  # parts that touch, by clocks that round
            marks.append(_Span(last.end, event.end_us, part))
    speculative = any(span.part == "verify" for span in marks)
    return marks, "verify" if speculative else "decode"


def _starts(named: Sequence[Span], marks: Sequence[_Span], anchor: Part) -> list[float]:
    """When steps begin, up to the last one of the batch size that most have: others wait for clients to join or leave."""
    begun = [span.start for span in marks if span.part == anchor]
    names = [e.name for e in named if _part_of(e.name) == anchor]
    if not names:
        return []
    usual = Counter(names).most_common(1)[0][0]
    fitting = [e.start_us for e in named if e.name == usual]
    return [at for at in begun if fitting[0] <= at <= fitting[-1]]


def _cut(
    profile: Profile, events: Sequence[Span], named: Sequence[Span], marks: list[_Span], starts: list[float]
) -> Profile:
    prefills = [e.start_us for e in named if e.name.startswith("step[EXTEND")]
    gpu = profile.by == "gpu"
    lane = None if gpu else _lane(named)
    # where a piece of work belongs is told by its middle: at its ends clocks round
    work = sorted(_owned(events, gpu, lane), key=lambda pair: _middle(pair[0]))
    if gpu:
        busy = _union((e.start_us, e.end_us) for e, _ in work)
    else:
        busy = _union((e.start_us, e.end_us) for e in named if e.name == "scheduler.run_batch")
    middles = [_middle(e) for e, _ in work]
    mark_starts = [span.start for span in marks]
    steps = []
    for start, end in itertools.pairwise(starts):
        if any(start <= at < end for at in prefills):
            continue
        inside = marks[bisect.bisect_left(mark_starts, start) : bisect.bisect_left(mark_starts, end)]
        mine = work[bisect.bisect_left(middles, start) : bisect.bisect_left(middles, end)]
        steps.append(_step(start, end, inside, busy, mine))
    return Profile(profile.by, profile.speculative, tuple(steps))


def _step(
    start: float,
    end: float,
    marks: Sequence[_Span],
    busy: Sequence[tuple[float, float]],
    work: Sequence[tuple[Span, float]],
) -> StepTimes:
    spans = [(m.start, min(m.end, end), m.part) for m in marks]
    parts: dict[Part, float] = {}
    for low, high, part in spans:
        parts[part] = parts.get(part, 0.0) + (high - low) * _US
    covered = _union((low, high) for low, high, _ in spans)
    idle = _length(_without([(start, end)], [*covered, *busy]))
    rest = end - start - _length(covered)
    parts["gaps"] = idle * _US
    parts["other work"] = max(rest - idle, 0.0) * _US
    step = StepTimes((end - start) * _US, parts)
    for event, own in work:
        at = _middle(event)
        within = [part for low, high, part in spans if low <= at < high]
        key = (within[0] if within else _outside(at, busy), event.name)
        seconds, count = step.kernels.get(key, (0.0, 0))
        step.kernels[key] = (seconds + own * _US, count + 1)
    return step


def _middle(event: Span) -> float:
    return (event.start_us + event.end_us) / 2


def _outside(at: float, busy: Sequence[tuple[float, float]]) -> Part:
    i = bisect.bisect_right(busy, (at, float("inf"))) - 1
    return "other work" if i >= 0 and busy[i][0] <= at < busy[i][1] else "gaps"


def _lane(named: Sequence[Span]) -> str | None:
    """The thread that runs the steps."""
    return next((e.lane for e in named if _part_of(e.name) is not None), None)


def _owned(events: Sequence[Span], gpu: bool, lane: str | None) -> list[tuple[Span, float]]:
    """Each kernel with its length; on the host each operator of the lane with its own time, that of inner ones taken off."""
    if gpu:
        return [(e, e.end_us - e.start_us) for e in events if e.kind in ON_GPU]
    own: list[list[float]] = []
    found: list[Span] = []
    open_: list[int] = []
    for event in events:
        if event.kind != "cpu_op" or event.lane != lane:
            continue
        while open_ and found[open_[-1]].end_us <= event.start_us:
            open_.pop()
        length = event.end_us - event.start_us
        if open_:
            own[open_[-1]][0] -= length
        open_.append(len(found))
        found.append(event)
        own.append([length])
    return [(event, max(rest[0], 0.0)) for event, rest in zip(found, own, strict=True)]


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _without(
    whole: Sequence[tuple[float, float]], taken: Iterable[tuple[float, float]]
) -> list[tuple[float, float]]:
    """What is left of disjoint spans once others are taken out."""
    left = []
    out = _union(taken)
    for low, high in whole:
        first = max(bisect.bisect_left(out, (low, low)) - 1, 0)
        for start, end in out[first:]:
            if start >= high:
                break
            if end <= low:
                continue
            if start > low:
                left.append((low, start))
            low = max(low, end)
        if low < high:
            left.append((low, high))
    return left


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(high - low for low, high in spans)
