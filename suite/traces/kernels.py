"""Names of kernels: what two builds call alike, and what sort of work a kernel is, in an engineer's words."""

from __future__ import annotations

import re

_BRACKETS = {"<": ">", "(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_BRACKETS.values())
_MARK = re.compile(r"(?:[_.]?(?:0x)?[0-9a-f]{8,}|(?:_(?:\d+[a-z]*)+)+)$")
"""Hashes of builds, numbers of variants and specialisations (`0d1d2de`) at the end of a name."""
_ANONYMOUS = "(anonymous namespace)::"
STEM_CHARS = 80

KINDS: tuple[tuple[str, str], ...] = (
    ("all-reduce", r"all_?reduce|cross_device_reduce|one_?shot|two_?shot|multimem"),
    ("other communication", r"nccl|all_?gather|reduce_?scatter|all_?to_?all|broadcast|nvshmem|gloo|c10d"),
    ("MoE", r"moe|expert|grouped_?gemm|group_?gemm|topk_?gating"),
    ("linear attention", r"gdn|delta_?(rule|net)|mamba|ssm|ssd|causal_conv|recurrent|chunk_(fwd|gated|local|scaled)|kda"),
    ("attention", r"attention|attn|fmha|flash|batch_?(decode|prefill)|paged|mla|merge_state|scaled_dot_product"),
    ("quantisation", r"quant|fp8|fp4|nvfp4|scaled_?(fp|int)|to_?e4m3"),
    ("matrix products", r"gemm|gemv|cutlass|cublas|nvjet|matmul|addmm|\bb?mm\b|linear|splitk|wgmma"),
    ("norm", r"norm|rms"),
    ("rotary", r"rope|rotary"),
    ("activation", r"silu|gelu|swiglu|act_and_mul|sigmoid|softplus"),
    ("choosing tokens", r"sampl|argmax|top_?[kp]|softmax|verify_tree|eagle|build_tree|multinomial|sort"),
    ("copies", r"memcpy|memset|copy|fill|cat|index|gather|scatter|slice|clone|contiguous|::to$|empty|zeros|stack"),
    ("small arithmetic", r"elementwise|vectorized|reduce|add|mul|div|sub|exp|cumsum|where|clamp|triton_"),
)  # fmt: skip
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in KINDS)
OTHER_KIND = "other kernels"

WAITING = "(between kernels)"
"""No kernel: time of a part in which none ran."""
WAITING_HOST = "(between operators)"
WAITING_KIND = "host code between kernels"


def stem(name: str) -> str:
    """A kernel's name without what differs from build to build: template arguments, parameters, hashes, variants."""
    text = name.replace(_ANONYMOUS, "").removeprefix("void ").removeprefix("static ")
    kept = _outside_brackets(text).strip()
    while (short := _MARK.sub("", kept)) != kept and short.strip("_. "):
        kept = short
    return (kept.strip("_. ") or text)[:STEM_CHARS]


def _outside_brackets(text: str) -> str:
    depth, kept = 0, []
    for letter in text:
        if letter in _BRACKETS:
            depth += 1
        elif letter in _CLOSING:
            depth = max(depth - 1, 0)
        elif not depth:
            kept.append(letter)
    return "".join(kept)


def kind(name: str) -> str:
    """What sort of work it is; the whole name counts, since templates often say it."""
    if name in (WAITING, WAITING_HOST):
        return WAITING_KIND
    return next((word for word, pattern in _KINDS if pattern.search(name)), OTHER_KIND)
