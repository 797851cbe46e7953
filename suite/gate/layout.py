"""How the metrics of one run belong together: arms, kinds, controls and what is gated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from suite.gate.rules import Kind
from suite.gate.shrink import Array

MACHINE_KINDS: tuple[Kind, ...] = ("decode", "latency")


@dataclass(frozen=True)
class Column:
    """One metric of one series, as the statistics see it. `margin` is a relative change (0.02 = 2 %)."""

    question: str
    arm: str
    kind: Kind
    gated: bool = True
    margin: float = 0.02


@dataclass(frozen=True)
class Layout:
    """The columns of a run, and which of them tell how fast the machine was for which others.

    Tokens/s, TPOT and request latency of one series are one measurement written three ways, so only the first of
    a series and kind (gated before informational) speaks for it as a control or in a median over arms.

    For each column: `arm` (index into `arms`), whether it follows the `machine`, is a `ratio`, is `gated`, `speaks`,
    its `margin` in logs, and the `cost` of removing controls: variance of what is judged, in units of its own.
    controls: for each arm the columns of other arms that tell how fast the machine was.
    """

    columns: tuple[Column, ...]
    arms: tuple[str, ...] = field(init=False)
    arm: NDArray[np.intp] = field(init=False)
    machine: NDArray[np.bool_] = field(init=False)
    speaks: NDArray[np.bool_] = field(init=False)
    gated: NDArray[np.bool_] = field(init=False)
    margin: Array = field(init=False)
    ratio: NDArray[np.bool_] = field(init=False)
    controls: tuple[NDArray[np.intp], ...] = field(init=False)
    cost: Array = field(init=False)

    def __post_init__(self) -> None:
        columns = self.columns
        arms = tuple(sorted({c.arm for c in columns}))
        self._set("arms", arms)
        self._set("arm", np.array([arms.index(c.arm) for c in columns], dtype=np.intp))
        self._set("ratio", np.array([c.kind == "ratio" for c in columns], dtype=bool))
        self._set("machine", np.array([c.kind in MACHINE_KINDS for c in columns], dtype=bool))
        self._set("gated", np.array([c.gated for c in columns], dtype=bool))
        self._set("margin", np.log1p([c.margin for c in columns]))
        first: dict[tuple[str, str, str], int] = {}
        for i in sorted(range(len(columns)), key=lambda i: not columns[i].gated):
            first.setdefault((columns[i].question, columns[i].arm, columns[i].kind), i)
        self._set("speaks", np.isin(np.arange(len(columns)), list(first.values())))
        spoken = self.speakers()
        self._set("controls", tuple(spoken[self.arm[spoken] != a] for a in range(len(arms))))
        own = np.where(self.ratio, 2.0, 1.0)
        self._set("cost", np.where(self.machine, control_cost(self.n_controls()), own))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def speakers(self, kind: Kind | None = None) -> NDArray[np.intp]:
        """Columns that speak for their series: of one kind, or of both kinds that follow the machine."""
        kinds = MACHINE_KINDS if kind is None else (kind,)
        return np.flatnonzero(self.speaks & np.array([c.kind in kinds for c in self.columns]))

    def families(self) -> list[NDArray[np.bool_]]:
        """Columns whose variances are alike enough to learn from each other: machine speed, counts, ratios."""
        return [mask for mask in (self.machine, ~self.machine & ~self.ratio, self.ratio) if mask.any()]

    def n_controls(self) -> Array:
        """For each column, how many controls it has (0 for counts and ratios)."""
        sizes = np.array([len(c) for c in self.controls], dtype=float)
        return np.where(self.machine, sizes[self.arm], 0.0)

    def kinds_in_several_arms(self) -> list[Kind]:
        """Kinds of which two arms or more have a speaker: a shift of those can be told to be common."""
        return [k for k in MACHINE_KINDS if len({self.arm[i] for i in self.speakers(k)}) >= 2]


def control_cost(n: Array) -> Array:
    """Variance of (metric - median of n controls), in units of the metric's own; 1 without controls.

    From the variance of the median of n normal values (exact for 1 and 2, simulated to 7, pi/2n beyond).
    """
    known: Sequence[float] = (1.0, 2.0, 1.5, 1.449, 1.298, 1.287, 1.215, 1.211)
    small = np.array(known)[np.clip(n, 0, len(known) - 1).astype(int)]
    return np.where(n < len(known), small, 1 + 0.5 * np.pi / np.maximum(n, 1))
