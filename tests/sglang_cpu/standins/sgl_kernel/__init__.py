"""Stands in for SGLang's kernel package on a machine without a GPU: the same functions in plain torch.

The published `sgl-kernel` packages hold CUDA builds alone. These are the operations that SGLang 0.5.19 to 0.5.23
calls on `--device cpu` without AMX, for small dense, mixture-of-experts and gated-delta-net models with one-branch
(topk 1) EAGLE / NEXTN drafts. Everything above the kernels is SGLang's own. Names, argument order and in-place
effects are those of the real operations; speed is not.
"""

import torch

from . import attention, drafts, mamba
from .drafts import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    build_tree_kernel_efficient_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
    verify_tree_greedy_cpu,
)

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "drafts",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
__version__ = "0.0.0+standin"

# SGLang looks these up as torch operators; a Python function in the namespace is called just the same.
for operation in (*attention.OPERATIONS, *mamba.OPERATIONS):
    setattr(torch.ops.sgl_kernel, operation.__name__, operation)
