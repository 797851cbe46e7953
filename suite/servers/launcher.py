"""Brings one arm after another up on a target's hosts, watches it become ready, and takes it down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType

from suite import config, redact
from suite.config import borrowed
from suite.hosts import Host, HostError, open_host
from suite.redact import Secret
from suite.servers import locks
from suite.servers.errors import (
    ArgumentsDropped,
    CannotStart,
    LaunchFailed,
    NotReadyInTime,
    PortTaken,
    ServerDied,
    ServerError,
    SupervisorLost,
)
from suite.servers.health import ReadyWatch
from suite.servers.log import LogCopy
from suite.servers.node import Node
from suite.servers.passed_on import PassedOn
from suite.servers.phases import PhaseClock
from suite.servers.runtimes import LaunchRequest, Runtime, runtime_of
from suite.servers.server import Ended, Server
from suite.servers.supervisor_client import Tell, host_python
from suite.sglang.flags import Flags

SAY_EVERY_S = 5.0


class Launcher:
    """Launches for one target. A context manager: inside it holds the locks, at its end nothing is left.

    At most one server is up at a time.
    """

    def __init__(
        self,
        suite: config.Suite,
        target: config.Target,
        log_dir: Path,
        say: Callable[[str], None],
        tell: Tell,
        wait_s: float,
        *,
        locked: bool = True,
    ) -> None:
        self._suite = suite
        self.target = target
        self.log_dir = log_dir
        self._say = say
        self._tell = tell
        self._wait_s = wait_s
        self._locked = locked
        self.nodes: list[Node] = []
        self._runtimes: list[Runtime] = []
        self._serving = target
        """The target as the build serves it that is up or was last."""
        self._server: Server | None = None
        self._stack = ExitStack()
        self._abandoned = False
        self.launches = 0
        self.cards: Callable[[], tuple[str, ...]] = lambda: ()
        """PCI addresses of the first host's GPUs that are the server's; none: any. Whose an Xid is hangs on it."""

    def __enter__(self) -> Launcher:
        names = [self.target.host, *(n for n in self.target.nodes if n != self.target.host)]
        with ExitStack() as stack:
            for name in names:
                host = stack.enter_context(open_host(self._suite.host(name)))
                self._open_node(host, stack)
            self._stack = stack.pop_all()
        return self

    def _open_node(self, host: Host, stack: ExitStack) -> None:
        launch = self.target.launch
        interpreter = launch.interpreter if isinstance(launch, config.ProcessLaunch) else None
        node = Node(host, interpreter, self._say, self._tell)
        stack.callback(lambda: node.supervisor.close())  # of the one that is there then
        self._open_supervisor(node)
        # only now: what a dead run left may have changed whether a unit is running
        runtime = runtime_of(self._suite, self.target, host)
        node.supervisor.make_room(runtime.enter, runtime.leave)
        self.nodes.append(node)
        self._runtimes.append(runtime)

    def _open_supervisor(self, node: Node) -> None:
        node.supervisor.open(
            locks.keys(self._suite.path, self.target) if self._locked else [],
            {"target": self.target.name, "run": self.log_dir.parent.name},
            python=host_python(node.host, node.interpreter),
            wait_s=self._wait_s,
        )

    def _replace_lost(self) -> None:
        """A new supervisor wherever one is gone; it ends what the old one left, and makes room again."""
        for node, runtime in zip(self.nodes, self._runtimes, strict=True):
            if isinstance(node.supervisor.lost, SupervisorLost):
                node.renew()
                self._open_supervisor(node)
                node.supervisor.make_room(runtime.enter, runtime.leave)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if not self._abandoned:
                self._stop(self.launches)

    def abandon(self) -> None:
        """Have everything ended within seconds, and wait for nothing; leaving the launcher waits for it.

        For a run that was told to stop: servers get the time of a goodbye, not ``drain_s``. Nothing can be
        started any more.
        """
        self._abandoned = True
        for node in self.nodes:
            node.supervisor.leave()

    def start(self, arm: config.Arm, serving: config.Target | None = None) -> Server:
        """Launch ``arm`` and wait until it is ready.

        A supervisor that is gone is replaced first.

        Args:
            serving: the target as another build serves it, on the same hosts and GPUs; without, as it is.

        Raises:
            LaunchFailed: one of its kinds; nothing of the server is left.
            SupervisorLost: the supervisor was killed meanwhile, and the server ended with it.
            HostError: a host could not be reached any more.
        """
        if self._server is not None:
            raise RuntimeError(f"{self._server.arm} is still up; stop it before starting {arm.name}")
        self._replace_lost()
        self._serving = serving or self.target
        self.launches += 1
        begun = time.monotonic()
        try:
            return self._start(arm, begun)
        except KeyboardInterrupt:
            self.abandon()
            raise
        except BaseException as failure:
            try:
                self._end_all()
            except (HostError, ServerError) as second:  # the first one is what happened
                failure.add_note(f"And it could not be ended: {second}")
            raise

    def _start(self, arm: config.Arm, begun: float) -> Server:
        flags, env = self._given(arm)
        ports = [self._port(node, rank) for rank, node in enumerate(self.nodes)]
        asked = []
        for rank, node in enumerate(self.nodes):
            placed = flags.merge({"host": self.target.bind, "port": ports[rank]})
            placed = placed.merge(self._between_nodes(rank, flags))
            self._launch(node, rank, self._runtimes_of_build()[rank], arm, placed, env)
            asked.append(placed)
        first = self.nodes[0]
        base_url = _base_url(first.host, self.target.bind, ports[0])
        api_key, admin_key = (
            redact.Secret(str(flags[name])) if name in flags else None
            for name in ("api-key", "admin-api-key")
        )
        self._await_ready(arm, base_url, api_key, begun, asked)
        self._check_owner(first, ports[0])
        assert first.log is not None
        assert first.plan is not None
        self._server = Server(
            arm=arm.name,
            base_url=base_url,
            host=first.host.name,
            flags=flags,
            env=redact.environment(env),
            command=tuple(first.plan.shown),
            api_key=api_key,
            admin_api_key=admin_key,
            pid=None if first.plan.kill else first.pid,
            log_path=first.log.path,
            ready_s=time.monotonic() - begun,
            phases=first.clock.seconds(),
            _tail=first.log.tail,
            _check=partial(self._check, self.launches),
            _stop=partial(self._stop, self.launches),
        )
        self._say(f"launching {arm.name} ... ready after {self._server.ready_s:.0f} s")
        return self._server

    def _flags(self, arm: config.Arm) -> Flags:
        """What is asked for: a unit's own flags, the target's over them, the arm's over those."""
        own = {"model-path": self.target.model}
        return self._runtimes[0].base.merge(own).merge(self._serving.flags).merge(arm.flags)

    def _runtimes_of_build(self) -> list[Runtime]:
        """How the build that is to be up is launched on each node."""
        if self._serving.launch == self.target.launch:
            return self._runtimes
        return [runtime_of(self._suite, self._serving, node.host) for node in self.nodes]

    def _given(self, arm: config.Arm) -> tuple[Flags, dict[str, str]]:
        """Flags and variables of a launch, with what they name of this machine's environment."""
        try:
            return borrowed.flags(self._flags(arm)), borrowed.env(self._serving.arm_env(arm))
        except borrowed.NotSet as missing:
            where = f"[targets.{self.target.name}] of {self._suite.path}"
            raise CannotStart(f"{missing} ({where})", "Export it where this suite is run.") from None

    def _port(self, node: Node, rank: int) -> int:
        """The port to serve on, seen to be free before minutes of loading find it is not."""
        wanted = self.target.port if rank == 0 else None
        answer = node.supervisor.ask("port", 30.0, do="port", bind=self.target.bind, port=wanted)
        if answer["free"]:
            return int(answer["port"])
        holder = (
            f"process {answer['holder']}: {answer['command']}" if answer["holder"] else "an unknown process"
        )
        raise PortTaken(
            f"port {wanted} on {node.host.name} is taken by {holder}",
            f"End it, or choose another port for [targets.{self.target.name}] (no port: a free one is picked).",
        )

    def _check_owner(self, node: Node, port: int) -> None:
        """Is what answers there the server that was launched? Another may have taken the port meanwhile."""
        if node.plan is None or node.plan.kill:
            return  # a container's or a unit's processes are not the supervisor's children
        answer = node.supervisor.ask("port", 30.0, do="port", bind=self.target.bind, port=port)
        if answer["holder"] and not answer["ours"]:
            raise PortTaken(
                f"port {port} on {node.host.name} was taken meanwhile by process {answer['holder']}: "
                f"{answer['command']}",
                "It answers in the server's place. End it, or start again.",
                node.evidence(),
            )

    def _between_nodes(self, rank: int, flags: Flags) -> dict[str, str | int]:
        """The flags by which the ranks of a launch over several hosts find one another."""
        if len(self.nodes) == 1:
            return {}
        if "dist-init-addr" not in flags and rank == 0:
            port = self.nodes[0].supervisor.ask("port", 30.0, do="port", bind="0.0.0.0", port=None)["port"]
            self._meeting = f"{self.nodes[0].host.address}:{port}"
        address = str(flags["dist-init-addr"]) if "dist-init-addr" in flags else self._meeting
        return {"nnodes": len(self.nodes), "node-rank": rank, "dist-init-addr": address}

    def _launch(
        self, node: Node, rank: int, runtime: Runtime, arm: config.Arm, flags: Flags, env: Mapping[str, str]
    ) -> None:
        name = f"{self.launches:02d}-{arm.name}" + (f".rank{rank}" if rank else "")
        node.clock = PhaseClock()
        path = self.log_dir / f"{name}.log"
        log = LogCopy(path, _secrets(flags, env, node.host), node.clock.read, partial(self._log_failed, path))
        asked = LaunchRequest(flags, env, node.supervisor.next_token(), self.target.name, arm.name)
        where = {"port": flags["port"], "bind": self.target.bind, "gpus": self.target.gpus > 0}
        node.launch(asked.token, runtime.plan(asked), log, where)

    def _log_failed(self, path: Path, error: OSError) -> None:
        self._tell("log", f"the copy of a server's log cannot be written: {path}: {error.strerror or error}")

    def _await_ready(
        self, arm: config.Arm, base_url: str, api_key: Secret | None, begun: float, asked: Sequence[Flags]
    ) -> None:
        watch = ReadyWatch(base_url, api_key)
        said = self._say_progress(arm, ("", 0.0))
        looks = [PassedOn(node, flags) for node, flags in zip(self.nodes, asked, strict=True)]
        try:
            while not watch.ready.wait(0.05):
                self._check_nodes()
                for look in looks:
                    self._must_be_passed_on(look)
                self._check_deadlines(watch, begun)
                said = self._say_progress(arm, said)
        finally:
            watch.stop()
        self._await_log()
        self._check_nodes()
        for look in looks:
            self._must_be_passed_on(look, now=True)

    def _must_be_passed_on(self, look: PassedOn, now: bool = False) -> None:
        """Raise ArgumentsDropped if the command that was started does not hand its arguments to the server."""
        if (why := look.why_not(now)) is not None:
            raise ArgumentsDropped(
                why,
                'Have the script hand its arguments on, behind its own flags: ... "$@"; or write the command itself '
                f"into [targets.{self.target.name}.launch], as `python -m suite init --from` does.",
                look.node.evidence(),
            )

    def _check_nodes(self) -> None:
        for node in self.nodes:
            if failure := self._failure(node) or node.hopeless():
                raise failure

    def _failure(self, node: Node) -> LaunchFailed | None:
        return node.failure(self.cards if node is self.nodes[0] else lambda: ())

    def _await_log(self, limit_s: float = 2.0) -> None:
        """Take in what the log says up to here; an engine hands it on a little later."""
        deadline = time.monotonic() + limit_s
        while not self.nodes[0].clock.said_ready and time.monotonic() < deadline:
            time.sleep(0.05)
        for node in self.nodes:
            node.supervisor.calm()
            node.clock.finish()

    def _check_deadlines(self, watch: ReadyWatch, begun: float) -> None:
        clock = self.nodes[0].clock
        timeouts = self.target.timeouts
        limit_s = timeouts.phase_s.get(clock.current)
        if limit_s is not None and clock.in_phase_s > limit_s:
            what, key = f"{clock.current} took longer than {limit_s:g} s", f'phase_s."{clock.current}"'
        elif time.monotonic() - begun > timeouts.ready_s:
            what, key = f"not ready within {timeouts.ready_s:g} s, while {clock.current}", "ready_s"
        else:
            return
        raise NotReadyInTime(
            f"{what}; {watch.last}",
            f"It hangs, or needs longer: see its last lines; "
            f"the limit is {key} in [targets.{self.target.name}.timeouts].",
            self.nodes[0].evidence(),
        )

    def _say_progress(self, arm: config.Arm, said: tuple[str, float]) -> tuple[str, float]:
        clock, now = self.nodes[0].clock, time.monotonic()
        if clock.current == said[0] and now - said[1] < SAY_EVERY_S:
            return said
        self._say(f"launching {arm.name} ... {clock.said()}")
        return clock.current, now

    def _check(self, launch: int) -> None:
        if self._server is None or launch != self.launches:
            raise ServerDied("the server has been stopped", "Use the one that was started last.")
        for node in self.nodes:
            if failure := self._failure(node):
                what = f"the server on {node.host.name} died: {failure.summary}"
                raise ServerDied(what, failure.advice, failure.evidence) from failure

    def _stop(self, launch: int) -> Ended:
        if self._server is None or launch != self.launches:
            return Ended(0.0, "had been stopped already")
        arm, self._server = self._server.arm, None
        ended = self._end_all()
        self._say(f"ended {arm} in {ended.seconds:.1f} s ({ended.how})")
        return ended

    def _end_all(self) -> Ended:
        """End what runs on every node, the last rank first; one that fails does not spare the others."""
        results: list[Ended] = []
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(lambda node: results.append(node.end(self.target.timeouts.drain_s)), node)
        return results[-1]


def _base_url(host: Host, bind: str, port: int) -> str:
    """Where a server bound to ``bind`` answers, from this machine."""
    address = "127.0.0.1" if bind in ("0.0.0.0", "::", "localhost") else bind
    near = host.forward(port, address)
    if not host.is_local:
        address = "127.0.0.1"
    return f"http://[{address}]:{near}" if ":" in address else f"http://{address}:{near}"


def _secrets(flags: Flags, env: Mapping[str, str], host: Host) -> list[str]:
    """Whatever a server could print that must not be seen: of its flags, its variables and ours."""
    # of our own variables only what is long enough to be a secret, or half of a log could go with it
    ours = [value for name, value in os.environ.items() if redact.is_secret(name) and len(value) >= 8]
    given = [value for name, value in env.items() if redact.is_secret(name)]
    return [*flags.secrets(), *given, *(ours if host.is_local else [])]
