"""The markers that scenarios are written with, as ``pytest --markers`` shows them."""

from __future__ import annotations

from suite.config.kinds import SCENARIO_KINDS

MARKERS = (
    "perf: a scenario against a server (select with -m perf)",
    *(f"{kind}: {asks}" for kind, asks in SCENARIO_KINDS.items()),
    "arms(*names): the arms of suite.toml that a scenario is put to; * stands for any text",
    "sized(**values): values for a sized argument instead of the budget's",
    "once: one launch an arm is enough: nothing here is averaged",
    "judges(*metrics): the metrics that are judged against the baseline when all launches are done",
    "ratio(metric, numerator, denominator): judge the ratio of two arms of this run",
    "claims(metric, floor, otherwise, where): a floor, a key of the target, that holds whatever the baseline says",
)
