"""A trace is bounded and never trusted; what is no trace is refused in a sentence."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.traces import torch_trace
from suite.traces.errors import TraceError
from suite.traces.steps import profile_of
from tests.traces.made import gpu_trace, packed, span

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NEARLY = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "M", "i"]),
        "cat": st.sampled_from([*torch_trace.USED, "Trace"]),
        "name": st.sampled_from(
            [
                "step[VERIFY bs=1]",
                "draft",
                "draft_extend",
                "step[EXTEND bs=1 toks=2]",
                "scheduler.run_batch",
                "mm",
            ]
        ),
        "ts": st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(0, 50),
        "dur": st.floats(-1, 1e12) | st.integers(0, 30),
        "tid": st.integers(0, 1) | st.text(max_size=3),
    }
)


@given(st.lists(ANYTHING | NEARLY, max_size=30))
def test_whatever_events_a_file_holds_their_parts_are_whole(events: list[object]) -> None:
    try:
        read = torch_trace.read(gzip.compress(json.dumps({"traceEvents": events}).encode()), "t")
    except TraceError:
        return
    assert all(0 <= e.end_us - e.start_us <= torch_trace.LONGEST_US * 1.001 for e in read)
    for step in profile_of(read).steps:
        assert all(value >= 0 for value in step.parts.values())
        assert sum(step.parts.values()) == pytest.approx(step.length_s, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a trace"),
        (b"<html>", "is not a trace"),
        (b"[]", "is not a trace"),
        (b'{"other": 1}', "is not a trace"),
        (gpu_trace()[:-20], "breaks off"),
        (b"\x1f\x8b" + b"x" * 40, "not readable gzip"),
        (gzip.compress(b'{"traceEvents": [', mtime=0), "is not a trace"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(data: bytes, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        torch_trace.read(data, "p.trace.json.gz")


def test_a_file_that_unpacks_to_more_than_is_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_trace, "UNPACKED_BYTES", 1 << 20)
    with pytest.raises(TraceError, match="unpacks to more than 1 MiB: profile fewer steps"):
        torch_trace.read(gzip.compress(b" " * (64 << 20)), "bomb.gz")
    monkeypatch.setattr(torch_trace, "PACKED_BYTES", 10)
    with pytest.raises(TraceError, match="profile fewer steps"):
        torch_trace.read(gpu_trace(), "large.gz")
    monkeypatch.setattr(torch_trace, "EVENTS", 3)
    monkeypatch.setattr(torch_trace, "PACKED_BYTES", 1 << 20)
    with pytest.raises(TraceError, match="and 3 are read"):
        torch_trace.read(gpu_trace(), "many.gz")


def test_outer_spans_come_before_inner_ones() -> None:
    events = [
        span("in", "cpu_op", 5, 1, 1),
        span("out", "cpu_op", 5, 3, 1),
        span("no", "python_function", 1, 9, 1),
    ]
    assert [e.name for e in torch_trace.read(packed(events), "t")] == ["out", "in"]
