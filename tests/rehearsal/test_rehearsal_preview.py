"""An upgrade told from two rehearsals: what breaks, flips, goes and comes; pure, and most telling first."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from suite.rehearsal.answers import Answer, Rehearsal
from suite.rehearsal.preview import preview, used_flags
from suite.sglang.flags import Flags

OFF = {"speculative_algorithm": None}
ON = {
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}


def answer(settings: dict[str, Any], asks: bool = False, **other: Any) -> Answer:
    return Answer(word="resolved", asks=asks, settings={**OFF, **settings}, **other)


def rehearsal(build: str, arms: dict[str, Answer], **other: Any) -> Rehearsal:
    return Rehearsal(target="box", build=build, cards=None, versions={"sglang": build}, arms=arms, **other)


def test_an_arm_that_would_be_refused_comes_first() -> None:
    old = rehearsal("1", {"off": answer({"attention_backend": "triton"}), "on": answer(ON, asks=True)})
    refused = Answer(
        word="refused", asks=True, reason="error: unrecognized arguments: --speculative-algorithm"
    )
    new = rehearsal("2", {"off": answer({"attention_backend": "flashinfer"}), "on": refused})
    found = preview(old, new)
    assert found.breaks
    assert found.lines()[0].startswith("BREAKS  on: EAGLE")
    assert "attention_backend triton -> flashinfer (off)" in found.lines()[1]


def test_speculation_that_comes_by_itself_breaks_although_nothing_is_refused() -> None:
    found = preview(rehearsal("1", {"off": answer({})}), rehearsal("2", {"off": answer(ON)}))
    assert found.breaks
    assert found.turns[0].after.startswith("EAGLE")


def test_what_gets_worse_comes_before_what_gets_better_however_many_arms() -> None:
    refused = Answer(word="refused", asks=False, reason="ValueError: not on SM120")
    old = {"a": refused, "b": refused, "c": answer({})}
    new = {"a": answer({}), "b": answer({}), "c": refused}
    found = preview(rehearsal("1", old), rehearsal("2", new))
    assert [(turn.arms, turn.worse) for turn in found.turns] == [(["c"], True), (["a", "b"], False)]


def test_an_arm_that_is_mended_does_not_break() -> None:
    refused = Answer(word="refused", asks=False, reason="ValueError: not on SM120")
    found = preview(rehearsal("1", {"a": refused}), rehearsal("2", {"a": answer({})}))
    assert not found.breaks
    assert found.lines()[0].startswith("turns")


def test_what_could_not_be_rehearsed_breaks_nothing() -> None:
    for word in ("failed", "undecided"):
        new = rehearsal("2", {"on": Answer(word=word, asks=True, reason="no")})  # type: ignore[arg-type]
        assert not preview(rehearsal("1", {"on": answer(ON, asks=True)}), new).breaks


def test_arms_that_flip_alike_share_a_line_and_off_to_off_comes_last() -> None:
    before = {
        "enable_fused_qk_norm_rope": False,
        "cuda_graph_config.decode.max_bs": 512,
        "schedule_policy": "fcfs",
    }
    after = {
        "enable_fused_qk_norm_rope": None,
        "cuda_graph_config.decode.max_bs": 48,
        "schedule_policy": "lof",
    }
    arms = ("off", "steps-only")
    found = preview(
        rehearsal("1", dict.fromkeys(arms, answer(before))),
        rehearsal("2", dict.fromkeys(arms, answer(after))),
    )
    assert [(flip.setting, flip.arms) for flip in found.flips] == [
        ("cuda_graph_config.decode.max_bs", list(arms)),
        ("schedule_policy", list(arms)),
        ("enable_fused_qk_norm_rope", list(arms)),
    ]


def test_a_renamed_setting_neither_goes_nor_comes() -> None:
    found = preview(
        rehearsal("0.5.12", {"off": answer({"mamba_scheduler_strategy": "auto", "old": 1})}),
        rehearsal("0.5.14", {"off": answer({"mamba_radix_cache_strategy": "auto", "new": 2, "newer": None})}),
    )
    assert (found.gone, found.come, found.flips) == ({"old": 1}, {"new": 2, "newer": None}, [])


def test_a_flag_that_the_arms_use_is_named_first_of_those_gone() -> None:
    old = rehearsal(
        "1", {"off": answer({})}, flags={"alpha": "a", "used": "u", "kept": "k"}, defaults={"a": 1, "k": 2}
    )
    new = rehearsal("2", {"off": answer({})}, flags={"kept": "k", "fresh": "f"}, defaults={"k": 3})
    found = preview(old, new, used_flags([Flags({"used": 1}), Flags({"kept": 1})]))
    assert found.flags_gone == ["used", "alpha"]
    assert found.flags_come == ["fresh"]
    assert found.defaults == {"k": (2, 3)}


def test_new_warnings_are_told_with_their_arms() -> None:
    found = preview(
        rehearsal("1", {"off": answer({}, said=["same"])}),
        rehearsal("2", {"off": answer({}, said=["same", "deprecated: --x"])}),
    )
    assert found.warnings_come == {"deprecated: --x": ["off"]}
    assert found.warnings_gone == {}


def test_what_is_not_decided_here_does_not_flip() -> None:
    old = answer({"mm_backend": "a", "page_size": 1}, open={"mm_backend": ["a", "b"]})
    found = preview(
        rehearsal("1", {"x": old}), rehearsal("2", {"x": answer({"mm_backend": "b", "page_size": 1})})
    )
    assert found.flips == []


def test_a_default_that_the_server_fills_in_later_does_not_flip() -> None:
    old, new = answer({"mamba_full_memory_ratio": 0.9}), answer({"mamba_full_memory_ratio": None})
    found = preview(rehearsal("1", {"x": old}), rehearsal("2", {"x": new}))
    assert (found.flips, found.gone, found.come) == ([], {}, {})


def test_long_lists_are_told_by_how_far_they_go() -> None:
    old, new = answer({"sizes": list(range(1, 53))}), answer({"sizes": list(range(1, 11))})
    (line,) = preview(rehearsal("1", {"x": old}), rehearsal("2", {"x": new})).lines()
    assert "sizes 52 values up to 52 -> 10 values up to 10" in line


def test_nothing_is_said_to_change_where_nothing_does() -> None:
    one = rehearsal("1", {"off": answer({}), "on": answer(ON, asks=True)})
    two = rehearsal("2", {"off": answer({"random_seed": 7}), "on": answer(ON, asks=True)})
    assert preview(one, two).lines() == ["nothing changes for these command lines"]


VALUES = st.none() | st.booleans() | st.integers(0, 4) | st.sampled_from(["auto", "triton"])
SETTINGS = st.dictionaries(st.sampled_from(["a", "b", "page_size", "attention_backend"]), VALUES)


@given(SETTINGS, SETTINGS)
def test_every_difference_is_told_once_and_backwards_it_is_turned_around(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    one, two = rehearsal("1", {"x": answer(before)}), rehearsal("2", {"x": answer(after)})
    forth, back = preview(one, two), preview(two, one)
    flips = {flip.setting: (flip.before, flip.after) for flip in forth.flips}
    assert flips == {n: (before[n], after[n]) for n in before.keys() & after.keys() if before[n] != after[n]}
    assert set(forth.gone) == before.keys() - after.keys()
    assert set(forth.come) == after.keys() - before.keys()
    assert {flip.setting: (flip.after, flip.before) for flip in back.flips} == flips
    assert (back.gone, back.come) == (forth.come, forth.gone)
    assert msgspec.json.decode(msgspec.json.encode(forth))
