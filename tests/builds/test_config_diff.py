"""What changed between two builds is named first where it is most telling, and nothing is made a change that is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from suite.sglang import config_diff

BUILD = {
    "sglang": "0.5.23",
    "commit": "aaaaaaa",
    "code": "1234",
    "torch": "2.13.0",
    "attention_backend": "triton",
}


def test_another_build_under_the_same_version_is_named_before_what_comes_of_it() -> None:
    patched = {**BUILD, "code": "5678", "changed_files": "sglang/srt/x.py", "attention_backend": "flashinfer"}
    told = config_diff.told(config_diff.changed({**BUILD, "changed_files": "none"}, patched))
    assert (
        told
        == "changed_files none -> sglang/srt/x.py; code 1234 -> 5678; attention_backend triton -> flashinfer"
    )


def test_a_variable_that_is_set_on_one_side_only_is_a_change() -> None:
    changes = config_diff.changed(BUILD, {**BUILD, "env.NCCL_P2P_LEVEL": "SYS"})
    assert config_diff.told(changes) == "env.NCCL_P2P_LEVEL none -> SYS"
    assert config_diff.changed({**BUILD, "env.NCCL_P2P_LEVEL": "SYS"}, BUILD) == {
        "env.NCCL_P2P_LEVEL": ("SYS", None)
    }


def test_a_baseline_from_before_builds_were_looked_at_proves_no_change() -> None:
    old = {"sglang": "0.5.23", "attention_backend": "triton"}
    assert config_diff.changed(old, {**BUILD, "env.NCCL_P2P_LEVEL": "SYS"}) == {}
    assert "set only in the new one (4)" in config_diff.drift(old, {**BUILD, "env.NCCL_P2P_LEVEL": "SYS"})[0]


def test_of_long_settings_only_what_differs_is_told() -> None:
    flags = "--model-path /models/some-long-name --tp-size 8 --trust-remote-code --port 30000 "
    told = config_diff.told({"flags": (flags + "--x 1", flags + "--y 2")})
    assert told == "flags now without --x 1 and with --y 2"


def test_only_the_first_few_are_told_if_no_more_are_wanted() -> None:
    assert config_diff.told({"a": (1, None), "b": ("x", "y")}, 1) == "a 1 -> none and 1 more"


SUBJECTS = st.dictionaries(
    st.sampled_from([*BUILD, "driver", "env.A", "moe_runner_backend"]), st.sampled_from("xyz")
)


@given(old=SUBJECTS, new=SUBJECTS)
def test_changes_are_symmetric_and_none_between_equals(old: dict[str, str], new: dict[str, str]) -> None:
    there, back = config_diff.changed(old, new), config_diff.changed(new, old)
    assert {name: pair[::-1] for name, pair in there.items()} == back
    assert list(there) == list(back)
    assert config_diff.changed(old, old) == {}
