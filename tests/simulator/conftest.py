"""Two servers for the whole session, MTP off and on, started with the flags of the captures."""

from collections.abc import Iterator

import pytest

from tests.simulator.process import Server, serving

AS_CAPTURED = [
    "--trust-remote-code",
    "--device",
    "cpu",
    "--attention-backend",
    "torch_native",
    "--prefill-attention-backend",
    "intel_amx",
    "--decode-attention-backend",
    "intel_amx",
    "--disable-radix-cache",
    "--max-total-tokens",
    "8192",
    "--max-running-requests",
    "8",
    "--context-length",
    "2048",
    "--enable-metrics",
    "--served-model-name",
    "tiny",
]


@pytest.fixture(scope="session")
def off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """MTP off."""
    with serving(tmp_path_factory.mktemp("off") / "log", *AS_CAPTURED) as server:
        yield server


@pytest.fixture(scope="session")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """MTP on."""
    with serving(
        tmp_path_factory.mktemp("on") / "log", *AS_CAPTURED, "--speculative-algorithm", "NEXTN"
    ) as server:
        yield server


@pytest.fixture(scope="session", params=["off", "nextn"])
def pair(request: pytest.FixtureRequest, off: Server, on: Server) -> tuple[str, Server]:
    """Each of them, with the name of its captures."""
    return request.param, off if request.param == "off" else on
