"""How every picture looks: one drawing in SVG for light and dark pages, colours that the colour-blind can tell apart.

Colours are names until the last step: the drawing is made with the light ones, and each is then written as a CSS
variable, to which the drawing itself gives its dark value where the page is dark. Marks differ in form as well.
"""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite import redact
from suite.foreign import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "pictures need matplotlib: pip install 'sglang-perf-gate[report]'"

COLOURS = {
    "paper": ("#ffffff", "#1b1f24"),
    "ink": ("#1f2329", "#e4e7eb"),
    "soft": ("#5f6975", "#a3adb9"),
    "rule": ("#d5dae0", "#3b434d"),
    "band": ("#edf0f3", "#282e36"),
    "off": ("#0071b2", "#56b4e9"),
    "on": ("#c14f00", "#ff9d4d"),
    "third": ("#00815d", "#3dd6a5"),
    "fourth": ("#a3417f", "#f0a0cf"),
    "fifth": ("#7a6a00", "#e8d94a"),
    "bad": ("#c62f2e", "#ff7b72"),
    "unsure": ("#9c6200", "#f2b84b"),
    "invalid": ("#8b3fa8", "#d6a1ef"),
    "good": ("#08785a", "#3ccfa1"),
    "calm": ("#57616c", "#adb6c1"),
}
"""By what they mean, on light and on dark pages; contrast to the paper is at least 4.5 for all that stands for data."""

WORDS = {
    "broken promise": ("bad", "X"),
    "regression": ("bad", "X"),
    "invalid": ("invalid", "s"),
    "inconclusive": ("unsure", "D"),
    "improvement": ("good", "^"),
    "pass": ("calm", "o"),
    "unjudged": ("calm", "|"),
}
"""Colour and mark of each word of the gate."""

LINES = (
    ("off", "o", "--"),
    ("on", "s", "-"),
    ("third", "^", "-."),
    ("fourth", "D", ":"),
    ("fifth", "v", (0, (5, 1, 1, 1, 1, 1))),
)
"""Colour, mark and dashes of the first, second ... series of a picture."""

WIDTH_IN = 4.6
"""Inches at 96 pixels, 442 px: a quarter larger on a wide page, and at two thirds of it on a phone."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing. name: of its file; title: above it; said: what it shows, for those who cannot see it."""

    name: str
    title: str
    said: str
    svg: str

    def img(self) -> str:
        """As HTML that needs no file beside it."""
        data = base64.b64encode(self.svg.encode()).decode()
        return (
            f'<img alt="{html.escape(self.said, quote=True)}" src="data:image/svg+xml;base64,{data}" '
            'width="560" style="max-width:100%;height:auto">'
        )


def can_draw() -> bool:
    """Is matplotlib installed?"""
    return importlib.util.find_spec("matplotlib") is not None


def colour(name: str) -> str:
    """What to draw with."""
    return COLOURS[name][0]


@contextmanager
def canvas(
    height_in: float, rows: int = 1, edges_in: tuple[float, float, float, float] | None = None, **how: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure with its axes, in the house's style; for use while drawing and while :func:`finished` writes it.

    Args:
        edges_in: inches left, right, below and above the axes; without, they are made to fit what is there, which takes
            a third of the time of a drawing.

    Raises:
        ImportError: matplotlib is not installed; the text says how to get it.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as NewFigure
    except ImportError:
        raise ImportError(MISSING) from None
    with mpl.rc_context(_style()):
        figure = NewFigure(figsize=(WIDTH_IN, height_in), layout=None if edges_in else "constrained")
        axes = figure.subplots(rows, 1, **how)
        if edges_in is not None:
            left, right, below, above = edges_in
            figure.subplots_adjust(
                left=left / WIDTH_IN,
                right=1 - right / WIDTH_IN,
                bottom=below / height_in,
                top=1 - above / height_in,
                hspace=0.45,
            )
        yield figure, axes


def _style() -> dict[Any, Any]:
    ink, soft, rule, paper = (colour(name) for name in ("ink", "soft", "rule", "paper"))
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "sglang-perf-gate",
        "text.parse_math": False,  # a name may hold any character
        "font.family": "DejaVu Sans",
        "font.size": 10.0,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": soft,
        "axes.facecolor": paper,
        "figure.facecolor": paper,
        "axes.titlesize": 10.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": rule,
        "grid.linewidth": 0.7,
        "xtick.color": soft,
        "ytick.color": soft,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "legend.frameon": False,
        "legend.fontsize": 9.5,
        "lines.linewidth": 1.8,
        "lines.markersize": 6.0,
    }


def finished(figure: Figure, name: str, title: str, said: str) -> Picture:
    """The figure as a picture: the same bytes for the same drawing, and both pages' colours in it."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    said = printable(redact.cut(said))
    return Picture(name, title, said, redact.cut(_for_both_pages(printable(file.getvalue()), said)))


def _for_both_pages(drawn: str, said: str) -> str:
    body = drawn[drawn.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"font: ([^;\"]*?)px [^;\"]*", r"font: \1px system-ui, sans-serif", body)
    names = {light: name for name, (light, _) in COLOURS.items()}
    body = re.sub(r"#[0-9a-f]{6}", lambda m: f"var(--{names[m[0]]}, {m[0]})" if m[0] in names else m[0], body)
    light, dark = (";".join(f"--{name}:{pair[page]}" for name, pair in COLOURS.items()) for page in (0, 1))
    style = f"<style>svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    head, rest = body.split(">", 1)
    return f'{head} role="img"><title>{html.escape(said)}</title>{style}{rest}'


def ticks_of(axes: Axes, places: list[int] | list[float], names: list[str] | None = None) -> None:
    """A logarithmic axis below, with a tick at each place that was measured and none between."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, names or [f"{place:g}" for place in places])
    axes.minorticks_off()
    if len(places) > 1:
        axes.set_xlim(min(places) / 1.15, max(places) * 1.15)
