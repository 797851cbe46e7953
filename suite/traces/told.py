"""What two profiles differ by, in words: one sentence that names the part, then its kernels, worst first."""

from __future__ import annotations

from collections.abc import Sequence

from suite.foreign import one_line
from suite.terminal import table
from suite.traces.compare import Change, KernelChange, PartChange, StepDifference
from suite.traces.kernels import WAITING_KIND

SHOWN_KERNELS = 12
SHOWN_KINDS = 3
NAME_CHARS = 60
NOTHING_S = 1e-8
LEAST_S = 1e-6
"""A kernel that moved by less than a microsecond a step is not listed."""
PART_HEADS = ("part of a step", "reference", "candidate", "ms more", "+/-")
KERNEL_HEADS = ("kernel", "part", "reference", "candidate", "ms more", "", "calls")
SMALL = 0.02
"""Of the whole difference: below it a kind of kernel is not worth a word in the sentence."""


def headline(difference: StepDifference) -> str:
    """One sentence: which part of a step grew (or shrank), and what of it."""
    step = difference.step
    whole = f"a step takes {_ms(step.before_s)} -> {_ms(step.after_s)} ms under the profiler"
    if not step.sure:
        return f"{whole}: no more than its steps differ by ({_more(step)} ms, +/- {_ms(2 * step.se_s)})"
    slower = step.more_s > 0
    parts = difference.parts if slower else difference.parts[::-1]
    moved = [p for p in parts if p.change.sure and (p.change.more_s > 0) == slower]
    if not moved:
        return f"{whole}, and no part of it moved by more than steps differ by"
    first, *others = moved
    text = f"{first.part} {_more(first.change)} of {_more(step)} ms{_of_what(difference, first, slower)}"
    rest = "; ".join(f"{p.part} {_more(p.change)}" for p in (*others, *_still(difference, moved)))
    return f"{text}; {rest} ({whole})" if rest else f"{text} ({whole})"


def lines(difference: StepDifference) -> list[str]:
    """The sentence, the parts of a step, and the kernels that differ most."""
    parts = [_part(p.part, p.change) for p in difference.parts]
    clock = "the GPU's clock" if difference.by == "gpu" else "the host's clock: no GPU was seen"
    return [
        headline(difference),
        f"steps: {difference.before_steps} of the reference, {difference.after_steps} of the candidate, by {clock}",
        "",
        *table.lines(PART_HEADS, [_part("whole step", difference.step), *parts], right=range(1, 5)),
        "",
        *table.lines(KERNEL_HEADS, map(_kernel, _worst(difference)), right=range(2, 6)),
    ]


def _of_what(difference: StepDifference, part: PartChange, slower: bool) -> str:
    """The kinds of kernel that make up a part's change, largest first."""
    kinds = [k for k in difference.kinds if k.part == part.part]
    kinds = kinds if slower else kinds[::-1]
    least = SMALL * abs(part.change.more_s)
    told = [
        k for k in kinds if k.change.sure and abs(k.change.more_s) > least and (k.change.more_s > 0) == slower
    ]
    words = [
        f"{WAITING_KIND if k.name == WAITING_KIND else k.name} {_relative(k.change)}"
        for k in told[:SHOWN_KINDS]
    ]
    return f": {', '.join(words)}" if words else ""


def _still(difference: StepDifference, moved: Sequence[PartChange]) -> list[PartChange]:
    """The parts that did not move, in the order of a step."""
    return [p for p in difference.parts if p not in moved]


def _worst(difference: StepDifference) -> list[KernelChange]:
    """The rows that moved most, either way, those that got slower first."""
    moved = [k for k in difference.kernels if abs(k.change.more_s) >= LEAST_S]
    by_size = sorted(moved, key=lambda k: -abs(k.change.more_s))[:SHOWN_KERNELS]
    return sorted(by_size, key=lambda k: -k.change.more_s)


def _part(name: str, change: Change) -> tuple[str, ...]:
    return name, _ms(change.before_s), _ms(change.after_s), _more(change), _ms(2 * change.se_s)


def _kernel(row: KernelChange) -> tuple[str, ...]:
    change, calls = row.change, f"{row.before_calls:.3g} -> {row.after_calls:.3g}"
    name = one_line(row.name, NAME_CHARS)
    return name, row.part, _ms(change.before_s), _ms(change.after_s), _more(change), _relative(change), calls


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}"


def _more(change: Change) -> str:
    return f"{1e3 * change.more_s:+.3f}"


def _relative(change: Change) -> str:
    if change.before_s < NOTHING_S:
        return "new" if change.after_s >= NOTHING_S else "0 %"
    if change.after_s < NOTHING_S:
        return "gone"
    return f"{100 * change.more_s / change.before_s:+.0f} %"
