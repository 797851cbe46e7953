"""The client against a server that misbehaves in every way there is, over both transports."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from suite.load import (
    ClosedLoop,
    Endpoint,
    FaultKind,
    LoadError,
    RequestRecord,
    Round,
    Sampling,
    play,
    workloads,
)
from suite.load.endpoint import TransportName
from tests.load.scripted import (
    CLOSE,
    HEAD,
    RESET,
    Asked,
    Script,
    ScriptedServer,
    Step,
    answer,
    chunked,
    event,
    plain,
    token_events,
)

TRANSPORTS: tuple[TransportName, ...] = ("stamping", "public")
both = pytest.mark.parametrize("transport", TRANSPORTS)
WORKLOAD = workloads.load("prose")


def ask(
    server: ScriptedServer, transport: TransportName, stall_s: float = 10.0, timeout_s: float | None = None
) -> Round:
    return play(
        Endpoint(server.url, "m", transport=transport),
        WORKLOAD,
        ClosedLoop(1, 1),
        sampling=Sampling(max_tokens=4),
        stall_s=stall_s,
        timeout_s=timeout_s,
    )


def one(script: Script, transport: TransportName) -> RequestRecord:
    with ScriptedServer(script) as server:
        return ask(server, transport).requests[0]


GOOD = token_events(4)


@both
def test_a_good_answer(transport: TransportName) -> None:
    record = one(lambda _: answer(4), transport)
    assert record.fault is None
    assert record.timeline.tokens.tolist() == [1, 2, 3, 4]
    assert (record.prompt_tokens, record.completion_tokens, record.finish_reason) == (5, 4, "length")
    assert 0 <= record.started_s <= record.timeline.t_s[0]
    assert record.timeline.t_s[-1] <= record.ended_s


@both
@pytest.mark.parametrize(
    ("steps", "kind", "said"),
    [
        ([HEAD, *chunked(*GOOD[:3], end=False), RESET], FaultKind.reset, "middle|reset|closed|peer"),
        ([HEAD, *chunked(*GOOD[:3], end=False), CLOSE], FaultKind.reset, "middle|payload|closed|complete"),
        ([RESET], FaultKind.reset, "before any answer|reset|disconnected"),
        ([CLOSE], FaultKind.reset, "before any answer|disconnected"),
        ([HEAD, *chunked(*GOOD[:3])], FaultKind.truncated, "without"),
        ([HEAD, *chunked(*GOOD[:-1])], FaultKind.truncated, "without .DONE."),
        (
            [HEAD, *chunked(GOOD[1], event(error={"message": "CUDA out of memory"}))],
            FaultKind.error_event,
            "CUDA",
        ),
        (plain("200 OK", b'{"choices": []}'), FaultKind.malformed, "expected an event stream"),
        (
            plain("400 Bad Request", b'{"object":"error","message":"n must be 1","code":400}'),
            FaultKind.rejected,
            "n must",
        ),
        (
            plain("503 Unavailable", b'{"error":{"message":"queue full"}}'),
            FaultKind.server_error,
            "queue full",
        ),
        (plain("500 Oops", b"plain words", "text/plain"), FaultKind.server_error, "plain words"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else str(value)[:24],
)
def test_each_misbehaviour_has_its_type(
    steps: list[Step], kind: FaultKind, said: str, transport: TransportName
) -> None:
    record = one(lambda _: steps, transport)
    assert record.fault is not None
    assert record.fault.kind is kind, record.fault
    assert any(part.lower() in record.fault.message.lower() for part in said.replace(".", "").split("|")) or (
        "DONE" in said and "[DONE]" in record.fault.message
    ), record.fault.message
    if kind in (FaultKind.rejected, FaultKind.server_error):
        assert record.fault.status == int(bytes(steps[0])[9:12])  # type: ignore[arg-type]


@both
def test_nobody_listens(transport: TransportName) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    endpoint = Endpoint(f"http://127.0.0.1:{port}", "m", transport=transport)
    round_ = play(endpoint, WORKLOAD, ClosedLoop(2, 3))
    assert round_.faults == {FaultKind.refused: 3}
    with pytest.raises(LoadError, match="no server answers at"):
        play(Endpoint(f"http://127.0.0.1:{port}", transport=transport), WORKLOAD, ClosedLoop(1, 1))


@both
@pytest.mark.parametrize(
    "before", [[HEAD, *chunked(*GOOD[:3], end=False)], [HEAD], []], ids=["mid", "head", "none"]
)
def test_silence_ends_a_request_after_the_stall_limit(before: list[Step], transport: TransportName) -> None:
    with ScriptedServer(lambda _: [*before, 20.0]) as server:
        begun = time.monotonic()
        record = ask(server, transport, stall_s=0.4).requests[0]
    assert record.fault is not None
    assert record.fault.kind is FaultKind.stalled
    assert 0.4 <= time.monotonic() - begun < 10
    assert record.timeline.tokens.tolist() == ([1, 2] if len(before) > 1 else [])


@both
def test_a_slow_answer_ends_at_the_time_limit_though_bytes_keep_coming(transport: TransportName) -> None:
    slow: list[Step] = [HEAD]
    for body in chunked(*token_events(100), end=False):
        slow += [body, 0.05]
    with ScriptedServer(lambda _: slow) as server:
        record = ask(server, transport, timeout_s=0.5).requests[0]
    assert record.fault is not None
    assert record.fault.kind is FaultKind.timed_out
    assert record.timeline.tokens[-1] < 90


@both
def test_failures_are_counted_not_averaged_and_never_retried(transport: TransportName) -> None:
    def script(asked: Asked) -> list[Step]:
        return answer(4) if asked.number % 2 else plain("500 Oops", b"{}")

    with ScriptedServer(script) as server:
        endpoint = Endpoint(server.url, "m", transport=transport)
        round_ = play(endpoint, WORKLOAD, ClosedLoop(1, 6), sampling=Sampling(max_tokens=4))
        assert len(server.asked) == 6
    assert round_.faults == {FaultKind.server_error: 3}
    assert len(round_.ok) == 3


@both
def test_the_same_record_when_every_byte_comes_alone(transport: TransportName) -> None:
    raw = b"".join([HEAD, *chunked(*token_events(4))])
    whole = one(lambda _: [raw], transport)
    crumbs: list[Step] = []
    for i in range(0, len(raw), 1):
        crumbs += [raw[i : i + 1], 0.0005] if i % 7 == 0 else [raw[i : i + 1]]
    torn = one(lambda _: crumbs, transport)
    assert torn.fault is None
    assert torn.timeline.tokens.tolist() == whole.timeline.tokens.tolist() == [1, 2, 3, 4]


@both
@pytest.mark.parametrize("framing", ["content-length", "until close", "interim first"])
def test_other_framings_of_http(framing: str, transport: TransportName) -> None:
    body = b"".join(token_events(4))
    kind = b"Content-Type: text/event-stream\r\n"
    if framing == "content-length":
        steps: list[Step] = [b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n" % (kind, len(body)), body]
    elif framing == "until close":
        steps = [b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + kind + b"\r\n", body, CLOSE]
    else:
        steps = [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", HEAD, *chunked(body)]
    record = one(lambda _: steps, transport)
    assert record.fault is None
    assert record.completion_tokens == 4


def test_garbage_instead_of_http_is_a_fault_not_a_crash() -> None:
    record = one(lambda _: [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", CLOSE], "stamping")
    assert record.fault is not None
    assert record.fault.kind is FaultKind.malformed
    assert "not HTTP/1.1" in record.fault.message


def test_connections_are_kept_alive_and_not_shared() -> None:
    with ScriptedServer(lambda _: answer(4)) as server:
        play(Endpoint(server.url, "m"), WORKLOAD, ClosedLoop(2, 10), sampling=Sampling(max_tokens=4))
        assert len(server.asked) == 10
        assert server.connections == 2


@both
def test_no_connection_limit_makes_requests_wait_unseen(transport: TransportName) -> None:
    with ScriptedServer(lambda _: [HEAD, 1.0, *chunked(*GOOD)]) as server:
        endpoint = Endpoint(server.url, "m", transport=transport)
        round_ = play(endpoint, WORKLOAD, ClosedLoop(150, 150), sampling=Sampling(max_tokens=4))
        assert server.open_most == 150
    assert len(round_.ok) == 150


def test_what_is_sent(tmp_path: Path) -> None:
    sampling = Sampling(
        max_tokens=4,
        min_tokens=2,
        temperature=0.6,
        top_p=0.9,
        n=2,
        seed=7,
        seed_per_request=True,
        ignore_eos=True,
        stop=("END",),
        chat_template_kwargs={"enable_thinking": False},
        extra_body={"top_k": 3},
    )
    with ScriptedServer(lambda _: answer(4)) as server:
        endpoint = Endpoint(server.url + "/v1", "m", api_key="sk-secret", headers={"X-Team": "perf"})
        play(endpoint, WORKLOAD, ClosedLoop(1, 2), sampling=sampling)
        first, second = server.asked
    assert first.path == "/v1/chat/completions"
    assert first.headers["authorization"] == "Bearer sk-secret"
    assert first.headers["x-team"] == "perf"
    assert first.headers["accept-encoding"] == "identity"
    assert (first.body["seed"], second.body["seed"]) == (7, 8)
    wanted = {
        "model": "m",
        "max_tokens": 4,
        "min_tokens": 2,
        "temperature": 0.6,
        "top_p": 0.9,
        "n": 2,
        "ignore_eos": True,
        "stop": ["END"],
        "chat_template_kwargs": {"enable_thinking": False},
        "top_k": 3,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }
    assert {k: first.body[k] for k in wanted} == wanted
    assert first.body["messages"] == [dict(m) for m in WORKLOAD.prompts[0].messages]


def test_the_completions_api_and_token_ids() -> None:
    done = [event(choices=[{"index": 0, "text": "", "finish_reason": "length"}]), b"data: [DONE]\n\n"]
    text = event(choices=[{"index": 0, "text": "hi"}], usage={"prompt_tokens": 2, "completion_tokens": 4})
    with ScriptedServer(lambda _: [HEAD, *chunked(text, *done)]) as server:
        endpoint = Endpoint(server.url, "m", api="completions")
        words = play(endpoint, WORKLOAD, ClosedLoop(1, 1), keep_text=True).requests[0]
        play(Endpoint(server.url, "m"), workloads.random_tokens(9), ClosedLoop(1, 1))
    assert [a.path for a in server.asked] == ["/v1/completions"] * 2
    assert server.asked[0].body["prompt"] == WORKLOAD.prompts[0].text
    assert len(server.asked[1].body["prompt"]) == 9
    assert words.text == "hi"


def test_the_key_is_in_no_representation() -> None:
    endpoint = Endpoint("http://127.0.0.1:9", "m", api_key="sk-secret", headers={"X-Key": "hidden"})
    assert "sk-secret" not in repr(endpoint)
    assert "hidden" not in repr(endpoint)


def test_the_first_model_is_used_where_none_is_named() -> None:
    def script(asked: Asked) -> list[Step]:
        if asked.path.endswith("/models"):
            return plain(
                "200 OK", json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}).encode()
            )
        return answer(4)

    with ScriptedServer(script) as server:
        round_ = play(Endpoint(server.url), WORKLOAD, ClosedLoop(1, 1), sampling=Sampling(max_tokens=4))
    assert len(round_.ok) == 1
    assert server.asked[-1].body["model"] == "tiny"


def test_one_switch_chooses_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert Endpoint("http://host:1").uses_stamping
    assert not Endpoint("https://host:1").uses_stamping
    assert not Endpoint("http://host:1", transport="public").uses_stamping
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert not Endpoint("http://host:1").uses_stamping
    monkeypatch.setenv("no_proxy", "host")
    assert Endpoint("http://host:1").uses_stamping
    with pytest.raises(LoadError, match="plain http"):
        Endpoint("https://host:1", transport="stamping")
    with pytest.raises(LoadError, match="credentials do not belong") as caught:
        Endpoint("http://user:hunter2@host:1")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(LoadError, match="not a server's address"):
        Endpoint("localhost:30000")
