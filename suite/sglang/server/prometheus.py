"""``/metrics`` as counters of this suite's own names; a counter that is not there is ``None``, never 0."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from prometheus_client.parser import text_string_to_metric_families

from suite.redact import Secret
from suite.sglang import http, names
from suite.sglang.errors import MetricsDisabled, UnreadableServer
from suite.sglang.server.info import root

Labels = tuple[tuple[str, str], ...]

_SAME_ENGINE = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"})
"""Labels of the processes of one engine: what several of them report is one thing; ``dp_rank`` is not among them."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters and gauges this suite reads, at one moment; ``None`` where the server does not have one.

    Over data-parallel ranks counts are summed, shares (``token_usage``) and means averaged.
    Counters move when a request finishes. ``verify_calls`` appears only once speculation has run;
    ``accept_length_window`` is a gauge over the last log window, 0 when off: evidence, never a measurement.
    """

    verify_calls: float | None
    generation_tokens: float | None
    prompt_tokens: float | None
    cached_tokens: float | None
    requests: float | None
    running_requests: float | None
    queued_requests: float | None
    token_usage: float | None
    token_capacity: float | None
    accept_length_window: float | None
    graph_passes: Mapping[str, float] | None
    missing: tuple[str, ...]
    """Counters that this version has from its start, yet are absent: renamed, or dropped by a proxy."""

    @property
    def idle(self) -> bool | None:
        """Is nothing running and nothing queued? ``None`` when the server does not say."""
        if self.running_requests is None or self.queued_requests is None:
            return None
        return self.running_requests == 0 and self.queued_requests == 0

    def graph_share(self, earlier: Counters | None = None) -> float | None:
        """The share of decode passes since ``earlier``, of all ranks, that ran as CUDA graphs; ``None`` without any."""
        before = (earlier.graph_passes if earlier else None) or {}
        passes = {mode: count - before.get(mode, 0.0) for mode, count in (self.graph_passes or {}).items()}
        graphs, eager = passes.get("decode_cuda_graph", 0.0), passes.get("decode_none", 0.0)
        return graphs / (graphs + eager) if graphs + eager > 0 else None


def counters(
    base_url: str, version: str | None = None, api_key: Secret | str | None = None, timeout_s: float = 30.0
) -> Counters:
    """Read /metrics of the server at ``base_url``; ``version`` says which names to expect.

    Raises:
        MetricsDisabled: there is no /metrics.
        ServerProbeError: see :mod:`suite.sglang.errors`.
    """
    url = root(base_url) + "/metrics"
    text = http.get(url, api_key=api_key, timeout_s=timeout_s)
    if text is None:
        text = http.get(
            url + "/", api_key=api_key, timeout_s=timeout_s
        )  # a mounted application wants the slash
    if text is None:
        raise MetricsDisabled(f"{url}: 404: start the server with --enable-metrics to have its counters")
    return parse(text, version, url)


def parse(text: str, version: str | None = None, url: str = "/metrics") -> Counters:
    """Read Prometheus text.

    Raises:
        UnreadableServer: a page of HTML, or nothing that can be read.
    """
    if text.lstrip()[:1] in ("<", "{"):
        raise UnreadableServer(f"{url}: the answer is not Prometheus text; it begins: {text[:80]!r}")
    series = _series(text)
    found: dict[str, float | None] = {}
    missing: list[str] = []
    for counter in names.METRIC_NAMES:
        wanted = names.metric_names(version, counter)
        present = [name.name for name in wanted if name.name in series]
        found[counter] = _over_ranks(counter, series[present[0]]) if present else None
        if not present and any(name.from_start for name in wanted):
            missing.append(counter)
    del found["graph_passes"]
    return Counters(**found, graph_passes=_passes(series, version), missing=tuple(missing))


def _series(text: str) -> dict[str, dict[Labels, float]]:
    series: dict[str, dict[Labels, float]] = {}
    for name, labels, value in _samples(text):
        series.setdefault(name, {})[labels] = value
    return series


def _samples(text: str) -> Iterator[tuple[str, Labels, float]]:
    """Every finite sample; each line is read on its own, so that one that is broken costs no other."""
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            samples = [sample for family in text_string_to_metric_families(line) for sample in family.samples]
        except (ValueError, IndexError, KeyError):
            continue
        for sample in samples:
            if math.isfinite(sample.value):
                yield sample.name, tuple(sorted(sample.labels.items())), float(sample.value)


def _distinct(series: Mapping[Labels, float]) -> dict[Labels, float]:
    """A series without the labels of single processes: what those of one engine report counts once."""
    distinct: dict[Labels, float] = {}
    for labels, value in series.items():
        kept = tuple(pair for pair in labels if pair[0] not in _SAME_ENGINE)
        distinct[kept] = max(value, distinct.get(kept, -math.inf))
    return distinct


def _over_ranks(counter: str, series: Mapping[Labels, float]) -> float:
    """One figure of all ranks: a sum, or for a share or mean its mean; ranks without acceptance do not count."""
    values = list(_distinct(series).values())
    if counter not in names.AVERAGED:
        return sum(values)
    if counter == "accept_length_window":  # a rank that decoded nothing says 0
        values = [value for value in values if value > 0] or [0.0]
    return fmean(values)


def _passes(series: Mapping[str, Mapping[Labels, float]], version: str | None) -> dict[str, float] | None:
    """Forward passes by mode, over all ranks (``decode_none`` is a decode pass without CUDA graphs)."""
    for name in names.metric_names(version, "graph_passes"):
        if name.name in series:
            modes: dict[str, float] = {}
            for labels, value in _distinct(series[name.name]).items():
                mode = dict(labels).get("mode", "")
                modes[mode] = modes.get(mode, 0.0) + value
            return modes
    return None
