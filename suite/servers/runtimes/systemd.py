"""Run arms as transient copies of a systemd unit, which is stopped before and started again after."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from suite.config import Suite, SystemdLaunch, Target
from suite.hosts import Host, NoSuchFile
from suite.servers import unit_file
from suite.servers.errors import UnitUnusable
from suite.servers.runtimes.base import LaunchPlan, LaunchRequest, Runtime, secrets_apart
from suite.sglang.command import Command, NotUnderstood, find

NAME = "sglang-perf-gate"

# Not copied: what the command is (given anew), when it is restarted, how it reports, where it prints.
_NOT_COPIED = re.compile(
    r"Exec\w+|Type|Restart\w*|StartLimit\w+|Standard\w+|Syslog\w+|Log\w+|Timeout\w+|RuntimeMaxSec|PIDFile|BusName"
    r"|NotifyAccess|Watchdog\w+|RemainAfterExit|SuccessExitStatus|GuessMainPID|Sockets|File\w+|OOMPolicy"
    r"|Environment|EnvironmentFile"
)
_PREFIX = re.compile(r"[@\-:+!|]*")


class Unit:
    """A unit as systemd reads it, which ``systemctl cat`` shows.

    ``command`` is the SGLang that it runs, ``variables`` those of its own, ``active``: it runs.
    """

    def __init__(self, launch: SystemdLaunch, target: Target, host: Host) -> None:
        """Read it.

        Raises:
            UnitUnusable: there is none, or it does not run SGLang in a way that flags can be changed in.
        """
        self._launch = launch
        self._target = target
        self._host = host
        self.scope = ["--user"] if launch.scope == "user" else []
        self._service = unit_file.assignments(self._cat(), "Service")
        self.variables = self._read_variables()
        self.command = self._read_command()
        self.active = self._state() in ("active", "activating", "reloading")

    def systemctl(self, verb: str) -> list[str]:
        """``systemctl VERB`` of its manager."""
        return ["systemctl", *self.scope, verb]

    def _cat(self) -> str:
        done = self._host.run([*self.systemctl("cat"), "--no-pager", self._launch.unit])
        if done.code:
            raise self._unusable(
                f"cannot be read: {(done.stderr or done.stdout).strip()}", "Check unit and scope."
            )
        return done.stdout

    def _state(self) -> str:
        show = [*self.systemctl("show"), "--property=ActiveState", "--value", self._launch.unit]
        return self._host.run(show).stdout.strip()

    def _unusable(self, what: str, advice: str) -> UnitUnusable:
        return UnitUnusable(
            f"unit {self._launch.unit} on {self._host.name} {what}",
            f"{advice} ([targets.{self._target.name}.launch])",
        )

    def _read_variables(self) -> dict[str, str]:
        """Variables of the unit: its ``Environment``, over which the files win, as in systemd."""
        found: dict[str, str] = {}
        for line in self._service.get("Environment", []):
            for word in unit_file.split(line):
                name, _, value = self._specified(word).partition("=")
                found[name] = value
        for path in self._service.get("EnvironmentFile", []):
            found |= self._read_file(self._specified(path))
        return found

    def _read_file(self, path: str) -> dict[str, str]:
        optional, path = path.startswith("-"), path.removeprefix("-")
        try:
            return unit_file.environment_file(self._host.read_text(path))
        except NoSuchFile as error:
            if optional and not self._host.exists(path):
                return {}
            raise self._unusable(
                f"has an EnvironmentFile that cannot be read: {error}", "Run as a user who may."
            ) from None

    def _read_command(self) -> Command:
        """The SGLang command of ``ExecStart``."""
        commands = self._service.get("ExecStart", [])
        if len(commands) != 1:
            raise self._unusable(
                f"has {len(commands)} ExecStart commands", "Name a unit that runs one server."
            )
        prefix = _PREFIX.match(commands[0])
        assert prefix is not None
        try:
            words = unit_file.split(commands[0][prefix.end() :])
        except unit_file.UnitSyntaxError as error:
            raise self._unusable(
                f"has an ExecStart that systemd refuses: {error}", "Mend it first."
            ) from None
        words = [self._specified(word) for word in words]
        if "@" in prefix[0]:
            del words[1:2]  # only another name for the process
        if ":" not in prefix[0]:
            words = unit_file.expand(words, self.variables)
        return self._taken_apart(words)

    def _taken_apart(self, words: list[str]) -> Command:
        try:
            return find(words, self.variables)
        except NotUnderstood as error:
            raise self._unusable(str(error), error.advice) from None

    def _specified(self, text: str) -> str:
        return unit_file.specifiers(text, self._specifier)

    @functools.cache  # noqa: B019 (lives as long as the launcher)
    def _specifier(self, letter: str) -> str:
        """What systemd puts for ``%letter``, for the unit's name and its manager's user (systemd.unit(5))."""
        name = self._launch.unit if "." in self._launch.unit else f"{self._launch.unit}.service"
        full = name.rpartition(".")[0]
        prefix, _, instance = full.partition("@")
        named = {"n": name, "N": full, "p": prefix, "i": instance, "I": _unescaped(instance)}
        named |= {
            "P": _unescaped(prefix),
            "j": prefix.rpartition("-")[2],
            "f": "/" + _unescaped(instance or prefix),
        }
        if letter in named:
            return named[letter]
        system = self._launch.scope == "system"
        if letter in _DIRECTORIES:
            shared, own = _DIRECTORIES[letter]
            return shared if system else self._ask(["sh", "-c", f"printf %s {own}"])
        if system and letter in _ROOT:
            return _ROOT[letter]
        if letter in _ASKED:
            return self._ask(_ASKED[letter])
        raise self._unusable(
            f"uses %{letter}, which this suite does not know", "Write its value out in a drop-in."
        )

    def _ask(self, argv: list[str]) -> str:
        return self._host.run(argv).check().stdout.strip()

    def properties(self) -> list[str]:
        """What a copy has of it, each as ``NAME=VALUE``."""
        lines = ["Type=exec", f"TimeoutStopSec={self._target.timeouts.drain_s:.0f}"]
        for name, values in self._service.items():
            if name == "ExecStartPre" or not _NOT_COPIED.fullmatch(name):
                lines += [f"{name}={self._specified(value)}" for value in values]
        return lines


@dataclass(frozen=True, slots=True)
class UnitRuntime(Runtime):
    """``systemd-run`` starts copies of the unit; ``systemctl`` ends them by name."""

    unit: Unit = field(kw_only=True)

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        copy = f"{NAME}-{asked.token}.service"
        # all variables are given anew: an EnvironmentFile of the copy would win over the arm's
        plain, secret = secrets_apart({**self.variables, **asked.env}, asked.flags)
        begin = ["systemd-run", *self.unit.scope, f"--unit={copy}", "--wait", "--pipe", "--quiet"]
        begin += [f"--property={line}" for line in self.unit.properties()]
        begin += [f"--setenv={name}={value}" for name, value in plain.items()]
        begin += [f"--setenv={name}" for name in secret]  # taken from its own environment; systemd 250
        argv = [*self.unit.command.program, *asked.flags.argv()]
        return LaunchPlan(
            # the manager expands $ in the words of a command: $$ is a dollar
            stages=[[*begin, "--", *(word.replace("$", "$$") for word in argv)]],
            shown=[*begin, "--", *self.unit.command.program, *asked.flags.shown()],
            env=secret,
            status=[*self.unit.systemctl("show"), "--property=Result,ExecMainCode,ExecMainStatus", copy],
            end=[[*self.unit.systemctl("stop"), copy]],
            kill=[
                [*self.unit.systemctl("kill"), "--signal=SIGKILL", copy],
                [*self.unit.systemctl("stop"), copy],
                [*self.unit.systemctl("reset-failed"), copy],
            ],
        )


def runtime(launch: SystemdLaunch, suite: Suite, target: Target, host: Host) -> UnitRuntime:
    """Of copies of a unit on ``host``, which rests meanwhile.

    Raises:
        UnitUnusable: it cannot be read, or does not run SGLang in plain sight.
    """
    unit = Unit(launch, target, host)
    python = unit.command.python or ()
    return UnitRuntime(
        target,
        host,
        python[-1] if python else None,
        leading=python[:-1],
        base=unit.command.flags,
        variables=unit.variables,
        enter=[[*unit.systemctl("stop"), launch.unit]] if unit.active else [],
        leave=[[*unit.systemctl("start"), launch.unit]] if unit.active else [],
        unit=unit,
    )


def _unescaped(name: str) -> str:
    """systemd's escaping of paths in unit names, undone."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name.replace("-", "/"))


# Letter: what the system manager has, and a shell's word for what a user's manager has.
_DIRECTORIES = {
    "t": ("/run", '"$XDG_RUNTIME_DIR"'),
    "S": ("/var/lib", '"${XDG_STATE_HOME:-$HOME/.local/state}"'),
    "C": ("/var/cache", '"${XDG_CACHE_HOME:-$HOME/.cache}"'),
    "L": ("/var/log", '"${XDG_STATE_HOME:-$HOME/.local/state}/log"'),
    "E": ("/etc", '"${XDG_CONFIG_HOME:-$HOME/.config}"'),
    "T": ("/tmp", '"${TMPDIR:-/tmp}"'),
    "V": ("/var/tmp", '"${TMPDIR:-/var/tmp}"'),
}
_ROOT = {"u": "root", "U": "0", "g": "root", "G": "0", "h": "/root", "s": "/bin/sh"}
_ASKED = {
    "u": ["id", "-un"],
    "U": ["id", "-u"],
    "g": ["id", "-gn"],
    "G": ["id", "-g"],
    "h": ["sh", "-c", 'printf %s "$HOME"'],
    "s": ["sh", "-c", 'printf %s "$SHELL"'],
    "H": ["uname", "-n"],
    "l": ["sh", "-c", "uname -n | cut -d. -f1"],
    "q": ["uname", "-n"],
    "v": ["uname", "-r"],
    "m": ["cat", "/etc/machine-id"],
    "b": ["sh", "-c", "tr -d - < /proc/sys/kernel/random/boot_id"],
    "a": ["sh", "-c", "uname -m | sed s/x86_64/x86-64/ | sed s/aarch64/arm64/"],
}
