"""Synthetic campaigns: baseline sessions and a new run from a stated noise model, in log units, + = worse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from suite.gate.layout import Column, Layout
from suite.gate.robust import Array, trimmed_mean

ROUNDS = 5
DRIFT_LAUNCHES = 3
"""Launches over which `drift` happens; a longer session drifts on."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations as relative sizes (0.01 = 1 %).

    session_shared: share of the session effect's variance that all metrics have in common; launch_shared: the
    same for the metrics of one arm; drift: change from the first launch to the last, `random` a slope drawn
    uniformly from +/- drift in each session; scales: factor on the round and launch noise of each column.
    """

    cv: float = 0.01
    launch: float = 0.005
    session: float = 0.003
    rounds: Literal["normal", "t3", "ar1", "bimodal"] = "normal"
    session_shared: float = 0.8
    launch_shared: float = 0.0
    drift: float = 0.0
    random_drift: bool = False
    scales: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """`cv 1 launch 0.5 session 0.3`, in percent, with what is unusual after it."""
        text = f"cv {self.cv:.2%} launch {self.launch:.2%} session {self.session:.2%}".replace("0%", "%")
        text = text.replace(".0%", "%")
        extra: list[str] = [self.rounds] if self.rounds != "normal" else []
        if self.drift:
            extra.append(f"{'random ' if self.random_drift else ''}drift {self.drift:.0%}")
        if self.scales:
            extra.append("unequal noise")
        if self.session_shared != 0.8:
            extra.append(f"session shared {self.session_shared:g}")
        if self.launch_shared:
            extra.append(f"launches alike {self.launch_shared:g}")
        return " ".join([text, *extra])


@dataclass(frozen=True)
class Campaigns:
    """N campaigns: `base` (N, S, B, G, R) and `new` (N, L, G, R) values of single rounds."""

    base: Array
    new: Array

    def launch_values(self) -> tuple[Array, Array]:
        """As the gate sees them: one robust value per launch."""
        return trimmed_mean(self.base), trimmed_mean(self.new)

    def shifted(self, effect: Array | float) -> Campaigns:
        """The new run with `effect` (scalar, (G,) or (N, G)) added: a slowdown of that size."""
        size = np.broadcast_to(np.asarray(effect, dtype=float), (self.new.shape[0], self.new.shape[2]))
        return replace(self, new=self.new + size[:, None, :, None])


def simulate(
    noise: Noise,
    layout: Layout,
    n: int,
    sessions: int,
    launches: int,
    rng: np.random.Generator,
    base_launches: int = 3,
) -> Campaigns:
    """Draw `n` campaigns of `sessions` baseline sessions and one new run of `launches`, without any change."""
    drawn = [
        _session(noise, layout, (n, sessions), base_launches, rng),
        _session(noise, layout, (n, 1), launches, rng),
    ]
    return Campaigns(base=drawn[0], new=drawn[1][:, 0])


def _session(
    noise: Noise, layout: Layout, shape: tuple[int, int], launches: int, rng: np.random.Generator
) -> Array:
    g = len(layout.columns)
    follows = layout.machine.astype(float)
    scale = np.array(noise.scales or (1.0,) * g) * follows
    shared = rng.standard_normal((*shape, 1)) * np.sqrt(noise.session_shared)
    own = rng.standard_normal((*shape, g)) * np.sqrt(1 - noise.session_shared)
    session = noise.session * (shared * layout.machine + own * follows)
    launch = rng.standard_normal((*shape, launches, g)) * np.sqrt(1 - noise.launch_shared)
    if noise.launch_shared:
        arms = rng.standard_normal((*shape, launches, len(layout.arms)))
        launch = launch + arms[..., layout.arm] * np.sqrt(noise.launch_shared)
    level = session[:, :, None, :] + noise.launch * scale * launch
    if noise.drift:
        level = level + _drift(noise, layout, shape, launches, rng)
    rounds = level[..., None] + noise.cv * scale[:, None] * _rounds(noise, (*level.shape, ROUNDS), rng)
    return derive(np.asarray(rounds), layout, rng)


def derive(rounds: Array, layout: Layout, rng: np.random.Generator) -> Array:
    """Columns that are not measurements of their own: copies, the ratio of two arms, acceptance from counts."""
    first: dict[tuple[str, str, str], int] = {}
    ratios = 0
    for i, column in enumerate(layout.columns):
        if column.kind == "count":
            rounds[..., i, :] += _acceptance(rounds[..., i, :].shape, rng)
        elif column.kind == "ratio":
            off, on = (
                [j for j in layout.representatives("decode") if layout.arm[j] == a][ratios] for a in (0, 1)
            )
            rounds[..., i, :] = rounds[..., on, :] - rounds[..., off, :]
            ratios += 1
        else:
            source = first.setdefault((column.question, column.arm, column.kind), i)
            rounds[..., i, :] = rounds[..., source, :]
    return rounds


def _acceptance(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """-ln of 1 + correct drafts / verify steps: eight requests per round, 80 steps each, three drafts per step.

    A draft counts only if those before it did: 0 to 3 correct ones with chance 0.8 each.
    """
    steps, chance = 8 * 80, 0.8
    at_least = [rng.binomial(steps, chance, shape)]
    for _ in range(2):
        at_least.append(rng.binomial(at_least[-1], chance))
    return np.asarray(-np.log1p(sum(at_least) / steps))


def _drift(
    noise: Noise, layout: Layout, shape: tuple[int, int], launches: int, rng: np.random.Generator
) -> Array:
    arms = len(layout.arms)
    place = np.empty((launches, arms))
    for number in range(launches):  # off, on, on, off, ...: back and forth
        order = range(arms) if number % 2 == 0 else reversed(range(arms))
        place[number, list(order)] = np.arange(arms) + number * arms
    place = place / (DRIFT_LAUNCHES * arms - 1)
    slope = rng.uniform(-1, 1, shape) if noise.random_drift else np.ones(shape)
    return np.asarray(noise.drift * slope[..., None, None] * place[:, layout.arm] * layout.machine)


def _rounds(noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if noise.rounds == "t3":
        return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))
    z = rng.standard_normal(shape)
    if noise.rounds == "ar1":
        for i in range(1, shape[-1]):
            z[..., i] = 0.5 * z[..., i - 1] + np.sqrt(0.75) * z[..., i]
    if noise.rounds == "bimodal":  # one round in five runs in a slow mode, four standard deviations away
        z = (z + 4 * (rng.random(shape) < 0.2) - 0.8) / np.sqrt(1 + 16 * 0.16)
    return np.asarray(z)


def even_layout(metrics: int = 10, arms: int = 3) -> Layout:
    """Metrics of one kind dealt evenly to the arms, each a measurement of its own."""
    names = [f"arm{i}" for i in range(arms)]
    return Layout(tuple(Column(f"q{i}", names[i * arms // metrics], "decode") for i in range(metrics)))


def suite_layout() -> Layout:
    """The scenarios of this suite: decode speed of two arms, acceptance of three kinds of text, the speed-up."""
    columns = []
    for arm in ("mtp-off", "mtp-on"):
        columns += [Column("decode", arm, kind) for kind in ("decode", "decode", "latency")]
    columns += [Column(f"acceptance[{kind}]", "mtp-on", "count") for kind in ("code", "maths", "prose")]
    columns.append(Column("speedup", "mtp-on", "ratio"))
    return Layout(tuple(columns))
