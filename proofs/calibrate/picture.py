"""`python -m proofs.calibrate.picture`: draws why two runs of one build are not two builds, docs/two_builds.svg."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from suite.gate.paired import Pairs
from suite.gate.robust import Array

SPREAD, PROMPT_SD = 0.06, 0.10
BUILDS = 24
MARGIN = 2.0


def builds(prompts: int, seed: int = 3) -> Pairs:
    """Twenty-four builds as good as the recorded one, each asked the same prompts."""
    rng = np.random.default_rng(seed)
    level = PROMPT_SD * rng.standard_normal((1, 1, prompts))
    old = level + SPREAD * rng.standard_normal((1, 1, prompts)) + np.zeros((BUILDS, 1, 1))
    return Pairs(old, level + SPREAD * rng.standard_normal((BUILDS, 1, prompts)))


def changes(pairs: Pairs) -> tuple[Array, Array]:
    """Change of acceptance in percent, + = more accepted, and half its 95 % interval."""
    centre, spread = pairs.change
    return -100 * centre, 100 * spread.bound(0.975)


def main(argv: list[str] | None = None) -> int:
    """Draw it."""
    parser = argparse.ArgumentParser(prog="python -m proofs.calibrate.picture", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/two_builds.svg"), metavar="FILE")
    out: Path = parser.parse_args(argv).out
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "two builds"  # the same drawing, the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, gridspec_kw={"width_ratios": [1, 4, 4]})
    axes[0].plot(range(1, 6), np.zeros(5), "o", color="0.35")
    axes[0].set_title("five sessions\nof one build", fontsize=10)
    for axis, prompts in zip(axes[1:], (16, 256), strict=True):
        size, half = changes(builds(prompts))
        off = np.abs(size) > MARGIN
        for chosen, colour in ((~off, "tab:blue"), (off, "tab:red")):
            place = np.flatnonzero(chosen) + 1
            axis.errorbar(place, size[chosen], half[chosen], fmt="o", color=colour, lw=1, ms=4)
        axis.set_title(
            f"24 other builds, none better or worse,\n{prompts} prompts, compared one by one", fontsize=10
        )
    for axis in axes:
        axis.axhspan(-MARGIN, MARGIN, color="0.92", zorder=0)
        axis.axhline(0, color="0.6", lw=0.8, zorder=1)
        axis.set_xticks([])
        axis.set_ylim(-8, 8)
    axes[0].set_ylabel("change of acceptance length, %")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    print(f"{out} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
