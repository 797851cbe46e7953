"""Between a run and its files: the session to be judged, its baselines, ``run.json`` and ``verdicts.json``."""

from __future__ import annotations

from typing import Any

from suite.flags import Flags
from suite.gate import BaselineStore, Judgement, Plan, Rules, Session, judge, save_run
from suite.judging import Judge
from suite.recording import Recording
from suite.run import Run
from suite.served import Served
from suite.settings import Settings


class Stored:
    """Reads a target's baselines and writes what a run found."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.store = BaselineStore(settings.baselines, target=settings.target.name)
        gate = settings.target.gate
        self.rules = Rules(
            metrics={name: change.model_dump(exclude_none=True) for name, change in gate.metrics.items()},
            arms={
                arm: {name: change.model_dump(exclude_none=True) for name, change in changes.items()}
                for arm, changes in gate.arms.items()
            },
        )
        self.notes: list[str] = []
        """What happened to the files, in sentences for the end of the run."""

    def subject(self, served: Served) -> dict[str, Any]:
        """What an upgrade may change: version and resolved settings of this launch, and the flags that were given."""
        given = Flags({name: value for name, value in served.server.flags.items() if name != "port"})
        return {**served.info.subject(), "flags": " ".join(given.shown())}

    def session(self, run: Run, recording: Recording) -> Session:
        """Everything this run has measured, as the gate judges it."""
        sizes = self._settings.sizes
        return Session(
            run_id=run.run_id,
            started_at=run.started.isoformat(timespec="seconds"),
            target=run.target.name,
            plan=Plan(
                budget=run.budget,
                launches=sizes.launches,
                rounds=sizes.rounds,
                look_launches=[sizes.launches * look for look in range(1, sizes.looks + 1)],
            ),
            series=recording.series(),
        )

    def judge(self, session: Session) -> Judgement:
        """The gate's word on a session."""
        return judge(session, self.store.sessions_for(session), self.rules)

    def keep(self, run: Run, judged: Judge) -> None:
        """Write ``run.json`` and ``verdicts.json``, and the baseline if that was asked for."""
        session = judged.session()
        save_run(run.directory, session, judged.judgement())
        self.notes.append(f"results in {run.directory}")
        if self._settings.record:
            self.store.record(session)
            self.notes.append(
                f"recorded as a baseline session in {self._settings.baselines / run.target.name}"
            )
