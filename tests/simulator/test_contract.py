"""The simulator against what SGLang 0.5.23 really answered: same status, keys, order and types, MTP off and on."""

import json
import re

import pytest

from tests.simulator.shapes import captured, differences, shape

WHOLE = (
    "chat",
    "chat_badparam",
    "chat_spec",
    "completion_n2_spec",
    "completion_spec",
    "generate",
    "generate_logprob",
    "get_model_info",
    "model_info",
    "server_info_after",
    "v1_loads",
    "v1_models",
    "get_load",
    "version",
)
STREAMED = (
    "chat_stream_nospec",
    "chat_stream_spec_continuous",
    "chat_stream_spec_usage",
    "completion_stream_spec",
    "completion_stream_spec_continuous",
    "generate_stream",
)
PLAIN = ("flush_cache", "health", "health_generate")
MEASURED_LATER = {"avg_spec_accept_length", "speculative"}  # there once 40 decode steps have been counted


def _ask(server, request, body):
    method, path = request.split()
    return server.ask(method, path, body)


@pytest.mark.parametrize("name", WHOLE)
def test_answers_in_one_piece(pair, name) -> None:
    arm, server = pair
    request, status, body, answer = captured(arm, name)
    our_status, ours = _ask(server, request, body)
    assert our_status == status
    theirs = json.loads(answer)
    ours = json.loads(ours)
    for state in (
        state
        for answer in (ours, theirs)
        for key in ("internal_states", "loads")
        for state in answer.get(key, ())
    ):
        for key in MEASURED_LATER:
            state.pop(key, None)
    assert differences(shape(ours), shape(theirs)) == []


@pytest.mark.parametrize("name", ["chat_badparam", "get_load", "version"])
def test_errors_in_the_same_words(pair, name) -> None:
    arm, server = pair
    request, _, body, answer = captured(arm, name)
    assert json.loads(_ask(server, request, body)[1]) == json.loads(answer)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_answers(pair, name) -> None:
    arm, server = pair
    request, status, body, answer = captured(arm, name)
    assert _ask(server, request, body) == (status, answer.encode())


@pytest.mark.parametrize("name", STREAMED)
def test_streams(pair, name) -> None:
    """The kinds of event in order (a run of chunks counts once), each with the same keys and types."""
    arm, server = pair
    request, _, body, answer = captured(arm, name)
    body.pop("stream")
    ours = _kinds(server.events(request.split()[1], **body))
    theirs = _kinds([json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")])
    assert len(ours) == len(theirs)
    for mine, real in zip(ours, theirs, strict=True):
        assert differences(mine, real) == []


def _kinds(events):
    kinds = []
    for event in events:
        kind = shape(event)
        if (
            not kinds
            or differences(kind, kinds[-1])
            or str(kind).count("NoneType") != str(kinds[-1]).count("NoneType")
        ):
            kinds.append(kind)
    return kinds


def test_spec_details_come_after_the_finish_and_before_the_usage(on, off) -> None:
    _, _, body, _ = captured("nextn", "chat_stream_spec_usage")
    body.pop("stream")
    events = on.events("/v1/chat/completions", **body)
    finish, details, usage = events[-3:]
    assert finish["choices"][0]["finish_reason"] == "length"
    assert details["choices"] == usage["choices"] == []
    assert "sglext" in details
    assert usage["usage"]["completion_tokens"] == 24
    assert not any("sglext" in event for event in off.events("/v1/chat/completions", **body))


def test_resolved_settings_are_those_of_the_capture(pair) -> None:
    arm, server = pair
    theirs = json.loads(captured(arm, "server_info_after")[3])
    ours = server.get("/server_info")
    of_this_launch = {
        "model_path",
        "tokenizer_path",
        "port",
        "random_seed",
        "launch_command",
        "mem_fraction_static",
    }
    of_the_cpu = {"chunked_prefill_size", "sampling_backend", "disable_overlap_schedule"}
    plain = (
        {key for key, value in theirs.items() if not isinstance(value, dict | list)}
        - of_this_launch
        - of_the_cpu
    )
    differing = {key: (ours[key], theirs[key]) for key in plain if ours[key] != theirs[key]}
    assert differing == {}


def test_metrics_have_the_same_names_labels_and_types(pair) -> None:
    arm, server = pair
    server.chat("Warm the counters.", max_tokens=4)
    ours = server.ask("GET", "/metrics")[1].decode()
    theirs = captured(arm, "metrics")[3]
    series, types = re.compile(r"^(\S+?)(?:\{(.*)\})? \S+$", re.M), re.compile(r"^# TYPE .*$", re.M)

    def names(page):
        found = set()
        for name, labels in series.findall(page):
            if not name.startswith("sglang:http_") and not name.endswith("_bucket"):
                found.add((name, re.sub(r'pid="\d+"', 'pid="N"', labels)))
        return found

    assert names(ours) == names(theirs)
    assert set(types.findall(ours)) == set(types.findall(theirs))
    for name in ("sglang:e2e_request_latency_seconds_bucket", "sglang:queue_time_seconds_bucket"):
        assert f"{name}{{" in ours


def test_shapes_tell_answers_apart() -> None:
    real = shape({"a": 1, "b": [{"c": 0.5}], "d": None})
    assert differences(shape({"a": 2, "b": [], "d": "x"}), real) == []
    assert differences(shape({"a": 2.0, "b": [{"c": 0.5}], "d": None}), real) == [
        ".a is float instead of int"
    ]
    assert differences(shape({"a": 2, "b": [{"e": 0.5}], "d": 1}), real) == [
        ".b[].c is missing",
        ".b[].e is too much",
    ]
    assert "another order" in differences(shape({"b": [], "a": 1, "d": 1}), real)[0]
