"""Which arms stay together, how shards are filled, and what is said where a plan cannot be cut so."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from suite.__main__ import main
from suite.cluster import matrix
from suite.cluster.cut import ShardNumber, cut, together, wanted, worthwhile
from suite.cluster.options import shard_wanted
from suite.cluster.shards import Priced
from suite.config import ConfigError
from suite.session.collection import SeriesId, launch_id_of, question_of, series_of
from suite.session.plan import LaunchId
from tests.perf.running import config, perf


@dataclass(eq=False)
class Scenario:
    """As much of an item as a cut needs."""

    question: str
    arm: str
    judged: bool = False
    stash: pytest.Stash = field(default_factory=pytest.Stash)

    def __post_init__(self) -> None:
        self.stash[launch_id_of] = LaunchId(self.arm, 1)
        self.stash[question_of] = self.question
        if self.judged:
            self.stash[series_of] = SeriesId(self.question, self.arm)


def test_arms_of_one_scenario_stay_together_whatever_its_sizes():
    items = [
        Scenario("depth[c1]", "depth-1"),
        Scenario("depth[c4]", "depth-2"),
        Scenario("refused", "headless"),
    ]
    assert together(items) == [["depth-1", "depth-2"], ["headless"]]


def test_judged_arms_are_each_others_controls_and_stay_together():
    items = [
        Scenario("decode[c1]", "off", judged=True),
        Scenario("is_off", "off"),
        Scenario("is_on", "on"),
        Scenario("step_time[c1]", "held", judged=True),
        Scenario("decode[c1]", "on", judged=True),
    ]
    assert together(items) == [["off", "on", "held"]]


def test_a_scenario_joins_groups_that_nothing_else_joins():
    items = [
        Scenario("a", "1"),
        Scenario("b", "2"),
        Scenario("c", "3"),
        Scenario("c", "1"),
        Scenario("b", "4"),
    ]
    assert together(items) == [["1", "3"], ["2", "4"]]


SECONDS = st.lists(st.integers(1, 1000), min_size=1, max_size=12)


@given(SECONDS, st.data())
def test_every_arm_is_in_one_shard_and_no_shard_is_empty_or_needlessly_long(seconds, data):
    groups = [[f"{number}a", f"{number}b"] for number in range(len(seconds))]
    shards = data.draw(st.integers(1, len(groups)))
    made = cut(groups, seconds, shards)
    assert len(made) == shards
    assert all(made)
    assert sorted(arm for shard in made for arm in shard) == sorted(arm for group in groups for arm in group)
    for group in groups:
        assert any(set(group) <= set(shard) for shard in made)
    loads = [sum(seconds[int(arm[:-1])] for arm in shard if arm.endswith("a")) for shard in made]
    assert loads == sorted(loads, reverse=True)
    # list scheduling: the longest shard had the least to do when it was given its last group
    assert loads[0] <= sum(seconds) / shards + max(seconds)


@given(SECONDS)
def test_more_shards_than_are_worthwhile_save_nothing(seconds):
    groups = [[str(number)] for number in range(len(seconds))]
    enough = worthwhile(seconds)

    def longest(shards: int) -> int:
        return max(sum(seconds[int(arm)] for arm in shard) for shard in cut(groups, seconds, shards))

    assert longest(enough) == longest(len(groups)) == max(seconds)
    assert enough == 1 or longest(enough - 1) > max(seconds)


def test_a_plan_that_cannot_be_cut_into_so_many_says_what_it_falls_into():
    with pytest.raises(ConfigError, match=r"has 2 that can be measured separately: off on; headless"):
        cut([["off", "on"], ["headless"]], [9.0, 1.0], 3)


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b", "1/99999", "²/4"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(ConfigError, match="expected I/N"):
        wanted(text)


def test_a_shard_is_read():
    assert wanted("2/5") == ShardNumber(2, 5)


SHARDS = [Priced("1/2", ["off", "on"], 6, 61.2), Priced("2/2", ["headless"], 1, 0.4)]
GIVEN = {
    "target": "blackwell",
    "flag": ["a=b c", "no:d"],
    "require_baseline": True,
    "shard": "1/2",
    "markexpr": "perf",
}


def test_github_reads_its_matrix_from_one_line():
    text = matrix.text("github", SHARDS, "blackwell", "full", GIVEN)
    assert "\n" not in text
    rows = json.loads(text)["include"]
    assert [(row["shard"], row["arms"]) for row in rows] == [("1/2", "off on"), ("2/2", "headless")]
    assert all(row["minutes"] > 2 * shard.minutes for row, shard in zip(rows, SHARDS, strict=True))


def test_gitlab_reads_a_pipeline_that_merges_whatever_became_of_its_shards():
    made = yaml.safe_load(matrix.text("gitlab", SHARDS, "blackwell", "full", GIVEN))
    assert made["perf"]["parallel"]["matrix"] == [{"SHARD": ["1/2", "2/2"]}]
    (line,) = made["perf"]["script"]
    assert line == (
        "python -m pytest --target=blackwell '--flag=a=b c' --flag=no:d -m perf --require-baseline "
        '--shard "$SHARD"'
    )
    assert made["merge"]["needs"] == ["perf"]
    assert made["merge"]["when"] == "always"


def test_a_program_reads_all_there_is():
    made = json.loads(matrix.text("json", SHARDS, "blackwell", "full", GIVEN))
    assert made["shards"][1] == {"shard": "2/2", "arms": ["headless"], "launches": 1, "minutes": 0.4}
    assert "--shard" not in " ".join(made["options"])


def test_shards_are_measured_one_by_one_and_merged(tmp_path, capfd):
    """Two promises, each on a shard of its own; history, baselines and the way back are the merged run's alone."""
    here = config(tmp_path)
    planned = perf(tmp_path, here, "-k", "mtp_is", "--plan", "--format=github", "--shards=2")
    first = planned.out.splitlines()[0]
    assert [row["shard"] for row in json.loads(first)["include"]] == ["1/2", "2/2"], planned.out
    for shard in ("2/2", "1/2"):
        ran = perf(tmp_path, here, "-k", "mtp_is", f"--shard={shard}")
        assert ran.code == 0, ran.out
        assert f"shard {shard}, judged alone" in ran.out
    assert not list((tmp_path / "results").glob("history/*.jsonl"))
    results = tmp_path / "results"
    folders = sorted(map(str, results.glob("*-shard*of2")))
    assert len(folders) == 2
    words = [
        f"--results={results}",
        f"--suite-config={tmp_path / 'suite.toml'}",
        f"--junitxml={tmp_path / 'j.xml'}",
    ]
    code = main(["merge", *folders, *words])
    out = capfd.readouterr().out
    assert code == 0, out
    assert "GO: 2 checks passed" in out
    names = {case.attrib["name"] for case in ElementTree.parse(tmp_path / "j.xml").iter("testcase")}
    assert names == {
        "test_mtp_is_off_unless_asked_for[mtp-off-launch1]",
        "test_mtp_is_on_when_asked_for[mtp-on-launch1]",
    }


def test_two_builds_are_both_in_the_shard_of_their_arm(tmp_path):
    builds = "[targets.here.builds.old]\nflags = { sglang-version = '0.5.20' }\n[targets.here.builds.new]\n"
    here = config(tmp_path)
    path = tmp_path / "suite.toml"
    path.write_text(path.read_text() + builds)
    two = ("--reference=old", "--candidate=new", "--budget=quick", "-k", "mtp_is")
    planned = perf(tmp_path, here, *two, "--plan", "--format=json", "--shards=2")
    shards = json.JSONDecoder().raw_decode(planned.out)[0]["shards"]
    assert [(shard["arms"], shard["launches"]) for shard in shards] == [(["mtp-off"], 2), (["mtp-on"], 2)]
    one = perf(tmp_path, here, *two, "--plan", "--shard=1/2")
    assert one.code == 0, one.out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"shard": "1/2", "minutes": 3.0}, "--shard does not go with --minutes"),
        ({"format": "github"}, "--format needs --plan"),
        ({"shards": 2}, "needs --plan --format"),
        ({"shards": 0, "plan": True, "format": "json"}, "1 or more"),
        ({"shard": "1/2", "plan": True, "format": "json"}, "leave --shard out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        shard_wanted(SimpleNamespace(getoption=lambda name: given.get(name.removeprefix("--"))))
