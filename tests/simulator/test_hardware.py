"""The step-time model against the published table, and the shapes that any such machine must have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import backends, profiles
from simulator.hardware import Hardware, Speculation
from tests.simulator.virtual import machine, together

CLIENTS = (1, 2, 4, 8, 16)
# Output tokens/s of Qwen3.5-397B-A17B-NVFP4 on 4 RTX PRO 6000, published by a community fork in April 2026.
PUBLISHED_OFF = (108, 189, 346, 554, 799)
PUBLISHED_ON = (180, 294, 446, 669, 769)
PUBLISHED_ACCEPTANCE = 3.3
STATED_ERROR = 0.06


@pytest.mark.parametrize(("clients", "published"), list(zip(CLIENTS, PUBLISHED_OFF, strict=True)))
def test_published_table_plain(clients: int, published: float) -> None:
    hardware = Hardware(profiles.load("rtx-pro-6000-x4"))
    assert clients / hardware.decode_s(clients, 0) == pytest.approx(published, rel=STATED_ERROR)


@pytest.mark.parametrize(("clients", "published"), list(zip(CLIENTS, PUBLISHED_ON, strict=True)))
def test_published_table_speculating(clients: int, published: float) -> None:
    hardware = Hardware(profiles.load("rtx-pro-6000-x4"), Speculation(3))
    tokens_per_s = clients * PUBLISHED_ACCEPTANCE / hardware.decode_s(clients, 0)
    assert tokens_per_s == pytest.approx(published, rel=STATED_ERROR)


@pytest.mark.parametrize(("clients", "published"), [(1, 108), (4, 346), (16, 799)])
def test_whole_scheduler_reproduces_the_table(clients: int, published: float) -> None:
    run = together(machine(profile="rtx-pro-6000-x4"), clients)
    assert run.decode_tokens_per_s == pytest.approx(published, rel=STATED_ERROR)


@pytest.mark.parametrize("profile", profiles.names())
def test_speculation_wins_alone_and_loses_in_a_crowd(profile: str) -> None:
    def speed_up(clients: int) -> float:
        on = together(machine(profile=profile, steps=3), clients)
        return on.decode_tokens_per_s / together(machine(profile=profile), clients).decode_tokens_per_s

    assert 1.5 < speed_up(1) < 1.9
    assert speed_up(4) < speed_up(1)
    assert speed_up(32) < 1.0


@given(
    batch=st.integers(1, 256),
    more=st.integers(1, 64),
    context=st.integers(0, 1_000_000),
    steps=st.none() | st.integers(1, 8),
)
def test_steps_never_get_shorter_with_more_to_do(
    batch: int, more: int, context: int, steps: int | None
) -> None:
    for profile in profiles.names():
        hardware = Hardware(profiles.load(profile), Speculation(steps) if steps else None)
        assert hardware.decode_s(batch + more, context) > hardware.decode_s(batch, context)
        assert hardware.decode_s(batch, context + more) > hardware.decode_s(batch, context)
        assert hardware.prefill_s(batch + more, context) > hardware.prefill_s(batch, context)


def test_the_first_steps_are_slower() -> None:
    hardware = Hardware(profiles.load("quick"))
    assert hardware.decode_s(1, 0, steps_done=0) > 1.2 * hardware.decode_s(1, 0)
    assert hardware.decode_s(1, 0, steps_done=400) == pytest.approx(hardware.decode_s(1, 0), rel=0.001)


def test_backends_have_a_pace_of_their_own() -> None:
    settings = {
        "moe_runner_backend": "auto",
        "fp4_gemm_runner_backend": "auto",
        "attention_backend": "flashinfer",
    }
    assert backends.pace(settings) == 1.0
    assert (
        backends.pace(settings | {"moe_runner_backend": "marlin"})
        < backends.pace(settings | {"moe_runner_backend": "triton"})
        < 1
    )
    slow = Hardware(profiles.load("quick"), kernels=0.8)
    assert slow.decode_s(1, 0) == pytest.approx(Hardware(profiles.load("quick")).decode_s(1, 0) / 0.8)


def test_a_profile_with_a_wrong_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"'mine'.*unknown \['speed'\]"):
        profiles.from_dict("mine", {"speed": 1.0})
    with pytest.raises(ValueError, match="there are quick"):
        profiles.load("quik")
