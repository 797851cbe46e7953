"""Whatever comes in place of a streamed answer ends that request in a named fault, in bounded time and memory."""

from __future__ import annotations

import itertools
import json
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.load import ClosedLoop, Endpoint, Sampling, play, workloads
from suite.load.bounds import Bounds
from suite.load.decode import AnswerDecoder
from suite.load.records import FaultKind, RequestRecord, Round
from suite.load.sse import EventCutter, TooLong
from tests.hostile.door_servers import Bytes, forever, page, sending

DOOR = "streamed answers, while measuring"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ASKED_TOKENS = 16
WORKLOAD = workloads.load("json").sized(requests=1, prompt_chars_max=100)


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def ending(tokens: int = ASKED_TOKENS, spec: dict[str, Any] | None = None, **usage: Any) -> list[bytes]:
    """A whole stream whose last chunks say these counts."""
    counts = {"prompt_tokens": 30, "completion_tokens": tokens, **usage}
    sglext = {"sglext": {"spec_tokens_details": spec}} if spec else {}
    finish = event(choices=[{"index": 0, "delta": {"content": "x"}, "finish_reason": "length"}], **sglext)
    return [EVENTS, finish, event(choices=[], usage=counts), b"data: [DONE]\n\n"]


def spec(verify: int, correct: int, proposed: int, histogram: list[int] | None = None) -> dict[str, Any]:
    return {
        "spec_verify_ct": verify,
        "spec_num_correct_drafts": correct,
        "spec_num_proposed_drafts": proposed,
        "spec_correct_drafts_histogram": histogram or [],
    }


def endless_events() -> Iterator[bytes | float]:
    yield EVENTS
    block = event(choices=[{"index": 0, "delta": {"content": "x"}}]) * 500
    while True:
        yield block


def rising_without_end() -> Iterator[bytes | float]:
    yield EVENTS
    for tokens in range(1, 10**9):
        yield event(choices=[{"index": 0, "delta": {"content": "x"}}], usage={"completion_tokens": tokens})


HOSTILE: dict[str, tuple[Callable[[], Bytes], FaultKind, str]] = {
    "two lines of 20 MB": (
        lambda: [EVENTS, *[b"data: ", *[b"x" * 1_000_000] * 20, b"\n\n"] * 2],
        FaultKind.oversized,
        "more than",
    ),
    "a line of 200 MB": (
        lambda: [EVENTS, b"data: ", *[b"x" * 1_000_000] * 200, b"\n\n"],
        FaultKind.oversized,
        "more than",
    ),
    "a line without end": (lambda: forever(b"x" * 65536, head=EVENTS), FaultKind.oversized, "more than"),
    "one event of 8 MB in short lines": (
        lambda: [EVENTS, b"data: xxxxxxx\n" * 600_000, b"\n"],
        FaultKind.oversized,
        "an event has more than",
    ),
    "events without end": (endless_events, FaultKind.oversized, "more than"),
    "tokens without end": (rising_without_end, FaultKind.implausible, "completion_tokens"),
    "comments that trickle without end": (
        lambda: forever(b": ping\n\n", 0.05, head=EVENTS),
        FaultKind.timed_out,
        "not done after",
    ),
    "headers without end": (
        lambda: forever(b"X-A: b\r\n" * 500, head=b"HTTP/1.1 200 OK\r\n"),
        FaultKind.oversized,
        "",
    ),
    "an error whose body never ends": (
        lambda: forever(b"oh no ", head=b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n"),
        FaultKind.server_error,
        "oh no",
    ),
    "an error of 5 MB of escape sequences": (
        lambda: page(b"\x1b]0;owned\x07\x1b[2J" * 350_000, "500 Oops", "text/plain"),
        FaultKind.server_error,
        r"\x1b]0;owned",
    ),
    "HTML in place of a stream": (
        lambda: page(b"<html>Welcome</html>", kind="text/html"),
        FaultKind.malformed,
        "expected an event stream",
    ),
    "a page without end in place of a stream": (lambda: forever(b"x" * 65536), FaultKind.malformed, "xxx"),
    "an event nested 10,000 levels deep": (
        lambda: [EVENTS, b'data: {"error": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n\n"],
        FaultKind.malformed,
        "not a completion chunk",
    ),
    "2e8 completion tokens": (lambda: ending(200_000_000), FaultKind.implausible, "200000000"),
    "2**62 completion tokens": (lambda: ending(2**62), FaultKind.implausible, "2**62"),
    "2**80 completion tokens": (lambda: ending(2**80), FaultKind.implausible, "2**80"),
    "-1 completion tokens": (lambda: ending(-1), FaultKind.implausible, "completion_tokens is -1"),
    "a completion token count of 4,000 digits": (
        lambda: [EVENTS, b'data: {"usage": {"completion_tokens": ' + b"9" * 4000 + b"}}\n\n"],
        FaultKind.implausible,
        "about 2**",
    ),
    "-5 prompt tokens": (
        lambda: ending(prompt_tokens=-5),
        FaultKind.implausible,
        "prompt_tokens is negative",
    ),
    "2**40 prompt tokens for 100 characters": (
        lambda: ending(prompt_tokens=2**40),
        FaultKind.implausible,
        "prompt_tokens",
    ),
    "-10 cached tokens": (
        lambda: ending(prompt_tokens_details={"cached_tokens": -10}),
        FaultKind.implausible,
        "cached_tokens is negative",
    ),
    "2e21 cached tokens": (
        lambda: ending(prompt_tokens_details={"cached_tokens": 2 * 10**21}),
        FaultKind.implausible,
        "cached_tokens",
    ),
    "more cached tokens than the prompt has": (
        lambda: ending(prompt_tokens_details={"cached_tokens": 31}),
        FaultKind.implausible,
        "more than 30 of all prompt tokens",
    ),
    "more reasoning tokens than output tokens": (
        lambda: ending(reasoning_tokens=17),
        FaultKind.implausible,
        "reasoning_tokens",
    ),
    "acceptance length 5,001": (
        lambda: ending(spec=spec(1, 5000, 5000)),
        FaultKind.implausible,
        "acceptance length 5001",
    ),
    "right drafts in zero steps": (
        lambda: ending(spec=spec(0, 12, 0)),
        FaultKind.implausible,
        "12 correct drafts in no verify step",
    ),
    "more verify steps than output tokens": (
        lambda: ending(spec=spec(5000, 3, 15000)),
        FaultKind.implausible,
        "5000 verify steps for 16",
    ),
    "-3 verify steps": (lambda: ending(spec=spec(-3, 0, 0)), FaultKind.acceptance_identity, "negative"),
    "2**70 proposed drafts": (
        lambda: ending(spec=spec(8, 8, 2**70)),
        FaultKind.implausible,
        "drafts proposed",
    ),
    "a second choice that nobody asked for": (
        lambda: [EVENTS, event(choices=[{"index": 3, "delta": {"content": "x"}}])],
        FaultKind.implausible,
        "choice 3 of 1",
    ),
}


def played(answer: Callable[[], Bytes], transport: Any) -> tuple[RequestRecord, Round]:
    with sending(lambda _: answer()) as url:
        round_ = play(
            Endpoint(url, "m", transport=transport, api_key="sk-planted-0f1e2d"),
            WORKLOAD,
            ClosedLoop(1, 1),
            sampling=Sampling(max_tokens=ASKED_TOKENS),
            timeout_s=4.0,
            stall_s=3.0,
        )
    return round_.requests[0], round_


@pytest.mark.parametrize("transport", ["stamping", "public"])
@pytest.mark.parametrize("tried", HOSTILE)
def test_ends_in_a_named_fault(tried: str, transport: str, ends_as: Callable[[str, str, str], None]) -> None:
    answer, kind, says = HOSTILE[tried]
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    record, _ = played(answer, transport)
    assert time.monotonic() - begun < 20
    assert record.fault is not None
    known = (
        {kind, FaultKind.malformed} if tried == "headers without end" else {kind}
    )  # aiohttp has limits of its own
    assert record.fault.kind in known
    if record.fault.kind is kind:
        assert says in record.fault.message
    assert record.fault.message.isprintable()
    assert len(record.fault.message) < 500
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 300
    ends_as(DOOR, tried, f"request fault `{kind}`" + (f": {says}" if says else ""))


@pytest.mark.parametrize("transport", ["stamping", "public"])
def test_what_a_good_server_says_is_within_bounds(transport: str) -> None:
    good = spec(5, 11, 15, [0, 1, 2, 2])
    record, _ = played(lambda: ending(spec=good, prompt_tokens_details={"cached_tokens": 30}), transport)
    assert record.ok, record.fault
    # a verify step may bring a few tokens more than were asked for
    record, _ = played(lambda: ending(ASKED_TOKENS + 3), transport)
    assert record.ok, record.fault


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
@pytest.mark.parametrize("transport", ["stamping", "public"])
def test_a_redirect_of_a_request_carries_no_key_elsewhere(transport: str, status: str) -> None:
    asked: list[bytes] = []

    def elsewhere(request: bytes) -> Bytes:
        asked.append(request)
        return ending()

    with sending(elsewhere) as other:
        away = f"{status}\r\nLocation: {other}/v1/chat/completions"
        record, _ = played(lambda: page(b"", away), transport)
    assert record.fault is not None
    assert record.fault.kind is FaultKind.rejected
    assert asked == []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([b"data: ", b"\n", b"\r\n", b"\r", b"{", b'"usage":']))
)
def test_fuzz_any_bytes_are_an_answer_or_a_fault(pieces: list[bytes]) -> None:
    answer = AnswerDecoder(keep_text=True, bounds=Bounds(16))
    for t, piece in enumerate(pieces):
        answer.feed(float(t), piece)
    answer.finish()
    assert answer.fault is not None  # nothing here is a whole answer


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
counts = st.integers(-(2**70), 2**70) | st.integers(-2, 20) | st.none()
chunks = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(
            st.fixed_dictionaries(
                {"index": st.integers(-1, 2), "finish_reason": st.none() | st.text(max_size=4)}
            )
        )
        | values,
        "usage": st.fixed_dictionaries(
            {"completion_tokens": counts, "prompt_tokens": counts, "reasoning_tokens": counts}
        )
        | values,
        "sglext": st.fixed_dictionaries(
            {
                "spec_tokens_details": st.fixed_dictionaries(
                    {
                        "spec_verify_ct": counts,
                        "spec_num_correct_drafts": counts,
                        "spec_num_proposed_drafts": counts,
                        "spec_correct_drafts_histogram": st.none()
                        | st.lists(st.integers(-2, 2**70), max_size=4),
                    }
                )
            }
        )
        | values,
        "error": values,
        "object": values,
    },
)


@settings(max_examples=300, deadline=None)
@given(st.lists(chunks, max_size=6))
def test_fuzz_any_chunks_are_an_answer_within_bounds_or_a_fault(sent: list[dict[str, Any]]) -> None:
    answer = AnswerDecoder(bounds=Bounds(16, 100))
    for t, chunk in enumerate(sent):
        answer.feed(float(t), b"data: " + json.dumps(chunk).encode() + b"\n\n")
    answer.feed(99.0, b"data: [DONE]\n\n")
    answer.finish()
    line = answer.timeline(0.0)
    if answer.fault is None:
        assert 0 <= (answer.completion_tokens or 0) <= 16 + 64
        assert (answer.cached_tokens or 0) >= 0
        if answer.spec is not None:
            assert answer.spec.correct_drafts <= 80
            assert answer.spec.verify_steps > 0 or answer.spec.correct_drafts == 0
    assert len(line.t_s) <= len(sent)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_events_do_not_depend_on_how_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    whole = EventCutter().feed(data + b"\n\n")
    cutter, found, places = EventCutter(), [], sorted({0, *cuts, len(data)})
    for start, end in itertools.pairwise(places):
        found += cutter.feed(data[start:end])
    assert found + cutter.feed(b"\n\n") == whole


def test_cutting_a_long_line_takes_time_in_its_length_not_in_its_square() -> None:
    def seconds(pieces: int) -> float:
        cutter, begun = EventCutter(), time.process_time()
        for _ in range(pieces):
            cutter.feed(b"x" * 1024)
        return time.process_time() - begun

    seconds(500)
    assert seconds(4000) < 40 * max(seconds(500), 1e-4)
    with pytest.raises(TooLong, match="a line has more than"):
        seconds(5000)
