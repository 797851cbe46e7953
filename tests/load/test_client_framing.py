"""HTTP framing: whatever the chunks of a body and the reads they come in, the tokens and the end are the same."""

from __future__ import annotations

import asyncio
import itertools
import select
import socket
import sys
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from suite.load import draining, reading
from suite.load.decode import AnswerDecoder
from suite.load.draining import Ended, Stream
from suite.load.raw_stream import RawStream
from suite.load.transport import _Connection
from tests.load.scripted import HEAD, event, token_events

Drain = Callable[[select.epoll, dict[int, Stream], Ended, int, float], int]

PLAIN = token_events(12, text="é")
ODD = [
    b": ping\n\n",
    b"data: \n\n",
    b"\n",
    b"\n\n",
    event(error={"message": "no"}),
    PLAIN[3].replace(b"\n", b"\r\n"),
    PLAIN[3] + PLAIN[4],
    PLAIN[3][:9],
    b"data: {},{}\n\n",
    b"data: 0\r\n\r\n\n\n",
]


DRAINS = [draining.drain] if reading.drain is draining.drain else [draining.drain, reading.drain]
pytestmark = pytest.mark.parametrize("drain", DRAINS, ids=["python", "c"][: len(DRAINS)])


class OneSocket:
    """Stands where the reader of sockets is, and lets a test say what is read and when."""

    def __init__(self, drain: Drain) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._drain = drain
        self._epoll = select.epoll()
        self._watched: dict[int, Stream] = {}

    def watch(self, sock: socket.socket, stream: Stream) -> None:
        self._watched[sock.fileno()] = stream
        self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

    def forget(self, sock: socket.socket) -> None:
        self._watched.pop(sock.fileno(), None)

    def read(self, data: bytes) -> None:
        self._theirs.sendall(data)
        self._drain(self._epoll, self._watched, self._ended, 0, 0.0)

    def _ended(self, number: int, error: int) -> None:
        raise AssertionError(f"{number} ended: {error}")

    def close(self) -> None:
        self._epoll.close()
        self._theirs.close()


def received(drain: Drain, reads: list[bytes], head: bytes = HEAD) -> tuple[_Connection, RawStream]:
    """What a connection makes of an answer that comes in these reads."""

    async def connection() -> tuple[_Connection, RawStream]:
        source, arrivals = OneSocket(drain), RawStream(keep_text=True)
        made = _Connection(("127.0.0.1", 80), source.ours, source)  # type: ignore[arg-type]
        made.begin(arrivals, events=True)
        for read in [head, *reads]:
            if not made.closed:
                source.read(read)
        made.abort()
        source.close()
        return made, arrivals

    return asyncio.run(connection())


def chunks_of(body: bytes, cuts: list[int]) -> list[bytes]:
    """A body as HTTP chunks, cut at these places, and the last chunk."""
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(body)}), len(body)]
    parts = [body[a:b] for a, b in itertools.pairwise(places)]
    return [*(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part), b"0\r\n\r\n"]


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Events, and the HTTP chunks they come in: most of them one event a chunk, as servers do."""
    events = draw(st.lists(st.one_of(st.sampled_from(PLAIN), st.sampled_from(ODD)), max_size=12))
    body, ends = b"".join(events), []
    for one in events:
        ends.append((ends[-1] if ends else 0) + len(one))
    others = draw(st.lists(st.integers(1, max(1, len(body))), max_size=4))
    skipped = draw(st.sets(st.integers(0, len(events)), max_size=3))
    return events, chunks_of(body, [e for i, e in enumerate(ends) if i not in skipped] + others)


@settings(deadline=None, max_examples=300)
@given(bodies(), st.data())
def test_the_same_answer_whatever_the_chunks_and_the_reads(
    drain: Drain, body: tuple[list[bytes], list[bytes]], data: st.DataObject
) -> None:
    events, frames = body
    message = b"".join(frames)
    ends, at = [], 0
    for frame in frames:
        at += len(frame)
        ends.append(at)
    cuts = set(ends) - data.draw(st.sets(st.sampled_from(ends), max_size=3))
    cuts |= data.draw(st.sets(st.integers(1, len(message)), max_size=4))
    places = [0, *sorted(cuts | {len(message)})]
    reads = [message[a:b] for a, b in itertools.pairwise(places)]
    connection, arrivals = received(drain, reads)
    assert connection.body_done.done()
    assert connection.body_done.exception() is None
    assert connection.reusable
    whole = AnswerDecoder(keep_text=True)
    for piece in events:
        whole.feed(0.0, piece)
    arrivals.decode()
    for name in ("tokens", "chunks", "text", "finish_reasons", "completion_tokens", "prompt_tokens"):
        assert getattr(arrivals.answer, name) == getattr(whole, name), name
    found, expected = (f and (f.kind, f.message) for f in (arrivals.answer.fault, whole.fault))
    assert found == expected


@pytest.mark.parametrize("cut", range(1, 12))
def test_an_end_that_is_cut_anywhere_is_seen_with_its_last_byte_and_not_before(
    drain: Drain, cut: int
) -> None:
    frames = b"".join(chunks_of(b"".join(PLAIN), [len(PLAIN[0])]))
    reads = [frames[:-cut], frames[-cut:]]
    assert not received(drain, reads[:1])[0].body_done.done()
    assert received(drain, reads)[0].body_done.done()


def test_whole_events_are_stamped_one_by_one(drain: Drain) -> None:
    frames = chunks_of(b"".join(PLAIN), [sum(map(len, PLAIN[:n])) for n in range(len(PLAIN))])
    _, arrivals = received(drain, frames)
    arrivals.decode()
    times = list(arrivals.answer.times)
    assert (times, len(set(times))) == (sorted(times), 12)


def test_the_usual_read_never_reaches_the_parser(drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = chunks_of(b"".join(PLAIN), [sum(map(len, PLAIN[:n])) for n in range(len(PLAIN))])
    parsed: list[bytes] = []
    parse = _Connection._parse

    def noted(connection: _Connection, data: bytes) -> None:
        parsed.append(data)
        parse(connection, data)

    monkeypatch.setattr(_Connection, "_parse", noted)
    received(drain, frames)
    assert parsed == [HEAD, frames[0], frames[-1]]


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"200 OK", b"500 Oops"),
        HEAD.replace(b"text/event-stream", b"application/json"),
    ],
)
def test_what_is_not_a_stream_of_events_is_kept_as_it_came(drain: Drain, head: bytes) -> None:
    frames = chunks_of(b"".join(PLAIN), [len(PLAIN[0]), len(PLAIN[0] + PLAIN[1])])
    _, arrivals = received(drain, frames, head)
    assert b"".join(arrivals.pieces) == b"".join(PLAIN)


def test_a_frame_that_lies_about_its_length_is_no_whole_chunk(drain: Drain) -> None:
    """Read by its look alone, the second read would hide that the chunk goes on."""
    first, second, third = PLAIN[:3]
    lying = b"%x\r\n%b\r\n" % (len(second) + 10, second)
    connection, _ = received(drain, [*chunks_of(first, [])[:1], lying, third])
    assert not connection.body_done.done() or connection.body_done.exception() is not None
    assert received(drain, [*chunks_of(first, [])[:1], lying])[1].pieces[-1].endswith(second + b"\r\n")


def framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


LOOKS_WHOLE = framed(PLAIN[2])  # as it would come if it were a chunk of its own
ROLE = framed(PLAIN[0])
FAR = 0x100 + len(PLAIN[2])  # its last two digits are the length of the chunk within
DECEPTIVE = {
    "inside a chunk, after an event and a line's end": (
        [PLAIN[1] + b"\r\n" + LOOKS_WHOLE + b"\n\n"],
        [len(framed(PLAIN[1] + b"\r\n" + LOOKS_WHOLE + b"\n\n")) - len(LOOKS_WHOLE) - 4, len(LOOKS_WHOLE)],
    ),
    "after the whole head of another chunk": (
        [PLAIN[1], LOOKS_WHOLE + b"\n\n"],
        [len(framed(PLAIN[1])) + 4, len(LOOKS_WHOLE)],
    ),
    "after the first digit of another chunk's head": (
        [PLAIN[1], (LOOKS_WHOLE[4:] + b":" * FAR)[: FAR - 2] + b"\n\n"],
        [len(framed(PLAIN[1])) + 1, len(LOOKS_WHOLE)],
    ),
}


@pytest.mark.parametrize("name", DECEPTIVE)
def test_what_only_looks_like_a_chunk_is_part_of_another(drain: Drain, name: str) -> None:
    bodies_, sizes = DECEPTIVE[name]
    message, reads = b"".join(map(framed, bodies_)) + b"0\r\n\r\n", []
    for size in sizes:
        reads.append(message[:size])
        message = message[size:]
    assert reads[-1] == LOOKS_WHOLE
    connection, arrivals = received(drain, [ROLE, *reads, message])
    assert connection.body_done.done()
    assert connection.body_done.exception() is None
    arrivals.decode()
    whole = AnswerDecoder(keep_text=True)
    whole.feed(0.0, PLAIN[0] + b"".join(bodies_))
    assert (arrivals.answer.tokens, arrivals.answer.chunks) == (whole.tokens, whole.chunks)


def test_nothing_is_taken_into_an_answer_that_is_over(drain: Drain) -> None:
    reads = [ROLE, framed(PLAIN[1]), b"0\r\n\r\n"]
    before, after = received(drain, reads), received(drain, [*reads, LOOKS_WHOLE])
    assert after[1].pieces == before[1].pieces


@example(cut=2)
@given(cut=st.integers(1, 40))
@settings(deadline=None)
def test_bytes_before_their_blank_line_are_not_taken_for_an_event(drain: Drain, cut: int) -> None:
    """A chunk that ends within an event, then chunks that look like whole events."""
    first = PLAIN[1][:-cut] if cut < len(PLAIN[1]) else PLAIN[1][:-1]
    body = [PLAIN[0], first, PLAIN[2], PLAIN[3]]
    _, arrivals = received(drain, [b"%x\r\n%b\r\n" % (len(part), part) for part in body] + [b"0\r\n\r\n"])
    arrivals.decode()
    whole = AnswerDecoder(keep_text=True)
    whole.feed(0.0, b"".join(body))
    assert (arrivals.answer.tokens, arrivals.answer.chunks) == (whole.tokens, whole.chunks)


def test_nothing_is_held_longer_than_it_is_used(drain: Drain) -> None:
    """Counted references: those of the loop in C are counted by hand."""
    source, pieces = OneSocket(drain), list[bytes]()

    class Kept(Stream):
        def read(self, arrived: float, data: bytes) -> None:
            pieces.append(data)

    stream = Kept(source.ours)
    source.watch(source.ours, stream)
    kept = (stream, stream.pieces, stream.stamps, source._watched, source._epoll, source._ended)
    before = [sys.getrefcount(each) for each in kept]
    for stream.whole in (True, False):
        for _ in range(50):
            source.read(LOOKS_WHOLE)
    assert [sys.getrefcount(each) for each in kept] == before
    assert (len(pieces), len(stream.pieces), len(stream.stamps)) == (50, 50, 50)
    usual = {sys.getrefcount(piece) for piece in [b"piece %d" % n for n in range(3)]}
    assert {sys.getrefcount(piece) for piece in pieces} == usual
    assert {sys.getrefcount(piece) for piece in stream.pieces} == usual
    source.close()
    source.ours.close()
