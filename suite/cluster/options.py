"""``--shard`` and ``--plan --format`` in pytest: what they select, and what they print."""

from __future__ import annotations

import sys

import pytest
from _pytest.config import create_terminal_writer

from suite.cluster import matrix
from suite.cluster.cut import ShardNumber, wanted
from suite.cluster.shards import priced
from suite.config import ConfigError
from suite.session.collection import Arranged
from suite.session.resuming import options_of
from suite.session.settings import Settings
from suite.session.times import Expected


def shard_wanted(config: pytest.Config) -> ShardNumber | None:
    """The shard that was asked for, once the options about shards are known to fit together.

    Raises:
        ConfigError: they do not.
    """
    option = config.getoption
    if option("--format") and not option("--plan"):
        raise ConfigError("--format needs --plan: it says how the plan is written")
    if option("--shards") is not None and not (option("--format") and option("--shards") > 0):
        raise ConfigError("--shards N, 1 or more, needs --plan --format; --shard I/N runs one of them")
    text = option("--shard")
    if text and option("--format"):
        raise ConfigError("--format is of all shards: leave --shard out")
    if text and option("--minutes") is not None:
        raise ConfigError(
            "--shard does not go with --minutes: each shard would cut its plan otherwise, and they could not be "
            "joined; choose a smaller --budget, or more shards"
        )
    return wanted(text) if text else None


def show_plan(config: pytest.Config, settings: Settings, arranged: Arranged, expected: Expected) -> None:
    """Print the shards of the plan as ``--format`` asks, on standard output and nothing else there.

    Raises:
        pytest.UsageError: the plan cannot be cut into so many.
    """
    option = config.getoption
    try:
        shards = priced(arranged, settings.target, settings.sizes, expected, option("--shards"))
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
    told = matrix.text(option("--format"), shards, settings.target.name, settings.budget, options_of(config))
    sys.stdout.write(told.rstrip("\n") + "\n")
    sys.stdout.flush()


class TalkToStderr:
    """pytest's own words go to standard error, so that standard output can be read by a program."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter._tw = create_terminal_writer(session.config, sys.stderr)
