"""The simulator as a client meets it: streams, usage, stops, cache, aborts, keys, counters."""

import gzip
import http.client
import itertools
import json
import socket
import threading
import time

import pytest

from simulator import profiles
from simulator.hardware import Hardware, Speculation
from tests.simulator.process import Server, chat_body, serving

STORY = "Write a long story about the sea."


@pytest.fixture(scope="module")
def thinking(tmp_path_factory):
    """MTP on, a reasoning parser, prefix cache with report, an API key."""
    flags = "--speculative-algorithm NEXTN --reasoning-parser qwen3 --enable-cache-report --enable-metrics --api-key sesame"
    with serving(tmp_path_factory.mktemp("thinking") / "log", *flags.split()) as server:
        yield server


def _authorised(server, method, path, body=None):
    status, answer = server.ask(method, path, body, {"Authorization": "Bearer sesame"})
    assert status == 200, answer
    return answer


def _chat(server, question, **fields):
    return json.loads(_authorised(server, "POST", "/v1/chat/completions", chat_body(question, **fields)))


def test_greedy_text_is_the_same_with_mtp_and_without(on, off) -> None:
    for n in range(3):
        question = f"Tell me story number {n}."
        texts = [
            server.chat(question, max_tokens=150, ignore_eos=True)["choices"][0]["message"]["content"]
            for server in (on, off, on)
        ]
        assert len(set(texts)) == 1
        assert len(texts[0]) > 300


def test_sampled_text_differs_and_a_seed_repeats_it(on) -> None:
    def text(**fields):
        return on.chat(STORY, max_tokens=60, temperature=0.8, **fields)["choices"][0]["message"]["content"]

    assert text() != text()
    assert text(seed=5) == text(seed=5) != text(seed=6)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_streamed_and_whole_answers_agree(pair, path) -> None:
    _, server = pair
    body = {"max_tokens": 80, "ignore_eos": True, "temperature": 0, "return_spec_tokens_details": True}
    body |= chat_body(STORY) if "chat" in path else {"prompt": STORY}
    whole = server.post(path, **body)
    events = server.events(
        path, **body, stream_options={"include_usage": True, "continuous_usage_stats": True}
    )
    pieces = [event["choices"][0] for event in events if event["choices"]]
    streamed = "".join(
        (piece.get("delta") or {}).get("content") or piece.get("text") or "" for piece in pieces
    )
    choice = whole["choices"][0]
    assert streamed == (choice["message"]["content"] if "chat" in path else choice["text"])
    assert events[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 80
    counts = [
        event["usage"]["completion_tokens"] for event in events if event["choices"] and event.get("usage")
    ]
    assert counts == sorted(counts)
    assert counts[-1] == 80
    details = [event["sglext"] for event in events if "sglext" in event]
    assert details == ([whole["sglext"]] if "sglext" in whole else [])


def test_several_tokens_a_chunk_only_with_mtp(on, off) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    for server, most in ((on, 4), (off, 1)):
        events = server.events(
            "/v1/completions",
            prompt=STORY,
            max_tokens=60,
            temperature=0,
            ignore_eos=True,
            stream_options=options,
        )
        counts = [0, *(event["usage"]["completion_tokens"] for event in events if event["choices"])]
        steps = [after - before for before, after in itertools.pairwise(counts)]
        assert steps[0] == 1
        assert max(steps) == most


def test_stops(on) -> None:
    ended = on.chat("What is 17+25?")["choices"][0]
    assert (ended["finish_reason"], ended["message"]["content"]) == ("stop", "42")
    assert isinstance(ended["matched_stop"], int)
    counted = on.chat("Count from 1 to 30.", stop=[", 9"])["choices"][0]
    assert counted["message"]["content"] == "1, 2, 3, 4, 5, 6, 7, 8"
    assert counted["matched_stop"] == ", 9"
    longer = on.chat("What is 17+25?", min_tokens=20, max_tokens=40)
    assert longer["usage"]["completion_tokens"] == 40, "past its natural end it goes on"
    streamed = on.events("/v1/chat/completions", **chat_body("Count from 1 to 30.", stop=", 9"))
    assert "".join(
        e["choices"][0]["delta"].get("content") or "" for e in streamed if e["choices"]
    ).startswith("1, 2, 3")


def test_several_choices_and_prompts(on) -> None:
    answer = on.post(
        "/v1/completions", prompt=["One story.", "Another story."], n=2, max_tokens=9, temperature=0
    )
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    texts = [choice["text"] for choice in answer["choices"]]
    assert texts[0] == texts[1] != texts[2] == texts[3]
    assert answer["usage"]["completion_tokens"] == 36
    listed = on.post(
        "/generate", text=["One", "Two"], sampling_params={"max_new_tokens": 3, "temperature": 0}
    )
    assert [len(one["output_ids"]) for one in listed] == [3, 3]
    ids = on.post("/generate", input_ids=[5, 6, 7], sampling_params={"max_new_tokens": 2})
    assert ids["meta_info"]["prompt_tokens"] == 3


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/chat/completions", {"messages": []}, "Messages cannot be empty."),
        ("/v1/chat/completions", {}, "messages must be a list"),
        (
            "/v1/chat/completions",
            chat_body("x", temperature=-1),
            "temperature must be a non-negative finite number, got -1.",
        ),
        (
            "/v1/chat/completions",
            chat_body("x", max_tokens=9000),
            "exceeds the model's maximum context length of 2048 tokens",
        ),
        (
            "/v1/completions",
            {"prompt": "word " * 4000},
            "is longer than the model's context length (2048 tokens)",
        ),
        ("/v1/completions", {"prompt": 5}, "prompt must be"),
        ("/generate", {"sampling_params": {}}, "Either text, input_ids"),
    ],
)
def test_bad_requests_are_400_with_the_reason(on, path, body, message) -> None:
    status, answer = on.ask("POST", path, body)
    assert status == 400
    error = json.loads(answer)
    if path == "/generate":
        error = error["error"]
    else:
        assert (error["object"], error["code"]) == ("error", 400)
    assert message in error["message"]


def test_not_json_is_400(on) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", on.port, timeout=10)
    connection.request("POST", "/v1/completions", "{not json")
    assert connection.getresponse().status == 400
    connection.close()


def test_a_kept_connection_is_not_held_up_by_nagle(off) -> None:
    """Header and body leave in two writes; without TCP_NODELAY the second waits 40 ms for the client's ACK."""
    connection = http.client.HTTPConnection("127.0.0.1", off.port, timeout=10)
    took_s = []
    for n in range(8):
        start_s = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": f"{n}", "max_tokens": 1}))
        connection.getresponse().read()
        took_s.append(time.monotonic() - start_s)
    connection.close()
    assert min(took_s[1:]) < 0.035


def test_thoughts_are_reasoning_content(thinking) -> None:
    body = chat_body("What is 17+25?", chat_template_kwargs={})
    answer = json.loads(_authorised(thinking, "POST", "/v1/chat/completions", body))
    message, usage = answer["choices"][0]["message"], answer["usage"]
    assert message["content"].strip() == "42"
    assert message["reasoning_content"]
    assert "</think>" not in str(message)
    assert 0 < usage["reasoning_tokens"] < usage["completion_tokens"]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": usage["reasoning_tokens"]}
    text = _authorised(thinking, "POST", "/v1/chat/completions", body | {"stream": True}).decode()
    deltas = [
        json.loads(line[6:])["choices"][0]["delta"]
        for line in text.splitlines()
        if line.startswith("data: {")
    ]
    thoughts = "".join(delta.get("reasoning_content") or "" for delta in deltas)
    said = "".join(delta.get("content") or "" for delta in deltas)
    assert (thoughts, said) == (message["reasoning_content"], message["content"])


def test_long_thoughts_leave_the_content_empty(thinking) -> None:
    message = _chat(thinking, STORY, chat_template_kwargs={}, max_tokens=50)["choices"][0]["message"]
    assert message["content"] is None
    assert message["reasoning_content"]


def test_cached_tokens_are_reported_and_flushed(thinking) -> None:
    question = "Remember this long beginning. " * 40
    first, second = (
        _chat(thinking, question, max_tokens=2)["usage"]["prompt_tokens_details"] for _ in range(2)
    )
    assert first["cached_tokens"] < 32
    assert second["cached_tokens"] > 200
    _authorised(thinking, "POST", "/flush_cache")
    assert _chat(thinking, question, max_tokens=2)["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


def test_without_the_key_only_health_and_metrics_answer(thinking) -> None:
    for path, status in (
        ("/health", 200),
        ("/health_generate", 200),
        ("/metrics", 200),
        ("/server_info", 401),
        ("/v1/models", 401),
    ):
        assert thinking.ask("GET", path)[0] == status
    assert thinking.ask("GET", "/server_info", headers={"Authorization": "Bearer other"})[0] == 401
    assert "sesame" not in _authorised(thinking, "GET", "/server_info").decode().split('"launch_command"')[0]


def test_flushing_while_busy_is_refused_and_aborting_ends_it(off) -> None:
    answers = []
    body = chat_body(STORY, max_tokens=1500, ignore_eos=True, rid="mine")
    asking = threading.Thread(target=lambda: answers.append(off.ask("POST", "/v1/chat/completions", body)))
    asking.start()
    _until(lambda: off.get("/v1/loads")["loads"][0]["num_running_reqs"] == 1)
    assert off.ask("POST", "/flush_cache")[0] == 400
    off.ask("POST", "/abort_request", {"rid": "mine"})
    asking.join(20)
    ((status, answer),) = answers
    choice = json.loads(answer)["choices"][0]
    assert (status, choice["finish_reason"]) == (200, "abort")
    assert off.ask("POST", "/flush_cache")[0] == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_frees_its_place(off, stream) -> None:
    body = json.dumps(chat_body(STORY, max_tokens=1900, ignore_eos=True, stream=stream))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", off.port), timeout=10) as client:
        client.sendall((head + body).encode())
        _until(lambda: off.get("/v1/loads")["loads"][0]["num_running_reqs"] == 1)
    _until(lambda: off.get("/v1/loads")["loads"][0]["num_running_reqs"] == 0, seconds=3.0)


def _until(condition, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


def test_counters_count(tmp_path) -> None:
    with serving(tmp_path / "log", "--enable-metrics", "--speculative-algorithm", "NEXTN") as server:
        assert "spec_verify_calls_total" not in _metrics(server)
        answer = server.chat(STORY, max_tokens=300, ignore_eos=True, return_spec_tokens_details=True)
        details = answer["sglext"]["spec_tokens_details"]
        metrics = _metrics(server)
        assert metrics["spec_verify_calls_total"] == details["spec_verify_ct"]
        assert metrics["generation_tokens_total"] == 300
        assert metrics["prompt_tokens_total"] == answer["usage"]["prompt_tokens"]
        assert metrics["spec_accept_length"] > 1.5
        average = server.get("/server_info")["internal_states"][0]["avg_spec_accept_length"]
        exact = 1 + details["spec_num_correct_drafts"] / details["spec_verify_ct"]
        assert average == pytest.approx(exact, rel=0.1)
        assert server.get("/v1/loads")["loads"][0]["speculative"]["accept_length"] == average
        server.ask("POST", "/flush_cache")
        assert "avg_spec_accept_length" not in server.get("/server_info")["internal_states"][0]


def _metrics(server: Server) -> dict[str, float]:
    """Metrics by bare name, summed over labels."""
    found: dict[str, float] = {}
    for line in server.ask("GET", "/metrics")[1].decode().splitlines():
        if line.startswith("sglang:"):
            name = line.split("{")[0].split(" ")[0].removeprefix("sglang:")
            found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
    return found


def test_older_releases_know_no_spec_details_field(tmp_path) -> None:
    with serving(
        tmp_path / "log", "--speculative-algorithm", "NEXTN", "--sglang-version", "0.5.16"
    ) as server:
        assert "sglext" not in server.chat(STORY, max_tokens=8, return_spec_tokens_details=True)
        native = server.post("/generate", text=STORY, sampling_params={"max_new_tokens": 8})
        assert native["meta_info"]["spec_verify_ct"] > 0
        info = server.get("/server_info")
        assert info["version"] == "0.5.16"
        assert "launch_command" not in info


def test_without_the_flag_there_are_no_metrics(tmp_path) -> None:
    with serving(tmp_path / "log") as server:
        assert server.ask("GET", "/metrics")[0] == 404


def test_forced_acceptance_by_environment(tmp_path) -> None:
    env = {"SGLANG_SIMULATE_ACC_LEN": "2.5"}
    with serving(tmp_path / "log", "--speculative-algorithm", "NEXTN", env=env) as server:
        answer = server.chat(STORY, max_tokens=400, ignore_eos=True, return_spec_tokens_details=True)
        details = answer["sglext"]["spec_tokens_details"]
        assert 1 + details["spec_num_correct_drafts"] / details["spec_verify_ct"] == pytest.approx(
            2.5, rel=0.03
        )


def test_the_time_of_a_round_is_the_models(tmp_path) -> None:
    """However late the process wakes up: the next step starts when the last one was to end."""
    with serving(
        tmp_path / "log", "--noise", "0", "--launch-effect", "0", "--speculative-algorithm", "NEXTN"
    ) as server:
        server.chat(STORY, max_tokens=700, ignore_eos=True)
        sampling = {"max_new_tokens": 256, "temperature": 0, "ignore_eos": True}
        took = [
            server.post("/generate", text=f"{STORY} {n}", sampling_params=sampling)["meta_info"]
            for n in range(3)
        ]
    step_s = Hardware(profiles.load("quick"), Speculation(3)).decode_s(1, 150)
    for meta in took:
        decoding_s = meta["request_finished_ts"] - meta["prefill_finished_time"]
        assert decoding_s / meta["spec_verify_ct"] == pytest.approx(step_s, rel=0.001)


def test_a_profile_holds_the_steps_that_were_asked_for(on, tmp_path) -> None:
    folder = str(tmp_path / "traces")
    assert on.ask("POST", "/start_profile", {"output_dir": folder, "num_steps": 4})[0] == 200
    assert on.ask("POST", "/start_profile", {})[0] == 500, "one at a time"
    on.chat(STORY, max_tokens=40, ignore_eos=True)
    (written,) = (tmp_path / "traces").iterdir()
    events = json.loads(gzip.decompress(written.read_bytes()))["traceEvents"]
    names = [e["name"] for e in events if e["cat"] == "gpu_user_annotation"]
    assert names[0].startswith("step[EXTEND bs=1")
    assert names[1:] == ["draft", "step[VERIFY bs=1]", "draft_extend"] * 3
    assert on.ask("POST", "/stop_profile", {})[0] == 500, "it has ended by itself"
