"""Paged attention in plain torch, for the two operations of SGLang's Intel AMX backend."""

from collections.abc import Callable, Sequence
from functools import wraps
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor


def attend(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, logit_cap: float, mask: Tensor
) -> Tensor:
    """Softmax attention with grouped heads: query [Q, H, D], keys and values [K, G, D], mask [Q, K] -> [Q, H, D]."""
    heads_per_group = query.shape[1] // keys.shape[1]
    keys = keys.float().repeat_interleave(heads_per_group, 1)
    values = values.float().repeat_interleave(heads_per_group, 1)
    scores = torch.einsum("qhd,khd->hqk", query.float(), keys) * scale
    if logit_cap > 0:
        scores = logit_cap * torch.tanh(scores / logit_cap)
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)


def visible(query_positions: Tensor, key_positions: Tensor, causal: bool, window: int) -> Tensor:
    """Which keys each query may see, [Q, K]; `window` is SGLang's sliding window plus one, 0 for none."""
    mask = key_positions[None] <= query_positions[:, None]
    if not causal:
        mask = torch.ones_like(mask)
    if window > 0:
        mask &= key_positions[None] > query_positions[:, None] - window
    return mask


def require_plain(is_cross_attn: bool, encoder_lens: Tensor | None, sinks: Tensor | None) -> None:
    """Refuse what no model served here needs, rather than answer wrongly."""
    if is_cross_attn or encoder_lens is not None or sinks is not None:
        raise NotImplementedError("cross attention and attention sinks have no stand-in")


def decode_attention_cpu(
    query: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    output: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    loc: Tensor,
    attn_logits: Tensor,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool = False,
    sliding_window_size: int = 0,
    encoder_lens: Tensor | None = None,
    sinks: Tensor | None = None,
) -> None:
    """One new token a request: store its key and value at `loc`, attend over the request, write to `output`."""
    require_plain(is_cross_attn, encoder_lens, sinks)
    if key is not None and value is not None:
        k_buffer[loc.long()] = key.reshape(-1, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc.long()] = value.reshape(-1, *v_buffer.shape[1:]).to(v_buffer.dtype)
    for index, length in enumerate(seq_lens.tolist()):
        slots = req_to_token[int(req_pool_indices[index]), :length].long()
        last = torch.tensor([length - 1])
        output[index] = attend(
            query[index : index + 1],
            k_buffer[slots] * k_scale,
            v_buffer[slots] * v_scale,
            sm_scale,
            logit_cap,
            visible(last, torch.arange(length), True, sliding_window_size),
        )[0].to(output.dtype)


def extend_attention_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool = False,
    sliding_window_size: int = 0,
    encoder_lens: Tensor | None = None,
    sinks: Tensor | None = None,
    tree_mask: Tensor | None = None,
    is_causal: bool = True,
) -> None:
    """Several new tokens per request (prefill, and the verify pass); their keys are in the buffers already.

    `tree_mask`, if given, is one [new, new] mask a request, one after the other: which drafts see which.
    """
    require_plain(is_cross_attn, encoder_lens, sinks)
    mask_start = 0
    starts: Sequence[int] = extend_start_loc.tolist()
    for index, (length, new, start) in enumerate(
        zip(seq_lens.tolist(), extend_seq_lens.tolist(), starts, strict=True)
    ):
        slots = req_to_token[int(req_pool_indices[index]), :length].long()
        mask = visible(
            torch.arange(length - new, length), torch.arange(length), is_causal, sliding_window_size
        )
        if tree_mask is not None:
            mask[:, length - new :] = tree_mask[mask_start : mask_start + new * new].view(new, new).bool()
            mask_start += new * new
        output[start : start + new] = attend(
            query[start : start + new],
            k_buffer[slots] * k_scale,
            v_buffer[slots] * v_scale,
            sm_scale,
            logit_cap,
            mask,
        ).to(output.dtype)


def without_scales(operation: Callable[..., None], position: int) -> Callable[..., None]:
    """The operation as SGLang calls it up to 0.5.19: without k_scale and v_scale at `position`."""

    @wraps(operation)
    def call(*arguments: Any) -> None:
        operation(*arguments[:position], 1.0, 1.0, *arguments[position:])

    return call


OPERATIONS: tuple[Callable[..., None], ...] = (decode_attention_cpu, extend_attention_cpu)
if tuple(int(part) for part in version("sglang").split(".")[:3]) < (0, 5, 20):
    OPERATIONS = (without_scales(decode_attention_cpu, 3), without_scales(extend_attention_cpu, 6))
