"""Data-parallel ranks: shares averaged, passes and tokens summed, ratios from sums."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.sglang.flags import Flags
from suite.sglang.server import prometheus, took_effect
from suite.sglang.server.info import parse


def page(name: str, values: list[float], ranks_each: int = 2, **labels: str) -> str:
    """A metric of one data-parallel rank a value, reported by ``ranks_each`` processes each."""
    more = "".join(f',{key}="{value}"' for key, value in labels.items())
    return "".join(
        f'sglang:{name}{{dp_rank="{dp}",pid="{100 + dp * 10 + tp}",tp_rank="{dp * ranks_each + tp}"{more}}} {value}\n'
        for (dp, value), tp in product(enumerate(values), range(ranks_each))
    )


def test_shares_are_averaged_and_counts_summed_over_ranks() -> None:
    text = (
        page("token_usage", [0.2, 0.1, 0.0, 0.05])
        + page("num_running_reqs", [3, 2, 0, 1])
        + page("max_total_num_tokens", [9000, 8000, 8000, 7000])
        + page("spec_accept_length", [3.2, 3.1, 0.0, 3.3])
    )
    found = prometheus.parse(text, "0.5.23")
    assert found.token_usage == pytest.approx(0.0875)
    assert found.running_requests == 6
    assert found.token_capacity == 32000
    assert found.accept_length_window == pytest.approx(3.2)


def test_a_replica_without_graphs_is_seen_in_the_share() -> None:
    def at(graphs: list[float], eager: list[float]) -> prometheus.Counters:
        graphed = page("cuda_graph_passes_total", graphs, mode="decode_cuda_graph")
        return prometheus.parse(graphed + page("cuda_graph_passes_total", eager, mode="decode_none"))

    before, after = at([100, 100], [0, 40]), at([400, 100], [0, 140])
    assert after.graph_share(before) == pytest.approx(0.75)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 4))
def test_a_share_stays_a_share_however_many_ranks_report_it(values: list[float], ranks_each: int) -> None:
    found = prometheus.parse(page("token_usage", values, ranks_each)).token_usage
    assert found is not None
    assert min(values) - 1e-9 <= found <= max(values) + 1e-9


@given(st.text(max_size=200), st.text(max_size=200))
def test_lines_that_are_none_cost_no_other(before: str, after: str) -> None:
    marks = ("<", "{")
    text = f"x 1\n{before}\nsglang:num_queue_reqs 7.0\n{after}\n"
    if not text.lstrip().startswith(marks) and "sglang:num_queue_reqs" not in before + after:
        assert prometheus.parse(text).queued_requests == 7


INFO = {
    "model_path": "/m",
    "version": "0.5.23",
    "dp_size": 3,
    "speculative_algorithm": "EAGLE",
    "internal_states": [
        {"memory_usage": {"token_capacity": room}, "avg_spec_accept_length": length}
        for room, length in ((90000, 3.2), (85000, 1.0), (80000, 3.3))
    ],
}


def test_the_states_of_ranks_make_one_server() -> None:
    info = parse(json.dumps(INFO), "http://x/server_info")
    assert info.token_capacity == 255000
    assert info.accept_lengths == (3.2, 1.0, 3.3)
    assert info.accept_length_lifetime == pytest.approx(2.5)


def test_room_for_tokens_is_each_ranks_own() -> None:
    info = parse(json.dumps({**INFO, "max_total_tokens": 200000}), "http://x/server_info")
    assert took_effect(Flags({"max-total-tokens": 80000}), info)[0].sentence.endswith("is 200000")
    info = parse(json.dumps({**INFO, "max_total_tokens": 85000}), "http://x/server_info")
    assert "room for 80000" in took_effect(Flags({"max-total-tokens": 85000}), info)[0].sentence
