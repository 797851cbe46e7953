"""Between a run and its files: the session to be judged, its baselines, ``run.json`` and ``verdicts.json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
from suite.gate.known_good import KnownGood
from suite.gate.recordable import recordable, refused
from suite.gate.recorded import told
from suite.gate.status import BROKEN, INFRASTRUCTURE
from suite.session.entries import Entry
from suite.session.run import Run
from suite.session.running_arm import RunningArm
from suite.session.times import learn
from suite.session.times import path_of as times_of
from suite.sglang.flags import Flags


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that is over, and what is to be kept of it beside its own folder.

    entries: of its journal, from which is learned how long things take; launches: how many there were; built: what is
    kept of its build if it passed as a whole, asked only then; whole: whether it put every question of its budget;
    promote: whether it becomes the level if all of it passes; notes: on its build and machine; apart: why it is no run
    of its own, if it is none: nothing of it gets into history, baselines, or the known good build.
    """

    folder: Path
    session: Session
    judgement: Judgement
    entries: Sequence[Entry]
    launches: int
    built: Callable[[], KnownGood]
    whole: bool
    promote: bool = False
    notes: Sequence[str] = field(default=())
    apart: str = ""


class RunStore:
    """Reads a target's baselines and writes what a run found.

    Args:
        results: where its runs are.
        baselines: where the baselines of all targets are.
    """

    def __init__(self, target: str, rules: Rules, results: Path, baselines: Path) -> None:
        self._target = target
        self._results = results
        self.store = BaselineStore(baselines, target)
        self.rules = rules
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

    def keep(self, ended: EndedRun) -> None:
        """Write ``run.json`` and ``verdicts.json``, add the run to the history, and to the baselines if asked for.

        What could not be written is told in ``problems``; the rest is still written.
        """
        session, judgement = ended.session, ended.judgement
        self.attempt("the run", lambda: save_run(ended.folder, session, judgement))
        if not ended.apart:
            if session.series:
                history = History(self._results / "history", self._target)
                self.attempt("the history", lambda: history.append(session))
            times = times_of(self._results, self._target)
            self.attempt("how long things took", lambda: learn(times, ended.entries))
        self.notes += [*dict.fromkeys(ended.notes), f"results in {ended.folder}"]
        if ended.apart:
            self.notes.append(ended.apart)
            return
        if session.plan.recording:
            self._record(session, judgement)
        if ended.promote:
            self._promote(session, judgement)
        if ended.whole and known_good.qualifies(judgement):
            self._keep_known_good(ended.built())

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

    def _keep_known_good(self, known: KnownGood) -> None:
        if self.attempt("the known-good build", lambda: known_good.save(self._results, known)):
            self.notes.append(f"known good: {known_good.name_of(known)} (python -m suite known-good)")

    def way_back(self) -> str:
        """The last build that passed on this target, in words; empty where none has."""
        return known_good.last_named(self._results, self._target)

    def attempt(self, what: str, write: Callable[[], object]) -> bool:
        """Write something; could it be? What went wrong is told at the end of the run."""
        try:
            write()
        except (GateError, OSError) as error:
            self.problems.append(f"{what} was not written: {error}")
            self.unwritten = True
            return False
        return True

    def status(self, judgement: Judgement) -> int:
        """The exit status of a run: the judgement's, unless a file could not be written and nothing is broken."""
        return INFRASTRUCTURE if self.unwritten and judgement.status != BROKEN else judgement.status
