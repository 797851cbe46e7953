"""What MTP does under load: tokens/s and speed-up by clients with the crossover, and a user's speed against a card's yield."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import TYPE_CHECKING

from suite.gate import Series, Session
from suite.gate.crossover import crossover, speedups
from suite.report import words
from suite.report.pictures.style import LINES, Picture, canvas, colour, finished, ticks_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "output_tokens_per_s"


def by_clients(session: Session) -> Picture | None:
    """Output tokens/s of each arm by clients, and below it the speed-up; None where fewer than two loads were played."""
    speeds, gains = throughputs(session), speedups(session)
    loads = sorted({clients for of_arm in speeds.values() for clients in of_arm} | gains.keys())
    if len(loads) < 2:
        return None
    with canvas(4.9 if len(gains) > 1 else 2.9, rows=2 if len(gains) > 1 else 1, squeeze=False) as (
        figure,
        grid,
    ):
        upper = grid[0, 0]
        _lines(upper, {arm: {c: fmean(v) for c, v in of.items()} for arm, of in speeds.items()})
        _ranges(upper, speeds)
        upper.set_ylabel("output tokens/s")
        upper.set_ylim(bottom=0)
        upper.set_title("output tokens/s (bars: range over launches)")
        ticks_of(upper, loads)
        upper.legend(loc="upper left")
        said = "output tokens/s by number of clients"
        if len(gains) > 1:
            said += f"; {crossover(gains)}"
            _gains(grid[1, 0], gains)
            ticks_of(grid[1, 0], loads)
        grid[-1, 0].set_xlabel("clients")
        return finished(figure, "clients", "What MTP gains, by clients", said)


def users_and_cards(session: Session) -> Picture | None:
    """Tokens/s per user against tokens/s per card, a point for each number of clients; None for fewer than two loads."""
    speeds = throughputs(session)
    cards = next((n for s in session.series if METRIC in s.judged and (n := cards_of(s)) is not None), None)
    loads = {clients for of_arm in speeds.values() for clients in of_arm}
    if cards is None or len(loads) < 2:
        return None
    with canvas(3.4) as (figure, axes):
        for (arm, of_arm), (name, mark, dashes) in zip(sorted(speeds.items()), LINES, strict=False):
            points = [
                (fmean(v) / clients, fmean(v) / cards, clients) for clients, v in sorted(of_arm.items())
            ]
            users, yields = [p[0] for p in points], [p[1] for p in points]
            axes.plot(users, yields, marker=mark, linestyle=dashes, color=colour(name), label=arm)
            for user, card, clients in points:
                axes.annotate(
                    f"{clients}",
                    (user, card),
                    (6, 4),
                    textcoords="offset points",
                    fontsize=8.5,
                    color=colour(name),
                )
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tokens/s of one user")
        axes.set_ylabel("tokens/s of one card")
        axes.set_title(
            f"{cards} card{'s' if cards > 1 else ''}; a number is the clients; up and right is better"
        )
        axes.legend(loc="upper right")
        said = "tokens/s of one user against tokens/s of one card, for each arm and number of clients"
        return finished(figure, "users", "A user's speed against a card's yield", said)


def throughputs(session: Session) -> dict[str, dict[int, list[float]]]:
    """Output tokens/s by arm and clients, a mean over its rounds for each launch; of questions that vary nothing else."""
    found: dict[str, dict[int, list[float]]] = {}
    for series in session.series:
        asked = words.asked(series.question)
        if METRIC not in series.judged or asked.clients is None or asked.context is not None or asked.others:
            continue
        if means := launch_means(series, METRIC):
            found.setdefault(series.arm, {})[asked.clients] = means
    return found


def launch_means(series: Series, metric: str) -> list[float]:
    """The mean over the rounds of each launch that has values."""
    rounds = [[v for v in launch.rounds.get(metric, []) if v is not None] for launch in series.launches]
    return [fmean(values) for values in rounds if values]


def cards_of(series: Series) -> int | None:
    """How many cards its server used; None where the sizes are not known. Attention ranks share the cards of TP."""
    sizes = [series.identity.get(name) for name in ("tp_size", "pp_size")]
    known = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0]
    if len(known) < 2:
        return None
    replicas = series.identity.get("dp_size")
    shared = series.subject.get("enable_dp_attention") is True
    return (
        known[0] * known[1] * (replicas if isinstance(replicas, int) and replicas > 0 and not shared else 1)
    )


def _lines(axes: Axes, of_arms: Mapping[str, Mapping[int, float]]) -> None:
    for (arm, points), (name, mark, dashes) in zip(sorted(of_arms.items()), LINES, strict=False):
        loads = sorted(points)
        axes.plot(
            loads, [points[c] for c in loads], marker=mark, linestyle=dashes, color=colour(name), label=arm
        )


def _ranges(axes: Axes, of_arms: Mapping[str, Mapping[int, list[float]]]) -> None:
    for (_, points), (name, _, _) in zip(sorted(of_arms.items()), LINES, strict=False):
        for clients, means in points.items():
            if len(means) > 1:
                axes.vlines(clients, min(means), max(means), color=colour(name), linewidth=3.5, alpha=0.5)


def _gains(axes: Axes, gains: Mapping[int, float]) -> None:
    loads = sorted(gains)
    axes.axhline(1.0, color=colour("ink"), linewidth=1.0)
    axes.plot(loads, [gains[c] for c in loads], marker="s", color=colour("on"))
    for clients in loads:
        axes.annotate(
            f"{gains[clients]:.2f}",
            (clients, gains[clients]),
            (0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    found = crossover(gains)
    if found.measured is not None:
        at = found.estimate or found.measured
        first = at * at < loads[0] * loads[-1]  # in the left half of a logarithmic axis
        axes.axvline(at, color=colour("bad"), linestyle=":")
        axes.annotate(
            f"crossover at about {at:.0f} clients",
            (at, max(gains.values())),
            (5 if first else -5, 0),
            textcoords="offset points",
            color=colour("bad"),
            fontsize=9,
            ha="left" if first else "right",
        )
    axes.margins(y=0.25)
    axes.set_ylabel("speed-up, x")
    axes.set_title("MTP speed-up; below 1 MTP costs more than it gains")
