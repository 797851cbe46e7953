"""The reader of sockets: every byte and the end are seen, however much had come before it looked."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time

import pytest

if sys.platform != "linux":
    pytest.skip("the reader is for Linux", allow_module_level=True)

from suite.load import draining, reading
from suite.load.draining import Stream
from suite.load.reading import Reader


@pytest.fixture(params=["python", "c"], autouse=True)
def loop_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with both loops, if the one in C is built here."""
    if request.param == "python":
        monkeypatch.setattr(reading, "drain", draining.drain)
    elif not reading.IN_C:
        pytest.skip("the loop in C is not built here")


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection; the second does not block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    ours.setblocking(False)
    return theirs, ours


async def read_all(sizes: list[int], close: bool, late_s: float = 0.0) -> tuple[list[int], int]:
    """What a reader sees of a peer that sends so many bytes at a time: bytes read each time, and how often an end."""
    theirs, ours = connected()
    reader, seen, ends = Reader(), [], 0

    def ended(error: OSError | None) -> None:
        nonlocal ends
        ends += 1
        assert error is None

    reader.watch(ours, Stream(ours, lambda _, data: seen.append(len(data)), ended))
    for size in sizes:
        theirs.sendall(bytes(size))
        if not late_s:
            await asyncio.sleep(0.01)
    if close:
        theirs.close()
    time.sleep(late_s)  # the event loop is kept from looking: all is there at once
    for _ in range(200):
        await asyncio.sleep(0.01)
        if sum(seen) == sum(sizes) and ends == int(close):
            break
    await asyncio.sleep(0.02)
    reader.forget(ours)
    reader.close()
    for sock in (theirs, ours):
        sock.close()
    return seen, ends


def test_an_end_that_came_with_the_last_bytes_is_seen() -> None:
    assert asyncio.run(read_all([100], close=True, late_s=0.05)) == ([100], 1)


def test_more_than_one_read_holds_is_read_to_its_end() -> None:
    seen, ends = asyncio.run(read_all([70_000, 70_000], close=True, late_s=0.05))
    assert sum(seen) == 140_000
    assert len(seen) > 1
    assert ends == 1


def test_exactly_one_full_read_leaves_the_connection_open() -> None:
    seen, ends = asyncio.run(read_all([65_536], close=False, late_s=0.05))
    assert sum(seen) == 65_536
    assert ends == 0


def test_each_of_several_arrivals_is_seen_when_it_comes() -> None:
    seen, ends = asyncio.run(read_all([10, 20, 30], close=True))
    assert sum(seen) == 60
    assert ends == 1


def test_a_reset_is_told_with_its_error() -> None:
    async def reset() -> list[OSError | None]:
        theirs, ours = connected()
        reader, ends = Reader(), list[OSError | None]()
        reader.watch(ours, Stream(ours, lambda *_: None, ends.append))
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if ends:
                break
        await asyncio.sleep(0.02)
        reader.close()
        ours.close()
        return ends

    (end,) = asyncio.run(reset())
    assert isinstance(end, ConnectionResetError)
    assert "reset by peer" in str(end)


def test_a_stamp_that_cannot_be_true_is_replaced_and_counted() -> None:
    """As after the machine's clock was set while a packet lay unread."""

    async def stamped(wall_off_s: int) -> tuple[float, float, float, int]:
        theirs, ours = connected()
        reader, arrivals = Reader(), list[float]()
        reader.watch(ours, Stream(ours, lambda t, _: arrivals.append(t), lambda _: None))
        await asyncio.sleep(0.05)  # the kernel switches stamps on with a delay
        reader.unstamped, reader._wall_base_s = 0, reader._wall_base_s + wall_off_s
        before = time.perf_counter()
        theirs.sendall(b"x")
        time.sleep(0.05)
        late = time.perf_counter()
        await asyncio.sleep(0.02)
        reader.forget(ours)
        reader.close()
        for sock in (theirs, ours):
            sock.close()
        return before, arrivals[0], late, reader.unstamped

    before, arrived, late, unstamped = asyncio.run(stamped(0))
    assert before < arrived < late - 0.03  # when it came, not when it was looked at
    assert unstamped == 0
    for off_s in (100, -100):
        before, arrived, late, unstamped = asyncio.run(stamped(off_s))
        assert late <= arrived <= time.perf_counter()
        assert unstamped == 1


def test_a_stream_forgotten_by_a_callback_is_not_read_on() -> None:
    async def seen_after_forgetting() -> list[int]:
        theirs, ours = connected()
        reader, seen = Reader(), list[int]()

        def read(_: float, data: bytes) -> None:
            seen.append(len(data))
            reader.forget(ours)

        reader.watch(ours, Stream(ours, read, lambda _: None))
        theirs.sendall(bytes(200_000))
        theirs.close()
        await asyncio.sleep(0.1)
        reader.close()
        ours.close()
        return seen

    assert len(asyncio.run(seen_after_forgetting())) == 1


def test_what_a_callback_raises_is_raised() -> None:
    async def raised() -> list[object]:
        theirs, ours = connected()
        reader, errors = Reader(), list[object]()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(context["exception"])
        )

        def read(_: float, data: bytes) -> None:
            raise ValueError(data)

        reader.watch(ours, Stream(ours, read, lambda _: None))
        theirs.sendall(b"x")
        await asyncio.sleep(0.05)
        reader.close()
        for sock in (theirs, ours):
            sock.close()
        return errors

    (error,) = asyncio.run(raised())
    assert isinstance(error, ValueError)
    assert error.args == (b"x",)


def test_a_first_answer_is_not_acknowledged_chunk_by_chunk() -> None:
    """As a later answer's on the same connection, which Linux does by itself (see docs/client.md)."""

    async def segments_sent() -> int:
        theirs, ours = connected()
        theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = Reader()
        reader.watch(ours, Stream(ours, lambda *_: None, lambda _: None))
        ours.send(bytes(500))
        before = _segments_sent(ours)
        for _ in range(40):
            theirs.send(bytes(300))
            await asyncio.sleep(0.005)
        sent = _segments_sent(ours) - before
        reader.forget(ours)
        reader.close()
        for sock in (theirs, ours):
            sock.close()
        return sent

    assert asyncio.run(segments_sent()) <= 30  # 40 if each were acknowledged on its own


def _segments_sent(sock: socket.socket) -> int:
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return int(struct.unpack_from("I", info, 136)[0])  # tcpi_segs_out of struct tcp_info, linux/tcp.h
