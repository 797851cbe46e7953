"""Boxes of one kind beside each other: the odd one is named with what it differs in, equal ones are not."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from suite.__main__ import main
from suite.cluster import fleet_page
from suite.cluster.fleet import Box, Fleet, compare
from suite.config import Arm, Target
from suite.gate import Asked, BaselineStore, GateError, Rules, Session, judge, save_run
from suite.gate.baselines import Found
from suite.hosts.base import Completed
from suite.probes.gpus import Gpu, Gpus, place
from suite.session.beforehand import objections
from tests.gate.sessions import session

HEALTHY = {"power limit": "8 x 600 W", "PCIe": "8 x gen5 x16", "gpu_uuids": "GPU-1"}


def box(name: str, slow: float = 0.0, **changed: str) -> Box:
    """A box whose decoding is slower by this part in both arms."""
    measured = session(name, slow={"mtp-off": slow, "mtp-on": slow}, machine=0.002)
    return Box(name, {**HEALTHY, **changed}, [measured])


def fleet(*boxes: Box) -> Fleet:
    return compare(boxes, Rules())


def test_a_slow_box_is_named_with_its_figures_and_what_it_differs_in():
    found = fleet(box("n1"), box("n2"), box("n3", slow=0.12, **{"power limit": "8 x 450 W"}), box("n4"))
    assert [found.boxes[place].name for place in found.odd] == ["n3"]
    assert all(figure.worse(2) for figure in found.apart(2))
    said = fleet_page.sentence(found)
    assert said.startswith("ODD: n3: ")
    assert "it differs in power limit (8 x 450 W, the others 8 x 600 W)" in said
    assert fleet_page.status(found) == 1


@pytest.mark.parametrize("number", [3, 4, 8])
def test_equal_boxes_are_alike(number):
    """Of 40 fleets of equal boxes the rule may name one in a hundred; here none."""
    for seed in range(40):
        boxes = [box(f"{seed}-{place}") for place in range(number)]
        found = fleet(*boxes)
        assert not found.odd, fleet_page.sentence(found)
        assert fleet_page.status(found) == 0
        assert fleet_page.sentence(found).startswith("ALIKE")


def test_the_two_sound_ones_of_three_are_not_taken_for_fast_ones():
    found = fleet(box("n1"), box("n2", slow=0.2), box("n3"))
    assert [found.boxes[place].name for place in found.odd] == ["n2"]


def test_a_box_within_the_margin_is_not_odd():
    found = fleet(box("n1"), box("n2"), box("n3", slow=0.008))
    assert not found.odd


def test_of_two_nobody_can_say_which_is_odd():
    found = fleet(box("n1"), box("n2", slow=0.3))
    assert not found.odd
    assert fleet_page.status(found) == 8
    assert "CANNOT TELL: 2 boxes" in fleet_page.sentence(found)
    assert found.figures[0].change[1] is not None


def test_a_fact_that_only_one_box_has_is_told_even_where_no_figure_shows_it():
    found = fleet(box("n1"), box("n2", PCIe="8 x gen5 x8"), box("n3"))
    assert found.differing == {"PCIe": ["8 x gen5 x16", "8 x gen5 x8", "8 x gen5 x16"]}
    assert any("gen5 x8" in line for line in fleet_page.lines(found))


def test_a_figure_that_was_asked_otherwise_is_left_out_and_told():
    other = box("n3")
    series = [
        msgspec.structs.replace(s, identity={**s.identity, "model": "another"}) if s.arm == "mtp-off" else s
        for s in other.sessions[0].series
    ]
    changed = Box("n3", other.facts, [msgspec.structs.replace(other.sessions[0], series=series)])
    found = fleet(box("n1"), box("n2"), changed)
    assert "mtp-off" not in {figure.key.arm for figure in found.figures}
    assert any("measured otherwise on n1 and n3: model 'tiny', 'another'" in line for line in found.left_out)


def test_another_build_is_no_part_of_a_fleet():
    old = Box("n2", {}, [session("n2", version="0.5.20")])
    with pytest.raises(GateError, match=r"n1 and n2 do not run the same build: sglang '0.5.23', '0.5.20'"):
        fleet(box("n1"), old, box("n3"))


def test_the_plot_shows_where_each_box_is():
    found = fleet(box("n1"), box("n2"), box("n3", slow=0.12))
    plot = fleet_page.plot(found)
    for figure, line in zip(found.figures, plot, strict=False):
        drawn = line[-fleet_page.WIDTH :]
        if figure.apart[2]:
            assert "C" in drawn
            assert drawn.index("C") > drawn.index("|" if "|" in drawn else ":")
    assert "worse" in plot[-1]


def test_of_one_box_there_is_nothing_to_draw():
    found = fleet(box("n1"))
    assert fleet_page.plot(found) == []
    assert fleet_page.sentence(found).startswith("CANNOT TELL: 1 box;")
    assert fleet_page.status(found) == 8


def test_of_more_boxes_than_letters_those_that_stand_apart_have_one_of_their_own():
    many = [box(f"n{place}") for place in range(28)]
    found = fleet(*many, box("sick", slow=0.12, **{"power limit": "8 x 450 W"}))
    shown = [fleet_page.letter(found, place) for place in range(29)]
    assert shown == ["."] * 28 + ["a"]
    assert any("A" in line[-fleet_page.WIDTH :] for line in fleet_page.plot(found)[:-1])
    told = fleet_page.facts(found)
    assert told[0] == "power limit: 8 x 600 W (28 boxes); 8 x 450 W (sick)"


def saved(root: Path, name: str, measured: Session, host: str) -> Path:
    stored = msgspec.structs.replace(measured, environment={"host": host, **HEALTHY})
    save_run(root / name, stored, judge(stored, Found()))
    return root / name


def test_the_command_takes_runs_of_one_host_together(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(1)
    runs = [
        saved(tmp_path, f"run{n}", session(f"r{draw.random()}", machine=0.001), f"n{n % 3}") for n in range(4)
    ]
    sick = saved(tmp_path, "sick", session("sick", slow={"mtp-off": 0.1, "mtp-on": 0.1}), "n0")
    code = main(["fleet", *map(str, runs), f"bad={sick}", "--page=fleet.md"])
    out = capsys.readouterr().out
    assert code == 1, out
    assert "ODD: bad: " in out
    assert out.count(" n0 ") >= 1
    assert (tmp_path / "fleet.md").read_text().startswith("## ODD: bad")


def test_two_hosts_have_baselines_of_their_own(tmp_path):
    """What is recorded on one host judges no other, and the verdict says where it was recorded."""
    store = BaselineStore(tmp_path, "simulator")

    def on(host: str, run_id: str, day: int) -> Session:
        measured = session(run_id, day=day)
        series = [
            msgspec.structs.replace(s, identity={**s.identity, "host": host})
            for s in measured.series
            if not s.derived_from
        ]
        return msgspec.structs.replace(measured, series=series)

    store.record(on("n1", "first", 1))
    new = on("n2", "new", 3)
    verdicts = judge(new, store.sessions_for(new)).verdicts.values()
    assert {v.word for v in verdicts} == {"unjudged"}
    assert any("recorded with host n1, not n2" in v.reason for v in verdicts)
    target = Target(name="simulator", model="tiny", arms={"mtp-off": Arm(name="mtp-off")})
    asked = [Asked("decode_throughput[c1]", "mtp-off", ["tpot_s"])]
    assert objections(store, target, asked, {"host": "n2", "gpu": "another kind"}) == []
    assert "gpu 'modelled' -> 'another kind'" in objections(
        store, target, asked, {"host": "n1", "gpu": "another kind"}
    )[0].replace('"', "'")
    store.record(on("n2", "second", 2))
    assert {v.word for v in judge(new, store.sessions_for(new)).verdicts.values()} != {"unjudged"}
    assert {path.name.rpartition("--")[2] for path in store.folder.glob("*.json")} == {"n1.json", "n2.json"}


class Smi:
    """A host whose nvidia-smi says what it is told to say."""

    name = "here"

    def __init__(self, **said: str) -> None:
        self._said = said

    def run(self, argv: list[str], **how: object) -> Completed:
        what = "topo" if "topo" in argv else "pcie" if "pcie" in argv[1] else "other"
        text = self._said.get(what, "")
        return Completed(tuple(argv), 0 if text else 1, text, "")


TOPOLOGY = """\tGPU0\tGPU1\tGPU2\tCPU Affinity
GPU0\t X \tNODE\tSYS\t0-63
GPU1\tNODE\t X \tSYS\t0-63
GPU2\tSYS\tSYS\t X \t64-127
"""


def test_a_box_says_which_cards_it_has_and_how_they_sit():
    cards = Gpus(
        tuple(
            Gpu(index, uuid=f"GPU-{index}", bus=f"0{index}:00.0", power_limit_w=600.0 - 150 * (index == 2))
            for index in range(3)
        )
    )
    pcie = "".join(f"{index}, 1, 5, {8 if index == 1 else 16}, 16, Enabled, 0, 0\n" for index in range(3))
    assert place.facts(Smi(pcie=pcie, topo=TOPOLOGY), cards) == {
        "gpu_uuids": "GPU-0, GPU-1, GPU-2",
        "gpu_bus": "00:00.0, 01:00.0, 02:00.0",
        "power limit": "1 x 450 W, 2 x 600 W",
        "PCIe": "2 x gen5 x16, 1 x gen5 x8",
        "ECC": "3 x on",
        "topology": "1 x NODE, 2 x SYS",
    }
    assert place.facts(Smi(), Gpus(())) == {"gpu_uuids": "", "gpu_bus": ""}
