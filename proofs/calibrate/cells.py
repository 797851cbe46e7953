"""The noise models that campaigns are drawn from: a grid, and a few that have names."""

from __future__ import annotations

from proofs.calibrate.noise import Noise

CVS = (0.003, 0.01, 0.025)
LAUNCHES = (0.0, 0.005, 0.01)
SESSIONS = (0.0, 0.003, 0.01, 0.03)

NAMED = {
    "A": Noise(0.01, 0.005, 0.003),
    "B": Noise(0.01, 0.005, 0.01),
    "C": Noise(0.01, 0.005, 0.03),
    "D": Noise(0.025, 0.01, 0.01),
}
"""A: a quiet machine; B, C: one that moves 1 % or 3 % between sessions; D: a noisy one."""

BESIDE = {
    "A, autocorrelated rounds": Noise(0.01, 0.005, 0.003, "ar1"),
    "A, heavy tails": Noise(0.01, 0.005, 0.003, "t3"),
    "A, bimodal rounds": Noise(0.01, 0.005, 0.003, "bimodal"),
    "A, random drift": Noise(0.01, 0.005, 0.003, drift=0.05, random_drift=True),
    "A, launches of an arm alike": Noise(0.01, 0.005, 0.003, launch_shared=0.8),
    "A, sessions not shared": Noise(0.01, 0.005, 0.003, session_shared=0.0),
    "CV 1, launch 1, session 0.3": Noise(0.01, 0.01, 0.003),
    "CV 0.3, launch 0, session 0.3": Noise(0.003, 0.0, 0.003),
}

UNEQUAL = Noise(0.01, 0.005, 0.03, scales=(1, 1, 1, 4, 1, 1, 4, 1, 1, 4))
"""Three of ten metrics four times as noisy as the others, and sessions that move 3 %."""


NOISIER = Noise(0.03, 0.015, 0.003)
"""A run that is disturbed while its baseline was not."""


def grid() -> list[Noise]:
    """132 models: 108 of round, launch and session noise with three kinds of rounds, and 24 with 5 % drift."""
    cells = [
        Noise(cv, launch, session, rounds)
        for cv in CVS
        for launch in LAUNCHES
        for session in SESSIONS
        for rounds in ("normal", "t3", "ar1")
    ]
    drifting = [
        Noise(cv, 0.005, session, drift=0.05, random_drift=random)
        for cv in CVS
        for session in SESSIONS
        for random in (False, True)
    ]
    return cells + drifting


def small_grid() -> list[Noise]:
    """A handful of the grid, for a run of half a minute."""
    return [*NAMED.values(), Noise(0.003, 0.0, 0.03), Noise(0.025, 0.005, 0.01, "t3")]
