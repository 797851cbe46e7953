"""The pictures of docs/report.md: python -m tests.report.screenshots REPORT.html, with a report that `tox run -e report` made."""

from __future__ import annotations

import sys
from pathlib import Path

from suite.gate.history import steps
from suite.report import browser
from suite.report.history_page import TargetHistory, write
from suite.report.screenshots import figure_page, first_page, verdict_page
from tests.report.test_history_page import rows

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "report"
COLOURS = 160
"""Of a palette: these are pages of text and lines."""


def main(report: Path) -> None:
    """Take them, and make them small."""
    FOLDER.mkdir(exist_ok=True)
    executable = browser.installed()
    if executable is None:
        raise SystemExit(f"none of {', '.join(browser.NAMES)} is installed")
    page = FOLDER / "history.html"
    with browser.opened(executable) as seen:
        seen.size(1280, 960)
        first_page(seen, report)
        _take(seen, "first-page")
        seen.size(1280, 1200)
        verdict_page(seen, report)
        _take(seen, "run")
        seen.dark(True)
        figure_page(seen, report)
        seen.ask("document.querySelector('[data-testid=test-result-description]').scrollIntoView()")
        _take(seen, "figure")
        seen.dark(False)
        seen.size(1280, 640)
        write(page, TargetHistory("simulator", rows(), steps=steps(rows())))
        seen.open(page)
        seen.wait("document.querySelectorAll('figure svg').length")
        _take(seen, "history")
    page.unlink()


def _take(seen: browser.Browser, name: str) -> None:
    from PIL import Image  # comes with matplotlib

    path = FOLDER / f"{name}.png"
    seen.screenshot(path)
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
