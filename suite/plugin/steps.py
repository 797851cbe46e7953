"""The steps of a run: begin, measure launch by launch and look by look, stop when told to, play the verdicts."""

from __future__ import annotations

import time
from typing import NoReturn

import pytest

from suite.builds import BuildError
from suite.cluster.options import show_plan
from suite.gate import GateError, Judgement, Outcome, WriteFailed
from suite.gate.status import BROKEN, INFRASTRUCTURE
from suite.plugin.parts import Parts
from suite.report import planned
from suite.session import first_starts
from suite.session.beforehand import objections
from suite.session.collection import asked_of, launch_id_of, verdict_of
from suite.session.comparing import SETTLED
from suite.session.entries import Item, Note
from suite.session.looked_at import look_at_builds
from suite.session.minutes import TimeIsUp
from suite.session.outcomes import AnotherBuild
from suite.session.outlook import Outlook
from suite.session.plan import alternate
from suite.session.playing import Playing
from suite.session.run import Run
from suite.session.verdict_items import wanted_again


class Steps:
    """pytest's loop over the items, where they are a run of this suite."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        parts = self._parts
        if not parts.arranged.items or session.testsfailed or parts.config.option.collectonly:
            return None  # nothing of ours, or something that pytest's own loop has a word for
        if parts.config.getoption("--format"):
            show_plan(parts.config, parts.settings, parts.arranged, parts.expected)
            return True
        if parts.config.getoption("--plan"):
            parts.progress.print(
                planned.of_plan(parts.settings, parts.arranged, parts.expected, parts.first_starts)
            )
            return True
        self._begin()
        done = parts.resumption.done if parts.resumption else ()
        parts.run.outlook = Outlook(parts.price_of(parts.arranged.items), parts.expected)
        playing = Playing(
            lambda: parts.run,
            parts.memory,
            parts.price_of(parts.arranged.scenarios),
            done,
        )
        parts.signals.install()
        try:
            self._measure(session, playing)
        except TimeIsUp as overrun:
            self._broken_off(session, str(overrun))
        except KeyboardInterrupt as interrupt:
            self._stopped(session, playing, str(interrupt) or "interrupted")
        playing.play(session, parts.arranged.verdicts)
        return True

    def _broken_off(self, session: pytest.Session, reason: str) -> None:
        """``--minutes`` are all but over, and something was still going on: the server goes down, the rest is judged."""
        run = self._parts.run
        run.abandon()
        session._setupstate.teardown_exact(None)
        run.tell("stopped", reason)
        run.stopping.ask(reason)
        run.told.ended = reason
        self._parts.judge.look()

    def _stopped(self, session: pytest.Session, playing: Playing, reason: str) -> NoReturn:
        """Told to stop: the server goes down while what was measured is judged and reported, as far as it goes."""
        parts = self._parts
        parts.signals.ending()
        run = parts.run
        run.abandon()
        session._setupstate.teardown_exact(None)
        if run.disk.full is None:
            run.tell("stopped", reason)
        else:
            run.note(
                Item("results", 0, Outcome("results", "disk", "", 0, "infrastructure", reason), time.time())
            )
        run.stopping.ask(reason)
        run.told.ended = run.stopping.reason or ""
        parts.judge.look()
        playing.play(session, parts.arranged.verdicts)
        raise session.Interrupted(reason)

    def _begin(self) -> None:
        """Make the run's directory, or open the one that is taken up again, before anything is launched."""
        parts = self._parts
        try:
            run = parts.run
            if parts.deadline is not None:
                run.stopping.deadline = parts.deadline
                parts.deadline.watch()
            if parts.resumption is not None:
                done, rest = len(parts.resumption.done), len(parts.arranged.launch_ids)
                parts.progress.say(f"going on with {run.run_id}: {done} of {rest} launches are complete")
                for line in parts.resumption.damage:
                    parts.progress.say(line)
                run.must_be_the_builds()
            self._must_be_recordable(run)
            if parts.compared:
                look_at_builds(
                    run, list(dict.fromkeys(launch_id.arm for launch_id in parts.arranged.launch_ids))
                )
        except WriteFailed as error:
            pytest.exit(str(error), returncode=INFRASTRUCTURE)
        except (AnotherBuild, BuildError, GateError) as error:
            raise pytest.UsageError(str(error)) from None

    def _must_be_recordable(self, run: Run) -> None:
        """Raise UsageError for a run that is to be recorded and could not be, before it costs anything."""
        parts = self._parts
        if not parts.settings.record:
            return
        asked = asked_of(parts.arranged.items)
        against = objections(parts.stored.store, run.target, asked, run.environment.identity())
        if against:
            raise pytest.UsageError(*against)

    def _measure(self, session: pytest.Session, playing: Playing) -> None:
        """Play everything that measures; launches that only an undecided look asks for, look by look."""
        parts = self._parts
        limit: int | None = parts.settings.sizes.launches
        measuring = [item for item in parts.arranged.items if verdict_of not in item.stash]
        if parts.compared:
            first_starts.warm(parts.run, parts.first_starts)
        if parts.compared and (limit or 0) > 1:
            measuring = self._first_pair(session, playing, measuring)
        while measuring:
            playing.play(session, measuring)
            if not parts.measured or parts.run.stopping.reason is not None:
                break
            judgement = parts.judge.look(parts.run.told.session(up_to=limit))
            measuring, limit = self._more(judgement), judgement.next_launches
            session.testscollected += len(measuring)
        if parts.deadline is not None:
            parts.deadline.measured()
        parts.run.told.ended = parts.run.stopping.reason or ""
        parts.judge.look()

    def _first_pair(
        self, session: pytest.Session, playing: Playing, measuring: list[pytest.Item]
    ) -> list[pytest.Item]:
        """Play one launch of each of two builds; what is still to be played, nothing after a no-go beyond doubt."""
        parts = self._parts
        later = [
            item for item in measuring if launch_id_of in item.stash and item.stash[launch_id_of].number > 1
        ]
        playing.play(session, [item for item in measuring if item not in later])
        if not parts.measured or parts.run.stopping.reason is not None:
            return later
        judgement = parts.judge.look(parts.run.told.session(up_to=1))
        if judgement.status != BROKEN:
            return later
        parts.run.note(Note(SETTLED))
        parts.progress.say(SETTLED)
        return []

    def _more(self, judgement: Judgement) -> list[pytest.Item]:
        """The held-back items that the next look needs, in launch order."""
        parts = self._parts
        if judgement.undecided and judgement.next_launches:
            parts.progress.say(f"{len(judgement.undecided)} series undecided: launching their arms again")
        limit = judgement.next_launches or 0
        due = [item for item in parts.arranged.later if item.stash[launch_id_of].number <= limit]
        wanted = wanted_again(due, judgement.extend)
        parts.arranged.later = [item for item in parts.arranged.later if item not in wanted]
        if wanted and not parts.run.can_spare(parts.price_of(wanted).seconds):
            parts.progress.say(f"{parts.settings.minutes:g} minutes leave no time to launch them again")
            return []
        if parts.run.outlook is not None:
            parts.run.outlook.add(parts.price_of(wanted))
        order = {
            launch_id: place
            for place, launch_id in enumerate(alternate(item.stash[launch_id_of] for item in wanted))
        }
        return sorted(wanted, key=lambda item: order[item.stash[launch_id_of]])
