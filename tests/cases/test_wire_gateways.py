"""What is no SGLang server is said to be what it is, with what to do; a gateway is never an arm."""

from __future__ import annotations

import datetime
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from suite.sglang.errors import Gateway, UnreadableServer
from suite.sglang.server import identify, parse
from tests.cases.attached import attached
from tests.cases.lookalike import Odd, reported, serving

WORKER = {"model_path": "/m", "version": "0.5.23", "speculative_algorithm": "EAGLE", "internal_states": [{}]}
PD = {"prefill": [WORKER], "decode": [WORKER, WORKER]}
TOLD: dict[str, Odd] = {
    "a router of prefill and decode servers": Odd(says=PD),
    "a router answers there, for 3 of them": Odd(says=[WORKER, WORKER, WORKER]),
    "a gateway answers there, for 2 workers: http://w1:30000": Odd(
        details=reported,
        paths={"/workers": {"workers": [{"url": "http://w1:30000"}, {"url": "http://w2:30000"}]}},
    ),
    "for 1 workers: http://10.0.0.7:30000": Odd(
        says=False, paths={"/list_workers": {"urls": ["http://10.0.0.7:30000"]}}
    ),
    "only the OpenAI API answers there": Odd(says=False),
}


@pytest.mark.parametrize("words", TOLD)
def test_a_gateway_is_told_as_that_and_is_no_arm(tmp_path: Path, words: str) -> None:
    with serving(TOLD[words]) as url:
        ran = attached(tmp_path, url, "-m", "perf and (activation or decode)", "--record-baseline")
    assert ran.code == 9, ran.out
    assert words in ran.out
    assert "give the address of one SGLang server" in ran.out
    assert not list((tmp_path / "baselines").rglob("*.json"))


def test_a_base_url_that_ends_in_v1_is_the_same_server(tmp_path: Path) -> None:
    with serving(Odd(details=reported, metrics=None)) as url:
        ran = attached(tmp_path, f"{url}/v1/", "-m", "perf and activation")
    assert "1 passed" in ran.out, ran.out


@pytest.mark.parametrize("answer", [{"version": 5}, {}, [], [1], {"prefill": []}, {"a": [{"b": 1}]}, "text"])
def test_other_json_is_no_gateway(answer: Any) -> None:
    assert identify.gateway_of(answer, "http://x") is None
    with pytest.raises(UnreadableServer) as caught:
        parse(json.dumps(answer), "http://x/server_info")
    assert not isinstance(caught.value, Gateway)


def test_the_doctor_and_the_probes_say_the_same() -> None:
    with pytest.raises(Gateway, match="1 prefill, 2 decode of them: it is not an arm"):
        parse(json.dumps(PD), "http://x/server_info")


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A port that speaks TLS."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now.replace(year=now.year + 1)
    )
    certificate = built.sign(key, hashes.SHA256())
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    pem = tmp_path / "server.pem"
    pem.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
        + certificate.public_bytes(encoding)
    )
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_http_to_a_port_that_speaks_tls(tmp_path: Path, tls_port: int) -> None:
    ran = attached(tmp_path, f"http://127.0.0.1:{tls_port}", "-m", "perf and activation")
    assert ran.code == 9, ran.out
    assert "this port speaks TLS; write https:// in place of http://" in ran.out


def test_the_doctor_on_a_gateway(tmp_path: Path) -> None:
    with serving(Odd(says=PD)) as url:
        path = tmp_path / "suite.toml"
        path.write_text(
            f'default_target = "here"\n[budgets.quick]\n[targets.here]\nmodel = "/m"\nlaunch = {{ kind = "attach", url = "{url}" }}\n'
        )
        command = [sys.executable, "-m", "suite", "doctor", "--suite-config", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "a router of prefill and decode servers answers there" in " ".join(done.stdout.split())
