"""Named hardware profiles: the constants of the modelled machine, read from `profiles/NAME.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

_FOLDER = Path(__file__).parent / "profiles"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a modelled machine is made of. Times in seconds, memory in GB of one GPU.

    A forward step over n tokens lasts `step_base_s + n * step_per_token_s`; one draft step for b sequences
    lasts `draft_base_s + b * draft_per_sequence_s`; see `hardware.py` for how they are put together.
    """

    name: str
    description: str
    step_base_s: float
    step_per_token_s: float
    draft_base_s: float
    draft_per_sequence_s: float
    context_per_token_s: float
    """Reading the keys and values of one earlier token, for each sequence and step."""
    prefill_base_s: float
    prefill_per_token_s: float
    prefill_attention_per_token_pair_s: float
    draft_prefill_share: float
    """How much longer prefill takes when the draft head has to be filled too."""
    eager_step_s: float
    """What a step costs more when it does not run from a CUDA graph."""
    warmup_slowdown: float
    warmup_steps: float
    """The first steps are slower by `warmup_slowdown`, fading with this many steps."""
    round_noise_cv: float
    """Spread of one round's speed, a fraction (see `noise.py`)."""
    launch_effect_cv: float
    gpu_memory_gb: float
    weights_gb: float
    draft_gb: float
    kv_gb_per_token: float
    start_s: float
    """From the command to ready."""


def names() -> list[str]:
    """The profiles that are shipped."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def load(name: str) -> Profile:
    """The profile of that name; ValueError names the ones there are."""
    if name not in names():
        raise ValueError(f"no profile {name!r}; there are {', '.join(names())}")
    return from_dict(name, json.loads((_FOLDER / f"{name}.json").read_text()))


def from_dict(name: str, values: dict[str, object]) -> Profile:
    """A profile from its JSON object; ValueError names missing and unknown keys."""
    wanted = {field.name for field in fields(Profile)} - {"name"}
    if wanted != set(values):
        raise ValueError(
            f"profile {name!r}: missing {sorted(wanted - set(values))}, unknown {sorted(set(values) - wanted)}"
        )
    return Profile(name=name, **values)  # type: ignore[arg-type]
