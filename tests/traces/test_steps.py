"""Steps and their parts: of traces with known times, and of what genuine SGLang recorded."""

from __future__ import annotations

import pytest

from suite.traces.steps import Profile, profile_of
from suite.traces.torch_trace import read
from tests.traces.made import HOST, RECORDED, STREAM, gpu_trace, packed, span


def recorded(name: str) -> Profile:
    path = RECORDED / f"sglang-0.5.20-cpu-{name}.trace.json.gz"
    return profile_of(read(path.read_bytes(), path.name))


def test_on_a_gpu_its_own_clock_counts() -> None:
    """The host launched everything within microseconds; what a part took is what its kernels took."""
    profile = profile_of(read(gpu_trace(jitter=(0.0,)), "t"))
    assert (profile.by, profile.speculative, len(profile.steps)) == ("gpu", True, 6)
    us = {part: pytest.approx(1e-6 * value) for part, value in
          {"verify": 700, "draft-extend": 80, "draft": 200, "gaps": 50}.items()}  # fmt: skip
    for step in profile.steps:
        assert {part: step.parts[part] for part in us} == us
        assert step.parts["other work"] == pytest.approx(0, abs=1e-9)
        assert step.kernels["verify", "all_reduce_one_shot"] == (pytest.approx(1e-4), 1)


def test_a_kernel_under_no_name_is_other_work_and_no_gap() -> None:
    events = []
    for at in (0.0, 1000.0, 2000.0, 3000.0):
        events += [
            span("step[DECODE bs=1]", "gpu_user_annotation", at, 400.0, STREAM),
            span("attention", "kernel", at, 400.0, STREAM),
            span("sample", "kernel", at + 500, 100.0, STREAM + 1),
        ]
    steps = profile_of(read(packed(events), "t")).steps
    assert len(steps) == 3
    assert steps[0].parts["other work"] == pytest.approx(100e-6)
    assert steps[0].parts["gaps"] == pytest.approx(500e-6)
    assert steps[0].kernels["other work", "sample"] == (pytest.approx(100e-6), 1)


def test_the_share_of_a_second_stream_is_the_same_part() -> None:
    events = []
    for at in (0.0, 1000.0):
        events += [
            span("step[VERIFY bs=1]", "gpu_user_annotation", at, 400.0, STREAM),
            span("step[VERIFY bs=1]", "gpu_user_annotation", at + 10, 500.0, STREAM + 1),
        ]
    (step,) = profile_of(read(packed(events), "t")).steps
    assert step.parts["verify"] == pytest.approx(510e-6)


def test_parts_that_touch_stay_apart_whatever_the_clock_rounds() -> None:
    events = []
    for at in (0.0, 1000.0, 2000.0):
        events += [
            span("step[VERIFY bs=1]", "gpu_user_annotation", at, 400.0003, STREAM),
            span("draft_extend", "gpu_user_annotation", at + 400, 100.0, STREAM),
            span("draft", "gpu_user_annotation", at + 499.9998, 200.0, STREAM),
        ]
    step = profile_of(read(packed(events), "t")).steps[0]
    assert step.parts["draft-extend"] == pytest.approx(100e-6, rel=1e-4)
    assert step.parts["draft"] == pytest.approx(200e-6, rel=1e-4)


def test_steps_of_another_batch_size_do_not_count() -> None:
    names = ["step[DECODE bs=1]", *["step[DECODE bs=4]"] * 4, "step[DECODE bs=2]"]
    events = [span(name, "user_annotation", 100.0 * i, 40.0, HOST) for i, name in enumerate(names)]
    assert len(profile_of(read(packed(events), "t")).steps) == 3


def test_a_step_in_which_a_prompt_was_read_does_not_count() -> None:
    events = [
        span("step[DECODE bs=1]", "user_annotation", at, 40.0, HOST) for at in (0.0, 100.0, 200.0, 300.0)
    ]
    events.append(span("step[EXTEND bs=1 toks=9]", "user_annotation", 150.0, 40.0, HOST))
    assert len(profile_of(read(packed(events), "t")).steps) == 2


def test_operators_keep_what_is_not_spent_within_them() -> None:
    events = []
    for at in (0.0, 100.0, 200.0):
        events += [
            span("step[DECODE bs=1]", "user_annotation", at, 50.0, HOST),
            span("outer", "cpu_op", at + 1, 40.0, HOST),
            span("inner", "cpu_op", at + 2, 10.0, HOST),
            span("inner", "cpu_op", at + 20, 5.0, HOST),
            span("elsewhere", "cpu_op", at + 3, 7.0, HOST + 1),
        ]
    step = profile_of(read(packed(events), "t")).steps[0]
    assert step.kernels == {
        ("decode", "outer"): (pytest.approx(25e-6), 1),
        ("decode", "inner"): (pytest.approx(15e-6), 2),
    }


def test_genuine_sglang_with_mtp_names_all_parts() -> None:
    profile = recorded("nextn")
    assert (profile.by, profile.speculative, len(profile.steps)) == ("host", True, 3)
    for step in profile.steps:
        assert min(step.parts[part] for part in ("verify", "draft", "draft-extend", "gaps")) > 0
        assert "decode" not in step.parts
        assert sum(step.parts.values()) == pytest.approx(step.length_s)
        for part, length_s in step.parts.items():
            ran = sum(seconds for (where, _), (seconds, _n) in step.kernels.items() if where == part)
            assert ran <= length_s * 1.001


def test_genuine_sglang_without_mtp_decodes() -> None:
    profile = recorded("off")
    assert (profile.by, profile.speculative, len(profile.steps)) == ("host", False, 3)
    assert all(
        step.parts["decode"] > step.length_s / 2 and "draft" not in step.parts for step in profile.steps
    )


def test_a_release_that_names_no_steps_has_none() -> None:
    assert profile_of(read(packed([span("aten::mm", "cpu_op", 1.0, 2.0, HOST)]), "t")).steps == ()
