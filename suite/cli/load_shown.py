"""What `python -m suite load` shows of a round: a live line, a table, a line of a sweep, the document of --json."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, TextIO

from suite import metrics
from suite.load import Endpoint, Progress, Round

_RATE_OVER_S = 1.0
_ROWS = (
    "output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "goodput_requests_per_s",
    "concurrency_achieved", "ttft_s", "tpot_s", "itl_s", "token_gap_s", "e2e_s", "acceptance_length",
    "tokens_per_chunk", "step_s", "cached_prompt_tokens",
)  # fmt: skip


def document(endpoint: Endpoint, rounds: Sequence[Round], slo: metrics.SLO | None) -> dict[str, Any]:
    """All that was measured, as JSON-able data: metrics, faults, client health, and every request's timeline."""
    return {
        "format": 1,
        "server": {"url": endpoint.root_url, "model": endpoint.model, "api": endpoint.api},
        "client": {
            "machine": platform.node(),
            "python": platform.python_version(),
            "openai": version("openai"),
            "transport": "stamping" if endpoint.uses_stamping else "public",
        },
        "rounds": [_round_document(r, slo) for r in rounds],
    }


def _round_document(round_: Round, slo: metrics.SLO | None) -> dict[str, Any]:
    kinds = sorted({r.kind for r in round_.requests})
    return {
        "load": round_.load,
        "workload": round_.workload,
        "workload_hash": round_.workload_hash,
        "started_unix_s": round_.started_unix_s,
        "duration_s": round_.duration_s,
        "metrics": {name: asdict(value) for name, value in metrics.summarize(round_, slo).items()},
        "acceptance_by_kind": {kind: asdict(metrics.acceptance(round_, kind)) for kind in kinds},
        "invalid": [asdict(reason) for reason in invalid(round_)],
        "client": asdict(round_.client),
        "requests": [
            {
                "index": r.index,
                "prompt": r.prompt,
                "kind": r.kind,
                "intended_s": r.intended_s,
                "started_s": r.started_s,
                "ended_s": r.ended_s,
                "prompt_tokens": r.prompt_tokens,
                "cached_tokens": r.cached_tokens,
                "completion_tokens": r.completion_tokens,
                "finish_reasons": r.finish_reasons,
                "fault": asdict(r.fault) if r.fault else None,
                "spec": asdict(r.spec) if r.spec else None,
                "t_s": [round(t, 6) for t in r.timeline.t_s.tolist()],
                "tokens": r.timeline.tokens.tolist(),
            }
            for r in round_.requests
        ],
    }


class LiveLine:
    """One line on a terminal that says how far a round is; on anything else, nothing."""

    def __init__(self, stream: TextIO, load: str) -> None:
        self._stream, self._load = stream, load
        self._seen: deque[tuple[float, int]] = deque()  # seconds, tokens

    def show(self, now: Progress) -> None:
        """Redraw. The rate is that of the last second."""
        if not self._stream.isatty():
            return
        rate = self._rate(now)
        total = f"/{now.total}" if now.total is not None else ""
        failed = f", {now.failed} FAILED" if now.failed else ""
        text = f"{self._load}: {now.phase} {now.elapsed_s:.0f} s, {now.done}{total} done, {now.in_flight} in flight"
        self._stream.write(f"\r\x1b[K{text}{rate}{failed}")
        self._stream.flush()

    def _rate(self, now: Progress) -> str:
        if self._seen and now.elapsed_s < self._seen[-1][0]:
            self._seen.clear()  # another phase
        self._seen.append((now.elapsed_s, now.tokens))
        while len(self._seen) > 1 and now.elapsed_s - self._seen[1][0] >= _RATE_OVER_S:
            self._seen.popleft()
        seconds, tokens = now.elapsed_s - self._seen[0][0], now.tokens - self._seen[0][1]
        return f", {tokens / seconds:.0f} tokens/s" if seconds > _RATE_OVER_S / 10 and tokens >= 0 else ""

    def clear(self) -> None:
        """Leave the line empty for what comes next."""
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def print_round(round_: Round, slo: metrics.SLO | None) -> None:
    """A round as a table: each metric with its mean and tails."""
    values = metrics.summarize(round_, slo)
    good = len(round_.ok)
    print(f"{round_.load}: {good} of {len(round_.requests)} requests good, {round_.duration_s:.2f} s\n")
    print(f"{'metric':<24}{'unit':<13}{'value':>11}{'mean':>11}{'p90':>11}{'p99':>11}")
    for name in _ROWS:
        value = values[name]
        if value.value is None:
            print(f"{name:<24}{value.unit:<13}{'-':>11}  {value.reason}")
            continue
        rest = "".join(_cell(values.get(f"{name}.{tail}")) for tail in ("mean", "p90", "p99"))
        print(f"{name:<24}{value.unit:<13}{_cell(value)}{rest}".rstrip())
    told = metrics.acceptance(round_)
    if told.length is not None:
        shares = "  ".join(f"{i + 1}: {share:.3f}" for i, share in enumerate(told.per_position))
        print(f"{'accepted by position':<37}  {shares}")
    print(_health_line(round_))


def print_sweep(rounds: Sequence[Round], slo: metrics.SLO | None) -> None:
    """Rounds of a sweep, a line each."""
    columns = {
        "out tok/s": "output_tokens_per_s",
        "req/s": "requests_per_s",
        "ttft s": "ttft_s",
        "ttft p99": "ttft_s.p99",
        "tpot s": "tpot_s",
        "itl p99": "itl_s.p99",
        "accept": "acceptance_length",
        "in flight": "concurrency_achieved",
        "goodput/s": "goodput_requests_per_s",
    }
    print(f"\n{'load':<38}{'good':>9}" + "".join(f"{title:>11}" for title in columns))
    for round_ in rounds:
        values = metrics.summarize(round_, slo)
        good = f"{len(round_.ok)}/{len(round_.requests)}"
        print(f"{round_.load:<38}{good:>9}" + "".join(_cell(values[name]) for name in columns.values()))


def print_problems(rounds: Sequence[Round]) -> None:
    """Why rounds are not to be trusted."""
    for round_ in rounds:
        for reason in invalid(round_):
            print(f"INVALID ({round_.load}) {reason}")


def _health_line(round_: Round) -> str:
    client = round_.client
    return (
        f"\nclient: event loop late by {client.loop_lag_p99_s * 1e3:.1f} ms (p99), {client.cpu_share:.0%} of a core,"
        f" {client.chunks_per_s:.0f} chunks/s, {client.processes} process{'es' if client.processes > 1 else ''}"
    )


def invalid(round_: Round) -> list[metrics.InvalidRound]:
    """The reasons why a round is not to be trusted; prompts may come from the prefix cache here."""
    return metrics.validity(round_, cached_share_max=None)


def _cell(value: metrics.Value | None) -> str:
    if value is None or value.value is None:
        return f"{'-' if value is not None else '':>11}"
    number = value.value
    return f"{number:>11.1f}" if abs(number) >= 100 else f"{number:>11.4g}"
