"""Between a run and its files: the session to be judged, its baselines, ``run.json`` and ``verdicts.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from suite.gate import (
    Baseline,
    BaselineStore,
    GateError,
    Judgement,
    Rules,
    Series,
    Session,
    judge,
    save_run,
)
from suite.gate.history import History
from suite.gate.invalid import no_cuda_graphs
from suite.session.judging import Judge
from suite.session.run import Run
from suite.session.served import Served
from suite.session.settings import Settings
from suite.sglang.flags import Flags


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
        self.problems: list[str] = []
        """What could not be written, and why."""

    def subject(self, run: Run, served: Served) -> dict[str, Any]:
        """What an upgrade may change: versions and resolved settings of this launch, and the flags that were given."""
        given = Flags({name: value for name, value in served.server.flags.items() if name != "port"})
        whole = {
            **run.build.subject(served.server.env),
            **run.surroundings.subject(),
            **served.info.subject(),
            "flags": " ".join(given.shown()),
        }
        return {name: value for name, value in whole.items() if value is not None}

    def session(self, run: Run, up_to: int | None = None) -> Session:
        """Everything this run has measured (in launches up to a number), as the gate judges it."""
        return self.beside_baseline(run.told.session(up_to=up_to))

    def beside_baseline(self, session: Session) -> Session:
        """The session with what only the baseline can tell is wrong: decode without CUDA graphs where it had them."""
        found = self.store.sessions_for(session).baselines
        series = [_checked(one, found.get((one.question, one.arm))) for one in session.series]
        return msgspec.structs.replace(session, series=series)

    def judge(self, session: Session) -> Judgement:
        """The gate's word on a session."""
        return judge(session, self.store.sessions_for(session), self.rules)

    def keep(self, run: Run, judged: Judge) -> None:
        """Write ``run.json`` and ``verdicts.json``, add the run to the history, and to the baselines if asked for.

        What could not be written is told in ``problems``; the rest is still written.
        """
        session = judged.session()
        self._try("the run", lambda: save_run(run.directory, session, judged.judgement()))
        history = History(run.directory.parent / "history", run.target.name)
        self._try("the history", lambda: history.append(session))
        self.notes.extend([*run.build.notes, *run.surroundings.notes])
        self.notes.append(f"results in {run.directory}")
        if self._settings.record and self._try("the baseline", lambda: self.store.record(session)):
            self.notes.append(f"recorded as a baseline session in {self.store.folder}")

    def _try(self, what: str, write: Callable[[], object]) -> bool:
        try:
            write()
        except (GateError, OSError) as error:
            self.problems.append(f"{what} was not written: {error}")
            return False
        return True


def _checked(series: Series, baseline: Baseline | None) -> Series:
    before = baseline.current.subject.get("decode_cuda_graphs") if baseline else None
    reason = no_cuda_graphs(_truth(series.subject.get("decode_cuda_graphs")), _truth(before))
    if reason is None:
        return series
    launches = [
        msgspec.structs.replace(launch, invalid=[reason, *launch.invalid]) for launch in series.launches
    ]
    return msgspec.structs.replace(series, launches=launches)


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
