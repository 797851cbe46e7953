"""Result files of four other tools, hand-made with the field names of the versions that were read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suite.gate import BaselineStore, CorruptFile, ForeignFile, FutureVersion, MissingFile, judge
from suite.gate.imports import read_results

BENCH_SERVING = {
    "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 16,
    "random_input_len": 1024, "random_output_len": 256, "random_range_ratio": 1.0,
    "server_info": {"version": "0.5.23", "model_path": "org/model", "tp_size": 8, "attention_backend": "triton",
                    "speculative_algorithm": "EAGLE", "speculative_num_steps": 3},
    "duration": 12.5, "completed": 64, "total_output_tokens": 16384, "request_throughput": 5.12,
    "output_throughput": 1310.7, "total_throughput": 6553.6, "mean_ttft_ms": 130.0, "median_ttft_ms": 120.0,
    "median_tpot_ms": 9.5, "median_itl_ms": 24.0, "median_e2e_latency_ms": 2550.0, "concurrency": 15.6,
    "accept_length": 2.61,
}  # fmt: skip

PYTEST_BENCHMARK = {
    "machine_info": {"node": "box", "processor": "x86_64", "machine": "x86_64", "python_version": "3.11.7"},
    "commit_info": {"id": "abc123", "dirty": False},
    "benchmarks": [
        {"group": None, "name": "test_decode[c1]", "fullname": "t.py::test_decode[c1]", "params": None, "param": "c1",
         "extra_info": {"output_tokens_per_s": 158.0, "note": "x"}, "options": {},
         "stats": {"min": 1.9, "max": 2.2, "mean": 2.0, "stddev": 0.1, "rounds": 3, "data": [1.9, 2.0, 2.2], "iterations": 1}},
    ],
    "datetime": "2026-11-29T10:00:00+00:00", "version": "5.3.1",
}  # fmt: skip

AIPERF = {
    "schema_version": "1.4", "aiperf_version": "0.13.0", "benchmark_id": "b",
    "request_throughput": {"unit": "requests/sec", "avg": 4.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 1024.0},
    "time_to_first_token": {"unit": "ms", "avg": 130.0, "p50": 125.0, "p99": 200.0, "std": 5.0},
    "inter_token_latency": {"unit": "ms", "avg": 10.1, "p50": 10.0},
    "request_latency": {"unit": "ms", "avg": 2700.0, "p50": 2650.0},
    "spec_decode_acceptance_length": {"unit": "ratio", "avg": 2.7},
    "input_config": {"endpoint": {"model_names": ["org/model"]}, "loadgen": {"concurrency": 8}},
    "was_cancelled": False, "is_complete": True, "start_time": "2026-11-29T11:00:00",
}  # fmt: skip


def _summary(mean: float, median: float) -> dict[str, Any]:
    return {"successful": {"mean": mean, "median": median, "std_dev": 1.0, "count": 64}, "errored": None}


GUIDELLM = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1", "python_version": "3.11.7", "platform": "Linux"},
    "config": {},
    "benchmarks": [
        {"type_": "generative_benchmark", "start_time": 1795946400.0,
         "config": {"strategy": {"type_": "concurrent", "streams": 8}},
         "metrics": {"request_totals": {"successful": 64, "incomplete": 0, "errored": 0, "total": 64},
                     "requests_per_second": _summary(4.0, 4.0), "output_tokens_per_second": _summary(1020.0, 1000.0),
                     "time_to_first_token_ms": _summary(131.0, 126.0), "inter_token_latency_ms": _summary(10.2, 10.0),
                     "time_per_output_token_ms": _summary(10.7, 10.5), "request_latency": _summary(2.7, 2.65)}},
    ],
}  # fmt: skip


def write(path: Path, *documents: Any) -> Path:
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))
    return path


def test_bench_serving_lines_are_rounds_and_files_are_launches(tmp_path: Path) -> None:
    slower = BENCH_SERVING | {"output_throughput": 1300.0}
    files = [write(tmp_path / "a.jsonl", BENCH_SERVING, slower), write(tmp_path / "b.jsonl", BENCH_SERVING)]
    session = read_results(files, target="box", arm="mtp-on").session
    (series,) = session.series
    assert [launch.rounds["output_tokens_per_s"] for launch in series.launches] == [
        [1310.7, 1300.0],
        [1310.7],
    ]
    first = series.launches[0].rounds
    assert first["ttft_s"][0] == pytest.approx(0.120)
    assert first["tpot_s"][0] == pytest.approx(0.0095)
    assert first["acceptance_length"][0] == 2.61
    assert series.subject["sglang"] == "0.5.23"
    assert series.identity["model"] == "org/model"
    assert series.identity["random_input_len"] == 1024


def test_bench_serving_with_failed_requests_is_invalid(tmp_path: Path) -> None:
    failed = BENCH_SERVING | {"errors": ["", "timeout", ""], "output_lens": [256, 0, 256]}
    session = read_results([write(tmp_path / "a.jsonl", failed)], target="box", arm="mtp-on").session
    (reason,) = session.series[0].launches[0].invalid
    assert reason.name == "failed_requests"
    assert "timeout" in reason.evidence


def test_without_speculation_acceptance_is_absent_not_zero(tmp_path: Path) -> None:
    off = BENCH_SERVING | {"accept_length": None}
    session = read_results([write(tmp_path / "a.jsonl", off)], target="box", arm="mtp-off").session
    assert "acceptance_length" not in session.series[0].launches[0].rounds


def test_workloads_of_one_file_are_series_of_their_own(tmp_path: Path) -> None:
    other = BENCH_SERVING | {"max_concurrency": 1}
    session = read_results(
        [write(tmp_path / "a.jsonl", BENCH_SERVING, other)], target="box", arm="mtp-on"
    ).session
    assert len(session.series) == 2


def test_pytest_benchmark(tmp_path: Path) -> None:
    session = read_results([write(tmp_path / "a.json", PYTEST_BENCHMARK)], target="box", arm="x").session
    (series,) = session.series
    assert series.question == "test_decode[c1]"
    assert series.launches[0].rounds == {"output_tokens_per_s": [158.0], "round_s": [1.9, 2.0, 2.2]}
    assert session.started_at == "2026-11-29T10:00:00+00:00"


def test_aiperf(tmp_path: Path) -> None:
    session = read_results(
        [write(tmp_path / "profile_export_aiperf.json", AIPERF)], target="box", arm="x"
    ).session
    rounds = session.series[0].launches[0].rounds
    assert rounds["output_tokens_per_s"] == [1024.0]
    assert rounds["ttft_s"] == [pytest.approx(0.125)]
    assert rounds["tpot_s"] == [pytest.approx(0.010)]
    assert rounds["e2e_s"] == [pytest.approx(2.65)]
    assert rounds["acceptance_length"] == [2.7]
    assert session.series[0].identity["model"] == "org/model"


def test_aiperf_cancelled_is_invalid(tmp_path: Path) -> None:
    session = read_results(
        [write(tmp_path / "a.json", AIPERF | {"was_cancelled": True})], target="box", arm="x"
    ).session
    assert session.series[0].launches[0].invalid[0].name == "cancelled"


def test_guidellm(tmp_path: Path) -> None:
    session = read_results([write(tmp_path / "benchmarks.json", GUIDELLM)], target="box", arm="x").session
    (series,) = session.series
    assert series.question == "guidellm[concurrent 8]"
    rounds = series.launches[0].rounds
    assert rounds["output_tokens_per_s"] == [1020.0]
    assert rounds["ttft_s"] == [pytest.approx(0.126)]
    assert rounds["tpot_s"] == [pytest.approx(0.010)], "without the first token"
    assert rounds["e2e_s"] == [2.65]


def test_an_imported_run_is_recorded_and_judged_like_any_other(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "baselines", "box")
    for i in range(3):
        lines = [BENCH_SERVING | {"output_throughput": 1300.0 + i + j} for j in range(3)]
        store.record(
            read_results(
                [write(tmp_path / f"{i}.jsonl", *lines)], target="box", arm="on", run_id=f"r{i}"
            ).session
        )
    slow = [BENCH_SERVING | {"output_throughput": 1000.0 + j} for j in range(3)]
    run = read_results([write(tmp_path / "new.jsonl", *slow)], target="box", arm="on").session
    words = {key.metric: v.word for key, v in judge(run, store.sessions_for(run)).verdicts.items()}
    assert words["output_tokens_per_s"] == "regression"
    assert words["ttft_s"] == "pass"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"some": "json"}', ForeignFile),
        ("[1, 2]", ForeignFile),
        ("", ForeignFile),
        (json.dumps(BENCH_SERVING) + "\n" + json.dumps(BENCH_SERVING)[:80], CorruptFile),
        (json.dumps(AIPERF | {"schema_version": "9.0"}), FutureVersion),
        (json.dumps(GUIDELLM | {"metadata": {"version": 7, "guidellm_version": "9"}}), FutureVersion),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, error: type[Exception]) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(error, match=r"a\.json"):
        read_results([tmp_path / "a.json"], target="box", arm="x")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        read_results([tmp_path / "none.json"], target="box", arm="x")
