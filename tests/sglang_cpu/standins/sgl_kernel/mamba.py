"""The gated delta net of Qwen3-Next and Qwen3.5 in plain torch.

Signatures are those of the published package's `sgl_kernel/mamba.py`, plus the keyword arguments that the verify
pass of speculative decoding hands over: it keeps the state after every draft, so that the state after the last
accepted one can be committed.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor


def short_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None) -> Tensor:
    """Causal depthwise convolution: x [channels, kernel - 1 + T] with its past in front -> [channels, T]."""
    bias = None if bias is None else bias.float()
    y = F.conv1d(x[None].float(), weight[:, None].float(), bias, groups=x.shape[0])[0]
    return F.silu(y) if activation in ("silu", "swish") else y


def causal_conv1d_fn_cpu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | None,
    conv_states: Tensor,
    has_initial_state: Tensor,
    cache_indices: Tensor,
    query_start_loc: Tensor,
    seq_lens_cpu: Any = None,
) -> Tensor:
    """Prefill: convolve each request's segment of x [channels, tokens] and leave its last columns as its state."""
    output, past = torch.empty_like(x), weight.shape[1] - 1
    bounds = query_start_loc.tolist()
    for index, slot in enumerate(cache_indices.tolist()):
        segment = slice(bounds[index], bounds[index + 1])
        if slot < 0 or segment.start == segment.stop:
            continue
        state = conv_states[slot] if bool(has_initial_state[index]) else torch.zeros_like(conv_states[slot])
        full = torch.cat([state.to(x.dtype), x[:, segment]], 1)
        output[:, segment] = short_convolution(full, weight, bias, activation).to(output.dtype)
        conv_states[slot] = full[:, -past:].to(conv_states.dtype)
    return output


def causal_conv1d_update_cpu(
    x: Tensor,
    conv_states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | None,
    conv_state_indices: Tensor,
    intermediate_conv_window: Tensor | None = None,
    intermediate_state_indices: Tensor | None = None,
    retrieve_next_token: Tensor | None = None,
    retrieve_next_sibling: Tensor | None = None,
    retrieve_parent_token: Tensor | None = None,
) -> Tensor:
    """Decode (x [requests, channels]) or verify (x [requests, channels, drafts]).

    Decoding moves the state on. Verifying leaves it and stores the state after each draft instead.
    """
    require_chain(retrieve_parent_token)
    tokens = x[..., None] if x.dim() == 2 else x
    output, past = torch.empty_like(tokens), weight.shape[1] - 1
    for index, slot in enumerate(conv_state_indices.tolist()):
        if slot < 0:
            continue
        full = torch.cat([conv_states[slot].to(x.dtype), tokens[index]], 1)
        output[index] = short_convolution(full, weight, bias, activation).to(output.dtype)
        if intermediate_conv_window is None or intermediate_state_indices is None:
            conv_states[slot] = full[:, -past:].to(conv_states.dtype)
            continue
        row = int(intermediate_state_indices[index])
        for step in range(tokens.shape[2]):
            intermediate_conv_window[row, step] = full[:, step + 1 : step + 1 + past]
    return output[..., 0] if x.dim() == 2 else output


def delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    beta: Tensor,
    state: Tensor,
    normalize: bool,
    states: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The gated delta rule, token by token (https://arxiv.org/abs/2412.06464).

    query, key [T, H, K]; value [T, V heads, V]; decay (log) and beta [T, V heads]; state [V heads, V, K].
    Returns the output [T, V heads, V] and the last state; `states` receives the state after every token.
    """
    query, key, value, decay, beta, state = (t.float() for t in (query, key, value, decay, beta, state))
    scale = query.shape[-1] ** -0.5
    if normalize:
        query, key = F.normalize(query, dim=-1, eps=1e-6), F.normalize(key, dim=-1, eps=1e-6)
    heads_per_group = value.shape[1] // query.shape[1]
    query = query.repeat_interleave(heads_per_group, 1) * scale
    key = key.repeat_interleave(heads_per_group, 1)
    output = torch.empty_like(value)
    for step in range(len(value)):
        state = state * decay[step].exp()[:, None, None]
        error = value[step] - (state @ key[step][..., None])[..., 0]
        state = state + (error * beta[step][:, None])[..., None] * key[step][:, None, :]
        output[step] = (state @ query[step][..., None])[..., 0]
        if states is not None:
            states[step] = state.to(states.dtype)
    return output, state


def chunk_gated_delta_rule_cpu(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    cu_seqlens: Tensor,
    head_first: bool = False,
    use_qk_l2norm_in_kernel: bool = True,
    initial_state_indices: Tensor | None = None,
) -> tuple[Tensor, None, None]:
    """Prefill: all requests' tokens one after the other in [1, tokens, heads, dim]; states change in place."""
    if initial_state_indices is None or head_first:
        raise NotImplementedError("only the call of SGLang's own CPU path has a stand-in")
    output, bounds = torch.zeros_like(v), cu_seqlens.tolist()
    for index, slot in enumerate(initial_state_indices.tolist()):
        part = slice(bounds[index], bounds[index + 1])
        if slot < 0 or part.start == part.stop:
            continue
        result, state = delta_rule(
            q[0, part],
            k[0, part],
            v[0, part],
            g[0, part],
            beta[0, part],
            initial_state[slot],
            use_qk_l2norm_in_kernel,
        )
        output[0, part] = result.to(output.dtype)
        initial_state[slot] = state.to(initial_state.dtype)
    return output, None, None


def fused_gdn_gating_cpu(A_log: Tensor, a: Tensor, b: Tensor, dt_bias: Tensor) -> tuple[Tensor, Tensor]:  # noqa: N803
    """Log decay and write strength of each token and head, [1, tokens, heads] both."""
    decay = -A_log.float().exp() * F.softplus(a.float() + dt_bias.float())
    return decay[None], b.float().sigmoid()[None]


def fused_sigmoid_gating_delta_rule_update_cpu(
    A_log: Tensor,  # noqa: N803
    dt_bias: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    initial_state_source: Tensor,
    initial_state_indices: Tensor,
    cu_seqlens: Tensor,
    use_qk_l2norm_in_kernel: bool = True,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    is_kda: bool = False,
    disable_state_update: bool = False,
    intermediate_states_buffer: Tensor | None = None,
    intermediate_state_indices: Tensor | None = None,
    cache_steps: int | None = None,
    retrieve_parent_token: Tensor | None = None,
) -> Tensor:
    """Decode, or verify (then the state after each draft goes to the intermediate buffer)."""
    require_chain(retrieve_parent_token)
    if is_kda:
        raise NotImplementedError("Kimi's delta attention has no stand-in")
    heads = v.shape[2]
    decay, beta = fused_gdn_gating_cpu(A_log, a.reshape(-1, heads), b.reshape(-1, heads), dt_bias)
    output, bounds = torch.zeros_like(v), cu_seqlens.tolist()
    for index, slot in enumerate(initial_state_indices.tolist()[: len(bounds) - 1]):
        part = slice(bounds[index], bounds[index + 1])
        if slot < 0 or part.start == part.stop:
            continue
        states = None
        if intermediate_states_buffer is not None and intermediate_state_indices is not None:
            states = intermediate_states_buffer[int(intermediate_state_indices[index])]
        result, state = delta_rule(
            q[0, part],
            k[0, part],
            v[0, part],
            decay[0, part],
            beta[0, part],
            initial_state_source[slot],
            use_qk_l2norm_in_kernel,
            states,
        )
        output[0, part] = result.to(output.dtype)
        if not disable_state_update:
            initial_state_source[slot] = state.to(initial_state_source.dtype)
    return output


def rms_normalized(x: Tensor, eps: float) -> Tensor:
    """x divided by its root mean square over the last dimension, in float32."""
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def fused_rmsnorm_gated_cpu(x: Tensor, weight: Tensor, z: Tensor, eps: float) -> Tensor:
    """RMS norm of the delta net's output, times SiLU of its gate."""
    return (rms_normalized(x, eps) * weight.float() * F.silu(z.float())).to(x.dtype)


def fused_qk_gemma_rmsnorm_cpu(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, head_dim: int
) -> tuple[Tensor, Tensor]:
    """RMS norm of queries and keys head by head; Gemma's weights are offsets from 1."""
    q, k = q.reshape(-1, head_dim), k.reshape(-1, head_dim)
    return (
        (rms_normalized(q, eps) * (1 + q_weight.float())).to(q.dtype),
        (rms_normalized(k, eps) * (1 + k_weight.float())).to(k.dtype),
    )


def fused_qk_gemma_rmsnorm_with_gate_cpu(
    q_gate: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, head_dim: int, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """As above, where each head's query and output gate come side by side."""
    q, gate = q_gate.view(q_gate.shape[0], num_heads, 2 * head_dim).chunk(2, -1)
    q, k = fused_qk_gemma_rmsnorm_cpu(q, k, q_weight, k_weight, eps, head_dim)
    return q, k, gate.reshape(-1, head_dim).contiguous()


def fused_sigmoid_mul_cpu(x: Tensor, gate: Tensor) -> None:
    """Gate the attention's output in place."""
    x.mul_(gate.reshape(x.shape).float().sigmoid().to(x.dtype))


def fused_qkvzba_split_reshape_cat_contiguous_cpu(
    qkvz: Tensor, ba: Tensor, num_k: int, num_v: int, head_k: int, head_v: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split the two input projections of the delta net into (q, k, v), z, b and a."""
    width = 2 * num_k * head_k + num_v * head_v
    z = qkvz[:, width:].reshape(-1, num_v, head_v)
    return qkvz[:, :width].contiguous(), z, ba[:, :num_v].contiguous(), ba[:, num_v:].contiguous()


def require_chain(retrieve_parent_token: Tensor | None) -> None:
    """Refuse draft trees (topk > 1)."""
    if retrieve_parent_token is not None:
        raise NotImplementedError("draft trees (--speculative-eagle-topk above 1) have no stand-in")


OPERATIONS: tuple[Callable[..., Any], ...] = (
    fused_gdn_gating_cpu,
    fused_sigmoid_gating_delta_rule_update_cpu,
    fused_rmsnorm_gated_cpu,
    fused_qk_gemma_rmsnorm_cpu,
    fused_qk_gemma_rmsnorm_with_gate_cpu,
    fused_sigmoid_mul_cpu,
    fused_qkvzba_split_reshape_cat_contiguous_cpu,
)
