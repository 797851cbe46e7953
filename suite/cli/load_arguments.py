"""Words on the command line of `python -m suite load`: numbers in their bounds, JSON, limits for goodput."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from typing import Any

from suite import metrics
from suite.foreign import json_of, one_line
from suite.load import LoadError


def _typed(convert: Callable[[str], Any], good: Callable[[Any], bool], wanted: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not good(value):
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {one_line(text, 80)!r}")
        return value

    return parse


at_least_1 = _typed(int, lambda n: n >= 1, "a whole number from 1 on")
above_0 = _typed(float, lambda n: 0 < n < math.inf, "a number above 0")
json_object = _typed(json_of, lambda v: isinstance(v, dict), "a JSON object")
numbers = _typed(
    lambda text: [float(part) for part in text.split(",")],
    lambda ns: min(ns) > 0 and max(ns) < math.inf,
    "numbers above 0 with commas between",
)


def slo(text: str) -> metrics.SLO:
    """Limits in seconds: ``ttft=0.5,tpot=0.05``."""
    limits = {}
    for part in text.split(","):
        name, _, limit = part.partition("=")
        if name not in ("ttft", "tpot", "itl", "e2e"):
            raise argparse.ArgumentTypeError(f"an SLO has ttft, tpot, itl and e2e, not {name!r}")
        limits[f"{name}_s"] = above_0(limit)
    return metrics.SLO(**limits)


def whole(text: str, option: str) -> int:
    """A whole number given to ``option``. Raises LoadError for anything else."""
    if not text.isdecimal() or len(text) > 9:
        raise LoadError(f"{option} expects a whole number, got {one_line(text, 80)!r}")
    return int(text)


def key_of(name: str | None) -> str | None:
    """The API key that the variable ``name`` holds; ``None`` without a name. Raises LoadError where it holds none."""
    if name is not None and not os.environ.get(name):
        raise LoadError(f"--api-key-env {name}: there is no such environment variable, or it is empty")
    return os.environ[name] if name is not None else None
