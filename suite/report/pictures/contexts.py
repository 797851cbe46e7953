"""Time to the first token by the length of the prompt, with MTP and without, beside what it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from suite.gate import Verdict
from suite.report import words
from suite.report.pictures.samples import scale_of
from suite.report.pictures.style import LINES, Picture, canvas, colour, finished, ticks_of
from suite.terminal.figures import number


def by_context(verdicts: Sequence[Verdict], against: str = "baseline") -> Picture | None:
    """TTFT of each arm; None where fewer than two lengths were asked."""
    points: dict[str, list[tuple[int, float, float | None]]] = {}
    for verdict in verdicts:
        context = words.asked(verdict.question).context
        if verdict.metric == "ttft_s" and context is not None and verdict.value is not None:
            points.setdefault(verdict.arm, []).append((context, verdict.value, verdict.baseline_value))
    lengths = sorted({context for of_arm in points.values() for context, _, _ in of_arm})
    if len(lengths) < 2:
        return None
    factor, unit = scale_of([value for of_arm in points.values() for _, value, _ in of_arm], "s")
    with canvas(3.0) as (figure, axes):
        for (arm, of_arm), (name, mark, dashes) in zip(sorted(points.items()), LINES, strict=False):
            of_arm.sort()
            at = [context for context, _, _ in of_arm]
            now = [value / factor for _, value, _ in of_arm]
            axes.plot(at, now, marker=mark, linestyle=dashes, color=colour(name), label=arm)
            before = [(context, level / factor) for context, _, level in of_arm if level is not None]
            axes.plot(
                [context for context, _ in before],
                [level for _, level in before],
                marker=mark,
                linestyle="none",
                markerfacecolor="none",
                markersize=11,
                color=colour(name),
                label=f"{arm}, {against}" if before else None,
            )
        ticks_of(axes, lengths, [f"{length:,}" for length in lengths])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("prompt, tokens")
        axes.set_ylabel(f"TTFT, {unit}")
        axes.legend(loc="upper left")
        said = "; ".join(
            f"{arm} {length:,} tokens: {number(value, 's')}"
            for arm, of in sorted(points.items())
            for length, value, _ in of
        )
        return finished(figure, "ttft", "Time to the first token, by length of the prompt", said)
