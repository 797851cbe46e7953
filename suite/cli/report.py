"""``python -m suite report``: one offline HTML file of a run's Allure results, with its pictures; and the pictures alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.cli import shared
from suite.gate import GateError, known_good
from suite.report import allure_html, allure_run, browser, pictures, told
from suite.report.screenshots import take
from suite.session import stored_runs
from suite.terminal.figures import times


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``report`` to the suite's commands."""
    text = "make one offline HTML file of a run from its Allure results; needs Allure 3 (Node.js)"
    one = subparsers.add_parser("report", help=text, description=text)
    one.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="a run's folder or id (default: the newest in the Allure results)",
    )
    one.add_argument(
        "--allure-results",
        type=Path,
        default=Path("allure-results"),
        metavar="DIR",
        help="what pytest wrote with --alluredir (default: %(default)s)",
    )
    shared.add_paths(one, "--results")
    one.add_argument(
        "--output",
        type=Path,
        default=Path("allure-report"),
        metavar="DIR",
        help="where to write the report (default: %(default)s)",
    )
    one.add_argument(
        "--allure",
        metavar="COMMAND",
        help="command of Allure 3 (default: that in .allure/, or allure on the PATH)",
    )
    one.add_argument(
        "--install", action="store_true", help="install Allure into .allure/ with npm first, if it is missing"
    )
    one.add_argument(
        "--pictures", type=Path, metavar="DIR", help="write only the pictures of the run here, as SVG"
    )
    one.add_argument(
        "--screenshots", type=Path, metavar="DIR", help="also take screenshots of the report; needs Chromium"
    )
    one.set_defaults(func=run_report)


def run_report(arguments: argparse.Namespace) -> int:
    """Complete the Allure results from what is stored of the run, and make the report of them."""
    try:
        return _pictures(arguments) if arguments.pictures else _report(arguments)
    except (allure_html.ReportError, browser.BrowserFailed, ImportError) as error:
        raise GateError(str(error)) from None


def _report(arguments: argparse.Namespace) -> int:
    if arguments.install:
        allure_html.install()
    allure = allure_html.find_allure(arguments.allure)
    run = _run(arguments)
    allure_run.write(
        arguments.allure_results, run, known_good.last_named(arguments.results, run.session.target)
    )
    if not pictures.can_draw():
        print(f"the report has no pictures: {pictures.MISSING}")
    made = allure_html.build(arguments.allure_results, run, arguments.output, allure)
    print(run.said.sentence)
    print(
        f"report of run {run.session.run_id}: {made.path} "
        f"({made.path.stat().st_size / 1e6:.1f} MB, history of {times(made.runs, 'run', 'runs')})"
    )
    if arguments.screenshots:
        for path in take(made.path, arguments.screenshots):
            print(f"screenshot: {path}")
    return 0


def _run(arguments: argparse.Namespace) -> told.ToldRun:
    named = arguments.run or allure_html.newest_run(arguments.allure_results)
    return told.read(stored_runs.find(named, arguments.results))


def _pictures(arguments: argparse.Namespace) -> int:
    if not arguments.run:
        raise GateError("--pictures wants a run: python -m suite report RUN --pictures DIR")
    run = told.read(stored_runs.find(arguments.run, arguments.results))
    arguments.pictures.mkdir(parents=True, exist_ok=True)
    for picture in pictures.of_run(run):
        path = arguments.pictures / f"{picture.name}.svg"
        path.write_text(picture.svg, encoding="utf-8")
        print(f"{path}: {picture.title}")
    return 0
