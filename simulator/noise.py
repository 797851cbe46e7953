"""Seeded noise of the modelled machine: each launch a little different, each round a little, each step more."""

from __future__ import annotations

import math
from random import Random

STEP_CV = 0.01
DRIFT_S = 2.0


class Noise:
    """Factors on step times.

    `launch` is drawn once: what differs from launch to launch and no longer measuring averages away. Within a
    launch, white noise of `STEP_CV` on every step (which averages out in a round) and a slow drift (which does
    not, within `DRIFT_S` seconds) whose spread is `round_cv`.
    """

    def __init__(
        self, seed: int | None, round_cv: float, launch_cv: float, session_effect: float = 0.0
    ) -> None:
        random = Random(seed)
        self.launch = math.exp(random.gauss(0.0, launch_cv)) if launch_cv else 1.0
        self.launch *= 1.0 + session_effect
        self._random = random
        self._round_cv = round_cv
        self._drift = random.gauss(0.0, round_cv) if round_cv else 0.0

    def stretch(self, seconds: float) -> float:
        """The time a step really takes that should take `seconds`."""
        if not self._round_cv:
            return seconds * self.launch
        kept = math.exp(-seconds / DRIFT_S)
        fresh = self._round_cv * math.sqrt(1.0 - kept * kept)
        self._drift = self._drift * kept + self._random.gauss(0.0, fresh)
        return seconds * self.launch * max(0.5, 1.0 + self._drift + self._random.gauss(0.0, STEP_CV))
