"""Makes a tiny checkpoint that real SGLang serves: config, tokenizer and random weights, same options, same bytes.

    python -m tests.sglang_cpu.checkpoint --family qwen3_5_moe_vl --block 0.12 --mtp-noise 0.15 DIR

The MTP head decides how many drafts are accepted, and nothing else: greedy answers are those of the target, whose
weights do not depend on the head. Standard library only.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from .tokenizer import SPECIAL_IDS, VOCABULARY, WORDS, tokenizer_config_json, tokenizer_json
from .weights import Weights, safetensors_bytes

MTP_HEADS = {
    "copy": "passes the token's embedding through, as the target's residual stream does, but for --mtp-noise",
    "random": "random weights: a dead draft, nearly nothing is accepted",
    "missing": "declared in config.json, but its tensors are left out, as a broken conversion does",
    "none": "neither declared nor stored: a checkpoint without MTP",
}
HIDDEN = 64
RMS_NORM_EPS = 1e-6
ROPE_THETA = 10000.0


@dataclass(frozen=True, slots=True)
class Options:
    """What may be chosen of a checkpoint.

    `block` is the standard deviation of the decoder blocks' weights: at 0.03 a block hardly attends to what came
    before (drafts are easy), at 0.15 it does. `mtp_noise` is that of the noise on a copying MTP head.
    """

    block: float = 0.12
    mtp_head: str = "copy"
    mtp_noise: float = 0.15
    seed: int = 0

    @property
    def mtp_declared(self) -> bool:
        return self.mtp_head != "none"

    @property
    def mtp_stored(self) -> bool:
        return self.mtp_head in ("copy", "random")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint before it is written: config.json, the weights, and other small files by name."""

    config: Mapping[str, object]
    weights: Weights
    files: Mapping[str, str]


def dump(content: Mapping[str, object]) -> str:
    """JSON as it is written to the checkpoint."""
    return json.dumps(content, indent=1) + "\n"


def vocabulary(weights: Weights) -> None:
    """Embedding and output head.

    A word's row of the head is the embedding of another word, along one cycle through all words: each word has a
    likeliest successor of its own, so answers do not run in small circles, and a draft that knows the last word
    alone can be right. All other rows are zero: only words are answered, and no answer ends before `max_tokens`.
    """
    embedding = weights.normal_rows("model.embed_tokens.weight", VOCABULARY, HIDDEN)
    head = [[0.0] * HIDDEN for _ in range(VOCABULARY)]
    order = weights.shuffled("word order", WORDS)
    for word, successor in zip(order, [*order[1:], order[0]], strict=True):
        head[successor] = embedding[word]
    weights.put("model.embed_tokens.weight", (VOCABULARY, HIDDEN), chain.from_iterable(embedding))
    weights.put("lm_head.weight", (VOCABULARY, HIDDEN), chain.from_iterable(head))


# ---------------------------------------------------------------------------------------------- Qwen3.5
LAYERS = 4
FULL_ATTENTION_EVERY = 4
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 32
LINEAR_KEY_HEADS, LINEAR_VALUE_HEADS, LINEAR_HEAD_DIM, LINEAR_KERNEL = 2, 4, 16, 4
EXPERTS, EXPERTS_PER_TOKEN, EXPERT_SIZE = 4, 2, 64


def qwen3_5_moe_vl(options: Options) -> Checkpoint:
    """The architecture of Qwen3.5-397B-A17B: gated delta net, full attention, experts, one MTP layer, vision tower.

    The vision tower is declared but has no weights (SGLang leaves it at its initial values): it is never asked.
    """
    return Checkpoint(qwen3_5_config(options), qwen3_5_weights(options), qwen3_5_processor_files())


def qwen3_5_config(options: Options) -> dict[str, object]:
    """config.json of `Qwen3_5MoeForConditionalGeneration`."""
    full = [(layer + 1) % FULL_ATTENTION_EVERY == 0 for layer in range(LAYERS)]
    text: dict[str, object] = {
        "model_type": "qwen3_5_moe_text",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": EXPERT_SIZE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": RMS_NORM_EPS,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": ROPE_THETA,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
        },
        "partial_rotary_factor": 0.25,
        "full_attention_interval": FULL_ATTENTION_EVERY,
        "attn_output_gate": True,
        "output_gate_type": "swish",
        "layer_types": ["full_attention" if is_full else "linear_attention" for is_full in full],
        "linear_conv_kernel_dim": LINEAR_KERNEL,
        "linear_key_head_dim": LINEAR_HEAD_DIM,
        "linear_value_head_dim": LINEAR_HEAD_DIM,
        "linear_num_key_heads": LINEAR_KEY_HEADS,
        "linear_num_value_heads": LINEAR_VALUE_HEADS,
        "mamba_ssm_dtype": "float32",
        "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "moe_intermediate_size": EXPERT_SIZE,
        "shared_expert_intermediate_size": EXPERT_SIZE,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "eos_token_id": SPECIAL_IDS["<|im_end|>"],
        "dtype": "bfloat16",
    }
    if options.mtp_declared:
        text |= {"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "text_config": text,
        "vision_config": {
            "model_type": "qwen3_5_moe",
            "depth": 1,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 64,
            "out_hidden_size": HIDDEN,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "in_channels": 3,
            "num_position_embeddings": 64,
            "hidden_act": "gelu_pytorch_tanh",
            "deepstack_visual_indexes": [],
        },
        "vision_start_token_id": SPECIAL_IDS["<|vision_start|>"],
        "vision_end_token_id": SPECIAL_IDS["<|vision_end|>"],
        "image_token_id": SPECIAL_IDS["<|image_pad|>"],
        "video_token_id": SPECIAL_IDS["<|video_pad|>"],
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def qwen3_5_weights(options: Options) -> Weights:
    """All tensors of the language model and, if it is stored, of its MTP head."""
    weights = Weights(options.seed)
    vocabulary(weights)
    weights.constant("model.norm.weight", HIDDEN, value=0.0)  # Gemma's norm: the weight is an offset from 1
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        qwen3_5_experts(weights, prefix, options.block)
        if (layer + 1) % FULL_ATTENTION_EVERY == 0:
            qwen3_5_attention(weights, prefix, options.block)
        else:
            qwen3_5_delta_net(weights, prefix, options.block)
    if options.mtp_stored:
        qwen3_5_mtp_head(weights, options)
    return weights.renamed("model.", "model.language_model.")


def qwen3_5_experts(weights: Weights, prefix: str, scale: float) -> None:
    """Router, experts, shared expert and the norms of one layer."""
    weights.random(f"{prefix}.mlp.gate.weight", EXPERTS, HIDDEN, scale=scale)
    weights.random(f"{prefix}.mlp.shared_expert_gate.weight", 1, HIDDEN, scale=scale)
    for expert in (*(f"experts.{index}" for index in range(EXPERTS)), "shared_expert"):
        weights.random(f"{prefix}.mlp.{expert}.gate_proj.weight", EXPERT_SIZE, HIDDEN, scale=scale)
        weights.random(f"{prefix}.mlp.{expert}.up_proj.weight", EXPERT_SIZE, HIDDEN, scale=scale)
        weights.random(f"{prefix}.mlp.{expert}.down_proj.weight", HIDDEN, EXPERT_SIZE, scale=scale)
    weights.constant(f"{prefix}.input_layernorm.weight", HIDDEN, value=0.0)
    weights.constant(f"{prefix}.post_attention_layernorm.weight", HIDDEN, value=0.0)


def qwen3_5_attention(weights: Weights, prefix: str, scale: float) -> None:
    """Gated full attention: the query projection also gives the output gate, hence twice the heads."""
    weights.random(f"{prefix}.self_attn.q_proj.weight", HEADS * HEAD_DIM * 2, HIDDEN, scale=scale)
    weights.random(f"{prefix}.self_attn.k_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN, scale=scale)
    weights.random(f"{prefix}.self_attn.v_proj.weight", KV_HEADS * HEAD_DIM, HIDDEN, scale=scale)
    weights.random(f"{prefix}.self_attn.o_proj.weight", HIDDEN, HEADS * HEAD_DIM, scale=scale)
    weights.constant(f"{prefix}.self_attn.q_norm.weight", HEAD_DIM, value=0.0)
    weights.constant(f"{prefix}.self_attn.k_norm.weight", HEAD_DIM, value=0.0)


def qwen3_5_delta_net(weights: Weights, prefix: str, scale: float) -> None:
    """Gated delta net: projections, short convolution, decay (A_log, dt_bias) and gated norm."""
    keys, values = LINEAR_KEY_HEADS * LINEAR_HEAD_DIM, LINEAR_VALUE_HEADS * LINEAR_HEAD_DIM
    prefix += ".linear_attn"
    weights.random(f"{prefix}.in_proj_qkv.weight", 2 * keys + values, HIDDEN, scale=scale)
    weights.random(f"{prefix}.in_proj_z.weight", values, HIDDEN, scale=scale)
    weights.random(f"{prefix}.in_proj_b.weight", LINEAR_VALUE_HEADS, HIDDEN, scale=scale)
    weights.random(f"{prefix}.in_proj_a.weight", LINEAR_VALUE_HEADS, HIDDEN, scale=scale)
    weights.random(f"{prefix}.conv1d.weight", 2 * keys + values, 1, LINEAR_KERNEL, scale=0.5)
    weights.random_f32(f"{prefix}.A_log", LINEAR_VALUE_HEADS, scale=scale)
    weights.random(f"{prefix}.dt_bias", LINEAR_VALUE_HEADS, scale=scale)
    weights.constant_f32(f"{prefix}.norm.weight", LINEAR_HEAD_DIM, value=1.0)
    weights.random(f"{prefix}.out_proj.weight", HIDDEN, values, scale=scale)


def qwen3_5_mtp_head(weights: Weights, options: Options) -> None:
    """One decoder layer behind `fc`, which mixes (embedding of the last token, hidden state of the target)."""
    qwen3_5_experts(weights, "mtp.layers.0", options.block)
    qwen3_5_attention(weights, "mtp.layers.0", options.block)
    for norm in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        weights.constant(f"mtp.{norm}.weight", HIDDEN, value=0.0)
    if options.mtp_head == "random":
        weights.random("mtp.fc.weight", HIDDEN, 2 * HIDDEN, scale=options.block)
    else:
        weights.passing_through("mtp.fc.weight", HIDDEN, 2 * HIDDEN, first_column=0, noise=options.mtp_noise)


def qwen3_5_processor_files() -> dict[str, str]:
    """Image and video processor settings, which the tokenizer of a vision model will not load without."""
    common: dict[str, object] = {
        "size": {"longest_edge": 65536, "shortest_edge": 1024},
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "processor_class": "Qwen3VLProcessor",
    }
    return {
        "preprocessor_config.json": dump({**common, "image_processor_type": "Qwen2VLImageProcessorFast"}),
        "video_preprocessor_config.json": dump({**common, "video_processor_type": "Qwen3VLVideoProcessor"}),
    }


# ------------------------------------------------------------------------------------------------- MiMo
MIMO_LAYERS, MIMO_HEADS, MIMO_KV_HEADS, MIMO_HEAD_DIM, MIMO_MLP = 2, 4, 2, 16, 128
MIMO_CONFIG_CLASS = '''"""MiMo's configuration: Qwen2's under another name (transformers does not know MiMo)."""

from transformers.models.qwen2.configuration_qwen2 import Qwen2Config


class MiMoConfig(Qwen2Config):
    model_type = "mimo"
'''


def mimo(options: Options) -> Checkpoint:
    """A dense attention-only model with one MTP layer, declared as `num_nextn_predict_layers`."""
    config: dict[str, object] = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "mimo",
        "auto_map": {"AutoConfig": "configuration_mimo.MiMoConfig"},
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": MIMO_MLP,
        "num_hidden_layers": MIMO_LAYERS,
        "num_attention_heads": MIMO_HEADS,
        "num_key_value_heads": MIMO_KV_HEADS,
        "head_dim": MIMO_HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": RMS_NORM_EPS,
        "rope_theta": ROPE_THETA,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "use_sliding_window": False,
        "sliding_window": None,
        "torch_dtype": "bfloat16",
        "bos_token_id": SPECIAL_IDS["<|endoftext|>"],
        "eos_token_id": SPECIAL_IDS["<|im_end|>"],
    }
    if options.mtp_declared:
        config["num_nextn_predict_layers"] = 1
    return Checkpoint(config, mimo_weights(options), {"configuration_mimo.py": MIMO_CONFIG_CLASS})


def mimo_weights(options: Options) -> Weights:
    """All tensors of the model and, if it is stored, of its MTP head (whose input is hidden state, then token)."""
    weights = Weights(options.seed)
    vocabulary(weights)
    weights.constant("model.norm.weight", HIDDEN, value=1.0)
    for layer in range(MIMO_LAYERS):
        mimo_block(weights, f"model.layers.{layer}", options.block)
    if options.mtp_stored:
        prefix = "model.mtp_layers.0"
        mimo_block(weights, prefix, options.block)
        for norm in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
            weights.constant(f"{prefix}.{norm}.weight", HIDDEN, value=1.0)
        name = f"{prefix}.input_proj.weight"
        if options.mtp_head == "random":
            weights.random(name, HIDDEN, 2 * HIDDEN, scale=options.block)
        else:
            weights.passing_through(name, HIDDEN, 2 * HIDDEN, first_column=HIDDEN, noise=options.mtp_noise)
    return weights


def mimo_block(weights: Weights, prefix: str, scale: float) -> None:
    """One decoder layer: attention with biases, and a dense MLP."""
    for part, heads in (("q", MIMO_HEADS), ("k", MIMO_KV_HEADS), ("v", MIMO_KV_HEADS)):
        weights.random(f"{prefix}.self_attn.{part}_proj.weight", heads * MIMO_HEAD_DIM, HIDDEN, scale=scale)
        weights.random(f"{prefix}.self_attn.{part}_proj.bias", heads * MIMO_HEAD_DIM, scale=scale)
    weights.random(f"{prefix}.self_attn.o_proj.weight", HIDDEN, MIMO_HEADS * MIMO_HEAD_DIM, scale=scale)
    weights.random(f"{prefix}.mlp.gate_proj.weight", MIMO_MLP, HIDDEN, scale=scale)
    weights.random(f"{prefix}.mlp.up_proj.weight", MIMO_MLP, HIDDEN, scale=scale)
    weights.random(f"{prefix}.mlp.down_proj.weight", HIDDEN, MIMO_MLP, scale=scale)
    weights.constant(f"{prefix}.input_layernorm.weight", HIDDEN, value=1.0)
    weights.constant(f"{prefix}.post_attention_layernorm.weight", HIDDEN, value=1.0)


# ---------------------------------------------------------------------------------------------- writing
FAMILIES: Mapping[str, Callable[[Options], Checkpoint]] = {"qwen3_5_moe_vl": qwen3_5_moe_vl, "mimo": mimo}


def write_checkpoint(family: str, options: Options, directory: Path) -> None:
    """Write the checkpoint directory whole: an earlier one is replaced at the end, or stays as it was."""
    checkpoint = FAMILIES[family](options)
    files = {
        "config.json": dump(checkpoint.config),
        "generation_config.json": dump({"eos_token_id": SPECIAL_IDS["<|im_end|>"]}),
        "tokenizer.json": dump(tokenizer_json()),
        "tokenizer_config.json": dump(tokenizer_config_json()),
        **checkpoint.files,
    }
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as temporary:
        made, replaced = Path(temporary, "made"), Path(temporary, "replaced")
        made.mkdir()
        for name, text in files.items():
            (made / name).write_text(text, encoding="utf-8")
        (made / "model.safetensors").write_bytes(safetensors_bytes(checkpoint.weights.tensors))
        if directory.exists():
            os.replace(directory, replaced)
        os.replace(made, directory)
        shutil.rmtree(replaced, ignore_errors=True)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line, documented by --help."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sglang_cpu.checkpoint",
        description="Make a tiny checkpoint with an MTP head that real SGLang serves.",
        epilog="MTP heads: " + "; ".join(f"{name}: {what}" for name, what in MTP_HEADS.items()) + ".",
    )
    defaults = Options()
    parser.add_argument(
        "directory", type=Path, help="where to write it; an existing checkpoint there is replaced"
    )
    parser.add_argument("--family", choices=sorted(FAMILIES), default="qwen3_5_moe_vl")
    parser.add_argument(
        "--block", type=float, default=defaults.block, help="weight scale (default %(default)s)"
    )
    parser.add_argument("--mtp-head", choices=list(MTP_HEADS), default=defaults.mtp_head)
    parser.add_argument("--mtp-noise", type=float, default=defaults.mtp_noise, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=defaults.seed)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Make one checkpoint; 0, or 2 with a message when the directory holds something else."""
    asked = parse_arguments(arguments)
    directory: Path = asked.directory
    if directory.exists() and not (directory / "config.json").is_file():
        print(f"{directory} exists and is no checkpoint (no config.json): not replaced", file=sys.stderr)
        return 2
    options = Options(asked.block, asked.mtp_head, asked.mtp_noise, asked.seed)
    write_checkpoint(asked.family, options, directory)
    print(f"{directory}: {asked.family}, MTP head {asked.mtp_head}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
