"""The fixtures that scenarios are written with."""

from __future__ import annotations

import pytest

from suite.config import Sizes, Target
from suite.plugin.parts import Parts, parts_key, played_in, served_key
from suite.questions.backend_trial import BackendTrial
from suite.questions.canary import Canary
from suite.questions.config_drift import ConfigDrift
from suite.questions.launching import LaunchAttempt
from suite.questions.log_checks import LogChecks
from suite.questions.lossless import GreedyAnswers
from suite.questions.speculation import SpeculationQuestion
from suite.questions.tables import Table
from suite.servers import NotThisArm
from suite.session.collection import SeriesId, launch_id_of, question_of, series_of
from suite.session.measure import Measure
from suite.session.plan import CANDIDATE, REFERENCE, LaunchId
from suite.session.running_arm import RunningArm


def _parts(request: pytest.FixtureRequest) -> Parts:
    return request.config.stash[parts_key]


@pytest.fixture
def arm() -> str:
    """The arm of this item; given by the marker ``arms``."""
    raise pytest.UsageError("a scenario names its arms: @pytest.mark.arms('mtp-off', 'mtp-on')")


@pytest.fixture
def launch() -> int:
    """Which launch of its arm this item is played in, from 1."""
    return 1


@pytest.fixture
def build() -> str:
    """Which of two builds this item is played on; empty where one is measured."""
    return ""


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    """The target under test."""
    return _parts(request).settings.target


@pytest.fixture
def server(request: pytest.FixtureRequest, arm: str, launch: int, build: str) -> RunningArm:
    """The server of this item's arm and launch, shared with the other items that need the same launch."""
    parts = _parts(request)
    try:
        served = parts.run.served(LaunchId(arm, launch, build))
    except NotThisArm as other:
        pytest.skip(other.summary)
    served.doing = request.node.stash.get(question_of, request.node.name)
    request.node.stash[served_key] = served
    return served


@pytest.fixture
def launching(request: pytest.FixtureRequest, arm: str, launch: int, build: str) -> LaunchAttempt:
    """An attempt to launch this item's arm, which may fail and say why."""
    parts = _parts(request)
    launch_id = request.node.stash.get(launch_id_of, LaunchId(arm, launch, build))
    return LaunchAttempt(parts.run, launch_id)


@pytest.fixture
def canary(request: pytest.FixtureRequest, server: RunningArm) -> Canary:
    """Questions with checkable answers, for this server."""
    parts = _parts(request)
    return Canary(
        server, parts.settings.sizes.canary_questions, parts.memory.scores_of(server.launch_id.build)
    )


@pytest.fixture
def answers(request: pytest.FixtureRequest, server: RunningArm) -> GreedyAnswers:
    """This server's greedy answers, and those noted of other arms in this run."""
    parts = _parts(request)
    sizes = parts.settings.sizes
    return GreedyAnswers(
        server,
        parts.memory.answers_of(server.launch_id.build),
        sizes.lossless_prompts,
        sizes.max_tokens,
        parts.memory.answers_of(REFERENCE) if server.launch_id.build == CANDIDATE else None,
    )


@pytest.fixture
def log(server: RunningArm) -> LogChecks:
    """This server's log."""
    return LogChecks(server)


@pytest.fixture
def table(request: pytest.FixtureRequest, build: str) -> Table:
    """A table shown at the end of the run, of two builds one each; its title is the first line of the docstring."""
    documented = (request.function.__doc__ or request.node.name).strip().splitlines()[0].rstrip(".")
    return Table(_parts(request).memory.tables, f"{documented}, {build}" if build else documented)


@pytest.fixture
def sizes(request: pytest.FixtureRequest) -> Sizes:
    """How much this budget measures."""
    return _parts(request).settings.sizes


@pytest.fixture
def baseline(request: pytest.FixtureRequest) -> ConfigDrift:
    """What is resolved and installed now, against the newest baseline of this arm."""
    parts = _parts(request)
    return ConfigDrift(parts.stored.store, parts.facts)


@pytest.fixture
def speculation(server: RunningArm) -> SpeculationQuestion:
    """The question whether this server speculates, with its witnesses."""
    return SpeculationQuestion(server)


@pytest.fixture
def measure(request: pytest.FixtureRequest, server: RunningArm) -> Measure:
    """Plays a workload for the budget's rounds and keeps every round for the verdict."""
    return _measure_of(request, server)


def _measure_of(request: pytest.FixtureRequest, served: RunningArm) -> Measure:
    parts = _parts(request)
    series: SeriesId | None = request.node.stash.get(series_of, None)
    return Measure(
        parts.run,
        served,
        series,
        benchmark=lambda: request.getfixturevalue("benchmark"),
        facts=parts.facts,
        on_played=lambda played: request.node.stash.__setitem__(played_in, played),
        question=request.node.stash.get(question_of, ""),
    )


@pytest.fixture
def trial(request: pytest.FixtureRequest, launching: LaunchAttempt, target: Target) -> BackendTrial:
    """Tries this item's arm out, whether it starts or not."""
    questions = _parts(request).settings.sizes.canary_questions
    return BackendTrial(
        launching,
        target,
        canary=lambda served: Canary(served, questions, {}),
        measure=lambda served: _measure_of(request, served),
    )
