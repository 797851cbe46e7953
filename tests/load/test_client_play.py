"""Rounds as a whole: load shapes kept, warm-up and cache policy, several processes, cancellation."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest

from suite.load import (
    ClientLimits,
    ClosedLoop,
    Endpoint,
    LoadError,
    OpenLoop,
    Progress,
    RequestRecord,
    Round,
    Sampling,
    WarmUp,
    cache,
    contexts,
    play,
    workloads,
)
from suite.load.decode import AnswerDecoder
from suite.load.draining import Stream
from suite.load.endpoint import TransportName
from suite.load.health import judge
from suite.load.player import Player, PlayPlan
from suite.load.raw_stream import RawStream, clock
from suite.load.records import ClientHealth
from tests.load.scripted import (
    HEAD,
    RESET,
    Asked,
    ScriptedServer,
    Step,
    answer,
    chunked,
    event,
    plain,
    token_events,
)

WORKLOAD = workloads.load("maths")
SHORT = Sampling(max_tokens=4)


def endpoint(server: ScriptedServer) -> Endpoint:
    return Endpoint(server.url, "m")


def test_a_closed_loop_keeps_its_concurrency_and_never_exceeds_it() -> None:
    with ScriptedServer(lambda _: answer(4, gap_s=0.01)) as server:
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(3, 12), sampling=SHORT)
        assert server.open_most == 3
        assert len(server.asked) == 12
    assert [r.index for r in round_.requests] == list(range(12))
    assert round_.concurrency == 3
    busy = sum(r.ended_s - r.started_s for r in round_.requests)
    assert 2 < busy / round_.duration_s <= 3.01


def test_all_clients_of_a_closed_loop_start_together() -> None:
    with ScriptedServer(lambda _: answer(4, gap_s=0.2)) as server:
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(20, 20), sampling=SHORT)
    starts = [r.started_s for r in round_.requests]
    assert max(starts) - min(starts) < 0.2


def test_a_duration_stops_new_requests_and_lets_the_last_ones_finish() -> None:
    with ScriptedServer(lambda _: answer(4, gap_s=0.03)) as server:
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(2, duration_s=0.6), sampling=SHORT)
    assert all(r.ok for r in round_.requests)
    assert len(round_.requests) > 2
    assert max(r.started_s for r in round_.requests) < 1.0
    assert max(r.ended_s for r in round_.requests) > 0.6


def test_clients_that_ramp_up_join_one_by_one() -> None:
    with ScriptedServer(lambda _: answer(4, gap_s=0.05)) as server:
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(4, 8, ramp_s=0.8), sampling=SHORT)
    firsts = sorted(r.started_s for r in round_.requests)[:2]
    assert firsts[0] < firsts[1]
    assert firsts[1] > 0.15
    assert len(round_.requests) == 8


def test_an_open_loop_counts_latency_from_the_intended_start_so_a_stall_cannot_hide() -> None:
    """A server that serves one request at a time and stops for a second: coordinated omission."""
    lock = threading.Lock()
    gate = {"until": 0.0}

    def script(asked: Asked) -> list[Step]:
        now = time.monotonic()
        with lock:
            if asked.number == 2:
                gate["until"] = now + 1.0
            return [max(0.0, gate["until"] - now), *answer(4)]

    with ScriptedServer(script) as server:
        load = OpenLoop(20, requests=20, arrivals="constant")
        round_ = play(endpoint(server), WORKLOAD, load, sampling=SHORT)
    waits = [r.timeline.t_s[0] - r.origin_s for r in round_.requests]
    assert all(r.ok for r in round_.requests)
    # requests 3 to 17 were meant to start during the stall and each shows what is left of it
    late = [w for w in waits if w > 0.25]
    assert len(late) >= 12
    assert waits[3] > waits[8] > waits[14]
    for record in round_.requests:
        assert record.origin_s == record.intended_s == pytest.approx(record.index / 20, abs=1e-6)
        assert record.started_s >= record.intended_s - 0.002


def test_an_open_loop_does_not_wait_for_answers() -> None:
    with ScriptedServer(lambda _: [HEAD, 1.0, *chunked(*token_events(4))]) as server:
        round_ = play(
            endpoint(server), WORKLOAD, OpenLoop(40, requests=20, arrivals="constant"), sampling=SHORT
        )
        assert server.open_most == 20
    assert max(r.started_s for r in round_.requests) < 1.5


def test_warm_up_is_played_but_not_measured_and_shares_no_prompt_with_the_measurement() -> None:
    with ScriptedServer(lambda _: answer(4)) as server:
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(2, 5), sampling=SHORT, warm_up=3)
        asked = [a.body["messages"][0]["content"] for a in server.asked]
    assert len(round_.requests) == 5
    assert len(asked) == 8
    assert len({text[:20] for text in asked}) == 8


def test_warm_up_until_steady_ends_when_the_rate_stands_still() -> None:
    def script(asked: Asked) -> list[Step]:
        cold = asked.number < 6
        return answer(4, gap_s=0.06 if cold else 0.02)

    with ScriptedServer(script) as server:
        warm = WarmUp(requests=2, until_steady=True, tolerance=0.3, requests_max=30)
        play(endpoint(server), WORKLOAD, ClosedLoop(2, 2), sampling=SHORT, warm_up=warm)
        warmed = len(server.asked) - 2
    assert 4 <= warmed < 30


def test_a_warm_up_in_which_all_fails_is_an_error_that_says_why() -> None:
    broken = ScriptedServer(lambda _: plain("500 Oops", b'{"message": "no memory"}'))
    with broken as server, pytest.raises(LoadError, match=r"every warm-up request failed.*no memory"):
        play(endpoint(server), WORKLOAD, ClosedLoop(1, 1), warm_up=1)


def test_flushing_waits_until_the_server_is_idle_and_comes_after_warm_up() -> None:
    busy = {"left": 2}

    def script(asked: Asked) -> list[Step]:
        if asked.path == "/flush_cache":
            busy["left"] -= 1
            return plain(
                "400 Bad Request" if busy["left"] >= 0 else "200 OK", b"pending requests", "text/plain"
            )
        return answer(4)

    with ScriptedServer(script) as server:
        play(endpoint(server), WORKLOAD, ClosedLoop(1, 1), sampling=SHORT, warm_up=1, flush_cache=True)
        paths = [a.path for a in server.asked]
    assert paths == ["/v1/chat/completions", *["/flush_cache"] * 3, "/v1/chat/completions"]


def test_flushing_says_what_is_wrong() -> None:
    other = ScriptedServer(lambda _: plain("404 Not Found", b"no such path"))
    with other as server, pytest.raises(LoadError, match=r"404.*Is this an SGLang server\?"):
        cache.flush(endpoint(server))
    with pytest.raises(LoadError, match="cannot reach"):
        cache.flush(endpoint(server))
    busy = ScriptedServer(lambda _: plain("400 Bad Request", b"2 running", "text/plain"))
    with busy as server, pytest.raises(LoadError, match="never became idle: 2 running"):
        cache.flush(endpoint(server), timeout_s=0.3)


def test_unique_prefixes_differ_between_requests_and_between_rounds() -> None:
    with ScriptedServer(lambda _: answer(4)) as server:
        for _ in range(2):
            play(endpoint(server), WORKLOAD, ClosedLoop(2, 6), sampling=SHORT, unique_prefix=True)
        starts = {a.body["messages"][0]["content"][:14] for a in server.asked}
    assert len(starts) == 12


def test_several_processes_play_one_round_on_one_clock() -> None:
    with ScriptedServer(lambda _: answer(6, gap_s=0.02)) as server:
        before = time.monotonic()
        round_ = play(
            endpoint(server), WORKLOAD, ClosedLoop(4, 10), sampling=Sampling(max_tokens=6), workers=2
        )
        after = time.monotonic()
    assert [r.index for r in round_.requests] == list(range(10))
    assert all(r.ok for r in round_.requests)
    assert round_.client.processes == 2
    assert before < round_.started_monotonic_s < after
    firsts = sorted(r.started_s for r in round_.requests)[:4]
    assert firsts[-1] - firsts[0] < 0.5
    assert server.open_most == 4


def test_an_open_loop_is_shared_without_gaps() -> None:
    async def share(plan: PlayPlan) -> list[tuple[RequestRecord, ...]]:
        start_at = clock() + 0.1
        players = [Player(replace(plan, worker=n, workers=2), start_at=start_at) for n in (0, 1)]
        return [records for records, _ in await asyncio.gather(*(p.play() for p in players))]

    with ScriptedServer(lambda _: answer(4)) as server:
        load = OpenLoop(30, requests=9, arrivals="constant")
        even, odd = asyncio.run(share(PlayPlan(endpoint(server), WORKLOAD, load, SHORT)))
    assert [r.index for r in even] == [0, 2, 4, 6, 8]
    assert [r.index for r in odd] == [1, 3, 5, 7]
    assert [r.intended_s for r in odd] == pytest.approx([r.index / 30 for r in odd])


def test_a_worker_that_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    monkeypatch.setattr("suite.load.workers.sys.executable", "/bin/false")
    idle = ScriptedServer(lambda _: answer(4))
    with idle as server, pytest.raises(LoadError, match="a load worker died"):
        play(endpoint(server), WORKLOAD, ClosedLoop(2, 2), workers=2)


def test_progress_is_told_while_it_runs() -> None:
    seen: list[Progress] = []
    with ScriptedServer(lambda _: answer(8, gap_s=0.05)) as server:
        play(
            endpoint(server),
            WORKLOAD,
            ClosedLoop(2, 4),
            sampling=Sampling(max_tokens=8),
            progress=seen.append,
        )
    assert len(seen) >= 3
    assert {p.total for p in seen} == {4}
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert 0 < seen[1].tokens <= 32
    assert seen[-1].tokens == 32


def test_progress_of_several_processes_is_told_as_one() -> None:
    seen: list[Progress] = []
    with ScriptedServer(lambda _: answer(8, gap_s=0.05)) as server:
        eight, load = Sampling(max_tokens=8), ClosedLoop(2, 4)
        play(endpoint(server), WORKLOAD, load, sampling=eight, workers=2, progress=seen.append)
    assert {p.total for p in seen} == {4}
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert max(p.in_flight for p in seen) == 2
    assert any(0 < p.tokens < 32 for p in seen)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_progress_callback_that_fails_ends_the_round_at_once(workers: int) -> None:
    def broken(_: Progress) -> None:
        raise RuntimeError("no terminal")

    server = ScriptedServer(lambda _: answer(200, gap_s=0.05))
    before = time.monotonic()
    with server, pytest.raises(RuntimeError, match="no terminal"):
        play(endpoint(server), WORKLOAD, ClosedLoop(2, 4), sampling=SHORT, progress=broken, workers=workers)
    assert time.monotonic() - before < 10  # a round of 20 s
    assert not _load_workers()


def test_a_worker_that_dies_in_mid_round_ends_it_and_the_others() -> None:
    def kill_one(_: Progress) -> None:
        for worker in _load_workers()[:1]:
            worker.kill()

    server = ScriptedServer(lambda _: answer(200, gap_s=0.05))
    before = time.monotonic()
    with server, pytest.raises(LoadError, match="a load worker died"):
        play(endpoint(server), WORKLOAD, ClosedLoop(2, 4), sampling=SHORT, progress=kill_one, workers=2)
    assert time.monotonic() - before < 10
    assert not _load_workers()


@pytest.mark.parametrize("transport", ["stamping", "public"])
@pytest.mark.parametrize("script", [answer(40), [*answer(40)[:20], RESET]], ids=["whole", "reset"])
def test_nothing_of_a_round_waits_for_the_garbage_collector(
    transport: TransportName, script: list[Step]
) -> None:
    """Cycles would keep every answer of a round in memory into the next."""
    with ScriptedServer(lambda _: script) as server:
        gc.collect()
        gc.disable()
        try:
            play(Endpoint(server.url, "m", transport=transport), WORKLOAD, ClosedLoop(2, 6), sampling=SHORT)
            left = [
                type(each)
                for each in gc.get_objects()
                if isinstance(each, RawStream | AnswerDecoder | Stream)
            ]
        finally:
            gc.enable()
    assert left == []


def _load_workers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "suite.load.workers" in p.cmdline()]


def test_it_can_be_called_where_an_event_loop_is_running() -> None:
    async def within() -> Round:
        return play(endpoint(server), WORKLOAD, ClosedLoop(1, 1), sampling=SHORT)

    with ScriptedServer(lambda _: answer(4)) as server:
        assert len(asyncio.run(within()).ok) == 1


def test_cancelling_a_round_closes_its_connections() -> None:
    async def cancelled() -> None:
        player = Player(PlayPlan(endpoint(server), WORKLOAD, ClosedLoop(3, 30), SHORT))
        task = asyncio.create_task(player.play())
        while server.open_now < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    trickle: list[Step] = [b"1\r\n:\r\n", 0.05]
    with ScriptedServer(lambda _: [HEAD, 0.3, *trickle * 400]) as server:
        asyncio.run(cancelled())
        wait_for(lambda: server.open_now == 0)
        assert len(server.asked) == 3


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_dead_server_is_not_hammered() -> None:
    with ScriptedServer(lambda _: plain("503 Unavailable", b"{}")) as server:
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(1, duration_s=0.5))
    assert len(round_.requests) <= 8


def test_undecoded_bytes_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.load.player._BACKLOG_HIGH", 50)
    monkeypatch.setattr("suite.load.player._BACKLOG_LOW", 10)
    with ScriptedServer(lambda _: answer(300, gap_s=0.002)) as server:
        player = Player(PlayPlan(endpoint(server), WORKLOAD, ClosedLoop(2, 4), Sampling(max_tokens=300)))
        most = {"pieces": 0}

        async def watched() -> Round:
            async def look() -> None:
                while True:
                    await asyncio.sleep(0.005)
                    flying = [r.arrivals for r in player._flying]
                    most["pieces"] = max(most["pieces"], sum(len(a.pieces) for a in flying))

            task = asyncio.create_task(look())
            records, _ = await player.play()
            task.cancel()
            return records  # type: ignore[return-value]

        records = asyncio.run(watched())
    assert [r.timeline.tokens.tolist() for r in records] == [list(range(1, 301))] * 4  # type: ignore[attr-defined]
    assert most["pieces"] < 600  # of 1200; undisturbed, some 100 arrive between two looks


def test_a_long_context_is_counted_by_the_server_and_not_left_in_its_cache() -> None:
    def script(asked: Asked) -> list[Step]:
        text = asked.body["messages"][0]["content"]
        tokens = 20 + len(text) // 5
        body = event(
            choices=[{"index": 0, "delta": {"content": "x"}}],
            usage={"prompt_tokens": tokens, "completion_tokens": 1},
        )
        end = event(choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])
        return [HEAD, *chunked(body, end, b"data: [DONE]\n\n")]

    with ScriptedServer(script) as server:
        workload = contexts.of_tokens(endpoint(server), 2000, prompts=3)
        counted = {a.body["messages"][0]["content"][:10] for a in server.asked}
    for prompt in workload.prompts:
        assert 20 + len(prompt.text) // 5 == pytest.approx(2000, rel=0.01)
        assert prompt.text[:10] not in counted
    small = ScriptedServer(lambda _: plain("400 Bad Request", b'{"message": "too long"}'))
    with small as server, pytest.raises(LoadError, match=r"would not take a prompt.*too long"):
        contexts.of_tokens(endpoint(server), 10**4)


def health(**changes: float | bool) -> ClientHealth:
    base = {
        "loop_lag_p50_s": 0.0,
        "loop_lag_p99_s": 0.001,
        "loop_lag_max_s": 0.002,
        "cpu_share": 0.1,
        "chunks_per_s": 100.0,
        "start_lateness_p99_s": 0.0,
    }
    return ClientHealth(**{**base, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (health(), None),
        (health(cpu_share=0.95), "95% of a core"),
        (health(loop_lag_p99_s=0.006), "late by 6.0 ms"),
        (health(loop_lag_p99_s=0.006, kernel_stamps=True), None),
        (health(loop_lag_p99_s=0.030, kernel_stamps=True), "late by 30.0 ms"),
        (health(idle_share=0.2), "kept the server waiting 20.0%"),
    ],
)
def test_a_client_that_cannot_keep_up_says_so(state: ClientHealth, said: str | None) -> None:
    judged = judge(state, (), ClientLimits())
    assert judged.saturated == (said is not None)
    assert said is None or (judged.reason is not None and said in judged.reason)


def test_a_busy_client_is_caught_in_a_real_round() -> None:
    def hog() -> None:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            sum(range(20_000))

    with ScriptedServer(lambda _: answer(60, gap_s=0.01)) as server:
        hogs = [threading.Thread(target=hog) for _ in range(6)]
        for thread in hogs:
            thread.start()
        round_ = play(endpoint(server), WORKLOAD, ClosedLoop(4, 4), sampling=Sampling(max_tokens=60))
        for thread in hogs:
            thread.join()
    assert round_.client.saturated
    assert round_.client.reason
