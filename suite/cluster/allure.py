"""The Allure results of all shards as those of one run: each item's under its name, each verdict as the whole says it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from suite import redact
from suite.foreign import NotJSON, json_of, read_file
from suite.report import allure_run
from suite.report.allure_files import ARM, LAUNCH, QUESTION, RUN, VERDICT
from suite.session.told_again import ToldItem

NAME = "allure"
"""Beside a shard's run: where its results are, if it was measured with ``--alluredir``."""
OF_THE_WHOLE = ("environment.properties", "executor.json", "categories.json")


def copy(into: Path, shards: Iterable[Path], run_id: str, items: Iterable[ToldItem]) -> int:
    """Copy the results of all shards; how many items' results there are.

    Args:
        shards: folders of their runs; results are looked for beside them.
        run_id: of the merged run.
        items: of the merged run; those that judge say how they end.

    Raises:
        OSError: it cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    folders = list(shards)
    ids = {folder.name for folder in folders}
    judged = {(item.question, item.arm): item for item in items if item.verdicts}
    count = 0
    for source in dict.fromkeys(folder.parent / NAME for folder in folders):
        for path in sorted(source.glob("*")) if source.is_dir() else ():
            if path.name.endswith("-result.json"):
                count += _take(path, into, ids, run_id, judged)
            elif path.name not in OF_THE_WHOLE and not path.name.endswith("-perf.json"):
                shutil.copyfile(path, into / path.name)
    return count


def _take(path: Path, into: Path, ids: set[str], run_id: str, judged: dict[tuple[str, str], ToldItem]) -> int:
    """Copy an item's result, as one of the whole run; a shard's own page on top is left behind."""
    try:
        result = json_of(read_file(path))
    except (OSError, NotJSON):
        return 0
    if not isinstance(result, dict) or allure_run.label_of(result, RUN) not in ids:
        return 0
    if not allure_run.label_of(result, QUESTION):
        return 0
    for label in result["labels"]:
        if isinstance(label, dict) and label.get("name") == RUN:
            label["value"] = run_id
    if allure_run.label_of(result, LAUNCH) == VERDICT:
        of = allure_run.label_of(result, QUESTION), allure_run.label_of(result, ARM)
        if (item := judged.get(of)) is not None:
            _as_judged(result, item)
    (into / path.name).write_text(redact.cut(json.dumps(result)), encoding="utf-8")
    return 1


def _as_judged(result: dict[str, Any], item: ToldItem) -> None:
    """The status and message of an item that judges, as allure-pytest has them of what it raised."""
    error = item.error
    if error is None:
        result["status"] = "passed"
        result.pop("statusDetails", None)
        return
    skipped = isinstance(error, pytest.skip.Exception)
    result["status"] = "skipped" if skipped else "failed" if isinstance(error, AssertionError) else "broken"
    result["statusDetails"] = {"message": f"Skipped: {error}" if skipped else str(error)}
