"""Every metric there is, one entry each: what load computes, the gate judges, reports show and docs/metrics.md tells.

To add a metric, add an entry to `METRICS`; nothing else keeps a list of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from suite.metrics import formulas, requests
from suite.metrics.formulas import Formula

Better: TypeAlias = Literal["higher", "lower", "neutral"]
Kind: TypeAlias = Literal["decode", "latency", "count", "ratio", "tail"]
"""What moves a metric. `decode` and `latency` follow the speed of the machine of that day, so the other arms of
the same session tell that speed; `count` (tokens per step, cache hits) and `ratio` (of two arms of one session)
do not; a `tail` follows it too loosely to be told by that of others."""

MARGIN = 0.02
TAIL_MARGIN = 0.10


class UnknownMetric(Exception):
    """A name that no entry has; the text names the nearest."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is.

    name: in files and markers; label: for people, in a sentence; better: which way is good, `neutral` for one that
    tells but is never judged; formula, source: how it is computed and whose definition that is, in words; compute: the
    same as a function of a round, None for one that does not come from a round of its own; gated: judged unless
    suite.toml says otherwise; margin: relative change below which nobody would act (0.02 = 2 %); stored: kept of each
    round in run.json.
    """

    name: str
    label: str
    unit: str
    better: Better
    kind: Kind
    formula: str
    source: str
    compute: Formula | None
    gated: bool = False
    margin: float = MARGIN
    stored: bool = True


_ENTRIES = (
    Metric(
        name="output_tokens_per_s",
        label="output tokens/s",
        unit="tokens/s",
        better="higher",
        kind="decode",
        formula="sum of completion tokens / duration",
        source="bench_serving, over good requests; duration from the first start to the last byte of the round",
        compute=formulas.rate("tokens", lambda record: record.completion_tokens or 0),
        gated=True,
    ),
    Metric(
        name="total_tokens_per_s",
        label="total tokens/s",
        unit="tokens/s",
        better="higher",
        kind="decode",
        formula="sum of prompt and completion tokens / duration",
        source="bench_serving",
        compute=formulas.rate("tokens", lambda r: (r.prompt_tokens or 0) + (r.completion_tokens or 0)),
    ),
    Metric(
        name="requests_per_s",
        label="requests/s",
        unit="requests/s",
        better="higher",
        kind="decode",
        formula="good requests / duration",
        source="bench_serving",
        compute=formulas.rate("requests", lambda record: 1),
    ),
    Metric(
        name="goodput_requests_per_s",
        label="goodput",
        unit="requests/s",
        better="higher",
        kind="tail",  # it stands still while a server keeps up, and falls off a cliff where it does not
        formula="requests that kept every limit of the stated SLO / duration; no SLO, no value",
        source="DistServe (OSDI 2024), as bench_serving",
        compute=formulas.goodput,
        margin=TAIL_MARGIN,
    ),
    Metric(
        name="highest_rate_per_s",
        label="highest rate within the limits",
        unit="requests/s",
        better="higher",
        kind="tail",
        formula="requests per second of the traffic, replayed ever faster, at which the stated share still keeps every limit",
        source="this suite; DistServe's goodput as a rate of arrivals",
        compute=None,  # of several replays
        margin=TAIL_MARGIN,
    ),
    Metric(
        name="ttft_s",
        label="TTFT",
        unit="s",
        better="lower",
        kind="latency",
        formula="first arrival - origin",
        source="bench_serving, but by usage: a chunk without tokens does not count",
        compute=formulas.distribution(requests.ttft_s),
        gated=True,
    ),
    Metric(
        name="tpot_s",
        label="TPOT",
        unit="s",
        better="lower",
        kind="decode",
        formula="(last arrival - first arrival) / (tokens - tokens in the first arrival)",
        source="bench_serving, corrected for first arrivals of several tokens",
        compute=formulas.distribution(requests.tpot_s),
        gated=True,
    ),
    Metric(
        name="itl_s",
        label="inter-chunk latency",
        unit="s",
        better="lower",
        kind="decode",
        formula="time between successive arrivals of one request, all requests pooled",
        source="AIPerf's inter chunk latency",
        compute=formulas.pooled(requests.chunk_gaps_s),
    ),
    Metric(
        name="token_gap_s",
        label="inter-token gap",
        unit="s",
        better="lower",
        kind="decode",
        formula=(
            "time between successive tokens: those of one arrival share its time, so an arrival of k tokens gives "
            "k-1 zeros and one gap"
        ),
        source="this suite",
        compute=formulas.pooled(requests.token_gaps_s, counted=True),
        stored=False,  # its median is 0 wherever drafts are accepted
    ),
    Metric(
        name="e2e_s",
        label="request latency",
        unit="s",
        better="lower",
        kind="decode",
        formula="last arrival - origin",
        source="bench_serving",
        compute=formulas.distribution(requests.e2e_s),
    ),
    Metric(
        name="acceptance_length",
        label="acceptance length",
        unit="tokens/step",
        better="higher",
        kind="count",
        formula="1 + sum(`spec_num_correct_drafts`) / sum(`spec_verify_ct`)",
        source="SGLang sglext.spec_tokens_details; not its spec_accept_length, which counts the prefill token",
        compute=formulas.acceptance_length,
        gated=True,
    ),
    Metric(
        name="tokens_per_chunk",
        label="tokens per chunk",
        unit="tokens/chunk",
        better="neutral",
        kind="count",
        formula="tokens / arrivals",
        source="this suite",
        compute=formulas.tokens_per_chunk,
    ),
    Metric(
        name="step_s",
        label="step time",
        unit="s",
        better="lower",
        kind="decode",
        formula=(
            "`tpot_s` x (1 + correct drafts / verify steps) of the same request; `tpot_s` itself where MTP is known "
            "to be off"
        ),
        source="this suite",
        compute=formulas.step,
    ),
    Metric(
        name="ttft_p99_s",
        label="p99 of TTFT",
        unit="s",
        better="lower",
        kind="tail",
        formula="99 % quantile of `ttft_s` over all requests of a launch; judged where there are 368 or more",
        source="bench_serving's p99, but over the launch and not by round",
        compute=formulas.tail(lambda record: [v] if (v := requests.ttft_s(record)) is not None else []),
        margin=TAIL_MARGIN,
    ),
    Metric(
        name="itl_p99_s",
        label="p99 of time between arrivals",
        unit="s",
        better="lower",
        kind="tail",
        formula="99 % quantile of `itl_s` over all requests of a launch; judged where there are 368 values or more",
        source="AIPerf's p99 of inter chunk latency, but over the launch and not by round",
        compute=formulas.tail(lambda record: requests.chunk_gaps_s(record).tolist()),
        margin=TAIL_MARGIN,
    ),
    Metric(
        name="mtp_speedup",
        label="MTP speed-up",
        unit="x",
        better="higher",
        kind="ratio",
        formula="`output_tokens_per_s` with MTP / without, same workload and load",
        source="this suite",
        compute=None,  # of two arms of one run
        gated=True,
    ),
    Metric(
        name="concurrency_achieved",
        label="concurrency",
        unit="requests",
        better="neutral",
        kind="count",
        formula="sum over requests of (end - start) / duration",
        source="Little's law, as bench_serving",
        compute=formulas.concurrency,
    ),
    Metric(
        name="cached_prompt_tokens",
        label="cached prompt tokens",
        unit="tokens",
        better="neutral",
        kind="count",
        formula="sum of `usage.prompt_tokens_details.cached_tokens` (SGLang: `--enable-cache-report`)",
        source="OpenAI usage object",
        compute=formulas.cached_prompt_tokens,
    ),
    Metric(
        name="energy_j_per_token",
        label="energy per token",
        unit="J/token",
        better="lower",
        kind="decode",
        formula="power of the server's cards over a round / sum of completion tokens",
        source="nvidia-smi's power.draw, looked at once a second",
        compute=None,  # of the cards, not of the answers
    ),
    Metric(
        name="round_s",
        label="time of a round",
        unit="s",
        better="lower",
        kind="decode",
        formula="seconds of one round, as pytest-benchmark stores them; imported results only",
        source="pytest-benchmark",
        compute=None,
        gated=True,
    ),
)
METRICS: Mapping[str, Metric] = {entry.name: entry for entry in _ENTRIES}
"""Every metric by name, in the order in which reports list them."""


def require_known(names: Iterable[str]) -> None:
    """Raise UnknownMetric for the first name that no metric has."""
    for name in names:
        if name not in METRICS:
            raise UnknownMetric(f"no metric {name!r}; {near(name)}")


def near(name: str) -> str:
    """`did you mean 'tpot_s'?`, or the names there are."""
    asked = name.lower()
    close = [known for known in METRICS if asked and asked in known]
    close += [n for n in difflib.get_close_matches(asked, METRICS, 3, cutoff=0.5) if n not in close]
    if close:
        return f"did you mean {' or '.join(repr(known) for known in close[:3])}?"
    return f"known: {', '.join(METRICS)}"
