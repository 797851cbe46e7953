"""More that answers at an address and is no single SGLang server: routers by other shapes, other servers by their names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from suite.sglang import releases
from suite.sglang.errors import Gateway, UnreadableServer
from suite.sglang.server import identify, parse, read
from tests.cases.lookalike import Odd, serving

WORKER = {"model_path": "/m", "version": "0.5.23", "speculative_algorithm": "EAGLE", "internal_states": [{}]}
PAIRS = "a router of prefill and decode servers answers there, for 1 prefill, 2 decode of them"

ROUTERS: dict[str, tuple[Any, str]] = {
    "by address": (
        {"prefill": {"http://p": WORKER}, "decode": {"http://a": WORKER, "http://b": WORKER}},
        PAIRS,
    ),
    "within entries": (
        {
            "prefill": [{"url": "http://p", "server_info": WORKER}],
            "decode": [
                {"url": "http://a", "server_info": WORKER},
                {"url": "http://b", "server_info": WORKER},
            ],
        },
        PAIRS,
    ),
    "with a version of its own": ({"version": "0.3.2", "prefill": [WORKER], "decode": [WORKER] * 2}, PAIRS),
    "by addresses alone": ({"prefill_urls": ["http://p"], "decode_urls": ["http://a", "http://b"]}, PAIRS),
    "one of each": ({"prefill": WORKER, "decode": WORKER}, "for 1 prefill, 1 decode of them"),
    "workers": (
        {"version": "0.3.1", "workers": [{"url": "http://a"}, {"url": "http://b"}]},
        "for 2 workers of",
    ),
}


@pytest.mark.parametrize("shape", ROUTERS)
def test_a_router_in_whatever_shape_it_nests_its_workers(shape: str) -> None:
    answer, words = ROUTERS[shape]
    with pytest.raises(Gateway) as caught:
        parse(json.dumps(answer), "http://x/server_info")
    assert words in str(caught.value)


def test_a_server_that_has_tables_of_its_own_is_no_router() -> None:
    info = parse(json.dumps({**WORKER, "workers": ["tokenizer"], "decode": {"model_path": "/m"}}), "http://x")
    assert info.version == "0.5.23"


@pytest.mark.parametrize(
    "answer", [{"version": "3.0.1", "model_id": "x"}, {"version": "0.11.0", "vllm_config": {}}]
)
def test_a_version_alone_makes_no_sglang(answer: dict[str, Any]) -> None:
    with pytest.raises(UnreadableServer, match="names no model_path") as caught:
        parse(json.dumps(answer), "http://x/server_info")
    assert answer["version"] in str(caught.value)


@pytest.mark.parametrize("owner", ["vllm", "llamacpp", "library"])
def test_another_server_is_told_by_the_name_it_gives_itself(owner: str) -> None:
    with serving(Odd(says=False, owned_by=owner)) as url, pytest.raises(Gateway, match=f"owned by {owner}"):
        read(url)


def test_workers_listed_by_address() -> None:
    with serving(Odd(paths={"/workers": {"http://w1:1": {"load": 1}, "http://w2:1": {"load": 2}}})) as url:
        assert "for 2 workers: http://w1:1, http://w2:1" in str(identify.gateway_at(url, None))


@pytest.mark.parametrize("version", ["0.5.18.post3+g1a2b3c4", "0.5.16+g1a2b3c4d5.d20261130", "0.5.9+dirty"])
def test_a_checkout_after_a_release_is_none_and_may_hold_more(version: str) -> None:
    assert releases.has(version, "0.5.19") is None
    assert "it does from" not in str(releases.silence(version, releases.SPEC_IN_ANSWERS))


@pytest.mark.parametrize("version", ["0.5.19.post1+g1a2b3c4", "0.5.23+cu130", "0.5.20.dev7+g1a2b3c4"])
def test_what_came_with_the_release_before_is_there(version: str) -> None:
    assert releases.has(version, "0.5.19")


def test_a_build_for_another_cuda_is_the_release() -> None:
    assert releases.has("0.5.16+cu128", "0.5.19") is False
