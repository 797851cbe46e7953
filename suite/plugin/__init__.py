"""The pytest plugin: hooks that wire the rooms together and decide nothing themselves."""

from __future__ import annotations

import os

import pytest

from suite import redact
from suite.cluster.options import TalkToStderr
from suite.options import add_options
from suite.plugin.collecting import Collecting
from suite.plugin.ending import Ending, OthersReports
from suite.plugin.items import Items
from suite.plugin.markers import MARKERS
from suite.plugin.parts import Parts, parts_key
from suite.plugin.screen import Screen
from suite.plugin.steps import Steps
from suite.report.clean import Cleaner

pytest_plugins = ["suite.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    if (getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None)) and _measures(
        config
    ):
        raise pytest.UsageError(
            "-n does not go with -m perf: one server is measured at a time, and two would disturb each other"
        )
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    parts = Parts(config)
    if resumed := config.getoption("--resume"):
        parts.resume(resumed)
    config.stash[parts_key] = parts
    redact.learn_from(os.environ)
    if config.getoption("--format"):
        config.pluginmanager.register(TalkToStderr(), "sglang-perf-gate-stderr")
    for name, hooks in (
        ("collecting", Collecting(parts)),
        ("steps", Steps(parts)),
        ("items", Items(parts)),
        ("ending", Ending(parts)),
        ("screen", Screen(parts)),
        ("clean", Cleaner()),
        ("reports", OthersReports(parts)),
    ):
        config.pluginmanager.register(hooks, f"sglang-perf-gate-{name}")


def _measures(config: pytest.Config) -> bool:
    """Are scenarios asked for, by their marker or by where they are?"""
    if config.option.markexpr:
        return "perf" in config.option.markexpr and "not perf" not in config.option.markexpr
    scenarios = config.rootpath / "scenarios"
    here = config.invocation_params.dir
    asked = [here.joinpath(word.partition("::")[0]).resolve() for word in config.args]
    return any(path == scenarios or scenarios in path.parents for path in asked)
