"""The results as a page of Markdown, and as a plot."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from proofs.calibrate.build_claims import Measured
from proofs.calibrate.cells import NAMED
from proofs.calibrate.claims import Claim, Results
from proofs.calibrate.histories import OtavaFigures
from proofs.calibrate.measure import Figures
from proofs.calibrate.rules import PEERS

RULES = ("ours", *PEERS)
SHOWN = (0.01, 0.02, 0.03, 0.05, 0.10)


def page(
    results: Results,
    builds: Measured,
    claims: Sequence[Claim],
    otava: Mapping[str, OtavaFigures] | str,
    n: int,
    seconds: float,
) -> str:
    """The whole page: where it was measured, the table of rules, other budgets, must-hold lines."""
    cells = ", ".join(f"{k} = {v.name}" for k, v in NAMED.items())
    day = datetime.now(UTC).date().isoformat()
    return "\n".join(
        [
            "# Calibration: what each rule says of the same synthetic campaigns",
            "",
            f"{day}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {n} campaigns a cell, {seconds:.0f} s. "
            f"Ten metrics in three arms; five baseline sessions of 3 launches x 5 rounds; one new run of 3 launches. "
            f"Noise in percent: {cells}.",
            "",
            *_rules_table(results),
            "",
            *_otava_lines(otava),
            "",
            *_budget_table(results),
            "",
            *_build_table(builds),
            "",
            "## Must hold",
            "",
            "| held | what must hold | measured |",
            "|---|---|---|",
            *(f"| {'yes' if c.held else '**no**'} | {c.text} | {c.measured} |" for c in claims),
            "",
        ]
    )


def _rules_table(results: Results) -> list[str]:
    head = "| rule | worst false alarm | models above 1 % | " + " | ".join(
        f"{cell}: false alarm; {'/'.join(f'{100 * e:g}' for e in SHOWN)} % found; undecided" for cell in NAMED
    )
    lines = [head + " |", "|" + "---|" * (3 + len(NAMED))]
    grid = {k: v for k, v in results.items() if k.startswith("grid S5 L3")}
    for rule in RULES:
        alarms = [figures[rule].false_alarm for _, figures in grid.values()]
        over = sum(a > 1.0 for a in alarms)
        cells = " | ".join(_cell(results[f"{cell} S5"][1][rule]) for cell in NAMED)
        lines.append(f"| {rule} | {max(alarms):.1f} % | {over} of {len(alarms)} | {cells} |")
    return lines


def _cell(f: Figures) -> str:
    return f"{f.false_alarm:.2g}; {'/'.join(f'{f.found[e]:.0f}' for e in SHOWN)}; {f.undecided:.0f}"


def _otava_lines(otava: Mapping[str, OtavaFigures] | str) -> list[str]:
    if isinstance(otava, str):
        return [f"Apache Otava is left out: {otava}."]
    parts = [
        f"{cell}: {f.false_step:.0f} % of histories with a change point that is not there; "
        + ", ".join(f"{100 * e:g} % found after {a}: {v:.0f} %" for (e, a), v in f.found.items())
        for cell, f in otava.items()
    ]
    return ["Apache Otava 0.8.0 (p 0.001) on histories of 30 runs:", "", *(f"- {p}" for p in parts)]


def _budget_table(results: Results) -> list[str]:
    lines = [
        "Our rule with other budgets (3/5/7/10 % found; launches spent an arm without a change):",
        "",
        "| budget | " + " | ".join(NAMED) + " |",
        "|" + "---|" * (1 + len(NAMED)),
    ]
    for suffix, text in (
        ("S5", "5 sessions"),
        ("S3", "3 sessions"),
        ("S1", "1 session"),
        ("looks", "5 sessions, looks"),
    ):
        cells = []
        for cell in NAMED:
            f = results[f"{cell} {suffix}"][1]["ours"]
            found = "/".join(f"{f.found[e]:.0f}" for e in (0.03, 0.05, 0.07, 0.10))
            cells.append(f"{f.false_alarm:.2g}; {found}; all pass {f.all_pass:.0f}; {f.launches:.1f}")
        lines.append(f"| {text} | " + " | ".join(cells) + " |")
    return lines


def _build_table(builds: Measured) -> list[str]:
    lines = [
        "New builds that are as good as the recorded one, whose greedy answers part (s_t: SD of one prompt's acceptance "
        "between builds; four kinds of text; decode speed for three numbers of clients):",
        "",
        "| recorded | false alarm | all pass | acceptance 3/5 % lower found | steps 3/5 % longer found | intervals that hold: "
        "acceptance, steps x acceptance, speed | SDC of acceptance, steps |",
        "|" + "---|" * 7,
    ]
    for name, (_, f) in builds.items():
        found, longer = (
            "/".join(f"{v:.0f}" for v in what.values()) for what in (f.accepted_less, f.steps_longer)
        )
        held = ", ".join(f"{f.held[k]:.1f}" for k in ("acceptance", "steps x acceptance", "speed"))
        sdc = ", ".join(f"{v:.1f} %" for v in f.sdc_median.values())
        lines.append(
            f"| {name} | {f.false_alarm:.2g} | {f.all_pass:.0f} | {found} | {longer} | {held} | {sdc} |"
        )
    return lines


def plot(results: Results, path: Path) -> str | None:
    """Detection against size of change, false alarms at 0. Returns why there is no plot, or None."""
    if importlib.util.find_spec("matplotlib") is None:
        return "matplotlib is not installed"
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(NAMED), figsize=(4.2 * len(NAMED), 4), sharey=True)
    for axis, (cell, noise) in zip(axes, NAMED.items(), strict=True):
        for rule in RULES:
            f = results[f"{cell} S5"][1][rule]
            x = [0.0, *(100 * e for e in f.found)]
            axis.plot(
                x, [f.false_alarm, *f.found.values()], label=rule, lw=2.5 if rule == "ours" else 1, marker="."
            )
        axis.set_title(f"{cell}: {noise.name}", fontsize=9)
        axis.set_xlabel("size of the change, % (0: any false alarm in a run)")
    axes[0].set_ylabel("% found")
    axes[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return None
