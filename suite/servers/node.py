"""One host of a launch: the supervisor there, what runs, what it printed, and why it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from suite.hosts import Host
from suite.servers.diagnosis import Signs, diagnose, hopeless, signs_of
from suite.servers.errors import CannotStart, Evidence, LaunchFailed, SupervisorFailed, SupervisorLost
from suite.servers.log import KEPT_LINES, LogCopy
from suite.servers.phases import PhaseClock
from suite.servers.runtimes import LaunchPlan
from suite.servers.server import Ended
from suite.servers.supervisor_client import SupervisorClient, Tell

EVIDENCE_LINES = 25


class Node:
    """One host of a launch: its supervisor, and what runs there now."""

    def __init__(self, host: Host, interpreter: str | None, say: Callable[[str], None], tell: Tell) -> None:
        self.host = host
        self.interpreter = interpreter
        self._say = say
        self._tell = tell
        self.clock = PhaseClock()
        self.log: LogCopy | None = None
        self.plan: LaunchPlan | None = None
        self.pid: int | None = None
        self.supervisor = SupervisorClient(host, self._on_log, say, tell)

    def _on_log(self, text: str) -> None:
        if self.log is not None:
            self.log.write(text)

    def renew(self) -> None:
        """A supervisor in place of one that is gone, not opened yet; nothing runs on this host any more."""
        self.plan = None
        self.supervisor = SupervisorClient(self.host, self._on_log, self._say, self._tell)

    def launch(self, token: str, plan: LaunchPlan, log: LogCopy, where: Mapping[str, object]) -> None:
        """Start a server there.

        Raises:
            CannotStart: its first program, or the directory to start it in, is not there.
        """
        self.log, self.plan = log, plan
        try:
            self.pid = self.supervisor.launch(token, {**plan.spec(), **where})
        except SupervisorLost:
            raise
        except SupervisorFailed as failure:
            advice = "Check python, wrapper and cwd in [targets.NAME.launch]."
            raise CannotStart(failure.summary, advice, self.evidence()) from None

    def end(self, drain_s: float) -> Ended:
        """End what runs there, wholly.

        Raises:
            SupervisorFailed: something of it could not be ended, or its port or GPU memory stayed taken.
        """
        if self.plan is None:
            return Ended(0.0, "was not running")
        plan, self.plan = self.plan, None
        try:
            told = self.supervisor.end(drain_s)
        except SupervisorLost as lost:  # and with it what it had started
            return Ended(0.0, lost.summary)
        finally:
            if self.log is not None:
                self.log.close()
        left: Sequence[str] = [*told["remaining"], *(f"{what} still taken" for what in told["busy"])]
        if left:
            raise SupervisorFailed(
                f"not all of the server on {self.host.name} could be ended: {'; '.join(left)}",
                "End it yourself before measuring anything there.",
                Evidence(command=plan.shown, host=self.host.name),
            )
        return Ended(told["seconds"], told["how"], tuple(told["stray"]))

    def evidence(self) -> Evidence:
        """What every failure of this node shows."""
        return Evidence(
            command=self.plan.shown if self.plan else (),
            host=self.host.name,
            log_path=str(self.log.path) if self.log else None,
            last_lines=self.log.tail(EVIDENCE_LINES) if self.log else (),
            phases=self.clock.seconds(),
        )

    def failure(self, cards: Callable[[], tuple[str, ...]] = lambda: ()) -> LaunchFailed | None:
        """Why the server there has ended, if it has; ``cards`` gives the PCI addresses of its GPUs (none: any)."""
        self.supervisor.drain()
        news = self.supervisor.exit
        if news is None:
            return None
        phase = self.clock.doing
        self.clock.finish()
        version = self.version() if news["code"] == 2 else None
        return diagnose(signs_of(news, self._lines(), phase, version, cards()), self.evidence())

    def hopeless(self) -> LaunchFailed | None:
        """Why the server there will never be ready although it runs, if so."""
        return hopeless(Signs(self._lines()[-50:], self.clock.current), self.evidence())

    def _lines(self) -> list[str]:
        return self.log.tail(KEPT_LINES) if self.log else []

    def version(self) -> str | None:
        """The SGLang that the interpreter there has, if it has one and says so."""
        if self.interpreter is None or self.plan is None:
            return None
        ask = "import importlib.metadata; print(importlib.metadata.version('sglang'))"
        done = self.host.run([self.interpreter, "-c", ask], timeout_s=30.0, cwd=self.plan.cwd)
        return done.stdout.strip() if done.code == 0 else None
