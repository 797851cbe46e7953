"""The markers that scenarios are written with, as ``pytest --markers`` shows them."""

from __future__ import annotations

from suite.config.kinds import SCENARIO_KINDS

MARKERS = (
    "perf: a scenario against a server (select with -m perf)",
    *(f"{kind}: {asks}" for kind, asks in SCENARIO_KINDS.items()),
    "arms(*names): the arms of suite.toml that a scenario runs on; * matches any text",
    "sized(**values): sizes of its own instead of the budget's, such as concurrency=[1, 4]",
    "once: one launch per arm is enough: nothing here is averaged",
    "judges(*metrics): metrics that are compared with the baseline when all launches are done",
    "ratio(metric, numerator, denominator): judge the ratio of two arms of this run",
    "claims(metric, floor, otherwise, where): a floor for a metric (a key of the target) that holds whatever the baseline says",
)
