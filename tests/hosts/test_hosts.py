"""Hosts: the same promises for this machine, OpenSSH's sshd and asyncssh's server."""

from __future__ import annotations

import getpass
import http.server
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite import config
from suite.hosts import (
    ChangedHostKey,
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    Host,
    HostUnreachable,
    LoginRefused,
    NoSuchFile,
    UnknownHostKey,
    open_host,
)
from tests.hosts import ssh_servers

# asyncssh's server leaves one behind where a command ends before its input does; the suite is its client
pytestmark = pytest.mark.filterwarnings("ignore:coroutine 'Event.wait' was never awaited:RuntimeWarning")

HOSTILE = [
    "a b",
    "it's",
    'say "hi"',
    "$(touch pwned)",
    "`id`",
    "two\nlines",
    "-n",
    "*",
    "",
    "\\",
    "é∂",
    "a;b&&c|d",
]
hostile_text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20),
)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SSHServer]:
    with ssh_servers.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module", params=["local", "openssh", "asyncssh"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    if request.param == "local":
        yield open_host(config.HostTable())
        return
    make = ssh_servers.openssh if request.param == "openssh" else ssh_servers.pure_python
    with make(tmp_path_factory.mktemp(request.param)) as server, open_host(server.host()) as opened:
        yield opened


def test_a_command_gives_its_output_error_and_status(host: Host) -> None:
    done = host.run(["sh", "-c", "cat; echo no >&2; exit 3"], input="yes")
    assert (done.stdout, done.stderr, done.code) == ("yes", "no\n", 3)
    with pytest.raises(CommandFailed, match="status 3: no"):
        done.check()


def test_a_missing_program_is_status_127(host: Host) -> None:
    assert host.run(["no-such-program-here"]).code == 127


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(hostile_text, min_size=1, max_size=15), value=hostile_text)
def test_hostile_arguments_and_variables_arrive_as_they_are(
    host: Host, tmp_path: Path, arguments: list[str], value: str
) -> None:
    show = "import os, sys; os.write(1, '\\0'.join([*sys.argv[1:], os.environ['V'], os.getcwd()]).encode())"
    odd = tmp_path / "a $(x) 'b'\n"
    odd.mkdir(exist_ok=True)
    argv = [sys.executable, "-X", "utf8", "-c", show, *arguments]
    done = host.run(argv, env={"V": value}, cwd=str(odd)).check()
    assert done.stdout.split("\0") == [*arguments, value, str(odd)]
    secret = show.replace("'V'", "'V_TOKEN'").replace("os.getcwd()", "sys.stdin.read()")
    argv = [sys.executable, "-X", "utf8", "-c", secret, *arguments]
    done = host.run(argv, env={"V_TOKEN": value}, input="a\n\nb").check()
    assert done.stdout.split("\0") == [*arguments, value, "a\n\nb"]
    assert list(odd.iterdir()) == []


def test_a_secret_variable_is_on_no_command_line(host: Host) -> None:
    planted = f"planted-{os.getpid()}-{time.time_ns()}"
    env = {"DB_PASS": planted, "PLAIN": "1"}
    look = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; echo; echo \"it is $DB_PASS\" >&2; echo over"
    done = host.run(["sh", "-c", look], env=env)
    assert f"it is {planted}" in done.stderr
    assert planted not in done.stdout
    running = host.start(["sh", "-c", look.replace(" >&2", "")], env=env)
    lines: list[str] = []
    try:
        # other processes' command lines may hold anything, empty lines too: only these two end the reading
        while (line := running.line(20.0)) is not None and line != b"over":
            lines.append(line.decode("utf-8", "replace"))
    finally:
        running.close(5.0)
    assert [line for line in lines if planted in line] == [f"it is {planted}"]


def test_a_command_that_takes_too_long_is_ended(host: Host, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    limit_s = 0.5 if host.is_local else 2.0  # a login takes a while on a loaded machine
    with pytest.raises(CommandTimeout, match="sh did not end in time"):
        host.run(["sh", "-c", f"echo $$ > '{note}'; exec sleep 60"], timeout_s=limit_s)
    pid = int(note.read_text())
    deadline = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("name", ["plain", "with space", "it's $(x)\n"])
def test_files_are_written_whole_and_read_in_parts(host: Host, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    assert not host.exists(path)
    host.write_text(path, "0123456789")
    assert host.read_bytes(path, 3, 4) == b"3456"
    assert (host.read_text(path), host.size(path), host.tail(path, 2)) == ("0123456789", 10, "89")
    assert host.list_dir(str(tmp_path)) == [name]


def test_a_missing_file_is_named_with_its_host(host: Host, tmp_path: Path) -> None:
    for act in (host.read_bytes, host.list_dir, lambda path: host.write_text(path, "x")):
        with pytest.raises(NoSuchFile, match=f"gone/x on {host.name}"):
            act(str(tmp_path / "gone" / "x"))


def test_a_conversation_with_a_command(host: Host) -> None:
    running = host.start(["cat"])
    running.send(b"one\ntw")
    assert running.line(10) == b"one"
    assert running.line(0.05) is None
    running.send(b"o\n")
    assert running.line(10) == b"two"
    running.close(10)
    with pytest.raises(EOFError):
        running.line(10)


class _Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")


def test_a_port_on_the_host_is_reached(host: Host) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Hello) as server:
        port = server.server_address[1]
        assert host.listening(port)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with urllib.request.urlopen(f"http://127.0.0.1:{host.forward(port)}/", timeout=20) as answer:
            assert answer.read() == b"hello"
        thread.join()
    assert not host.listening(port)


def test_an_unknown_key_is_refused_with_the_command_that_adds_it(
    sshd: ssh_servers.SSHServer, tmp_path: Path
) -> None:
    empty = tmp_path / "known hosts"
    empty.write_text("")
    with pytest.raises(UnknownHostKey) as caught:
        open_host(sshd.host(known_hosts=str(empty)))
    assert f"ssh-keyscan -p {sshd.port} 127.0.0.1 >> '{empty}'" in str(caught.value)
    assert "SHA256:" in str(caught.value)


def test_the_command_that_adds_a_key_adds_it(sshd: ssh_servers.SSHServer, tmp_path: Path) -> None:
    empty = tmp_path / "known hosts"
    empty.write_text("")
    with pytest.raises(UnknownHostKey) as caught:
        open_host(sshd.host(known_hosts=str(empty)))
    command = str(caught.value).rpartition("add it: ")[2]
    open_host(config.HostTable()).run(["sh", "-c", command]).check()
    with open_host(sshd.host(known_hosts=str(empty))) as opened:
        assert opened.run(["echo", "in"]).stdout == "in\n"


def test_a_changed_key_is_another_matter(sshd: ssh_servers.SSHServer, tmp_path: Path) -> None:
    other = tmp_path / "known_hosts"
    other.write_text(f"[127.0.0.1]:{sshd.port} {(sshd.directory / 'stranger.pub').read_text()}")
    with pytest.raises(ChangedHostKey, match="ssh-keygen -R"):
        open_host(sshd.host(known_hosts=str(other)))


def test_a_key_that_is_not_accepted(sshd: ssh_servers.SSHServer) -> None:
    with pytest.raises(LoginRefused, match=r"accepts none of our keys.*ssh -F .* true"):
        open_host(sshd.host(identity_file=str(sshd.directory / "stranger")))


def test_nobody_there() -> None:
    table = config.HostTable(name="gone", ssh=f"127.0.0.1:{ssh_servers.free_port()}", connect_timeout_s=5.0)
    with pytest.raises(HostUnreachable, match=r"gone: no SSH connection to 127.0.0.1:\d+"):
        open_host(table)


def test_name_port_user_and_key_come_from_the_persons_ssh_configuration(
    sshd: ssh_servers.SSHServer, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {getpass.getuser()}\n"
        f"  IdentityFile {sshd.directory}/client\n  UserKnownHostsFile {sshd.directory}/known_hosts\n"
        f"Host inner\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {getpass.getuser()}\n  ProxyJump box\n"
        f"  IdentityFile {sshd.directory}/client\n  UserKnownHostsFile {sshd.directory}/known_hosts\n"
    )
    for name in ("box", "inner"):
        with open_host(config.HostTable(name=name, ssh=name, config_file=str(tmp_path / "config"))) as opened:
            assert opened.run(["echo", "in"]).stdout == "in\n"


def test_a_connection_that_breaks_is_said_to_be_broken(tmp_path: Path) -> None:
    with ssh_servers.openssh(tmp_path) as server, open_host(server.host()) as opened:
        assert opened.run(["echo", "in"]).stdout == "in\n"
        for session in psutil.Process(server.pid).children(recursive=True):
            session.kill()
        with pytest.raises(ConnectionLost, match="loopback"):
            opened.run(["sleep", "20"])
