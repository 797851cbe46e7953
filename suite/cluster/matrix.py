"""``--plan --format``: the shards of a plan as GitHub, GitLab or a program reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from suite.cluster.shards import Priced
from suite.session.resuming import OPTIONS

FORMATS = ("github", "gitlab", "json")
MINUTES_MORE, TIMES_MORE = 5, 2.0
"""A CI job's time limit: so many times what is expected, and so many minutes more."""


def words_of(options: Mapping[str, Any]) -> list[str]:
    """The options of a run, as its journal keeps them, as words of a command line; which shard it is is left out."""
    words = []
    for name, typed in OPTIONS.items():
        if name == "shard" or name not in options:
            continue
        value = options[name]
        if value is True:
            words.append(typed)
        elif typed.startswith("--"):
            words += [f"{typed}={one}" for one in (value if isinstance(value, list) else [value])]
        else:
            words += [typed, str(value)]
    return [*words, *options.get("paths", [])]


def text(form: str, shards: Sequence[Priced], target: str, budget: str, options: Mapping[str, Any]) -> str:
    """The plan in one of ``FORMATS``.

    github: the value of a job's ``strategy.matrix``, on one line; gitlab: a child pipeline; json: all there is to know.
    """
    if form == "github":
        rows = [
            {"shard": one.shard, "arms": " ".join(one.arms), "minutes": limit_minutes(one)} for one in shards
        ]
        return json.dumps({"include": rows})
    if form == "gitlab":
        return yaml.safe_dump(_pipeline(shards, options), sort_keys=False, width=110)
    whole = {
        "target": target,
        "budget": budget,
        "options": words_of(options),
        "shards": [asdict(one) for one in shards],
    }
    return json.dumps(whole, indent=2)


def limit_minutes(shard: Priced) -> int:
    """How long a job of this shard may take."""
    return round(TIMES_MORE * shard.minutes) + MINUTES_MORE


def _kept() -> dict[str, Any]:
    return {"when": "always", "paths": ["results/"]}


def _pipeline(shards: Sequence[Priced], options: Mapping[str, Any]) -> dict[str, Any]:
    """A shard a job, and their merge, which ends as the whole run does."""
    command = shlex.join(["python", "-m", "pytest", *words_of(options)])
    return {
        "perf": {
            "parallel": {"matrix": [{"SHARD": [one.shard for one in shards]}]},
            "timeout": f"{max(map(limit_minutes, shards))} minutes",
            "allow_failure": True,
            "script": [f'{command} --shard "$SHARD"'],
            "artifacts": _kept(),
        },
        "merge": {
            "needs": ["perf"],
            "when": "always",
            "script": ["python -m suite merge results/*-shard*of* --junitxml junit.xml"],
            "artifacts": {**_kept(), "reports": {"junit": "junit.xml"}},
        },
    }
