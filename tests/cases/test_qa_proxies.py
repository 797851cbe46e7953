"""More spellings of proxies and of those spared from them; what a proxy does is not said of the server behind it."""

from __future__ import annotations

import os
import socket

import pytest

from suite.sglang import errors, http
from suite.sglang.proxies import proxy_for
from tests.cases.lookalike import Odd, serving

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("spared", "url", "direct"),
    [
        ("10.0.0.0/8", "http://10.0.0.5:30000", True),
        ("10.0.0.0/8", "http://11.0.0.5:30000", False),
        ("fd00::/8, 10.0.0.0/8", "http://[fd00::1]:30000", True),
        ("[fd00::1]:30000", "http://[fd00::1]:30000", True),
        ("10.0.0.5:30000", "http://10.0.0.5:30000", True),
        ("10.0.0.5:30001", "http://10.0.0.5:30000", False),
        ("*.corp", "http://gpu1.corp:30000", True),
        (".corp", "http://GPU1.Corp:30000", True),
        ("corp", "http://mycorp:30000", False),
        ("", "http://gpu1:30000", False),
        ("gpu2,,  gpu1", "http://gpu1:30000", True),
        ("*", "https://gpu1:30000", True),
    ],
)
@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_who_is_spared(
    monkeypatch: pytest.MonkeyPatch, name: str, spared: str, url: str, direct: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv(name, spared)
    assert proxy_for(url) == (None if direct else PROXY)


@pytest.mark.parametrize(
    "host", ["LOCALHOST", "localhost.", "[::ffff:127.0.0.1]", "127.8.8.8", "ip6-localhost", "0.0.0.0"]
)
def test_this_machine_by_other_names(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("ALL_PROXY", PROXY)
    assert proxy_for(f"http://{host}:30000") is None


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_down_is_named_and_not_the_server(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{held.getsockname()[1]}"
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:secret@{proxy}")
        with pytest.raises(errors.ServerUnreachable) as caught:
            http.ask(f"{scheme}://gpu1.example:30000/server_info", timeout_s=10.0)
    assert f"the proxy http://{proxy} of this environment cannot be reached" in str(caught.value)
    assert "no_proxy" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_a_proxy_answers_is_not_taken_for_the_servers_word(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Odd(prefix="/nowhere")) as url:
        monkeypatch.setenv("http_proxy", url.removesuffix("/nowhere"))
        answer = http.Response(503, {}, b"no route to gpu1")
        said = str(http.refused("http://gpu1.example:30000/server_info", answer))
    assert "from the server or from the proxy" in said
    assert "no route to gpu1" in said
