"""How the metrics of one run belong together: arms, kinds, controls and what is gated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from suite.gate.robust import Array
from suite.metrics.registry import Kind

MACHINE_KINDS: tuple[Kind, ...] = ("decode", "latency")


@dataclass(frozen=True)
class Column:
    """One metric of one series, as the statistics see it. `margin` is a relative change (0.02 = 2 %)."""

    question: str
    arm: str
    kind: Kind
    gated: bool = True
    margin: float = 0.02


class Group(NamedTuple):
    """Columns of one arm and kind, and the columns that tell how fast the machine was for them."""

    members: NDArray[np.intp]
    controls: NDArray[np.intp]


@dataclass(frozen=True)
class Layout:
    """The columns of a run, and which of them tell how fast the machine was for which others.

    Tokens/s, TPOT and request latency of one series are one measurement written three ways, so only the first of
    a series and kind (gated before informational) represents it as a control or in a median over arms.

    For each column: `arm` (index into `arms`), whether it follows the `machine`, is a `ratio`, is `gated`, `representative`,
    its `margin` in logs, and the `cost` of removing controls: variance of what is judged, in units of its own.
    groups: columns of one arm and kind, with their controls: the representatives of that kind in the other arms, or, where
    those have none of that kind, all that follow the machine. n_controls: how many, 0 for counts and ratios.
    """

    columns: tuple[Column, ...]
    arms: tuple[str, ...] = field(init=False)
    arm: NDArray[np.intp] = field(init=False)
    machine: NDArray[np.bool_] = field(init=False)
    representative: NDArray[np.bool_] = field(init=False)
    gated: NDArray[np.bool_] = field(init=False)
    margin: Array = field(init=False)
    ratio: NDArray[np.bool_] = field(init=False)
    tail: NDArray[np.bool_] = field(init=False)
    groups: tuple[Group, ...] = field(init=False)
    n_controls: Array = field(init=False)
    cost: Array = field(init=False)

    def __post_init__(self) -> None:
        columns = self.columns
        arms = tuple(sorted({c.arm for c in columns}))
        self._set("arms", arms)
        self._set("arm", np.array([arms.index(c.arm) for c in columns], dtype=np.intp))
        self._set("tail", np.array([c.kind == "tail" for c in columns], dtype=bool))
        self._set("ratio", np.array([c.kind == "ratio" for c in columns], dtype=bool))
        self._set("machine", np.array([c.kind in MACHINE_KINDS for c in columns], dtype=bool))
        self._set("gated", np.array([c.gated for c in columns], dtype=bool))
        self._set("margin", np.log1p([c.margin for c in columns]))
        first: dict[tuple[str, str, str], int] = {}
        for i in sorted(range(len(columns)), key=lambda i: not columns[i].gated):
            first.setdefault((columns[i].question, columns[i].arm, columns[i].kind), i)
        self._set("representative", np.isin(np.arange(len(columns)), list(first.values())))
        self._set("groups", self._groups())
        self._set("n_controls", np.zeros(len(columns)))
        for group in self.groups:
            self.n_controls[group.members] = len(group.controls)
        own = np.where(self.ratio, 2.0, 1.0)
        self._set("cost", np.where(self.machine, control_cost(self.n_controls), own))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _groups(self) -> tuple[Group, ...]:
        kinds = np.array([c.kind for c in self.columns])
        made = []
        for a in range(len(self.arms)):
            for kind in MACHINE_KINDS:
                members = np.flatnonzero((self.arm == a) & (kinds == kind))
                alike, any_kind = self.representatives(kind), self.representatives()
                controls = alike[self.arm[alike] != a]
                if not len(controls):
                    controls = any_kind[self.arm[any_kind] != a]
                if len(members):
                    made.append(Group(members, controls))
        return tuple(made)

    def representatives(self, kind: Kind | None = None) -> NDArray[np.intp]:
        """Columns that speak for their series: of one kind, or of both kinds that follow the machine."""
        kinds = MACHINE_KINDS if kind is None else (kind,)
        return np.flatnonzero(self.representative & np.array([c.kind in kinds for c in self.columns]))

    def families(self) -> list[NDArray[np.bool_]]:
        """Columns whose variances, in units of their cost, are alike enough to learn from each other.

        A ratio of two arms is made of two speeds and learns from them; counts learn from counts.
        """
        speeds = self.machine | self.ratio if self.machine.any() else self.ratio
        counts = ~self.machine & ~self.ratio & ~self.tail
        return [mask for mask in (speeds, counts, self.tail) if mask.any()]

    @property
    def teaches(self) -> NDArray[np.bool_]:
        """Columns that others learn a variance from: one a series and kind, and no ratios of what is represented already."""
        return self.representative & ~self.ratio if self.machine.any() else self.representative

    def kinds_in_several_arms(self) -> list[Kind]:
        """Kinds of which two arms or more have a speaker: a shift of those can be told to be common."""
        return [k for k in MACHINE_KINDS if len({self.arm[i] for i in self.representatives(k)}) >= 2]


def control_cost(n: Array) -> Array:
    """Variance of (metric - median of n controls), in units of the metric's own; 1 without controls.

    From the variance of the median of n normal values (exact for 1 and 2, simulated to 7, pi/2n beyond).
    """
    known: Sequence[float] = (1.0, 2.0, 1.5, 1.449, 1.298, 1.287, 1.215, 1.211)
    small = np.array(known)[np.clip(n, 0, len(known) - 1).astype(int)]
    return np.where(n < len(known), small, 1 + 0.5 * np.pi / np.maximum(n, 1))
