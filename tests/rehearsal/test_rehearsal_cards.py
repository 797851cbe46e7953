"""Cards as data: by name, by a machine's own nvidia-smi, and what is said where neither tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.hosts import LocalHost
from suite.probes.gpus import Gpu, Gpus
from suite.rehearsal.cards import Cards, known, of_machine, parse
from suite.rehearsal.errors import UnknownCards
from suite.rehearsal.rehearse import cards_for
from suite.servers.runtimes import Runtime
from tests.rehearsal.small import suite_of


def test_the_cards_of_the_issue_are_there() -> None:
    capability = {name: card.capability for name, card in known().items()}
    assert capability == {
        "rtx-pro-6000": "12.0",
        "rtx-pro-6000-workstation": "12.0",
        "rtx-pro-6000-max-q": "12.0",
        "rtx-5090": "12.0",
        "h100": "9.0",
        "h200": "9.0",
        "b200": "10.0",
        "gb200": "10.0",
    }
    assert all(card.multiprocessors for card in known().values())


@given(st.sampled_from(sorted(known())), st.integers(1, 64))
def test_a_name_and_a_count(name: str, count: int) -> None:
    assert parse(f"{name}x{count}") == Cards(known()[name], count)
    assert parse(name) == Cards(known()[name], 1)


@pytest.mark.parametrize("text", ["", "x8", "rtx-pro-6000x0", "rtx-pro-6000x-1", "a100x8", "h200x99999"])
def test_cards_that_are_not_known_are_told_with_those_that_are(text: str) -> None:
    with pytest.raises(UnknownCards, match="rtx-pro-6000x8"):
        parse(text)


def _gpu(index: int, **changes: object) -> Gpu:
    same = {"name": "NVIDIA H200", "compute_capability": "9.0", "memory_total_mib": 143771.0}
    return Gpu(index=index, **{**same, **changes})  # type: ignore[arg-type]


def test_a_machines_own_cards_become_an_entry() -> None:
    assert of_machine(Gpus((_gpu(0), _gpu(1)))) == parse("h200x2")


def test_a_card_that_nobody_listed_has_no_multiprocessors() -> None:
    found = of_machine(Gpus((_gpu(0, name="NVIDIA X", compute_capability="13.0"),)))
    assert found is not None
    assert (found.card.capability, found.card.multiprocessors) == ("13.0", None)


@pytest.mark.parametrize("change", [{"name": ""}, {"compute_capability": None}, {"memory_total_mib": None}])
def test_cards_that_are_not_told_in_full_or_differ_are_no_entry(change: dict[str, object]) -> None:
    assert of_machine(Gpus((_gpu(0, **change),))) is None
    assert of_machine(Gpus((_gpu(0), _gpu(1, memory_total_mib=80000.0)))) is None
    assert of_machine(Gpus(())) is None


def _runtime(suite: config.Suite) -> Runtime:
    return Runtime(suite.target(), LocalHost(), cwd=str(suite.path.parent))


def test_the_hosts_own_nvidia_smi_comes_before_the_targets_table(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    simulated = Path(__file__).resolve().parents[2] / "simulator/bin/nvidia-smi"
    tool.symlink_to(simulated)
    suite = suite_of(tmp_path, cards="h200x2", nvidia_smi="./nvidia-smi")
    assert cards_for(suite.target(), _runtime(suite), None) == parse("rtx-pro-6000x8")
    assert cards_for(suite.target(), _runtime(suite), "b200") == parse("b200")
    assert cards_for(suite.target(), _runtime(suite), "none") is None


def test_without_any_the_table_is_taken_or_asked_for(tmp_path: Path) -> None:
    missing = suite_of(tmp_path, cards="", nvidia_smi="./none")
    with pytest.raises(UnknownCards, match="--cards"):
        cards_for(missing.target(), _runtime(missing), None)
    told = suite_of(tmp_path, cards="h200x2", nvidia_smi="./none")
    assert cards_for(told.target(), _runtime(told), None) == parse("h200x2")
    without = suite_of(tmp_path, gpus=0, cards="h200x2", nvidia_smi="./none")
    assert cards_for(without.target(), _runtime(without), None) is None
