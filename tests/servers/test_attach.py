"""Attaching: nothing is launched, and only the arm that runs is measured."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.hosts import LocalHost
from suite.servers import (
    AttachLauncher,
    LaunchFailed,
    Locked,
    NotSGLang,
    NotThisArm,
    ServerDied,
    launcher_for,
)
from suite.servers.attach import differences
from tests.hosts.ssh_servers import SSHServer, free_port
from tests.servers.conftest import STANDINS, TAG, make_suite, standins_running, wait_until

ARMS: dict[str, Any] = {
    "mtp-off": {},
    "mtp-on": {"flags": {"speculative-algorithm": "NEXTN"}},
    "mtp-5": {"flags": {"speculative-algorithm": "NEXTN", "speculative-num-steps": 5}},
    "env": {"env": {"SGLANG_X": "1"}},
}


@pytest.fixture
def url() -> Iterator[str]:
    """A server that somebody else runs."""
    port = free_port()
    command = [sys.executable, "standin_server.py", "--port", str(port), "--model-path", "/m", "--tag", TAG]
    process = subprocess.Popen([*command, "--speculative-algorithm", "EAGLE"], cwd=STANDINS)
    try:
        assert wait_until(lambda: LocalHost().listening(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def attach(tmp_path: Path, url: str, **changes: Any) -> AttachLauncher:
    launch = {"kind": "attach", "url": url, **changes.pop("launch", {})}
    suite = make_suite(tmp_path, launch=launch, arms=ARMS, **changes)
    launcher = launcher_for(suite, suite.target(), tmp_path / "run" / "logs")
    assert isinstance(launcher, AttachLauncher)
    return launcher


def test_the_arm_that_runs_is_taken_and_others_are_not(tmp_path: Path, url: str) -> None:
    with attach(tmp_path, url) as launcher:
        server = launcher.start(launcher.target.arm("mtp-on"))
        assert (server.base_url, server.pid, server.phases) == (url, None, None)
        server.check()
        assert server.stop().how == "not ours to end"
        with pytest.raises(NotThisArm, match=r"does not run arm mtp-off: speculation is on \(EAGLE\)"):
            launcher.start(launcher.target.arm("mtp-off"))
        with pytest.raises(NotThisArm, match="sets the variable SGLANG_X, which cannot be seen"):
            launcher.start(launcher.target.arm("env"))
        assert launcher.launches == 0
    assert len(standins_running()) == 1


def test_a_host_is_where_the_url_counts_from(tmp_path: Path, url: str, sshd: SSHServer) -> None:
    hosts = {"box": sshd.host().model_dump(exclude={"name"})}
    with attach(tmp_path, url, host="box", hosts=hosts) as launcher:
        server = launcher.start(launcher.target.arm("mtp-on"))
        assert server.base_url != url
        server.check()


def test_a_server_that_goes_is_noticed(tmp_path: Path, url: str) -> None:
    with attach(tmp_path, url) as launcher:
        server = launcher.start(launcher.target.arm("mtp-on"))
        for process in standins_running():
            process.kill()
        assert wait_until(lambda: not standins_running())
        with pytest.raises(ServerDied, match=r"answers no more: .*refused"):
            server.check()


def test_two_runs_do_not_measure_one_server(tmp_path: Path, url: str) -> None:
    with attach(tmp_path, url), pytest.raises(Locked), attach(tmp_path, url):
        pass


def test_nobody_there(tmp_path: Path) -> None:
    assert "no server answers at" in str(_refused(tmp_path, f"http://127.0.0.1:{free_port()}", LaunchFailed))


def _refused(tmp_path: Path, url: str, kind: type[Exception]) -> Exception:
    with attach(tmp_path, url) as launcher, pytest.raises(kind) as caught:
        launcher.start(launcher.target.arm("mtp-on"))
    return caught.value


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:30000", "http://", "http://x:99999", "http://[x"])
def test_a_url_that_is_none(tmp_path: Path, url: str) -> None:
    with pytest.raises(config.ConfigError, match="must read http://HOST:PORT"), attach(tmp_path, url):
        pass


def test_an_api_key_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Keyed(_Answers):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.reply(
                200 if seen[-1] == "Bearer k3y3y3y" else 401,
                b'{"version": "0.5.23", "model_path": "/m", "speculative_algorithm": "EAGLE"}',
            )

    with _serving(Keyed) as url:
        with pytest.raises(config.ConfigError, match="'THE_KEY', and that variable is not set"):
            attach(tmp_path, url, launch={"api_key_env": "THE_KEY"}).__enter__()
        with (
            attach(tmp_path, url) as launcher,
            pytest.raises(NotSGLang, match="HTTP 401: the server wants another API key"),
        ):
            launcher.start(launcher.target.arm("mtp-on"))
        monkeypatch.setenv("THE_KEY", "k3y3y3y")
        with attach(tmp_path, url, launch={"api_key_env": "THE_KEY"}) as launcher:
            server = launcher.start(launcher.target.arm("mtp-on"))
        assert server.api_key is not None
        assert server.api_key.reveal() == "k3y3y3y"
        assert "k3y3y3y" not in repr(server.command)


def test_html_is_not_sglang(tmp_path: Path) -> None:
    class Page(_Answers):
        def do_GET(self) -> None:
            self.reply(200, b"<html>It works!</html>")

    with _serving(Page) as url:
        assert "the answer is an HTML page" in str(_refused(tmp_path, url, NotSGLang))


def test_a_redirect_is_not_followed_with_the_key(tmp_path: Path) -> None:
    followed: list[str] = []

    class Elsewhere(_Answers):
        def do_GET(self) -> None:
            followed.append(self.path)
            self.reply(200, b"{}")

    with _serving(Elsewhere) as elsewhere:

        class Away(_Answers):
            def do_GET(self) -> None:
                self.send_response(302)
                self.send_header("Location", elsewhere + self.path)
                self.end_headers()

        with _serving(Away) as url:
            assert "HTTP 302, a redirect" in str(_refused(tmp_path, url, NotSGLang))
    assert followed == []


def test_tls_where_there_is_none(tmp_path: Path) -> None:
    with _serving(_Answers) as url:
        failure = str(_refused(tmp_path, url.replace("http:", "https:"), LaunchFailed))
    assert "TLS: " in failure
    assert "http:// rather than https://" in failure


class _Answers(http.server.BaseHTTPRequestHandler):
    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return


class _serving:  # noqa: N801 (reads as a verb)
    def __init__(self, answers: type[_Answers]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), answers)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# What /server_info of SGLang 0.5.21 and 0.5.19 says of speculation, on and off (0.5.19 has no launch_command).
ON = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3, "mem_fraction_static": 0.8}
OFF = {"speculative_algorithm": None, "speculative_num_steps": None, "mem_fraction_static": 0.7}


@pytest.mark.parametrize(
    ("arm", "info", "found"),
    [
        ("mtp-on", ON, []),
        ("mtp-off", OFF, []),
        ("mtp-on", OFF, ["--speculative-algorithm is None, not 'NEXTN'"]),
        ("mtp-off", ON, ["speculation is on (EAGLE)"]),
        ("mtp-5", ON, ["--speculative-num-steps is 3, not 5"]),
        ("mtp-5", {**ON, "speculative_num_steps": 5}, []),
        ("mtp-on", {**ON, "launch_command": "--model-path x --speculative-algorithm NEXTN --speculative-num-steps 5"},
         ["--speculative-num-steps was given (5)"]),
        ("mtp-on", {**ON, "launch_command": "--model-path x --speculative-algorithm NEXTN"}, []),
    ],
)  # fmt: skip
def test_which_arm_runs_is_seen_from_resolved_values(
    tmp_path: Path, arm: str, info: dict[str, Any], found: list[str]
) -> None:
    target = make_suite(tmp_path, arms=ARMS).target()
    assert differences(target, target.arm(arm), info) == found


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
info_key = st.sampled_from(["speculative_algorithm", "speculative_num_steps", "launch_command"])


@given(info=st.dictionaries(info_key, json_value), arm=st.sampled_from(list(ARMS)))
def test_no_answer_of_a_server_breaks_the_comparison(info: dict[str, Any], arm: str) -> None:
    target = make_suite(Path("/nowhere"), arms=ARMS).target()
    assert all(
        isinstance(reason, str)
        for reason in differences(target, target.arm(arm), json.loads(json.dumps(info)))
    )
