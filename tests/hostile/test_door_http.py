"""Whatever answers at a server's address ends in a named fault, in bounded time and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.foreign import ERROR_BYTES, PAGE_BYTES
from suite.sglang import errors, http, proxies
from suite.sglang import server as server_probe
from suite.sglang.server import identify
from tests.hostile.door_servers import Bytes, forever, page, sending

DOOR = "answers of a server outside the measurement"
KEY = "sk-planted-9f8e7d6c"

HOSTILE: dict[str, tuple[Callable[[], Bytes], type[Exception], str]] = {
    "a page without end": (lambda: forever(b"x" * 65536), errors.UnreadableServer, "larger than"),
    "a page that trickles without end": (
        lambda: forever(b" ", 0.05),
        errors.ServerUnreachable,
        "no answer within",
    ),
    "headers without end": (
        lambda: forever(b"X-A: b\r\n" * 500, head=b"HTTP/1.1 200 OK\r\n"),
        errors.UnreadableServer,
        "does not speak HTTP",
    ),
    "headers that trickle without end": (
        lambda: forever(b"X-A: b\r\n", 0.05, head=b"HTTP/1.1 200 OK\r\n"),
        errors.ServerUnreachable,
        "no answer within",
    ),
    "one header of 20 MB": (
        lambda: [b"HTTP/1.1 200 OK\r\nX-A: ", b"b" * 20_000_000, b"\r\n\r\n{}"],
        errors.UnreadableServer,
        "does not speak HTTP",
    ),
    "JSON of 10,000 levels": (
        lambda: page(b"[" * 10_000 + b"]" * 10_000),
        errors.UnreadableServer,
        "nests deeper",
    ),
    "JSON of 500 levels": (
        lambda: page(b'{"version": "1", "a": ' * 500 + b"1" + b"}" * 500),
        errors.UnreadableServer,
        "nests deeper",
    ),
    "a number of 5,000 digits": (
        lambda: page(b'{"version": "1", "a": ' + b"9" * 5000 + b"}"),
        errors.UnreadableServer,
        "not JSON",
    ),
    "HTML for JSON": (
        lambda: page(b"<html>Welcome</html>", kind="text/html"),
        errors.UnreadableServer,
        "HTML",
    ),
    "bytes that are no text": (lambda: page(b"\xff\xfe\x00\xd8"), errors.UnreadableServer, "not JSON"),
    "JSON text that is no table": (lambda: page(b'"version"'), errors.UnreadableServer, "no 'version'"),
    "a Content-Length that is too long": (
        lambda: page(b'{"version": "0.5.23"}', length=5000),
        errors.ServerUnreachable,
        "broke off",
    ),
    "a Content-Length that is no number": (
        lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}"],
        errors.UnreadableServer,
        "does not speak HTTP",
    ),
    "a chunk size that is none": (
        lambda: [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"],
        errors.ServerProbeError,
        "",
    ),
    "another protocol": (
        lambda: [b"SSH-2.0-OpenSSH_9.6\r\n"],
        errors.UnreadableServer,
        "does not speak HTTP",
    ),
    "zeros": (lambda: [b"\x00" * 5000], errors.UnreadableServer, "does not speak HTTP"),
    "nothing": (lambda: [], errors.ServerUnreachable, "closed the connection"),
    "silence": (lambda: [30.0], errors.ServerUnreachable, "no answer within"),
    "an error whose body never ends": (
        lambda: forever(b"oh no ", head=b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n"),
        errors.ServerProbeError,
        "HTTP 500",
    ),
    "an error of 5 MB of escape sequences": (
        lambda: page(b"\x1b]0;owned\x07\x1b[2J" * 350_000, "500 Oops", "text/plain"),
        errors.ServerProbeError,
        r"\x1b]0;owned",
    ),
    "a redirect in a circle": (
        lambda: page(b"", "302 Found\r\nLocation: /server_info"),
        errors.UnreadableServer,
        "a redirect to",
    ),
}


@pytest.mark.parametrize("tried", HOSTILE)
def test_ends_in_a_named_fault(tried: str, ends_as: Callable[[str, str, str], None]) -> None:
    answer, kind, says = HOSTILE[tried]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    with sending(lambda _: answer()) as url, pytest.raises(errors.ServerProbeError) as caught:
        server_probe.read(url, api_key=KEY, timeout_s=1.5)
    assert time.monotonic() - begun < 15
    assert isinstance(caught.value, kind)
    text = str(caught.value)
    assert says in text
    assert KEY not in text
    assert len(text) < 1000
    assert text.isprintable()
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mb < 6 * PAGE_BYTES / 2**20
    ends_as(DOOR, tried, f"`{caught.type.__name__}`: {says or 'broken off'}")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_carries_a_key_elsewhere(method: str, status: int) -> None:
    asked: list[bytes] = []

    def note(request: bytes) -> Bytes:
        asked.append(request)
        return page(b"{}")

    with (
        sending(note) as elsewhere,
        sending(lambda _: page(b"", f"{status} Away\r\nLocation: {elsewhere}/flush_cache")) as url,
    ):
        answer = http.ask(f"{url}/flush_cache", method=method, api_key=KEY)
    assert answer.status == status
    assert asked == []


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_never_goes_through_a_proxy(name: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def proxy(request: bytes) -> Bytes:
        seen.append(request)
        return page(b"{}", "502 Bad Gateway")

    with sending(proxy) as other, sending(lambda _: page(b'{"a": 1}')) as url:
        monkeypatch.setenv(name, other)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert http.get_json(url.replace("127.0.0.1", host), api_key=KEY) == {"a": 1}
        assert seen == []
        # a host that is not loopback is asked as the environment says
        answer = http.ask("http://gpu-box.example:30000/health", timeout_s=5)
        assert answer.status == 502
        assert seen[0].startswith(b"GET http://gpu-box.example:30000/health")


def test_no_proxy_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    assert proxies.proxy_for("http://gpu-box.example:30000") == "http://proxy.example:3128"
    for address in ("127.0.0.1", "127.8.9.1", "[::1]", "0.0.0.0", "localhost", "x.localhost"):
        assert proxies.proxy_for(f"http://{address}:30000/v1") is None
    monkeypatch.setenv("no_proxy", "gpu-box.example")
    assert proxies.proxy_for("http://gpu-box.example:30000") is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.booleans())
def test_fuzz_any_bytes_end_in_a_server_error_or_an_answer(sent: bytes, as_body: bool) -> None:
    soon = mock.patch.object(
        identify, "_HANDSHAKE_S", 0.1
    )  # what answers nothing to TLS is waited for that long
    with soon, sending(lambda _: page(sent) if as_body else [sent]) as url:
        try:
            server_probe.read(url, api_key=KEY, timeout_s=2.0)
        except errors.ServerProbeError as error:
            assert str(error).isprintable()  # noqa: PT017 (what is asserted is how it is told)


def test_an_errors_body_is_read_only_so_far() -> None:
    with sending(lambda _: page(b"x" * 3_000_000, "500 Oops")) as url:
        assert len(http.ask(url).body) <= ERROR_BYTES
