"""One Allure report of all shards: their items' results under the name of the whole, each verdict as the whole says it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suite import redact
from suite.foreign import NotJSON, json_of, read_file
from suite.report import allure_run
from suite.report.allure_files import ARM, LAUNCH, QUESTION, RUN, VERDICT
from suite.report.told import ToldRun

NAME = "allure"
"""Beside a shard's run: where its results are, if it was measured with ``--alluredir``."""
OF_THE_WHOLE = ("environment.properties", "executor.json", "categories.json")
STATUS: Mapping[str, str] = {
    "broken promise": "failed",
    "regression": "failed",
    "invalid": "broken",
    "inconclusive": "broken",
    "unjudged": "skipped",
}
"""How an item that judges ends, by its gravest word; any other word has passed."""


def write(into: Path, shards: Iterable[Path], run: ToldRun, known_good: str = "") -> int:
    """Write the results of a merged run; how many items' results there are.

    Args:
        shards: folders of their runs; results are looked for beside them.

    Raises:
        OSError: it cannot be written.
    """
    into.mkdir(parents=True, exist_ok=True)
    folders = list(shards)
    ids = {folder.name for folder in folders}
    items = 0
    for source in dict.fromkeys(folder.parent / NAME for folder in folders):
        for path in sorted(source.glob("*")) if source.is_dir() else ():
            if path.name.endswith("-result.json"):
                items += _take(path, into, ids, run)
            elif path.name not in OF_THE_WHOLE and not path.name.endswith("-perf.json"):
                shutil.copyfile(path, into / path.name)
    allure_run.write(into, run, known_good)
    return items


def _take(path: Path, into: Path, ids: set[str], run: ToldRun) -> int:
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
            label["value"] = run.session.run_id
    if allure_run.label_of(result, LAUNCH) == VERDICT:
        _as_judged(result, run)
    (into / path.name).write_text(redact.cut(json.dumps(result)), encoding="utf-8")
    return 1


def _as_judged(result: dict[str, Any], run: ToldRun) -> None:
    """The status and message of an item that judges, by what was said of it in the whole."""
    verdicts = run.of(allure_run.label_of(result, QUESTION), allure_run.label_of(result, ARM))
    if not verdicts:
        return
    result["status"] = STATUS.get(verdicts[0].word, "passed")
    if result["status"] == "passed":
        result.pop("statusDetails", None)
    else:
        said = "\n".join(f"{verdict.word}: {verdict.headline}" for verdict in verdicts)
        result["statusDetails"] = {"message": said}
