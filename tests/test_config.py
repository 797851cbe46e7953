"""suite.toml: what is read, what is refused, and in which words."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.config import ConfigError

WHERE = Path("suite.toml")

SMALL = """
default_target = "box"
[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[budgets.quick]
rounds = 3
[budgets.gate]
launches = 3
[targets.box]
model = "/models/m"
[targets.box.flags]
tp-size = 8
enable-metrics = true
"""


def parsed(text: str) -> config.Suite:
    return config.parse(tomllib.loads(text), WHERE)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return str(caught.value)


def test_the_shipped_file_is_read_whole():
    suite = config.load(Path(__file__).parent.parent / "suite.toml")
    assert suite.default_target == "simulator"
    assert {"simulator", "sglang-cpu", "blackwell"} <= set(suite.targets)
    for target in suite.targets.values():
        assert {"mtp-off", "mtp-on"} <= set(target.arms)
        assert "speculative-algorithm" not in target.arm_flags(target.arm("mtp-off"))
        assert target.arm_flags(target.arm("mtp-on"))["speculative-algorithm"] == "NEXTN"


def test_arms_and_budgets_are_there_without_being_said_and_a_file_changes_them_key_by_key():
    least = 'default_target = "box"\n[targets.box]\nmodel = "/m"\n'
    target = parsed(least).target()
    assert target.arm("mtp-on").flags == {"speculative-algorithm": "NEXTN"}
    assert target.sizes("gate").launches == 3
    changed = parsed(least + "[budgets.gate]\nlaunches = 5\n[arms]\nmtp-held = false\n").target()
    assert changed.sizes("gate").launches == 5
    assert changed.sizes("gate").looks == target.sizes("gate").looks
    assert "mtp-held" not in changed.arms
    assert "mtp-on" in changed.arms


def test_a_file_can_stand_alone():
    alone = parsed(
        'builtin = false\ndefault_target = "box"\n[arms.off]\n[budgets.quick]\n[targets.box]\nmodel = "/m"\n'
    )
    assert list(alone.target().arms) == ["off"]


def test_an_arm_is_the_targets_flags_with_its_changes():
    target = parsed(SMALL + "[targets.box.arms.mtp-on]\nflags = { enable-metrics = false, tp = 4 }").target()
    assert target.arm_flags(target.arm("mtp-on")).argv() == [
        *("--model-path", "/models/m"),
        *("--tp-size", "4"),
        *("--speculative-algorithm", "NEXTN"),
    ]
    assert target.arm_flags(target.arm("mtp-off"))["tp-size"] == 8


def test_a_targets_budget_is_the_shared_one_with_its_own_figures():
    target = parsed(SMALL + "[targets.box.budgets.gate]\nrounds = 9").target()
    assert (target.sizes("gate").launches, target.sizes("gate").rounds) == (3, 9)
    assert target.sizes("quick").rounds == 3


def test_an_empty_variable_in_an_arm_removes_the_targets():
    target = parsed(SMALL + "[targets.box.arms.x]\n").target()
    arm = target.arm("x").model_copy(update={"env": {"A": ""}})
    assert target.model_copy(update={"env": {"A": "1", "B": "2"}}).arm_env(arm) == {"B": "2"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("[targets.box]\nmodle = 'x'", None),
        ("[targets.other]\nmodel = 'x'\nflagz = {}", ["[targets.other]", "'flagz'", "did you mean 'flags'"]),
        ("[targets.other]\nmodel = 3", ["[targets.other]", "'model'", "string", "3"]),
        ("[targets.other]\ngpus = 2", ["[targets.other]", "needs the key 'model'"]),
        (
            "[targets.other]\nmodel = 'x'\nhost = 'bxo'\n[hosts.box]\nssh = 'me@box'",
            ["'bxo'", "did you mean 'box'"],
        ),
        (
            "[targets.other]\nmodel = 'x'\nlaunch = { kind = 'dokcer' }",
            ["[targets.other.launch]", "'dokcer'", "docker"],
        ),
        (
            "[targets.other]\nmodel = 'x'\nlaunch = { kind = 'process', pyhton = '' }",
            ["'pyhton'", "did you mean 'python'"],
        ),
        ("[targets.other]\nmodel = 'x'\nflags = { a = { b = 1 } }", ["[targets.other.flags]", "'a'"]),
        (
            "[targets.other.budgets.quick]\nround = 3",
            ["[targets.other.budgets.quick]", "did you mean 'rounds'"],
        ),
        ("[targets.Other]\nmodel = 'x'", ["'Other'", "lower case"]),
        ("[budgets.more]\nlaunches = 0", ["[budgets.more]", "'launches'", "0"]),
        ("[gate.metrics.ttft_s]\nmargn = 0.1", ["[gate.metrics.ttft_s]", "did you mean 'margin'"]),
    ],
)
def test_a_mistake_names_the_file_the_table_and_the_key(change, words):
    if words is None:  # the same table twice is not TOML at all
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(SMALL + change)
        return
    said = refusal(SMALL + change)
    assert said.startswith("suite.toml: ")
    for word in words:
        assert word in said


def test_a_mistake_in_a_shared_table_is_told_once():
    said = refusal(SMALL + "[arms.bad]\nflag = {}\n[targets.second]\nmodel = 'x'")
    assert said.count("unknown key 'flag'") == 1


def test_every_mistake_is_told_at_once():
    said = refusal(SMALL + "[targets.other]\nmodle = 'x'\ngpus = 'eight'")
    assert "'modle'" in said
    assert "'gpus'" in said


@pytest.mark.parametrize("asked", ["bxo", "zzz"])
def test_an_unknown_target_lists_those_there_are(asked):
    with pytest.raises(ConfigError, match=r"there are: box"):
        parsed(SMALL).target(asked)


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        config.load(tmp_path / "suite.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("default_target = \n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        config.load(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load(broken)


tables = st.recursive(
    st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["targets", "arms", "budgets", "hosts", "gate", "default_target", "box", "launch", "flags", "model"]
)


@given(st.dictionaries(KEYS, st.one_of(tables, st.dictionaries(KEYS, tables, max_size=4)), max_size=5))
def test_whatever_stands_in_the_file_it_is_read_or_refused_in_words(data):
    try:
        config.parse(data, WHERE)
    except ConfigError as error:
        told = str(error)
    else:
        return
    assert told.startswith("suite.toml")


def test_a_target_like_another_differs_only_in_what_it_says():
    suite = parsed(
        SMALL + "[targets.twin]\nlike = 'box'\nhost = 'far'\nflags = { tp = 4 }\n[hosts.far]\nssh = 'far'"
    )
    twin, box = suite.target("twin"), suite.target("box")
    assert twin.model == box.model
    assert twin.base_flags() == box.base_flags().merge({"tp-size": 4})
    assert (twin.name, twin.host) == ("twin", "far")


def test_like_nobody_suggests_the_nearest():
    assert "did you mean 'box'" in refusal(SMALL + "[targets.twin]\nlike = 'bxo'")
