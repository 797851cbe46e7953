"""Timelines to numbers: throughput, latency, acceptance, and whether a round may be believed. Pure functions.

Every definition here has its formula and source in `METRICS`, and side by side with other tools' in docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from suite.load.records import FaultKind, RequestRecord, Round

Direction = Literal["higher", "lower", "neutral"]

NOT_REPORTED = (
    "not reported by this server (sglext.spec_tokens_details absent): MTP off, or SGLang older than 0.5.19"
)
PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is: its unit, which way is better, its formula and where the definition comes from."""

    name: str
    unit: str
    direction: Direction
    title: str
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class Value:
    """One metric of one round. `value` is None exactly when `reason` says why there is none; never a stand-in 0 or 1."""

    value: float | None
    unit: str
    reason: str | None = None
    detail: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SLO:
    """What a request must keep to count as good: every limit given, in seconds. `itl_s` is its worst chunk gap."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    itl_s: float | None = None
    e2e_s: float | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Accepted drafts over many requests, as a ratio of sums.

    `length` = 1 + correct_drafts / verify_steps, None with a `reason` if it is not known. `per_position[i]` is the
    share of verify steps in which draft token i was right; positions count from 0.
    """

    length: float | None
    correct_drafts: int
    verify_steps: int
    proposed_drafts: int
    per_position: tuple[float, ...]
    requests: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """A reason not to trust a round: a name to group by, and the evidence in words."""

    name: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.evidence}"


# one request


def ttft_s(record: RequestRecord) -> float | None:
    """From the origin to the first arrival that carried tokens; a role chunk carries none."""
    return float(record.timeline.t_s[0] - record.origin_s) if len(record.timeline.t_s) else None


def e2e_s(record: RequestRecord) -> float | None:
    """From the origin to the last arrival that carried tokens."""
    return float(record.timeline.t_s[-1] - record.origin_s) if len(record.timeline.t_s) else None


def tpot_s(record: RequestRecord) -> float | None:
    """(t_last - t_first) / (tokens - tokens in the first chunk); None if all tokens came in one chunk."""
    line = record.timeline
    if not line.per_chunk or len(line.t_s) < 2:
        return None
    return float((line.t_s[-1] - line.t_s[0]) / (line.tokens[-1] - line.tokens[0]))


def chunk_gaps_s(record: RequestRecord) -> NDArray[np.float64]:
    """Times between successive arrivals that carried tokens."""
    return np.diff(record.timeline.t_s)


def token_gaps_s(record: RequestRecord) -> NDArray[np.float64]:
    """Times between successive tokens: tokens of one chunk share its arrival, so a chunk of k gives k-1 zeros.

    The tokens of the first chunk are no gap after anything and are left out, zeros included.
    """
    line = record.timeline
    if not line.per_chunk:
        return np.empty(0)
    sizes = np.diff(line.tokens)
    gaps = np.zeros(int(sizes.sum()))
    gaps[np.concatenate(([0], np.cumsum(sizes)[:-1]))[: len(sizes)].astype(int)] = np.diff(line.t_s)
    return gaps


# one round


def acceptance(round_: Round, kind: str | None = None) -> Acceptance:
    """Acceptance over a round's good requests (of one kind of content, if given).

    Requests whose counters contradict themselves have the fault `acceptance_identity` and are not among them.
    """
    records = [r for r in round_.ok if kind is None or r.kind == kind]
    told = [r.spec for r in records if r.spec is not None]
    steps = sum(s.verify_steps for s in told)
    correct = sum(s.correct_drafts for s in told)
    proposed = sum(s.proposed_drafts for s in told)
    counts = np.zeros(max((len(s.histogram) for s in told), default=0), dtype=np.int64)
    for spec in told:
        counts[: len(spec.histogram)] += np.array(spec.histogram, dtype=np.int64)
    at_least = np.cumsum(counts[::-1])[::-1]
    positions = tuple(float(n) / steps for n in at_least[1:]) if steps else ()
    reason = _no_acceptance(round_, records, len(told), steps)
    length = None if reason else 1 + correct / steps
    return Acceptance(length, correct, steps, proposed, positions, len(told), reason)


def _no_acceptance(round_: Round, records: Sequence[RequestRecord], told: int, steps: int) -> str | None:
    if not records:
        return "no request succeeded"
    if not round_.acceptance_meaningful:
        return "random tokens: their acceptance says nothing"
    if told == 0:
        return NOT_REPORTED
    if told < len(records):
        return f"only {told} of {len(records)} answers carried sglext.spec_tokens_details"
    if steps == 0:
        return "no verify step in any answer"
    return None


def concurrency_achieved(round_: Round) -> float | None:
    """The mean number of requests in flight: the sum of their durations over the round's."""
    if round_.duration_s <= 0:
        return None
    return sum(r.ended_s - r.started_s for r in round_.requests) / round_.duration_s


def meets(record: RequestRecord, slo: SLO) -> bool:
    """Whether a request keeps every limit; one that failed, or whose figure is unknown, does not."""
    if not record.ok:
        return False
    gaps = chunk_gaps_s(record)
    worst = float(gaps.max()) if len(gaps) else 0.0
    tokens = record.completion_tokens or 0
    tpot = tpot_s(record) if tokens > 1 and len(gaps) else 0.0
    pairs = ((slo.ttft_s, ttft_s(record)), (slo.tpot_s, tpot), (slo.itl_s, worst), (slo.e2e_s, e2e_s(record)))
    return all(limit is None or (seen is not None and seen <= limit) for limit, seen in pairs)


def summarize(round_: Round, slo: SLO | None = None, speculative: bool | None = None) -> dict[str, Value]:
    """Every metric of a round by name; latencies are medians, with `.mean`, `.p90`, `.p95`, `.p99` beside them.

    Only good requests are averaged. `speculative` says whether MTP is known to be on or off, where it is known;
    without it `step_s` needs acceptance to be reported.
    """
    good = round_.ok
    values = _throughput(round_, good)
    values["goodput_requests_per_s"] = _goodput(round_, slo)
    for name, per_request in (("ttft_s", ttft_s), ("tpot_s", tpot_s), ("e2e_s", e2e_s)):
        seen = [v for r in good if (v := per_request(r)) is not None]
        values |= _distribution(name, np.array(seen), _why_empty(good, name))
    for name, gaps in (("itl_s", chunk_gaps_s), ("token_gap_s", token_gaps_s)):
        values |= _distribution(name, _joined(gaps(r) for r in good), _why_empty(good, name))
    values["acceptance_length"] = _acceptance_value(acceptance(round_))
    values["tokens_per_chunk"] = _tokens_per_chunk(good)
    values["cached_prompt_tokens"] = _cached(good)
    values["step_s"] = _step(values["tpot_s"], good, speculative)
    return values


def speedup(on: Round, off: Round) -> Value:
    """`mtp_speedup`: output tokens/s with MTP over without, of two rounds of the same workload."""
    fast, slow = (summarize(r)["output_tokens_per_s"] for r in (on, off))
    if fast.value is None or not slow.value:
        return _value("mtp_speedup", None, f"one arm has no throughput: {fast.reason or slow.reason}")
    return _value("mtp_speedup", fast.value / slow.value, detail={"on": fast.value, "off": slow.value})


def validity(
    round_: Round,
    *,
    full_length: bool = True,
    cached_share_max: float | None = 0.1,
    draft_tokens: int | None = None,
) -> list[Invalid]:
    """Why a round is not to be believed; empty if nothing speaks against it.

    `full_length`: answers were meant to run to max_tokens. `cached_share_max`: the share of prompt tokens that may
    come from the prefix cache, None for any. `draft_tokens`: the server's resolved speculative_num_draft_tokens; with
    it proposed = verify steps x (draft tokens - 1) is checked too.
    """
    found = _failures(round_)
    if not round_.requests:
        found.append(Invalid("no_requests", "the round holds no requests"))
    if round_.client.saturated:
        found.append(Invalid("client_saturated", round_.client.reason or "beyond its limits"))
    if full_length:
        found += _lengths(round_)
    if cached_share_max is not None:
        found += _cache_hits(round_, cached_share_max)
    told = acceptance(round_)
    expected = told.verify_steps * ((draft_tokens or 0) - 1)
    if draft_tokens is not None and told.requests and told.proposed_drafts != expected:
        evidence = (
            f"{told.proposed_drafts} drafts proposed in {told.verify_steps} verify steps, but {draft_tokens} draft "
            f"tokens a step propose {draft_tokens - 1} each: {expected}"
        )
        found.append(Invalid("acceptance_identity", evidence))
    return found


def _failures(round_: Round) -> list[Invalid]:
    found = []
    for kind, count in sorted(round_.faults.items()):
        first = next(r.fault for r in round_.requests if r.fault is not None and r.fault.kind is kind)
        name = (
            str(kind)
            if kind in (FaultKind.acceptance_identity, FaultKind.usage_missing)
            else "failed_requests"
        )
        found.append(
            Invalid(name, f"{count} of {len(round_.requests)} requests {kind}; the first: {first.message}")
        )
    return found


def _lengths(round_: Round) -> list[Invalid]:
    counted = [r for r in round_.ok if r.completion_tokens is not None]
    early = [r for r in counted if (r.completion_tokens or 0) < r.max_tokens * len(r.finish_reasons)]
    if early:
        shortest = min(early, key=lambda r: r.completion_tokens or 0)
        evidence = (
            f"{len(early)} of {len(counted)} answers ended before max_tokens, the shortest ({shortest.prompt}) after "
            f"{shortest.completion_tokens} of {shortest.max_tokens} tokens, finish_reason {shortest.finish_reason!r}"
        )
        return [Invalid("early_stop", evidence)]
    lengths = sorted({r.completion_tokens or 0 for r in counted})
    if len(lengths) > 1:
        return [
            Invalid("unequal_output_lengths", f"answers of {lengths[0]} to {lengths[-1]} tokens in one round")
        ]
    return []


def _cache_hits(round_: Round, share_max: float) -> list[Invalid]:
    known = [r for r in round_.ok if r.cached_tokens is not None]
    cached = sum(r.cached_tokens or 0 for r in known)
    prompt = sum(r.prompt_tokens or 0 for r in known)
    if prompt and cached > share_max * prompt:
        evidence = f"{cached} of {prompt} prompt tokens came from the prefix cache ({cached / prompt:.0%})"
        return [Invalid("cached_prompt_tokens", f"{evidence}; at most {share_max:.0%} expected")]
    return []


def _throughput(round_: Round, good: Sequence[RequestRecord]) -> dict[str, Value]:
    seconds = round_.duration_s
    if not good or seconds <= 0:
        why = "no request succeeded" if not good else "the round took no time"
        names = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "concurrency_achieved")
        return {name: _value(name, None, why) for name in names}
    output = sum(r.completion_tokens or 0 for r in good)
    total = output + sum(r.prompt_tokens or 0 for r in good)
    return {
        "output_tokens_per_s": _value("output_tokens_per_s", output / seconds, detail={"tokens": output}),
        "total_tokens_per_s": _value("total_tokens_per_s", total / seconds, detail={"tokens": total}),
        "requests_per_s": _value("requests_per_s", len(good) / seconds, detail={"requests": len(good)}),
        "concurrency_achieved": _value("concurrency_achieved", concurrency_achieved(round_)),
    }


def _goodput(round_: Round, slo: SLO | None) -> Value:
    if slo is None:
        return _value("goodput_requests_per_s", None, "no SLO stated")
    if round_.duration_s <= 0:
        return _value("goodput_requests_per_s", None, "the round took no time")
    kept = sum(meets(r, slo) for r in round_.requests)
    share = kept / len(round_.requests)
    return _value("goodput_requests_per_s", kept / round_.duration_s, detail={"kept": kept, "share": share})


def _acceptance_value(told: Acceptance) -> Value:
    detail = {f"position_{i + 1}": share for i, share in enumerate(told.per_position)}
    detail |= {"correct_drafts": told.correct_drafts, "verify_steps": told.verify_steps}
    return _value("acceptance_length", told.length, told.reason, detail if told.requests else {})


def _tokens_per_chunk(good: Sequence[RequestRecord]) -> Value:
    counted = [r for r in good if r.timeline.per_chunk and len(r.timeline.t_s)]
    if not counted:
        return _value("tokens_per_chunk", None, _why_empty(good, "tokens_per_chunk"))
    tokens = sum(int(r.timeline.tokens[-1]) for r in counted)
    chunks = sum(len(r.timeline.t_s) for r in counted)
    return _value("tokens_per_chunk", tokens / chunks, detail={"tokens": tokens, "chunks": chunks})


def _cached(good: Sequence[RequestRecord]) -> Value:
    known = [r.cached_tokens for r in good if r.cached_tokens is not None]
    if not known:
        reason = "usage.prompt_tokens_details absent: SGLang reports it with --enable-cache-report"
        return _value("cached_prompt_tokens", None, reason)
    return _value("cached_prompt_tokens", float(sum(known)), detail={"requests": len(known)})


def _step(tpot: Value, good: Sequence[RequestRecord], speculative: bool | None) -> Value:
    if tpot.value is None:
        return _value("step_s", None, tpot.reason)
    if speculative is False:
        return _value("step_s", tpot.value)
    if any(r.spec is None or not r.spec.verify_steps for r in good):
        return _value("step_s", None, f"needs the tokens of a step, which are {NOT_REPORTED}")
    spans = ((tpot_s(r), r.spec) for r in good)
    steps = [t * (1 + s.correct_drafts / s.verify_steps) for t, s in spans if t is not None and s is not None]
    return _value("step_s", float(np.median(steps)))


def _distribution(name: str, seen: NDArray[np.float64], why_empty: str) -> dict[str, Value]:
    """The median under the plain name, mean and percentiles under dotted ones."""
    tails = [f"{name}.mean", *(f"{name}.p{q}" for q in PERCENTILES if q != 50)]
    if not len(seen):
        return {key: _value(key, None, why_empty) for key in (name, *tails)}
    quantiles = dict(zip(PERCENTILES, np.percentile(seen, PERCENTILES).tolist(), strict=True))
    detail = {
        "n": float(len(seen)),
        "min": float(seen.min()),
        "max": float(seen.max()),
        "std": float(seen.std()),
    }
    values = {
        name: _value(name, quantiles[50], detail=detail),
        f"{name}.mean": _value(name, float(seen.mean())),
    }
    return values | {f"{name}.p{q}": _value(name, v) for q, v in quantiles.items() if q != 50}


def _why_empty(good: Sequence[RequestRecord], name: str) -> str:
    if not good:
        return "no request succeeded"
    if name in ("tpot_s", "token_gap_s", "tokens_per_chunk") and not any(r.timeline.per_chunk for r in good):
        return "this server counts no tokens per chunk (stream_options.continuous_usage_stats not honoured)"
    return "every answer came in one chunk"


def _joined(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    arrays = list(parts)
    return np.concatenate(arrays) if arrays else np.empty(0)


def _value(
    name: str, value: float | None, reason: str | None = None, detail: Mapping[str, float] | None = None
) -> Value:
    return Value(value, METRICS[name.split(".")[0]].unit, reason, detail or {})


_TABLE = """
output_tokens_per_s | tokens/s | higher | Output throughput | sum(completion_tokens) / duration; duration = last byte of the round - first start | as bench_serving, over good requests
total_tokens_per_s | tokens/s | higher | Total throughput | sum(prompt_tokens + completion_tokens) / duration | as bench_serving
requests_per_s | 1/s | higher | Request throughput | good requests / duration | as bench_serving
ttft_s | s | lower | Time to first token | first arrival with tokens - origin (start; intended start in an open loop); median | as bench_serving, but by usage: a chunk without tokens does not count
tpot_s | s | lower | Time per output token | (t_last - t_first) / (tokens - tokens in first chunk); median | as bench_serving, corrected for first chunks of several tokens
itl_s | s | lower | Inter-chunk latency | t[i] - t[i-1] over arrivals with tokens, requests pooled; median | as AIPerf's inter chunk latency
token_gap_s | s | lower | Exact inter-token spread | gaps between tokens; tokens of one chunk share its arrival: k give k-1 zeros and one gap | this suite
e2e_s | s | lower | End-to-end latency | last arrival with tokens - origin; median | as bench_serving
acceptance_length | tokens/step | higher | Acceptance length | 1 + sum(spec_num_correct_drafts) / sum(spec_verify_ct) | SGLang sglext.spec_tokens_details; not its spec_accept_length, which counts the prefill token
tokens_per_chunk | tokens/chunk | neutral | Tokens per chunk | sum(tokens) / arrivals with tokens | this suite
mtp_speedup | ratio | higher | MTP speed-up | output_tokens_per_s on / off, same workload and load | this suite
goodput_requests_per_s | 1/s | higher | Goodput | requests that kept every limit of the SLO / duration | DistServe (OSDI 2024), as bench_serving
concurrency_achieved | requests | neutral | Concurrency achieved | sum(request durations) / duration | Little's law, as bench_serving
cached_prompt_tokens | tokens | neutral | Prompt tokens from the prefix cache | sum(usage.prompt_tokens_details.cached_tokens) | OpenAI usage object
step_s | s | lower | Time per step | tpot_s x acceptance length of the request (x 1 with MTP off); median | this suite
"""
_ROWS = [[cell.strip() for cell in line.split("|")] for line in _TABLE.strip().splitlines()]
METRICS: Mapping[str, Metric] = {row[0]: Metric(*row) for row in _ROWS}  # type: ignore[arg-type]
"""Every metric by name: docs/metrics.md says the same at length."""
