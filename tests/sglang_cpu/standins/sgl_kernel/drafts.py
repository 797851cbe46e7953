"""The bookkeeping of EAGLE / NEXTN speculative decoding in plain torch: cache slots, draft chain, verification.

Only one-branch drafts (topk 1) are supported: the draft tree is a chain of `draft_token_num` tokens whose first is
the last token that is known to be right. `retrive_*` is SGLang's own spelling.
"""

import ctypes

import torch
from torch import Tensor

FULL_MASK = (
    0  # SGLang's TreeMaskMode: rows also cover the prompt; any other mode here covers the drafts alone
)


def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Write new cache slots into each request's row, from its start to its end offset."""
    used = 0
    rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=False)
    for request, start, end in rows:
        req_to_token[request, start:end] = out_cache_loc[used : used + end - start].to(req_to_token.dtype)
        used += end - start


def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """The opposite way: gather each request's cache slots, from its start to its end offset."""
    used = 0
    rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=False)
    for request, start, end in rows:
        out_cache_loc[used : used + end - start] = req_to_token[request, start:end].to(out_cache_loc.dtype)
        used += end - start


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Gather the slots that follow each request's tokens, `topk * num_steps` a request, for its drafts."""
    count = topk * num_steps
    for index, (request, length) in enumerate(
        zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=False)
    ):
        slots = req_to_token[request, length : length + count]
        out_cache_loc[index * count : (index + 1) * count] = slots.to(out_cache_loc.dtype)


def build_draft_decode_metadata_cpu(
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, topk: int, num_steps: int, pool_len: int
) -> Tensor:
    """Rows of cache slots for the draft model's decoding: each request's tokens, then its draft slots."""
    require_chain(topk)
    table = torch.zeros(len(seq_lens), pool_len, dtype=req_to_token.dtype)
    for index, (request, length) in enumerate(
        zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=False)
    ):
        end = min(length + num_steps, pool_len, req_to_token.shape[1])
        table[index, :end] = req_to_token[request, :end]
    return table


def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Describe each request's chain of drafts: who follows whom, at which position, and who sees whom.

    The sibling links stay as they come, -1: a chain has none.
    """
    require_chain(topk)
    count = draft_token_num
    sees = torch.ones(count, count, dtype=torch.bool).tril()
    mask_start = 0
    for index, length in enumerate(verified_seq_len.tolist()):
        retrive_index[index] = torch.arange(index * count, (index + 1) * count)
        retrive_next_token[index, : count - 1] = torch.arange(1, count)
        positions[index * count : (index + 1) * count] = torch.arange(length, length + count)
        width = length + count if int(tree_mask_mode) == FULL_MASK else count
        mask = tree_mask[mask_start : mask_start + count * width].view(count, width)
        mask[:, width - count :] = sees.to(mask.dtype)
        mask_start += count * width


def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Accept drafts along the chain for as long as each is what the target would have said.

    Writes the target's tokens into `predicts` at every accepted place, the accepted places into `accept_index`
    (the root first), and the number of accepted drafts, without the bonus token, into `accept_token_num`.
    """
    wanted = target_predict.reshape(-1).tolist()
    for index, drafts in enumerate(candidates.tolist()):
        places = retrive_index[index].tolist()
        accepted = 0
        while accepted + 1 < min(len(drafts), accept_index.shape[1]):
            if drafts[accepted + 1] != wanted[places[accepted]]:
                break
            accepted += 1
        for step, place in enumerate(places[: accepted + 1]):
            accept_index[index, step] = place
            predicts[place] = wanted[place]
        accept_token_num[index] = accepted


def fill_bonus_tokens_cpu(
    accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int
) -> None:
    """Pick each request's last accepted token, from which the next drafts start."""
    last = torch.arange(len(accept_lens)) * accept_stride + accept_lens.long() - 1
    bonus_tokens.copy_(accept_tokens.reshape(-1)[last])


def fill_accept_out_cache_loc_cpu(
    accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor
) -> None:
    """Gather the cache slots of the accepted tokens, in order."""
    places = accept_index.reshape(-1)
    places = places[places > -1].long()
    accept_out_cache_loc[: len(places)] = out_cache_loc[places]


def rotate_input_ids_cpu(
    input_ids: Tensor,
    extend_start_loc: Tensor,
    extend_seq_lens: Tensor,
    topk_index: Tensor,
    select_index: Tensor | None = None,
) -> None:
    """Shift each request's tokens left by one and put its newly drafted token at the end (or where selected)."""
    new_tokens = topk_index.reshape(-1)
    segments = zip(extend_start_loc.tolist(), extend_seq_lens.tolist(), strict=False)
    for index, (start, length) in enumerate(segments):
        end = start + length - 1
        input_ids[start:end] = input_ids[start + 1 : end + 1].clone()
        input_ids[end if select_index is None else int(select_index[index])] = new_tokens[index]


def copy_all_layer_kv_cache_cpu(data_ptrs: Tensor, strides: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Move cache rows inside each layer's buffer, given by address; all sources are read before any is written."""
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(address + source * stride, stride) for source in src_loc.tolist()]
        for target, row in zip(tgt_loc.tolist(), rows, strict=True):
            ctypes.memmove(address + target * stride, row, stride)


def require_chain(topk: int) -> None:
    """Refuse draft trees, rather than accept nothing of them in silence."""
    if topk != 1:
        raise NotImplementedError(f"--speculative-eagle-topk {topk}: only chains (1) have a stand-in")
