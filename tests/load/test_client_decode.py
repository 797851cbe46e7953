"""From bytes to tokens: captured SGLang streams, every way to cut them, and every way they can be wrong."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.load.decode import AnswerDecoder
from suite.load.raw_stream import RawStream
from suite.load.records import FaultKind, SpecDetails
from suite.load.sse import EventCutter

DATA = Path(__file__).parent / "data"
SPEC_CHAT = SpecDetails(9, 16, 27, (3, 1, 0, 5))
SPEC_COMPLETION = SpecDetails(8, 15, 24, (2, 1, 1, 4))

# read off the captures by eye: cumulative tokens of the chunks that carried some, prompt tokens, speculation
CAPTURES = {
    "sglang-0.5.21-nextn-chat": ([5, 9, 14, 22, 24], 39, SPEC_CHAT),
    "sglang-0.5.23-nextn-chat": ([5, 9, 14, 22, 24], 39, SPEC_CHAT),
    "sglang-0.5.21-nextn-completion": ([1, 5, 7, 11, 12, 15, 16, 20, 24], 11, SPEC_COMPLETION),
    "sglang-0.5.21-off-chat": ([2, 5, 6, 7, 8, 9, 11, 13, 14, 16, 22, 23, 24], 39, None),
    "sglang-0.5.21-off-completion": (list(range(1, 25)), 11, None),
}


def decoded(pieces: list[bytes], keep_text: bool = False) -> AnswerDecoder:
    """An answer fed with pieces that arrived at 0, 1, 2, ..."""
    answer = AnswerDecoder(keep_text)
    for t, piece in enumerate(pieces):
        answer.feed(float(t), piece)
    answer.finish()
    return answer


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def chunk(tokens: int | None, text: str | None = "x", index: int = 0, **choice: Any) -> bytes:
    usage = {} if tokens is None else {"usage": {"prompt_tokens": 3, "completion_tokens": tokens}}
    delta = {} if text is None else {"content": text}
    return event(choices=[{"index": index, "delta": delta, "finish_reason": None, **choice}], **usage)


FINISH = chunk(None, None, finish_reason="length")
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("name", CAPTURES)
def test_captured_streams_of_real_servers(name: str) -> None:
    tokens, prompt_tokens, spec = CAPTURES[name]
    answer = decoded([DATA.joinpath(f"{name}.sse").read_bytes()])
    assert answer.fault is None
    assert list(answer.tokens) == tokens
    assert (answer.prompt_tokens, answer.completion_tokens) == (prompt_tokens, 24)
    assert answer.spec == spec
    assert answer.finish_reasons == {0: "length"}


@pytest.mark.parametrize("name", ["sglang-0.5.23-nextn-chat", "sglang-0.5.21-nextn-completion"])
def test_the_same_tokens_when_cut_at_every_single_byte(name: str) -> None:
    raw = DATA.joinpath(f"{name}.sse").read_bytes()
    whole = decoded([raw], keep_text=True)
    for cut in range(1, len(raw)):
        answer = AnswerDecoder(keep_text=True)
        answer.feed(0.0, raw[:cut])
        answer.feed(1.0, raw[cut:])
        answer.finish()
        assert answer.fault is None
        assert (answer.tokens, answer.text, answer.spec) == (whole.tokens, whole.text, whole.spec), cut


def test_one_byte_a_read_stamps_each_chunk_with_its_last_byte() -> None:
    raw = DATA.joinpath("sglang-0.5.21-nextn-chat.sse").read_bytes()
    answer = decoded([raw[i : i + 1] for i in range(len(raw))])
    ends = [i + 1 for i in range(len(raw)) if raw[i : i + 2] == b"\n\n"]
    # events: role, five with tokens, finish, speculation, usage, [DONE]
    assert list(answer.times) == ends[1:6]


def test_the_role_chunk_is_not_the_first_token() -> None:
    role = chunk(None, "")
    answer = decoded([role, chunk(2), FINISH, DONE])
    assert list(answer.times) == [1.0]


def test_reasoning_counts_as_tokens_and_is_kept_apart() -> None:
    thinking = event(
        choices=[{"index": 0, "delta": {"reasoning_content": "hm", "content": None}}],
        usage={"prompt_tokens": 3, "completion_tokens": 4},
    )
    answer = decoded([chunk(None, ""), thinking, chunk(6, "so"), FINISH, DONE], keep_text=True)
    assert list(answer.tokens) == [4, 6]
    assert ("".join(answer.reasoning), "".join(answer.text)) == ("hm", "so")


def test_without_usage_a_chunk_only_the_final_count_is_known() -> None:
    raw = DATA.joinpath("sglang-0.5.21-nextn-chat-final-usage.sse").read_bytes()
    answer = decoded([part + b"\n\n" for part in raw.strip().split(b"\n\n")])
    assert answer.fault is None
    line = answer.timeline(0.0)
    assert not line.per_chunk
    assert line.t_s.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert line.tokens.tolist() == [-1, -1, -1, -1, 24]


def test_with_n_choices_tokens_are_summed_over_them() -> None:
    both = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 8})
    ends = [chunk(None, None, i, finish_reason="length") for i in (0, 1)]
    answer = decoded([chunk(1), chunk(2, index=1), chunk(4), chunk(4, index=1), *ends, both, DONE])
    assert answer.fault is None
    assert list(answer.tokens) == [1, 3, 6, 8]


def test_with_n_choices_speculation_is_summed_over_them() -> None:
    one = {
        "spec_verify_ct": 8,
        "spec_num_correct_drafts": 15,
        "spec_num_proposed_drafts": 24,
        "spec_correct_drafts_histogram": [2, 1, 1, 4],
    }
    extra = event(choices=[], sglext={"spec_tokens_details": [one, one]})
    answer = decoded([chunk(24), FINISH, extra, DONE])
    assert answer.spec == SpecDetails(16, 30, 48, (4, 2, 2, 8))


def test_cached_prompt_tokens_are_read_where_reported() -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 16}}
    answer = decoded([event(choices=[{"index": 0, "delta": {"content": "a"}}], usage=usage), FINISH, DONE])
    assert answer.cached_tokens == 16
    assert decoded([chunk(1), FINISH, DONE]).cached_tokens is None


BROKEN = {
    "cut off": ([chunk(1), chunk(2)], FaultKind.truncated),
    "no [DONE]": ([chunk(1), FINISH], FaultKind.truncated),
    "no finish reason": ([chunk(1), DONE], FaultKind.truncated),
    "nothing at all": ([], FaultKind.truncated),
    "half an event": ([chunk(1), chunk(2)[:-9]], FaultKind.truncated),
    "no usage": ([chunk(None), FINISH, DONE], FaultKind.usage_missing),
    "usage falls": ([chunk(5), chunk(4), FINISH, DONE], FaultKind.usage_backwards),
    "final usage below the stream's": (
        [chunk(5), FINISH, event(choices=[], usage={"completion_tokens": 3}), DONE],
        FaultKind.usage_backwards,
    ),
    "error object": ([chunk(1), event(error={"message": "out of memory"}), DONE], FaultKind.error_event),
    "SGLang's error object": ([event(object="error", message="no", code=500), DONE], FaultKind.error_event),
    "not JSON": ([chunk(1), b"data: <html>\n\n", DONE], FaultKind.malformed),
    "tokens as text": ([event(choices=[], usage={"completion_tokens": "7"}), DONE], FaultKind.malformed),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_stream_has_a_typed_fault(name: str) -> None:
    pieces, kind = BROKEN[name]
    fault = decoded(pieces).fault
    assert fault is not None
    assert fault.kind is kind
    assert fault.message


def test_contradicting_speculation_counters_are_a_fault() -> None:
    details = {
        "spec_verify_ct": 9,
        "spec_num_correct_drafts": 15,
        "spec_correct_drafts_histogram": [3, 1, 0, 5],
    }
    extra = event(choices=[], sglext={"spec_tokens_details": details})
    fault = decoded([chunk(24), FINISH, extra, DONE]).fault
    assert fault is not None
    assert fault.kind is FaultKind.acceptance_identity
    assert "16" in fault.message
    assert "15" in fault.message


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_identities_hold_for_any_histogram_and_break_by_one(histogram: list[int]) -> None:
    steps, correct = sum(histogram), sum(i * n for i, n in enumerate(histogram))
    proposed = steps * (len(histogram) - 1)
    assert SpecDetails(steps, correct, proposed, tuple(histogram)).contradiction is None
    assert SpecDetails(steps + 1, correct, proposed, tuple(histogram)).contradiction is not None
    assert SpecDetails(steps, correct + 1, proposed + 1, tuple(histogram)).contradiction is not None


# any stream, any cut


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[int], list[bytes]]:
    """Cumulative token counts, and a stream that says them, in the dress of any server: ends, comments, keep-alives."""
    steps = draw(st.lists(st.integers(1, 8), min_size=1, max_size=12))
    counts = [sum(steps[: i + 1]) for i in range(len(steps))]
    newline = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    space = draw(st.sampled_from([b" ", b""]))
    noise = st.sampled_from(
        [b"", b": ping", b":", b"event: message", b"id: 7", b"retry: 10", b"data", b"nonsense"]
    )
    words = draw(st.lists(st.text("aé漢🙂\u2028 ", max_size=4), min_size=len(counts), max_size=len(counts)))
    out = [b"\xef\xbb\xbf"] if draw(st.booleans()) else []
    bodies = [json.loads(chunk(n, w)[6:]) for n, w in zip(counts, words, strict=True)]
    texts = [json.dumps(b, ensure_ascii=draw(st.booleans())).encode() for b in bodies]
    texts += [FINISH[6:].strip(), b"[DONE]"]
    for text in texts:
        comment = draw(noise)
        if (
            comment == b"data"
        ):  # an empty data line of its own would make the event's data begin with a line feed
            comment = b": data"
        if comment:
            out.append(comment + newline)
        if draw(st.booleans()):
            out.append(b": keep-alive" + newline + newline)
        out.append(b"data:" + space + text + newline + newline)
    return counts, [b"".join(out)]


@given(streams(), st.data())
@settings(deadline=None, max_examples=100)
def test_the_same_tokens_whatever_the_dress_and_the_cut(
    stream: tuple[list[int], list[bytes]], data: st.DataObject
) -> None:
    counts, (raw,) = stream
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=30)))
    edges = [0, *cuts, len(raw)]
    answer = decoded([raw[a:b] for a, b in itertools.pairwise(edges)])
    assert answer.fault is None
    assert list(answer.tokens) == counts
    assert list(answer.times) == sorted(answer.times)


def reference(raw: bytes) -> list[bytes]:
    """The rules of the standard, written down once more as slowly as possible."""
    text = raw.removeprefix(b"\xef\xbb\xbf")
    lines, line, i = [], b"", 0
    while i < len(text):
        byte = text[i : i + 1]
        if byte in b"\r\n":
            lines.append(line)
            line = b""
            if byte == b"\r" and text[i + 1 : i + 2] == b"\n":
                i += 1
        else:
            line += byte
        i += 1
    events: list[bytes] = []
    data: list[bytes] = []
    seen = False
    for line in lines:
        if line == b"":
            if seen:
                events.append(b"\n".join(data))
            data, seen = [], False
            continue
        name, colon, value = line.partition(b":")
        if name == b"data":
            data.append(value[1:] if value[:1] == b" " else value)
            seen = True
        del colon
    return events


@given(
    st.lists(
        st.sampled_from(
            [b"data: {", b"data:", b"}", b"\n", b"\r", b"\r\n", b"\n\n", b": c", b"x", b"\xef\xbb\xbf"]
        )
    ),
    st.data(),
)
@settings(deadline=None, max_examples=300)
def test_events_are_cut_as_the_standard_says(parts: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    edges = [0, *cuts, len(raw)]
    cutter = EventCutter()
    events = [e for a, b in itertools.pairwise(edges) for e in cutter.feed(raw[a:b])]
    wanted = reference(raw)
    assert events == wanted


@given(st.lists(st.one_of(st.integers(0, 5), st.none()), max_size=30), st.booleans(), st.data())
@settings(deadline=None, max_examples=200)
def test_decoding_together_is_decoding_one_by_one(
    steps: list[int | None], keep_text: bool, data: st.DataObject
) -> None:
    """Usual reads, and now and then something unusual among them."""
    odd = [
        b": ping\n\n",
        b"data: \n\n",
        chunk(None),
        chunk(1, index=1),
        chunk(2).replace(b'"x"', b"7"),
        event(choices=[], usage={"completion_tokens": 3, "prompt_tokens": 8, "reasoning_tokens": 2}),
        event(
            choices=[{"index": 0}],
            usage={"completion_tokens": 90, "prompt_tokens_details": {"cached_tokens": 4}},
        ),
        event(object="error", choices=[{"index": 0}], usage={"completion_tokens": 99}),
        FINISH,
        event(error={"message": "no"}),
        b"data: {},{}\n\n",
        chunk(3).replace(b"\n", b"\r\n"),
        chunk(9)[:20],
        DONE,
    ]
    total, pieces = 0, [chunk(None, "")]
    for step in steps:
        total += step or 0
        pieces.append(data.draw(st.sampled_from(odd)) if step is None else chunk(total))
    pieces += [FINISH, DONE]
    arrivals, apart = RawStream(keep_text=keep_text), decoded(pieces, keep_text=keep_text)
    for t, piece in enumerate(pieces):
        arrivals.add(float(t), piece)
    while arrivals.decode(data.draw(st.sampled_from([1, 3, 50, None]))):
        pass
    together = arrivals.answer
    together.finish()
    for name in (
        "times",
        "tokens",
        "text_t",
        "chunks",
        "completion_tokens",
        "prompt_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "finish_reasons",
        "text",
        "fault",
    ):
        assert getattr(together, name) == getattr(apart, name), name


def test_usual_reads_are_decoded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick way is really taken: one by one, only the ends are fed."""
    fed: list[bytes] = []
    feed = AnswerDecoder.feed

    def noted(answer: AnswerDecoder, t: float, piece: bytes) -> None:
        fed.append(piece)
        feed(answer, t, piece)

    monkeypatch.setattr(AnswerDecoder, "feed", noted)
    arrivals, answer = RawStream(), AnswerDecoder()
    arrivals.answer = answer
    for t, piece in enumerate([chunk(None, ""), *(chunk(n) for n in range(1, 101)), FINISH, DONE]):
        arrivals.add(float(t), piece)
    arrivals.decode()
    answer.finish()
    assert list(answer.tokens) == list(range(1, 101))
    assert len(fed) <= 6


def test_a_null_error_is_no_error() -> None:
    assert decoded([event(choices=[], error=None), chunk(2), FINISH, DONE]).fault is None
