"""What SGLang makes of its command line: defaults, aliases and side effects of speculation, memory pools."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from simulator import backends, box
from simulator.arguments import Arguments, exists, release, table
from simulator.behaviour import Behaviour
from simulator.checkpoint import Checkpoint
from simulator.hardware import Speculation
from simulator.profiles import Profile
from simulator.scheduler import Limits

SPECULATIVE_BATCH_CAP = 48
DEFAULT_BATCH_CAP = 256
DEEP = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")
SECRETS = ("api_key", "admin_api_key", "ssl_keyfile_password")
_MIXING = ("EAGLE", "EAGLE3", "DFLASH", "DSPARK")
"""Those that 0.5.19 and later speculate with in mixed chunks, too."""
_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")


class LaunchError(Exception):
    """The server cannot start; `lines` are the last ones of its log, as SGLang writes them.

    `in_child`: SGLang meets this in a scheduler process, whose death the parent answers by killing itself.
    """

    def __init__(self, *lines: str, in_child: bool = False) -> None:
        super().__init__(lines[-1])
        self.lines = lines
        self.in_child = in_child


@dataclass(frozen=True, slots=True)
class Resolved:
    """A server's settings after resolution: `settings` as /server_info reports them, the rest for the model."""

    settings: dict[str, Any]
    speculation: Speculation | None
    forced_acceptance: float | None
    limits: Limits
    context_length: int
    served_name: str
    warnings: tuple[str, ...]


def resolve(arguments: Arguments, checkpoint: Checkpoint, profile: Profile, odd: Behaviour) -> Resolved:
    """Resolve a command line; LaunchError where SGLang gives up."""
    version = arguments.own.version
    settings = {row["name"]: row["unset"] for row in table() if exists(row, version)}
    given = dict(_flipped(odd, settings)) | arguments.given
    settings |= given
    warnings: list[str] = []
    settings["tokenizer_path"] = settings["tokenizer_path"] or settings["model_path"]
    settings["served_model_name"] = settings["served_model_name"] or settings["model_path"]
    context = settings["context_length"] or checkpoint.context_length
    if settings["random_seed"] is None:
        settings["random_seed"] = int.from_bytes(os.urandom(4), "big") % 2**30
    try:
        box.settle(settings, given, checkpoint)
    except box.Refusal as refusal:
        raise LaunchError("Traceback (most recent call last):", str(refusal)) from None
    if settings["device"] == "cuda" and (reason := backends.refusal(settings)):
        raise LaunchError("Traceback (most recent call last):", f"ValueError: {reason}", in_child=True)
    speculation = _speculate(settings, checkpoint, odd, version, warnings)
    limits = _limits(settings, context, profile, speculation is not None, odd)
    forced = os.environ.get("SGLANG_SIMULATE_ACC_LEN")
    return Resolved(
        settings=settings,
        speculation=speculation,
        forced_acceptance=float(forced) if forced and float(forced) > 0 else None,
        limits=limits,
        context_length=context,
        served_name=settings["served_model_name"],
        warnings=tuple(warnings),
    )


def _flipped(odd: Behaviour, settings: dict[str, Any]) -> list[tuple[str, Any]]:
    """The flipped defaults, each in the type of the setting it replaces."""
    flipped: list[tuple[str, Any]] = []
    for key, text in odd.flipped_defaults:
        if key not in settings:
            raise LaunchError(f"ValueError: flipped-default: no setting {key!r}")
        old = settings[key]
        value: Any = text
        if isinstance(old, bool):
            value = text.lower() in ("1", "true", "yes")
        elif isinstance(old, int | float):
            value = type(old)(text)
        flipped.append((key, None if text.lower() in ("none", "null") else value))
    return flipped


def _speculate(
    settings: dict[str, Any], checkpoint: Checkpoint, odd: Behaviour, version: str, warnings: list[str]
) -> Speculation | None:
    """Resolve the speculative settings in place, as SGLang's speculative hook does."""
    asked = settings["speculative_algorithm"]
    if odd.ignore_speculation:
        asked = settings["speculative_algorithm"] = None
    if asked is None and odd.speculate_unasked:
        asked = "NEXTN"
    if asked is None:
        return None
    algorithm = asked.upper()
    if algorithm not in _ALGORITHMS:
        raise LaunchError(f"ValueError: Unknown speculative algorithm name: {algorithm}")
    if algorithm in ("NEXTN", "EAGLE"):
        algorithm = "EAGLE"
    _side_effects(settings, algorithm, version, warnings)
    steps, topk, tokens = _chain(settings, checkpoint)
    if topk == 1 and tokens != steps + 1:
        warnings.append(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
        )
        tokens = steps + 1
    if (
        settings["speculative_draft_model_path"] is None
        and not checkpoint.mtp_layers
        and not odd.start_headless
    ):
        raise LaunchError(
            "Traceback (most recent call last):",
            '  File "sglang/srt/model_loader/loader.py", line 0, in load_model',
            f"ValueError: {checkpoint.architecture} checkpoint declares no MTP layers (mtp_num_hidden_layers): "
            "the draft model for speculative decoding cannot be loaded from it.",
            in_child=True,
        )
    if not odd.hidden_speculation:
        settings["speculative_algorithm"] = algorithm
        settings |= {
            "speculative_num_steps": steps,
            "speculative_eagle_topk": topk,
            "speculative_num_draft_tokens": tokens,
        }
    return None if odd.hollow_speculation else Speculation(steps)


def _side_effects(settings: dict[str, Any], algorithm: str, version: str, warnings: list[str]) -> None:
    """What speculation changes besides: the batch cap if it is unset; no mixed chunks where they do not go together."""
    if settings["max_running_requests"] is None:
        settings["max_running_requests"] = SPECULATIVE_BATCH_CAP
        warnings.append(
            "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly "
            "setting --max-running-requests."
        )
    mixes = release(version) >= (0, 5, 19) and algorithm in _MIXING
    if settings["enable_mixed_chunk"] and not mixes:
        settings["enable_mixed_chunk"] = False
        warnings.append(
            f"Mixed chunked prefill is disabled: {algorithm} speculative decoding does not support it."
        )


def _chain(settings: dict[str, Any], checkpoint: Checkpoint) -> tuple[int, int, int]:
    """Steps, topk and draft tokens, given or chosen."""
    steps = settings["speculative_num_steps"]
    topk = settings["speculative_eagle_topk"]
    tokens = settings["speculative_num_draft_tokens"]
    if steps is None:
        if topk is not None or tokens is not None:
            raise LaunchError(
                "Traceback (most recent call last):",
                '  File "sglang/srt/arg_groups/speculative_hook.py", line 0, in _handle_eagle_family',
                "    assert (",
                "AssertionError",
            )
        return (5, 4, 8) if checkpoint.architecture in DEEP else (3, 1, 4)
    if topk is None:  # seen with 0.5.23: steps without topk do not get a default topk
        raise LaunchError(
            "Traceback (most recent call last):",
            '  File "sglang/srt/arg_groups/speculative_hook.py", line 0, in _handle_eagle_family',
            "    cfg.speculative_eagle_topk > 1",
            "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
        )
    return steps, topk, tokens if tokens is not None else steps + 1


def _limits(
    settings: dict[str, Any], context: int, profile: Profile, speculating: bool, odd: Behaviour
) -> Limits:
    """The KV pool that the memory leaves, and the batch cap."""
    fraction = settings["mem_fraction_static"]
    pool_gb = (
        fraction * profile.gpu_memory_gb - profile.weights_gb - (profile.draft_gb if speculating else 0.0)
    )
    tokens = int(pool_gb / profile.kv_gb_per_token)
    if tokens <= 0 or odd.out_of_memory == "pools":
        raise LaunchError(
            "Traceback (most recent call last):",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: self.server_args.mem_fraction_static={fraction}",
            in_child=True,
        )
    if settings["max_total_tokens"]:
        tokens = min(tokens, settings["max_total_tokens"])
    running = settings["max_running_requests"] or min(DEFAULT_BATCH_CAP, max(1, tokens // 512))
    return Limits(running, tokens, settings["chunked_prefill_size"], settings["max_prefill_tokens"])


def reports_launch_command(version: str) -> bool:
    """`launch_command` is in /server_info from 0.5.20 on."""
    return release(version) >= (0, 5, 20)
