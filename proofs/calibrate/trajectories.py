"""Campaigns of two builds that are as good as each other: their greedy answers part, and acceptance moves for no reason."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proofs.calibrate.noise import Campaigns, Noise, simulate
from proofs.calibrate.rules import round_noise
from suite.gate.decide import Decision, decide
from suite.gate.layout import Column, Layout
from suite.gate.paired import AcceptanceColumns, Borne, Pairs, added
from suite.gate.robust import Array
from suite.gate.spread import Spread

BATCH = 250
KINDS = ("code", "maths", "prose", "chat")
PROMPT_SD = 0.10
"""How far prompts of one kind differ in acceptance; it cancels, because each is compared with itself."""
SHARE = 0.9
"""Of the time of a request that is decoding, and so follows acceptance."""


@dataclass(frozen=True)
class Trajectories:
    """One cell: `spread` is the SD of one prompt's log acceptance between builds, `within` that between launches of one.

    tails: of a prompt's move, "t4" for some that move far; same: share of prompts whose text stays the same;
    nightly: each recorded session is of another build; step: a lasting change of mtp-on's speed in the middle of
    the recorded sessions (+ = slower).
    """

    noise: Noise
    spread: float = 0.06
    within: float = 0.0
    sessions: int = 5
    nightly: bool = False
    prompts: int = 256
    launches: int = 3
    step: float = 0.0
    quick: bool = False
    tails: Literal["normal", "t4"] = "normal"
    same: float = 0.0
    n: int = 2000
    effects: tuple[float, ...] = (0.03, 0.05)

    @property
    def name(self) -> str:
        """As the table shows it."""
        builds = f"{self.sessions} nightlies" if self.nightly else f"S{self.sessions}"
        inside = f", within {100 * self.within:g} %" if self.within else ""
        after = f", one step of {100 * self.step:g} % recorded" if self.step else ""
        after += f", {self.tails} tails" if self.tails != "normal" else ""
        after += f", {100 * self.same:g} % the same text" if self.same else ""
        budget = "quick, " if self.quick else ""
        return f"{budget}{builds}, s_t {100 * self.spread:g} %{inside}, {self.prompts} prompts{after}: {self.noise.name}"

    @property
    def seed(self) -> int:
        """Of this cell alone."""
        return zlib.crc32(self.name.encode())


@dataclass
class BuildFigures:
    """Shares in percent. one_longer: a slowdown of one question of mtp-on; steps_longer: of all. held: of the printed 95 % intervals, by what they are of, those that hold the truth."""

    false_alarm: float = 0.0
    false_improvement: float = 0.0
    all_pass: float = 0.0
    accepted_less: dict[float, float] = field(default_factory=dict)
    one_longer: dict[float, float] = field(default_factory=dict)
    steps_longer: dict[float, float] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    sdc_found: dict[str, float] = field(default_factory=dict)
    sdc_median: dict[str, float] = field(default_factory=dict)


def build_layout(clients: int = 3, contexts: int = 2) -> Layout:
    """Decode speed of two arms at each number of clients, TTFT at each context, acceptance of four kinds, speed-ups."""
    columns = []
    for arm in ("mtp-off", "mtp-on"):
        for c in range(clients):
            columns += [Column(f"decode[{c}]", arm, "decode"), Column(f"decode[{c}]", arm, "decode")]
        columns += [Column(f"prefill[{c}]", arm, "latency") for c in range(contexts)]
    columns += [Column(f"acceptance[{kind}]", "mtp-on", "count") for kind in KINDS]
    columns += [Column(f"speedup[{c}]", "mtp-on", "ratio") for c in range(clients)]
    return Layout(tuple(columns))


GATE, QUICK = build_layout(), build_layout(1, 1)
"""The suite's own questions in the budgets gate (three numbers of clients, two contexts) and quick (one of each)."""


@dataclass(frozen=True)
class Drawn:
    """Speeds without acceptance, and acceptance prompt by prompt for each kind."""

    layout: Layout
    speeds: Campaigns
    pairs: tuple[Pairs, ...]
    generation: NDArray[np.intp] | None = None

    @property
    def acceptance(self) -> NDArray[np.intp]:
        """Columns that are acceptance, code first."""
        return np.flatnonzero([c.kind == "count" for c in self.layout.columns])

    @property
    def steps(self) -> NDArray[np.intp]:
        """Columns that are steps of mtp-on times acceptance."""
        return steps_of(self.layout)

    def slower(self, size: Array | float, columns: NDArray[np.intp]) -> Drawn:
        """With `size` (scalar or (N,)) put into the speed of some columns."""
        effect = np.zeros((len(self.speeds.new), len(self.layout.columns)))
        effect[:, columns] = np.broadcast_to(np.asarray(size, dtype=float), (len(effect),))[:, None]
        return replace(self, speeds=self.speeds.shifted(effect))

    def less_accepted(self, size: Array | float) -> Drawn:
        """With acceptance of code lower by `size` (scalar or (N,)), in logs."""
        first, *rest = self.pairs
        lower = np.broadcast_to(np.asarray(size, dtype=float), (len(first.new),))
        return replace(self, pairs=(replace(first, new=first.new + lower[:, None, None]), *rest))

    def judged(self) -> Decision:
        """What the gate itself says."""
        base, new = self.speeds.launch_values()
        return decide(
            base,
            new,
            self.layout,
            rounds=round_noise(self.speeds),
            generation=self.generation,
            acceptance=self.rests_on,
        )

    @property
    def rests_on(self) -> AcceptanceColumns:
        """Acceptance of each kind by its prompts, and the speeds of mtp-on on that of code."""
        code = int(self.acceptance[0])
        return AcceptanceColumns(
            {int(g): pairs for g, pairs in zip(self.acceptance, self.pairs, strict=True)},
            {int(g): Borne(self.pairs[0], code, SHARE) for g in self.steps},
            {},
        )


def steps_of(layout: Layout) -> NDArray[np.intp]:
    """Columns that are steps of mtp-on times acceptance."""
    return np.flatnonzero([c.arm == "mtp-on" and c.kind in ("decode", "ratio") for c in layout.columns])


def draw(cell: Trajectories, n: int, rng: np.random.Generator) -> Drawn:
    """`n` campaigns of a cell, without any change."""
    layout = QUICK if cell.quick else GATE
    speeds = simulate(cell.noise, layout, n, cell.sessions, cell.launches, rng)
    generation = np.zeros((cell.sessions, len(layout.columns)), dtype=np.intp)
    if cell.nightly:
        generation[:] = np.arange(cell.sessions)[:, None]
    if cell.step:
        steps = steps_of(layout)
        base, new = speeds.base.copy(), speeds.new.copy()
        base[:, cell.sessions // 2 :, :, steps] += cell.step
        new[:, :, steps] += cell.step
        speeds = Campaigns(base, new)
    return Drawn(layout, speeds, draw_pairs(cell, n, rng), generation)


def draw_pairs(cell: Trajectories, n: int, rng: np.random.Generator) -> tuple[Pairs, ...]:
    """Acceptance of each kind, prompt by prompt."""
    return tuple(_pairs(cell, n, rng) for _ in KINDS)


def _pairs(cell: Trajectories, n: int, rng: np.random.Generator) -> Pairs:
    shape = (n, cell.sessions, cell.prompts)
    level = PROMPT_SD * rng.standard_normal((n, 1, cell.prompts))
    base = level + _moved(cell, shape if cell.nightly else (n, 1, cell.prompts), rng) + np.zeros(shape)
    parted = level + _moved(cell, (n, 1, cell.prompts), rng) + np.zeros((n, cell.launches, cell.prompts))
    new = (
        np.where(rng.random((n, 1, cell.prompts)) < cell.same, base[:, -1:], parted) if cell.same else parted
    )
    if cell.within:
        base = base + cell.within / np.sqrt(cell.launches) * rng.standard_normal(base.shape)
        new = new + cell.within * rng.standard_normal(new.shape)
    if cell.nightly:  # compared with the newest build alone, as the gate does
        base = base[:, -1:]
    return Pairs(base, new)


def _moved(cell: Trajectories, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if cell.tails == "t4":
        return np.asarray(cell.spread * rng.standard_t(4, shape) / np.sqrt(2))
    return np.asarray(cell.spread * rng.standard_normal(shape))


def measure_builds(cell: Trajectories) -> BuildFigures:
    """Figures of a cell."""
    rng = np.random.default_rng(cell.seed)
    tally: dict[tuple[str, object], list[float]] = {}

    def add(what: str, values: object, at: object = None) -> None:
        tally.setdefault((what, at), []).extend(np.asarray(values, dtype=float).ravel().tolist())

    for start in range(0, cell.n, BATCH):
        drawn = draw(cell, min(BATCH, cell.n - start), rng)
        columns = np.arange(len(drawn.layout.columns))
        acceptance, steps = drawn.acceptance, drawn.steps
        speed, code = steps[:1], acceptance[0]
        none = drawn.judged()
        add("false_alarm", none.regression.any(axis=1))
        add("false_improvement", none.improvement.any(axis=1))
        add("all_pass", none.passed.all(axis=1))
        held = holds(none, np.zeros(len(columns)))
        add("held", held[:, acceptance], "acceptance")
        add("held", held[:, steps], "steps x acceptance")
        add("held", held[:, ~np.isin(columns, [*acceptance, *steps])], "speed")
        for effect in cell.effects:
            size, lower = float(np.log1p(effect)), -float(np.log1p(-effect))
            add("accepted_less", drawn.less_accepted(lower).judged().regression[:, code], effect)
            longer = drawn.slower(size, steps).judged()
            add("steps_longer", longer.regression[:, steps].any(axis=1), effect)
            add("one_longer", drawn.slower(size, speed).judged().regression[:, speed], effect)
            truth = np.where(np.isin(columns, steps), size, 0.0)
            add("held", holds(longer, truth)[:, steps], "longer steps x acceptance")
        for what, column, changed in (
            ("acceptance", code, drawn.less_accepted(none.sdc[:, code])),
            ("steps", speed[0], drawn.slower(none.sdc[:, speed[0]], speed)),
        ):
            add("sdc_median", none.sdc[:, column], what)
            add("sdc_found", changed.judged().regression[:, column], what)
    return _figures(tally)


def holds(decision: Decision, truth: Array) -> NDArray[np.bool_]:
    """Whether the interval that the gate prints holds the truth, (N, G)."""
    spread = added(
        Spread(decision.raw_se**2, decision.raw_df), Spread(decision.accepted_se**2, decision.accepted_df)
    )
    off = np.abs(decision.change + decision.accepted - truth)
    return np.asarray(off <= spread.bound(0.975), dtype=bool)


def _figures(tally: dict[tuple[str, object], list[float]]) -> BuildFigures:
    figures = BuildFigures()
    for (what, at), values in tally.items():
        share = 100 * float(np.median(values) if what == "sdc_median" else np.mean(values))
        if at is None:
            setattr(figures, what, share)
        else:
            getattr(figures, what)[at] = share
    return figures
