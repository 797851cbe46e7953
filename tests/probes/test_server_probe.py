"""What a server says of itself is read for what it is; recorded answers are real SGLang's (0.5.19, 0.5.21, 0.5.23)."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.sglang import config_diff, errors
from suite.sglang import server as server_probe
from suite.sglang.flags import Flags, parse_argv
from suite.sglang.server.info import ServerInfo
from suite.sglang.server.prometheus import parse as parse_metrics
from tests.probes.answering import Answer, answering

ANSWERS = Path(__file__).parent / "answers"
RECORDED = ("0.5.19-off", "0.5.19-nextn", "0.5.21-off", "0.5.23-off", "0.5.23-nextn")


def recorded(name: str) -> ServerInfo:
    return server_probe.parse(
        (ANSWERS / f"{name}.server_info.json").read_text(), "http://recorded/server_info"
    )


def made(**changes: Any) -> ServerInfo:
    """The recorded 0.5.23 with MTP on, with some settings changed or (``...``) taken away."""
    data = json.loads((ANSWERS / "0.5.23-nextn.server_info.json").read_text())
    for place in (data, *data["internal_states"]):
        for name, value in changes.items():
            place[name] = value
            if value is ...:
                del place[name]
    return server_probe.parse(json.dumps(data), "http://made/server_info")


@pytest.mark.parametrize("name", RECORDED)
def test_speculation_is_read_from_every_recorded_version(name: str) -> None:
    info = recorded(name)
    version, _, arm = name.partition("-")
    assert info.version == version
    speculation = info.speculation
    assert speculation.known
    expected = ("EAGLE", 3, 1, 4) if arm == "nextn" else (None, None, None, None)
    assert (
        speculation.algorithm,
        speculation.num_steps,
        speculation.topk,
        speculation.draft_tokens,
    ) == expected
    assert info.token_capacity == 8192


def test_absent_is_not_null() -> None:
    off, gone = made(speculative_algorithm=None), made(speculative_algorithm=...)
    assert not off.absent("speculative_algorithm")
    assert off.speculation.known
    assert not off.speculation.on
    assert gone.absent("speculative_algorithm")
    assert not gone.speculation.known
    assert "unknown" in str(gone.speculation)


def test_the_schedulers_own_value_wins_over_the_front_ends() -> None:
    data = json.loads((ANSWERS / "0.5.23-nextn.server_info.json").read_text())
    data["attention_backend"] = None
    data["internal_states"][0]["attention_backend"] = "flashinfer"
    assert server_probe.parse(json.dumps(data), "u").resolved["attention_backend"] == "flashinfer"


def test_secrets_are_masked_by_name_by_value_and_on_the_command_line() -> None:
    data = json.loads((ANSWERS / "0.5.23-nextn.server_info.json").read_text())
    data["api_key"] = "sk-by-name"
    data["internal_states"][0]["api_key"] = "sk-by-name"
    data["launch_command"] = "--port 1 --api-key sk-on-the-line --admin-api-key=sk-admin"
    data["chat_template"] = "contains sk-by-value"
    info = server_probe.parse(json.dumps(data), "u", secrets=("sk-by-value",))
    assert "sk-" not in repr(info)
    assert info.launch_command == "--port 1 --api-key *** --admin-api-key=***"


def test_subject_is_stable_from_start_to_start_and_small() -> None:
    first = made(random_seed=1, port=1, model_path="/a/m", nccl_port=7, log_level="info")
    second = made(random_seed=2, port=2, model_path="/b/m", nccl_port=8, log_level="debug")
    assert first.subject() == second.subject()
    assert first.identity() == second.identity()
    assert len(first.subject()) < 200
    assert not any("/" in str(value) for value in first.subject().values())
    json.dumps(first.subject())


def test_identity_names_the_model_not_its_place() -> None:
    assert made(model_path="/data/models/Qwen3.5-397B-A17B-NVFP4/").identity() == {
        "model": "Qwen3.5-397B-A17B-NVFP4",
        "tp_size": 1,
        "pp_size": 1,
        "dp_size": 1,
        "ep_size": 1,
        "nnodes": 1,
        "device": "cpu",
    }
    cached = made(model_path="/data/huggingface/hub/models--nvidia--Qwen3.5-397B-A17B-NVFP4/snapshots/abc123")
    assert cached.identity()["model"] == "Qwen3.5-397B-A17B-NVFP4"
    assert cached.identity()["revision"] == "abc123"
    assert made(tp_size=8).identity() != made(tp_size=4).identity()


# what took effect


def test_every_flag_of_the_recorded_command_line_took_effect_nextn_among_them() -> None:
    info = recorded("0.5.23-nextn")
    assert info.launch_command is not None
    asked = parse_argv(info.launch_command.split())
    assert server_probe.took_effect(asked, info) == []


def test_nextn_that_did_not_take_effect_is_said() -> None:
    asked = Flags({"speculative-algorithm": "NEXTN", "speculative-num-steps": "3"})
    found = server_probe.took_effect(asked, recorded("0.5.23-off"))
    assert [difference.flag for difference in found] == ["speculative-algorithm", "speculative-num-steps"]
    assert "does not speculate" in str(found[0])


@pytest.mark.parametrize("spelling", ["nextn", "NextN", "EAGLE", "eagle"])
def test_the_algorithm_is_compared_without_regard_to_case(spelling: str) -> None:
    assert (
        server_probe.took_effect(Flags({"speculative-algorithm": spelling}), recorded("0.5.23-nextn")) == []
    )


def test_another_algorithm_than_asked_is_a_difference() -> None:
    asked = Flags({"speculative-algorithm": "NGRAM"})
    assert len(server_probe.took_effect(asked, recorded("0.5.23-nextn"))) == 1


def test_draft_tokens_forced_to_steps_plus_one_are_no_difference_and_others_are() -> None:
    asked = Flags(
        {"speculative-num-steps": 4, "speculative-eagle-topk": 1, "speculative-num-draft-tokens": 6}
    )
    forced = made(speculative_num_steps=4, speculative_eagle_topk=1, speculative_num_draft_tokens=5)
    assert server_probe.took_effect(asked, forced) == []
    free = made(speculative_num_steps=4, speculative_eagle_topk=2, speculative_num_draft_tokens=5)
    assert {d.flag for d in server_probe.took_effect(asked, free)} == {
        "speculative-eagle-topk",
        "speculative-num-draft-tokens",
    }


@pytest.mark.parametrize(
    ("flag", "value", "setting", "resolved"),
    [
        ("attention-backend", "triton", "attention_backend", "flashinfer"),
        ("mem-fraction-static", "0.80", "mem_fraction_static", 0.7),
        ("disable-radix-cache", True, "disable_radix_cache", False),
        ("fp4-gemm-backend", "flashinfer_cutlass", "fp4_gemm_runner_backend", "auto"),
        ("kv-cache-dtype", "fp8_e4m3", "kv_cache_dtype", "auto"),
        ("chunked-prefill-size", 8192, "chunked_prefill_size", 4096),
        ("mamba-ssm-dtype", "bfloat16", "mamba_ssm_dtype", None),
        ("tp", 8, "tp_size", 4),
        ("page-size", 0, "page_size", 1),
    ],
)
def test_a_flag_that_was_not_followed_is_a_difference_with_both_values(
    flag: str, value: Any, setting: str, resolved: Any
) -> None:
    found = server_probe.took_effect(Flags({flag: value}), made(**{setting: resolved}))
    assert len(found) == 1
    assert ("null" if resolved is None else str(resolved)) in str(found[0])
    assert found[0].resolved == resolved


@pytest.mark.parametrize(
    ("flag", "value", "setting", "resolved"),
    [
        ("mem-fraction-static", "0.80", "mem_fraction_static", 0.8),
        ("tensor-parallel-size", "8", "tp_size", 8),
        ("disable-radix-cache", True, "disable_radix_cache", True),
        ("fp4-gemm-backend", "flashinfer_cutlass", "fp4_gemm_runner_backend", "flashinfer_cutlass"),
        ("cuda-graph-bs-decode", (1, 2, 4), "cuda_graph_bs_decode", [1, 2, 4]),
        ("json-model-override-args", '{"a": 1}', "json_model_override_args", '{"a":1}'),
        ("moe-runner-backend", "auto", "moe_runner_backend", "flashinfer_cutlass"),
        ("mamba-scheduler-strategy", "extra_buffer", "mamba_radix_cache_strategy", "extra_buffer"),
        ("stream-interval", 1, "stream_interval", 1),
    ],
)
def test_a_flag_that_was_followed_is_no_difference(
    flag: str, value: Any, setting: str, resolved: Any
) -> None:
    assert server_probe.took_effect(Flags({flag: value}), made(**{setting: resolved})) == []


def test_a_setting_that_is_not_reported_is_no_difference() -> None:
    asked = Flags({"pcie-oneshot": True})
    assert server_probe.took_effect(asked, made()) == []


def test_fewer_running_requests_than_asked_for_is_a_difference() -> None:
    asked = Flags({"max-running-requests": 8})
    assert server_probe.took_effect(asked, made()) == []
    found = server_probe.took_effect(asked, made(effective_max_running_requests_per_dp=3))
    assert "3 requests" in str(found[0])


def test_less_room_for_tokens_than_asked_for_is_a_difference() -> None:
    assert server_probe.took_effect(Flags({"max-total-tokens": "8192"}), made()) == []
    found = server_probe.took_effect(Flags({"max-total-tokens": "20000"}), made(max_total_tokens=20000))
    assert "8192 tokens" in str(found[0])


def test_an_abbreviated_flag_is_compared_as_the_one_it_stands_for() -> None:
    asked = Flags({"speculative-algo": "NEXTN", "attention-b": "triton"})
    assert {d.flag for d in server_probe.took_effect(asked, recorded("0.5.23-off"))} == {
        "speculative-algo",
        "attention-b",
    }
    assert [d.flag for d in server_probe.took_effect(asked, made(attention_backend="triton"))] == []


def test_text_that_became_a_record_is_no_difference() -> None:
    asked = Flags({"lora-paths": "a=/x"})
    info = made(lora_paths=[{"lora_name": "a", "lora_path": "/x"}])
    assert server_probe.took_effect(asked, info) == []


def test_a_secret_flag_is_never_compared_and_never_shown() -> None:
    asked = Flags({"api-key": "sk-hidden"})
    assert server_probe.took_effect(asked, made()) == []


scalars = (
    st.none() | st.booleans() | st.integers(-5, 5000) | st.sampled_from(["auto", "triton", "flashinfer"])
)
subjects = st.dictionaries(
    st.sampled_from(["sglang", "torch", "attention_backend", "page_size", "x", "y", "z"]), scalars
)


@given(subjects, subjects)
def test_drift_is_empty_exactly_when_nothing_changed_and_ignores_order(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    lines = config_diff.drift(old, new)
    assert (lines == []) == (
        {k: str(v) for k, v in old.items()} == {k: str(v) for k, v in new.items()} or old == new
    )
    assert lines == config_diff.drift(dict(reversed(old.items())), dict(reversed(new.items())))


def test_drift_names_software_first_then_speculation_then_backends() -> None:
    old = {
        "page_size": 1,
        "attention_backend": "triton",
        "speculative_num_steps": 3,
        "torch": "2.13",
        "sglang": "0.5.22",
    }
    new = {
        "sglang": "0.5.23",
        "torch": "2.14",
        "speculative_num_steps": 4,
        "attention_backend": "flashinfer",
        "page_size": 64,
    }
    assert config_diff.drift(old, new) == [
        "sglang 0.5.22 -> 0.5.23",
        "torch 2.13 -> 2.14",
        "speculative_num_steps 3 -> 4",
        "attention_backend triton -> flashinfer",
        "page_size 1 -> 64",
    ]


def test_drift_sees_a_renamed_setting_as_the_same_and_summarises_what_only_one_has() -> None:
    old = {"mamba_scheduler_strategy": "no_buffer", "gone": 1}
    new = {"mamba_radix_cache_strategy": "extra_buffer", **{f"new_{n}": n for n in range(20)}}
    assert config_diff.drift(old, new)[0] == "mamba_radix_cache_strategy no_buffer -> extra_buffer"
    assert len(config_diff.drift(old, new)) == 3


def test_drift_between_recorded_releases_finds_the_flipped_default() -> None:
    lines = config_diff.drift(recorded("0.5.21-off").subject(), recorded("0.5.23-off").subject())
    assert lines[0] == "sglang 0.5.21 -> 0.5.23"
    assert "chunked_prefill_size 2048 -> 4096" in lines


# counters


@pytest.mark.parametrize(
    ("name", "verify_calls", "generated", "prompted"),
    [
        ("0.5.19-off", None, 556, 335),
        ("0.5.19-nextn", 184, 556, 335),
        ("0.5.23-off", None, 604, 346),
        ("0.5.23-nextn", 200, 604, 346),
    ],
)
def test_counters_of_recorded_servers(
    name: str, verify_calls: float | None, generated: int, prompted: int
) -> None:
    found = parse_metrics((ANSWERS / f"{name}.metrics.txt").read_text(), name.partition("-")[0])
    assert found.verify_calls == verify_calls
    assert (found.generation_tokens, found.prompt_tokens) == (generated, prompted)
    assert (found.running_requests, found.queued_requests, found.idle) == (0, 0, True)
    assert found.graph_share() == 0
    assert found.missing == ()


def test_the_share_of_graphs_is_that_of_the_passes_between_two_looks() -> None:
    text = 'sglang:cuda_graph_passes_total{{mode="decode_cuda_graph"}} {}\nsglang:cuda_graph_passes_total{{mode="decode_none"}} {}\n'
    before, after = parse_metrics(text.format(100, 100)), parse_metrics(text.format(400, 200))
    assert before.graph_share() == 0.5
    assert after.graph_share(before) == 0.75
    assert after.graph_share(after) is None
    assert parse_metrics("").graph_share() is None


def test_a_counter_that_is_gone_is_missing_and_never_zero() -> None:
    text = (
        (ANSWERS / "0.5.23-off.metrics.txt").read_text().replace("sglang:num_running_reqs", "sglang:running")
    )
    found = parse_metrics(text, "0.5.23")
    assert found.running_requests is None
    assert found.idle is None
    assert found.missing == ("running_requests",)


def test_ranks_that_report_the_same_thing_count_once_and_engines_add_up() -> None:
    text = (
        'sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 3.0\n'
        'sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 3.0\n'
        'sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 2e0\n'
        'sglang:num_queue_reqs{note="a \\"}\\" b"} 1\n'
        "sglang:token_usage NaN\n"
    )
    found = parse_metrics(text)
    assert (found.running_requests, found.queued_requests, found.token_usage) == (5, 1, None)


# what else may answer


def failing(answer: Answer, path: str = "/server_info") -> pytest.ExceptionInfo[errors.ServerProbeError]:
    with answering({path: answer}) as asked, pytest.raises(errors.ServerProbeError) as caught:
        server_probe.read(asked.url, api_key="sk-secret-key")
    assert "sk-secret-key" not in str(caught.value)
    return caught


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (Answer(200, "<!doctype html><title>Welcome</title>"), errors.UnreadableServer, "HTML"),
        (Answer(200, '{"object": "list"}'), errors.UnreadableServer, "version"),
        (Answer(200, "[]"), errors.UnreadableServer, "version"),
        (Answer(200, ""), errors.UnreadableServer, "not JSON"),
        (Answer(401, '{"error":"Unauthorized"}'), errors.ServerKeyRefused, "api_key_env"),
        (Answer(403), errors.ServerKeyRefused, "api_key_env"),
        (Answer(503), errors.ServerNotReady, "starting"),
        (Answer(500, "boom"), errors.ServerProbeError, "boom"),
        (
            Answer(302, headers={"Location": "http://elsewhere.example/"}),
            errors.UnreadableServer,
            "elsewhere",
        ),
        (Answer(raw=b"SSH-2.0-OpenSSH_9.6\r\n"), errors.UnreadableServer, "HTTP"),
    ],
)
def test_each_wrong_answer_has_its_own_name(
    answer: Answer, kind: type[errors.ServerProbeError], says: str
) -> None:
    caught = failing(answer)
    assert caught.type is kind
    assert says in str(caught.value)


def test_nothing_there_is_refused_and_https_to_http_is_tls() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(errors.ServerUnreachable, match="refused"):
        server_probe.read(f"http://127.0.0.1:{port}")
    with answering({}) as asked, pytest.raises(errors.ServerTLSError, match="http:// rather than https"):
        server_probe.read(asked.url.replace("http:", "https:"), timeout_s=5)


def test_a_server_that_does_not_answer_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.ServerUnreachable, match="no answer within"):
            server_probe.read(url, timeout_s=0.3)


def test_the_older_name_is_asked_after_the_newer_and_v1_is_dropped() -> None:
    body = (ANSWERS / "0.5.19-off.server_info.json").read_text()
    with answering({"/get_server_info": Answer(200, body)}) as asked:
        assert server_probe.read(asked.url + "/v1/", api_key="k").version == "0.5.19"
    assert asked.requests == [("/server_info", "Bearer k"), ("/get_server_info", "Bearer k")]


def test_no_metrics_is_a_name_of_its_own() -> None:
    with answering({}) as asked, pytest.raises(errors.MetricsDisabled, match="--enable-metrics"):
        server_probe.counters(asked.url)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    for parse in (lambda t: server_probe.parse(t, "u"), parse_metrics):
        with contextlib.suppress(errors.UnreadableServer):
            parse(text)
