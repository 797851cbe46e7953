"""One item as pytest plays it: what it attaches, how it ended, and that it is asked again when its server was lost."""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest
from _pytest.runner import runtestprotocol

from suite.load import LoadError
from suite.plugin.parts import Parts, lost_key, played_in, served_key
from suite.questions.config_drift import ConfigDrift
from suite.report import allure_files, failures, junit
from suite.servers import ServerDied, SupervisorLost
from suite.session.collection import kind_of, launch_id_of, question_of, verdict_of
from suite.session.entries import Item
from suite.session.outcomes import as_told, outcome_of
from suite.session.playing import outcome_key
from suite.session.running_arm import RunningArm
from suite.sglang.errors import ProbeError


class Items:
    """Hooks of a single item."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._servers = allure_files.ServerPages()
        self._changed: dict[int, list[str] | None] = {}
        """By launch of the run, what differs from the arm's baseline."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """As pytest plays an item; one whose server was lost is asked again, and only then reported."""
        if launch_id_of not in item.stash or self._parts.begun is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if (lost := item.stash.get(lost_key, None)) is not None and self._again(item, lost):
            del item.stash[lost_key]
            self._parts.memory.mark()
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _again(self, item: pytest.Item, lost: ServerDied | SupervisorLost) -> bool:
        """Is an item to be asked again whose server was lost? The loss is told as the arm's, not as the item's."""
        parts = self._parts
        launch_id = item.stash[launch_id_of]
        parts.run.drop_lost()
        if isinstance(lost, SupervisorLost):
            parts.run.tell("supervisor", f"{lost.summary}; {item.name} is repeated")
            return parts.run.losses.supervisor_lost(launch_id.who, item.nodeid)
        if not parts.run.losses.died(launch_id.who, item.nodeid, lost.summary):
            return False
        what = f"server of {launch_id}"
        parts.run.tell("death", f"{launch_id}: {lost.summary}; it is launched again for {item.name}")
        parts.run.note(
            Item(
                what,
                launch_id.number,
                outcome_of(what, "launch", launch_id.arm, launch_id.number, lost),
                time.time(),
                build=launch_id.build,
            )
        )
        item.session.testscollected += 1  # it is reported beside the items
        for report in failures.reports(launch_id.life, lost):
            item.ihook.pytest_runtest_logreport(report=report)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if launch_id_of in item.stash or verdict_of in item.stash:
            allure_files.label(item, self._parts.run.run_id)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        except (LoadError, ProbeError):
            # whoever could not reach the server says so; that the server died is the cause
            if (served := item.stash.get(served_key, None)) is not None:
                served.must_live()
            raise
        finally:
            self._attach(item)

    def _attach(self, item: pytest.Item) -> None:
        """The server's life and the samples, whether the item ended well or not."""
        served = item.stash.get(served_key, None)
        if served is None:
            return
        self._servers.attach(served, self._changed_since_baseline(served))
        if (played := item.stash.get(played_in, None)) is not None:
            allure_files.attach_played(played)
            item.user_properties += junit.figures(played.launch().rounds)

    def _changed_since_baseline(self, served: RunningArm) -> list[str] | None:
        if served.launch_id.build:
            return None  # two builds are compared with one another
        if served.number not in self._changed:
            drift = ConfigDrift(self._parts.stored.store, self._parts.facts)
            self._changed[served.number] = drift.since(served)
        return self._changed[served.number]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, ServerDied | SupervisorLost):
            item.stash[lost_key] = call.excinfo.value
        self._note(item, call, report)
        failures.shorten(item, call, report)
        return report

    def _note(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Keep how a scenario's item ended; verdicts speak for themselves."""
        if verdict_of in item.stash:
            return
        if question_of not in item.stash:
            self._parts.others_failed |= report.failed
        elif report.when == "call" or not report.passed:
            error = call.excinfo.value if call.excinfo is not None else None
            launch_id = item.stash[launch_id_of]
            item.stash[outcome_key] = outcome_of(
                item.stash[question_of],
                kind_of(item) or "",
                launch_id.arm,
                launch_id.number,
                as_told(report, error),
            )
