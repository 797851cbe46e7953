"""The finished file, looked at in a browser: from the sentence to the evidence by clicks, as a person would, and nothing runs in it."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from suite import redact
from suite.report import allure_html, allure_run, browser, told
from suite.report.allure_html import ReportError
from suite.report.browser import Browser
from suite.report.screenshots import FRAME, SECTIONS, figure_page, first_page, verdict_page
from tests.report import made

pytest.importorskip("matplotlib")

TEXT = "[...document.querySelectorAll('[data-testid={}]')].map(e => e.textContent)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; the newer, hostile in all that it says and slower with MTP, is the one that is shown."""
    try:
        allure = allure_html.find_allure(None)
    except ReportError as error:
        pytest.skip(str(error))
    redact.learn(made.SECRET)
    root = tmp_path_factory.mktemp("report")
    results, output = root / "allure", root / "out"
    for session, worse in ((made.session(), ()), (made.hostile(), ("mtp-on",))):
        run = told.read(made.stored(root, session))
        made.allure_results(results, session, worse=worse)
        allure_run.write(results, run, variables={})
        page = allure_html.build(results, run, output, allure)
    assert page.runs == 2
    return page.path


@pytest.fixture(scope="module")
def seen(report: Path) -> Iterator[Browser]:
    executable = browser.installed()
    if executable is None:
        pytest.skip(f"no browser to look with: none of {', '.join(browser.NAMES)} is installed")
    with browser.opened(executable) as opened:
        opened.size(1280, 960)
        yield opened


def test_from_the_sentence_to_the_evidence(seen: Browser, report: Path) -> None:
    first_page(seen, report)
    assert seen.ask("document.querySelector('[data-testid=report-title]').textContent").startswith("NO-GO: ")
    assert seen.ask(f"{SECTIONS}[0].textContent").startswith("00 NO-GO: ")

    verdict_page(seen, report)
    images = seen.ask(f"[...{FRAME}.images].map(i => [i.alt, i.naturalWidth])")
    assert "against the baseline; regression: decode throughput" in images[0][0]
    assert len(images) == 5
    assert all(width > 0 for _, width in images)

    figure_page(seen, report)
    assert seen.ask("!!document.querySelector('[data-testid=test-result-status-failed]')")
    page = seen.ask(f"{FRAME}.body.textContent")
    for expected in ("What to do", "change (95 % CI)", "To ask this alone again: pytest -m perf"):
        assert expected in page
    assert len(seen.ask(f"[...{FRAME}.images].map(i => i.naturalWidth)")) == 2
    seen.click("document.querySelector('[data-testid=test-result-attachment-header] button')")
    seen.wait("document.body.textContent.includes('decode batch, #running-req: 1')")


def test_the_run_before_is_in_the_history_of_a_figure(seen: Browser, report: Path) -> None:
    figure_page(seen, report)
    seen.click("document.querySelector('[data-testid=test-result-tab-history]')")
    assert len(seen.wait(TEXT.format("test-result-history-item"))) == 1


def test_a_secret_is_nowhere_in_the_finished_file(report: Path) -> None:
    """Looked for inside of what the file embeds, and inside of what that embeds: entries, attachments, pictures."""
    found = list(unpacked(report.read_text(encoding="utf-8")))
    assert any("#running-req: 1" in text for text in found), "the search does not see what is embedded"
    assert any("<svg" in text for text in found), "the search does not see pictures"
    assert not any(made.SECRET in text for text in found)


def unpacked(text: str) -> Iterator[str]:
    """The text, and whatever it holds in base64, however deep."""
    yield text
    for packed in re.findall(r"[A-Za-z0-9+/]{24,}={0,2}", text):
        with suppress(ValueError):
            inside = base64.b64decode(packed, validate=True).decode("utf-8")
            yield from unpacked(inside)


def test_a_whole_report_is_small_enough_to_send(report: Path) -> None:
    """Sixty items of three launches, each with as much of a log as is ever shown, and a picture or two for each figure."""
    assert report.stat().st_size < 20e6


def test_failures_are_sorted_into_categories_in_words(seen: Browser, report: Path) -> None:
    seen.open(report, "#categories")
    seen.wait("document.body.textContent.includes('Regression')")


def test_nothing_that_a_server_says_runs_and_nothing_is_fetched(seen: Browser, report: Path) -> None:
    seen.requested.clear()
    seen.errors.clear()
    for go in (first_page, verdict_page, figure_page):
        go(seen, report)
        assert seen.ask("typeof window.hostile") == "undefined"
    assert {address.partition("#")[0] for address in seen.requested} == {report.resolve().as_uri()}
    assert seen.errors == []


def test_a_page_that_comes_in_parts_is_whole(seen: Browser, report: Path) -> None:
    """On a busy machine a browser pauses while it reads: Allure's script has run by then, and the data that it shows is still to come."""
    page = report.read_bytes()
    began = page.rindex(b"window.allureReportData = window.allureReportData")
    with served(page[:began], page[began:]) as (address, rest):
        seen.tell("Page.navigate", url=address)
        seen.wait(f"document.scripts.length >= {page[:began].count(b'<script')}", 50)
        seen.ask("new Promise(done => setTimeout(done, 300))")
        rest.set()
        seen.wait(f"{SECTIONS}.length", 60)
    assert seen.ask(f"{SECTIONS}[0].textContent").startswith("00 NO-GO: ")


@contextmanager
def served(begun: bytes, rest: bytes) -> Iterator[tuple[str, threading.Event]]:
    """A page at an address of this machine: the first part at once, the rest when the event is set. All else is not there."""
    go_on = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.end_headers()
            if self.path == "/":
                self.wfile.write(begun)
                go_on.wait(60)
                self.wfile.write(rest)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", go_on
        finally:
            go_on.set()
            server.shutdown()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_follow_the_page_in_the_dark(seen: Browser, tmp_path: Path, dark: bool) -> None:
    """The corner of a drawing has the colour of the paper of the page it stands on."""
    from suite.report.pictures.forest import forest
    from suite.report.pictures.style import COLOURS

    run = told.read(made.stored(tmp_path, made.session()))
    picture = forest(run.verdicts)
    assert picture is not None
    (tmp_path / "page.html").write_text(f"<!doctype html><body>{picture.img()}")
    seen.dark(dark)
    seen.open(tmp_path / "page.html")
    seen.wait("document.images.length && document.images[0].complete && document.images[0].naturalWidth")
    corner = seen.ask(
        "(() => { const c = document.createElement('canvas'), i = document.images[0]; c.width = c.height = 4;"
        "const x = c.getContext('2d'); x.drawImage(i, 0, 0); return [...x.getImageData(1, 1, 1, 1).data].slice(0, 3) })()"
    )
    seen.dark(False)
    paper = COLOURS["paper"][dark]
    assert corner == [int(paper[at : at + 2], 16) for at in (1, 3, 5)]


def test_on_a_narrow_page_nothing_is_wider_than_the_page(seen: Browser, report: Path) -> None:
    seen.size(400, 860)
    verdict_page(seen, report)
    assert seen.ask("document.documentElement.scrollWidth") <= 400
    assert seen.ask(f"Math.max(...[...{FRAME}.images].map(i => i.getBoundingClientRect().width))") <= 400
    seen.size(1280, 960)
