"""TLS and proxies work as users of the openai package expect, and no one has to ask for it."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from suite.load import ClosedLoop, Endpoint, FaultKind, Sampling, play, workloads
from tests.load.scripted import ScriptedServer, answer

WORKLOAD = workloads.load("json")
SHORT = Sampling(max_tokens=4)


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = directory / "cert.pem", directory / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert_path, key_path


def test_tls_is_verified_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert_path, key_path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert_path, key_path)
    with ScriptedServer(lambda _: answer(4), tls=context) as server:
        unknown = play(Endpoint(server.url, "m"), WORKLOAD, ClosedLoop(1, 1), sampling=SHORT)
        monkeypatch.setenv("SSL_CERT_FILE", str(cert_path))
        trusted = play(Endpoint(server.url, "m"), WORKLOAD, ClosedLoop(2, 4), sampling=SHORT)
    assert unknown.faults == {FaultKind.refused: 1}
    assert "certificate" in str(unknown.requests[0].fault).lower()
    assert len(trusted.ok) == 4
    assert trusted.requests[0].timeline.tokens.tolist() == [1, 2, 3, 4]
    assert not trusted.client.kernel_stamps


FAR = "gpu-box.example"
"""A host that only the proxy can reach."""


class ForwardProxy:
    """The smallest http proxy: takes absolute URLs, passes bytes on, and remembers whom it was asked for."""

    def __enter__(self) -> ForwardProxy:
        self.targets: list[str] = []
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self, ready: threading.Event) -> None:
        async def serve() -> None:
            self._stop = asyncio.Event()
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            ready.set()
            await self._stop.wait()
            server.close()

        self._loop.run_until_complete(serve())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, url, rest = head.split(b" ", 2)
        host = url.split(b"/")[2].decode()
        self.targets.append(host)
        name, _, port = host.partition(":")
        near = "127.0.0.1" if name == FAR else name
        up_reader, up_writer = await asyncio.open_connection(near, int(port))
        up_writer.write(b" ".join([method, b"/" + url.split(b"/", 3)[3], rest]))

        async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)

        await asyncio.wait(
            [
                asyncio.create_task(pass_on(reader, up_writer)),
                asyncio.create_task(pass_on(up_reader, writer)),
            ],
            return_when=asyncio.FIRST_COMPLETED,
        )
        writer.close()
        up_writer.close()


def test_a_proxy_of_the_environment_is_used_and_an_exception_to_it_respected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY", "all_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ScriptedServer(lambda _: answer(4)) as server, ForwardProxy() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "elsewhere.example")
        far = server.url.replace("127.0.0.1", FAR)
        through = play(Endpoint(far, "m"), WORKLOAD, ClosedLoop(1, 2), sampling=SHORT)
        seen = list(proxy.targets)
        direct = play(Endpoint(server.url, "m"), WORKLOAD, ClosedLoop(1, 2), sampling=SHORT)
        public = Endpoint(server.url, "m", transport="public")
        assert len(play(public, WORKLOAD, ClosedLoop(1, 2), sampling=SHORT).ok) == 2
        assert proxy.targets == seen  # loopback is never asked through a proxy
        monkeypatch.setenv("no_proxy", FAR)
        assert not play(Endpoint(far, "m"), WORKLOAD, ClosedLoop(1, 1), sampling=SHORT).ok
        assert proxy.targets == seen
        assert seen
        assert set(seen) == {far.removeprefix("http://")}
    assert len(through.ok) == 2
    assert not through.client.kernel_stamps
    assert len(direct.ok) == 2
    assert direct.client.kernel_stamps
