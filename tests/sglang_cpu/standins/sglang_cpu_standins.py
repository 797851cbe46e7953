"""An SGLang plugin (entry point group `sglang.srt.plugins`) for what the CPU path calls outside the kernel package.

SGLang 0.5.19 to 0.5.23 launches Triton kernels on CPU tensors in two places when there is no AMX: the gate of the
shared expert, and the commit of the accepted delta-net states after a verify pass. Torch versions replace both.
Older releases also name the device "cuda" literally; that is redirected.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor


def activate() -> None:
    """Called by SGLang in each of its processes, before its own modules are used."""
    import torch
    from sglang.kernels.ops.attention.fla import layernorm_gated
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    layernorm_gated._use_cpu = True  # decided by AMX alone, although the torch path needs none
    if not torch.cuda.is_available():
        torch.cuda.synchronize = lambda device=None: (
            None
        )  # up to 0.5.19, after sharing the MTP head's embedding

    HookRegistry.register(
        "sglang.srt.layers.attention.hybrid_linear_attn_backend.scatter_mamba_states_after_mtp_verify",
        scatter_mamba_states_after_mtp_verify,
        HookType.REPLACE,
    )
    HookRegistry.register(
        "sglang.srt.models.qwen2_moe.fused_gate_sigmoid_mul_add", fused_gate_sigmoid_mul_add, HookType.REPLACE
    )
    HookRegistry.register(
        "sglang.srt.mem_cache.memory_pool.MambaPool.__init__", with_cuda_as_cpu, HookType.AROUND
    )


def scatter_mamba_states_after_mtp_verify(
    mamba_caches: Any,
    state_indices_tensor: Tensor,
    last_correct_step_indices: Tensor,
    mamba_track_indices: Tensor | None,
    mamba_steps_to_track: Tensor,
    src_indices_raw: Tensor | None = None,
) -> None:
    """Copy the states stored after the last accepted draft to the request's (and the prefix cache's) slot."""
    import torch

    stores = [(mamba_caches.temporal, mamba_caches.intermediate_ssm)]
    stores += zip(mamba_caches.conv, mamba_caches.intermediate_conv_window, strict=False)
    copies = [(state_indices_tensor, last_correct_step_indices)]
    if mamba_track_indices is not None:
        copies.append((mamba_track_indices, mamba_steps_to_track))
    for slots, steps in copies:
        rows = torch.arange(len(steps)) if src_indices_raw is None else src_indices_raw.long()
        wanted = (steps >= 0) & (slots >= 0)
        if not bool(wanted.any()):
            continue
        for states, after_each_draft in stores:
            if states.numel():
                chosen = after_each_draft[:, rows[wanted], steps[wanted].long()]
                states[:, slots[wanted].long()] = chosen.to(states.dtype)


def fused_gate_sigmoid_mul_add(
    hidden_states: Tensor, gate_weight: Tensor, shared_output: Tensor, final_hidden_states: Tensor
) -> None:
    """Add the shared expert's output, weighted by its gate, to the routed experts' in place."""
    gate = (hidden_states.float() @ gate_weight.float()).sigmoid()[:, None]
    final_hidden_states += (gate * shared_output.float()).to(final_hidden_states.dtype)


def with_cuda_as_cpu(original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run a constructor that, up to 0.5.19, places its speculative scratch on a literal "cuda"."""
    import torch

    class CudaAsCpu(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if kwargs.get("device") == "cuda":
                kwargs["device"] = "cpu"
            return func(*args, **kwargs)

    with CudaAsCpu():
        return original(*arguments, **options)
