"""An SGLang plugin that slows one thing of a server by hand: to see that the suite names that thing and no other.

A build has it when PYTHONPATH names this directory. `SLOWED` says what: `draft 0.01` waits 10 ms within each drafting,
`kernel 3` computes each expert mix of the target model three times, in drafting and in verifying alike.
"""

import os
import time
from collections.abc import Callable
from typing import Any

VARIABLE = "SLOWED"
DRAFT = "sglang.srt.speculative.eagle_worker_v2.EagleDraftWorker.draft_forward"
KERNEL = "sglang.srt.models.qwen2_moe.fused_gate_sigmoid_mul_add"


def activate() -> None:
    """Called by SGLang in each of its processes, before its own modules are used."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    what, _, how_much = os.environ.get(VARIABLE, "").partition(" ")
    if what == "draft":
        HookRegistry.register(DRAFT, waiting(float(how_much)), HookType.AROUND)
    elif what == "kernel":
        HookRegistry.register(KERNEL, repeated(int(how_much)), HookType.AROUND)


def waiting(seconds: float) -> Callable[..., Any]:
    """A hook that waits before what it is around."""

    def hook(original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        time.sleep(seconds)
        return original(*arguments, **options)

    return hook


def repeated(times: int) -> Callable[..., Any]:
    """A hook that has the same computed again, into copies of what is changed in place, before it is computed."""

    def hook(original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        for _ in range(times - 1):
            original(*(each.clone() for each in arguments), **options)
        return original(*arguments, **options)

    return hook
