"""Attaches to a server that somebody else runs: nothing is launched or ended, and only its own arm is measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from suite import config
from suite.hosts import Host, open_host
from suite.redact import Secret
from suite.servers import what_runs
from suite.servers.errors import LaunchFailed, NotSGLang, NotThisArm, ServerDied
from suite.servers.server import Server
from suite.servers.supervisor_client import SupervisorClient, Tell, host_python
from suite.sglang import errors as wire
from suite.sglang import http, server
from suite.sglang.flags import Flags, FlagValue, flags_within
from suite.sglang.server import identify

MTP_NAMES = frozenset({"NEXTN", "EAGLE", "FROZEN_KV_MTP"})
"""What ``--speculative-algorithm NEXTN`` may read like once resolved (SGLang 0.5.9 to 0.5.23)."""


class AttachLauncher:
    """As :class:`~suite.servers.launcher.Launcher`, for a server that is up already.

    With a host other than this machine the URL is as that host sees it, and is reached through a tunnel.
    """

    def __init__(
        self,
        suite: config.Suite,
        target: config.Target,
        launch: config.AttachLaunch,
        log_dir: Path,
        say: Callable[[str], None],
        tell: Tell,
        wait_s: float,
    ) -> None:
        self._suite = suite
        self.target = target
        self._launch = launch
        self._log_dir = log_dir
        self._say = say
        self._tell = tell
        self._wait_s = wait_s
        self._stack = ExitStack()
        self.launches = 0
        self.cards: Callable[[], tuple[str, ...]] = (
            lambda: ()
        )  # it is not ours to say why such a server ended

    def __enter__(self) -> AttachLauncher:
        self._url = urlsplit(self._launch.url)
        self._api_key = self._read_key("api_key_env", self._launch.api_key_env)
        self._admin_api_key = self._read_key("admin_api_key_env", self._launch.admin_api_key_env)
        with ExitStack() as stack:
            self._host: Host = stack.enter_context(open_host(self._suite.host(self.target.host)))
            supervisor = SupervisorClient(self._host, lambda text: None, self._say, self._tell)
            supervisor.open(
                [f"server {self._url.netloc}"],
                {"target": self.target.name, "run": self._log_dir.parent.name},
                python=host_python(self._host, None),
                wait_s=self._wait_s,
            )
            stack.callback(supervisor.close)
            self._base_url = self._reached()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def abandon(self) -> None:
        """Nothing here is ours to end."""

    def start(self, arm: config.Arm, serving: config.Target | None = None) -> Server:
        """The running server, if it is what ``arm`` asks for; ``serving`` is no matter, whoever serves it.

        Raises:
            NotThisArm: it is not, or that cannot be seen from outside.
            NotSGLang: something else answers there.
            LaunchFailed: nothing answers there.
        """
        read = self._info()
        info = {**read.resolved, "launch_command": read.launch_command}
        flags = self.target.arm_flags(arm)
        reasons = [*_unseen(arm), *self._not_it(arm, read)]
        if reasons:
            raise NotThisArm(
                f"the server at {self._launch.url} does not run arm {arm.name}: {'; '.join(reasons)}",
                "Start it with the arm's flags, or measure a target that the suite may launch.",
            )
        return Server(
            arm=arm.name,
            base_url=self._base_url,
            host=self._host.name,
            flags=flags,
            env={},
            command=tuple(_launch_flags(info).shown()),
            api_key=self._api_key,
            admin_api_key=self._admin_api_key,
            _check=self._check,
        )

    def _not_it(self, arm: config.Arm, read: server.ServerInfo) -> list[str]:
        """Why what runs is not ``arm``; a target with one arm alone was made for what ran when it was looked at."""
        if len(self.target.arms) > 1:
            return differences(self.target, arm, {**read.resolved, "launch_command": read.launch_command})
        now = what_runs.arm_of(self.target, read)
        if now is None or now.name == arm.name:
            return []
        return [f"it is {now.name} by now ({read.speculation})"]

    def _read_key(self, setting: str, name: str | None) -> Secret | None:
        if name is None:
            return None
        key = os.environ.get(name)
        if not key:
            raise config.ConfigError(
                f"{self._suite.path}: [targets.{self.target.name}.launch] {setting} = {name!r}, "
                "and that variable is not set here"
            )
        return Secret(key)

    def _reached(self) -> str:
        return server.root(self._host.near(self._url.geturl()))

    def _info(self) -> server.ServerInfo:
        try:
            found = server.read(self._base_url, self._api_key)
            if (gateway := identify.gateway_at(self._base_url, self._api_key)) is not None:
                raise gateway
            return found
        except (wire.UnreadableServer, wire.ServerKeyRefused) as error:
            raise NotSGLang(str(error)) from None
        except wire.ServerProbeError as error:
            raise LaunchFailed(
                f"no server answers at {error}",
                "Start it, or check address, port and (for another machine) host in [targets.NAME].",
            ) from None

    def _check(self) -> None:
        try:
            http.ask(f"{self._base_url}/health", api_key=self._api_key, timeout_s=20.0)
        except wire.ServerProbeError as error:
            raise ServerDied(
                f"the server at {self._launch.url} answers no more: {error}",
                "It is not ours: see its own log.",
            ) from None


def _unseen(arm: config.Arm) -> list[str]:
    return [f"it sets the variable {name}, which cannot be seen from outside" for name in arm.env]


def differences(target: config.Target, arm: config.Arm, info: Mapping[str, Any]) -> list[str]:
    """In what a running server is not ``arm``, by the flags that tell the target's arms apart.

    Flags on which all arms agree are the probes' matter: they are reported, but make no other arm. A flag that
    this arm leaves to its default is compared where that can be seen: the switch for speculation (``null``
    when off), and everything in ``launch_command`` (SGLang 0.5.20 and later).
    """
    asked = target.arm_flags(arm)
    given = _launch_flags(info)
    found = []
    for name in sorted({name for other in target.arms.values() for name in Flags(_all(other))}):
        setting = name.replace("-", "_")
        if name in asked:
            if setting in info and not _same(asked[name], info[setting]):
                found.append(f"--{name} is {info[setting]!r}, not {asked[name]!r}")
            elif given and name not in given:
                found.append(f"--{name} was not given")
        elif name == "speculative-algorithm" and info.get(setting) is not None:
            found.append(f"speculation is on ({info[setting]})")
        elif name in given:
            found.append(f"--{name} was given ({given[name]})")
    return found


def _all(arm: config.Arm) -> dict[str, FlagValue]:
    """Every flag that an arm names, also those it removes."""
    return dict.fromkeys(arm.flags, True)


def _launch_flags(info: Mapping[str, Any]) -> Flags:
    """The command line as the server reports it; empty where it does not."""
    command = info.get("launch_command")
    if not isinstance(command, str):
        return Flags()
    try:
        return flags_within(command)
    except ValueError:
        return Flags()


def _same(asked: FlagValue, resolved: object) -> bool:
    """Is a resolved setting what a flag asked for? Numbers by value, MTP under any of its names."""
    if isinstance(asked, tuple):
        return isinstance(resolved, list) and [str(v) for v in resolved] == [str(v) for v in asked]
    if str(asked).upper() in MTP_NAMES and resolved is not None:
        return str(resolved).upper() in MTP_NAMES
    if isinstance(resolved, bool) or resolved is None:
        return asked is resolved or str(asked).lower() == str(resolved).lower()
    try:
        return float(str(asked)) == float(str(resolved))
    except ValueError:
        return str(asked) == str(resolved)
