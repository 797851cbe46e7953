"""Between a run and its files: the session to be judged, its baselines, ``run.json`` and ``verdicts.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from suite.gate import (
    BaselineStore,
    GateError,
    Judgement,
    Recorded,
    Rules,
    Session,
    judge,
    known_good,
    save_run,
)
from suite.gate.history import History
from suite.gate.recordable import recordable, refused
from suite.gate.recorded import told
from suite.session.run import Run
from suite.session.running_arm import RunningArm
from suite.session.settings import Settings
from suite.session.times import learn
from suite.session.times import path_of as times_of
from suite.session.verdict_items import Judge
from suite.sglang.flags import Flags


class RunStore:
    """Reads a target's baselines and writes what a run found."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.store = BaselineStore(settings.baselines, target=settings.target.name)
        self.rules = Rules.of_target(settings.target)
        self.notes: list[str] = []
        """What happened to the files, in sentences for the end of the run."""
        self.problems: list[str] = []
        """What could not be written or recorded, and why."""
        self.unwritten = False
        """Whether a file could not be written."""

    def subject(self, run: Run, served: RunningArm) -> dict[str, Any]:
        """What an upgrade may change: versions and resolved settings of this launch, and the flags that were given."""
        given = Flags({name: value for name, value in served.server.flags.items() if name != "port"})
        whole = {
            **run.sides[served.launch_id.build].build.subject(served.server.env),
            **run.environment.subject(),
            **served.info.subject(),
            "flags": " ".join(given.shown()),
        }
        return {name: value for name, value in whole.items() if value is not None}

    def judge(self, session: Session) -> Judgement:
        """The gate's word on a session."""
        return judge(session, self.store.sessions_for(session), self.rules)

    def keep(self, run: Run, judged: Judge) -> None:
        """Write ``run.json`` and ``verdicts.json``, add the run to the history, and to the baselines if asked for.

        What could not be written is told in ``problems``; the rest is still written.
        """
        session, judgement = judged.judged, judged.judgement()
        self.attempt("the run", lambda: save_run(run.directory, session, judgement))
        if (begun := run.told.begun) is not None and begun.shard is not None:
            self.notes.extend([*run.main.build.notes, *run.environment.notes, f"results in {run.directory}"])
            self.notes.append(f"{begun.shard}, judged alone; the verdict is that of python -m suite merge")
            return
        if session.series:
            history = History(run.directory.parent / "history", run.target.name)
            self.attempt("the history", lambda: history.append(session))
        times = times_of(run.directory.parent, run.target.name)
        self.attempt("how long things took", lambda: learn(times, run.entries))
        of_builds = [note for side in run.sides.values() for note in side.build.notes]
        self.notes.extend(dict.fromkeys([*of_builds, *run.environment.notes]))
        self.notes.append(f"results in {run.directory}")
        if self._settings.record:
            self._record(session, judgement)
        if self._settings.promote_on_pass:
            self._promote(session, judgement)
        if self._settings.whole and known_good.qualifies(judgement):
            self._keep_known_good(run, session, judgement)

    def _record(self, session: Session, judgement: Judgement) -> None:
        """Add what is fit for it to the baselines, and say what is not."""
        for arm, why in refused(session, judgement).items():
            self.problems.append(f"nothing of {arm} was recorded: {why}")
        fit = recordable(session, judgement)
        done: list[Recorded] = []
        if fit.series and self.attempt("the baseline", lambda: done.extend(self.store.record(fit))):
            self.notes += told(done)
            self.notes.append(f"baselines in {self.store.folder}")

    def _promote(self, session: Session, judgement: Judgement) -> None:
        """Make a candidate that passed as a whole the level that later runs are compared with."""
        if not known_good.qualifies(judgement):
            self.notes.append("not promoted: not all of it passed")
            return
        done: list[Recorded] = []
        fit = msgspec.structs.replace(session, reference=None)
        if self.attempt("the baseline", lambda: done.extend(self.store.record(fit, promote=True))):
            self.notes += told(done)
            self.notes.append(f"promoted: baselines in {self.store.folder}")

    def _keep_known_good(self, run: Run, session: Session, judgement: Judgement) -> None:
        built = run.main.build
        known = known_good.of_run(session, judgement, built.subject({}), built.lock, built.place)
        if self.attempt("the known-good build", lambda: known_good.save(run.directory.parent, known)):
            self.notes.append(f"known good: {known_good.name_of(known)} (python -m suite known-good)")

    def way_back(self) -> str:
        """The last build that passed on this target, in words; empty where none has."""
        try:
            known = known_good.load(self._settings.results, self._settings.target.name)
        except GateError:
            return ""
        return known_good.name_of(known)

    def attempt(self, what: str, write: Callable[[], object]) -> bool:
        """Write something; could it be? What went wrong is told at the end of the run."""
        try:
            write()
        except (GateError, OSError) as error:
            self.problems.append(f"{what} was not written: {error}")
            self.unwritten = True
            return False
        return True
