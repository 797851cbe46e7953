"""What the choice of kernel backends does on the modelled card (SM120): some do not start, some are slower.

Which ones refuse follows SGLang's documentation; how much slower the others are is invented, in a plausible order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SM100 = "is only supported on SM100 (B200, GB200); this GPU is SM120"
_HOPPER = "requires SM>=80 and SM<=90; this GPU is SM120"

REFUSED: Mapping[tuple[str, str], str] = {
    ("moe_runner_backend", "flashinfer_trtllm"): _SM100,
    ("moe_runner_backend", "flashinfer_trtllm_routed"): _SM100,
    ("moe_runner_backend", "deep_gemm"): _SM100,
    ("fp4_gemm_runner_backend", "flashinfer_trtllm"): _SM100,
    ("attention_backend", "fa3"): _HOPPER,
    ("attention_backend", "flashmla"): _HOPPER,
    ("attention_backend", "trtllm_mla"): _SM100,
}

PACE: Mapping[tuple[str, str], float] = {
    ("moe_runner_backend", "triton"): 0.84,
    ("moe_runner_backend", "marlin"): 0.77,
    ("moe_runner_backend", "cutlass"): 0.95,
    ("moe_runner_backend", "flashinfer_cutedsl"): 0.97,
    ("fp4_gemm_runner_backend", "flashinfer_cudnn"): 0.99,
    ("fp4_gemm_runner_backend", "marlin"): 0.88,
    ("attention_backend", "triton"): 0.97,
    ("attention_backend", "trtllm_mha"): 1.01,
}


def refusal(settings: Mapping[str, Any]) -> str | None:
    """Why the server does not start with these backends; None if it does."""
    for (key, value), reason in REFUSED.items():
        if settings[key] == value:
            return f"{key}={value} {reason}"
    return None


def pace(settings: Mapping[str, Any]) -> float:
    """The speed of decoding with these backends, 1.0 being that of the defaults."""
    found = 1.0
    for (key, value), factor in PACE.items():
        if settings[key] == value:
            found *= factor
    return found
