"""Two profiles side by side: the part that grew comes first, then its kernels; what is chance is called chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.traces.compare import StepDifference, compare
from suite.traces.errors import TraceError
from suite.traces.kernels import kind, stem
from suite.traces.steps import profile_of
from suite.traces.told import headline, lines
from suite.traces.torch_trace import read
from tests.traces.made import gpu_trace, packed, span

VERIFY = {"void moe::fused_moe<bf16>(int)": 8000.0, "all_reduce_one_shot": 1000.0}


def difference(before: bytes, after: bytes) -> StepDifference:
    return compare(*(profile_of(read(data, "t")) for data in (before, after)))


def test_the_sentence_names_the_part_and_then_the_kernel() -> None:
    slower = {**VERIFY, "void moe::fused_moe<bf16>(int)": 8900.0}
    text = headline(difference(gpu_trace(verify=VERIFY), gpu_trace(verify=slower)))
    assert text.startswith("verify +0.900 of +0.900 ms: MoE +11 %; ")
    assert "gaps +0.000" in text


@given(
    part=st.sampled_from(["verify", "draft", "extend"]),
    factor=st.floats(1.05, 3.0),
    faster=st.booleans(),
)
def test_whichever_part_is_slowed_is_named_first(part: str, factor: float, faster: bool) -> None:
    normal = {"verify": {"a_gemm": 700.0}, "draft": {"b_gemm": 500.0}, "extend": {"c_gemm": 300.0}}
    slowed = {**normal, part: {name: length * factor for name, length in normal[part].items()}}
    traces = [gpu_trace(**one) for one in (normal, slowed)]  # type: ignore[arg-type]
    text = headline(difference(*(traces[::-1] if faster else traces)))
    assert text.startswith({"extend": "draft-extend"}.get(part, part) + (" -" if faster else " +"))


def test_a_host_that_keeps_the_gpu_waiting_is_a_gap() -> None:
    text = headline(difference(gpu_trace(), gpu_trace(gap_us=350.0)))
    assert text.startswith("gaps +0.300 of +0.300 ms: host code between kernels")


def test_a_kernel_under_another_name_is_told_as_gone_and_new() -> None:
    after = gpu_trace(draft={"marlin_gemm": 320.0})
    told = "\n".join(lines(difference(gpu_trace(), after)))
    assert "draft +0.120 of +0.120 ms" in told
    assert [word for word in ("marlin_gemm", "gemm_draft", "new", "gone") if word not in told] == []


def test_what_steps_differ_by_anyhow_is_no_change() -> None:
    wide = (0.0, 300.0, -300.0, 250.0, 100.0, -280.0)
    text = headline(
        difference(gpu_trace(gap_us=500.0, jitter=wide), gpu_trace(gap_us=510.0, jitter=wide[::-1]))
    )
    assert "no more than its steps differ by" in text


def test_a_profile_against_itself_says_so() -> None:
    trace = gpu_trace()
    assert "no more than its steps differ by (+0.000 ms" in headline(difference(trace, trace))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (gpu_trace(1), gpu_trace(), "reference shows 1 decoding steps, and 3 are needed"),
        (gpu_trace(), packed([]), "candidate shows 0 decoding steps"),
    ],
)
def test_too_few_steps_are_no_comparison(before: bytes, after: bytes, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        difference(before, after)


def test_a_candidate_that_stopped_speculating_has_other_steps() -> None:
    plain = packed([span("step[DECODE bs=1]", "gpu_user_annotation", 100.0 * i, 60.0, 7) for i in range(6)])
    with pytest.raises(TraceError, match="the reference verifies drafts and the candidate does not"):
        difference(gpu_trace(), plain)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::Foo<int>>(int, char*)",
         "at::native::vectorized_elementwise_kernel"),
        ("_fwd_grouped_kernel_stage1_0d1d2de", "_fwd_grouped_kernel_stage1"),
        ("triton_poi_fused_add_mul_12", "triton_poi_fused_add_mul"),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*)", "softmax_warp_forward"),
        ("kernel_cutlass_3a5f9c0d1e", "kernel_cutlass"),
        ("aten::mm", "aten::mm"),
        ("<>", "<>"),
    ],
)  # fmt: skip
def test_builds_name_the_same_kernel_a_little_differently(name: str, short: str) -> None:
    assert stem(name).lstrip("_") == short.lstrip("_")


@pytest.mark.parametrize(
    ("name", "sort"),
    [
        ("void sglang::cross_device_reduce_1stage<bf16, 8>(...)", "all-reduce"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all-reduce"),
        ("ncclDevKernel_AllGather_RING_LL", "other communication"),
        ("fused_moe_kernel_0d1d", "MoE"),
        ("nvjet_tst_128x64_64x7_coopB_NNT", "matrix products"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<...>", "attention"),
        ("fused_recurrent_gated_delta_rule_fwd_kernel", "linear attention"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
        ("something_else", "other kernels"),
    ],
)
def test_kernels_have_a_kind(name: str, sort: str) -> None:
    assert kind(name) == sort
