"""Screenshots of a report: its first page, the run's verdict, and the gravest figure with its evidence; light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.report import browser
from suite.report.browser import Browser, BrowserFailed

WIDE, NARROW = (1280, 960), (400, 860)
LEAVES = "[...document.querySelectorAll('[data-testid=tree-leaf]')]"
SECTIONS = "[...document.querySelectorAll('[data-testid=tree-section-title]')]"
FOLDED = (
    f"{SECTIONS}.filter(title => !title.closest('[data-testid=tree-section]').parentElement"
    ".querySelector('[data-testid=tree-leaf]'))"
)
FRAME = "document.querySelector('[data-testid=test-result-description-frame]').contentDocument"
DESCRIBED = (
    f"{FRAME}.readyState == 'complete' && {FRAME}.body.textContent.length"
    f" && [...{FRAME}.images].every(image => image.complete)"
)
"""Of an entry's page: what was written of it is there, with its pictures."""


def take(page: Path, folder: Path) -> Iterator[Path]:
    """Take them, one by one.

    Raises:
        BrowserFailed: Chromium is not installed, or the page does not hold what a person would look for.
    """
    executable = browser.installed()
    if executable is None:
        raise BrowserFailed(f"screenshots need Chromium: none of {', '.join(browser.NAMES)} is installed")
    folder.mkdir(parents=True, exist_ok=True)
    with browser.opened(executable) as seen:
        for dark in (False, True):
            seen.dark(dark)
            for size, name in ((WIDE, "wide"), (NARROW, "narrow")):
                seen.size(*size)
                for step, go in (
                    ("first-page", first_page),
                    ("verdict", verdict_page),
                    ("figure", figure_page),
                ):
                    go(seen, page)
                    path = folder / f"{step}-{name}-{'dark' if dark else 'light'}.png"
                    seen.screenshot(path)
                    yield path


def first_page(seen: Browser, page: Path) -> None:
    """As it opens: build and machine, and the list of questions with the sentence on top."""
    seen.open(page)
    seen.wait(f"{SECTIONS}.length")


def verdict_page(seen: Browser, page: Path) -> None:
    """The page of the run as a whole, with the forest plot on top."""
    first_page(seen, page)
    _click(seen, "[': NO-GO', ': GO', ': CANNOT TELL', ': NOT ']")


def figure_page(seen: Browser, page: Path) -> None:
    """The page of the first judged figure that did not end well, or of the first there is."""
    first_page(seen, page)
    _click(
        seen, "[': broken promise', ': regression', ': invalid', ': inconclusive', ': improvement', ': pass']"
    )


def _click(seen: Browser, words: str) -> None:
    """Open the first entry that has the first of these words; sections in which all is well are folded at first."""
    found = f"{words}.map(word => {LEAVES}.find(leaf => leaf.textContent.includes(word))).find(leaf => leaf)"
    if not seen.ask(f"!!{found}"):
        seen.ask(f"{FOLDED}.forEach(section => section.click())")
    seen.click(found)
    seen.wait(DESCRIBED)
