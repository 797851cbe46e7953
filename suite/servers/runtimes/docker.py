"""Run the server in a container with a name and labels of ours, by docker or podman."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from suite.config import DockerLaunch, Suite, Target
from suite.hosts import Host
from suite.servers.runtimes.base import LaunchPlan, LaunchRequest, Runtime, secrets_apart

LABEL = "sglang-perf-gate"


@dataclass(frozen=True, slots=True)
class DockerRuntime(Runtime):
    """The container runs detached; what the supervisor watches is the engine's log of it, followed to its end.

    Killing a client of the engine ends no container: it is ended by name, kindly with the engine's ``stop``,
    at once with ``rm -f``.
    """

    launch: DockerLaunch = field(kw_only=True)

    def python(self, env: Mapping[str, str]) -> list[str]:
        """Into the image."""
        return in_container(self.launch, env)

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        engine, name = self.launch.engine, f"{LABEL}-{asked.token}"
        plain, secret = secrets_apart(asked.env, asked.flags)
        run = [*self._run(asked, name, plain, secret), self.launch.image, *self.launch.words]
        return LaunchPlan(
            stages=[[*run, *asked.flags.argv()], [engine, "logs", "--follow", name]],
            shown=[*run, *asked.flags.shown()],
            env=secret,
            status=[engine, "inspect", "--format", _STATE, name],
            end=[[engine, "stop", "--time", f"{self.target.timeouts.drain_s:.0f}", name]],
            kill=[[engine, "rm", "--force", "--volumes", name]],
        )

    def _run(
        self, asked: LaunchRequest, name: str, plain: Mapping[str, str], secret: Mapping[str, str]
    ) -> list[str]:
        # --init: SGLang ends itself by SIGKILL when a child dies, and a container's first process cannot
        words = [self.launch.engine, "run", "--detach", "--init", "--name", name]
        labels = {"launch": asked.token, "target": asked.target, "arm": asked.arm}
        for key, value in labels.items():
            words += ["--label", f"{LABEL}.{key}={value}"]
        words += ["--network=host", "--ipc=host"]
        if self.launch.gpus:
            podman = self.launch.engine.rpartition("/")[2].startswith("podman")
            words += _for_podman(self.launch.gpus) if podman else _for_docker(self.launch.gpus)
        for mount in self.launch.mounts:
            words += ["--volume", mount]
        for variable, value in plain.items():
            words += ["--env", f"{variable}={value}"]
        for variable in secret:  # the engine takes the value from its own environment
            words += ["--env", variable]
        return [*words, *self.launch.options]


_STATE = "ExitCode={{.State.ExitCode}} OOMKilled={{.State.OOMKilled}} Error={{.State.Error}}"


def _for_docker(gpus: str) -> list[str]:
    """docker reads the value as comma-separated, so a list of devices stands in quotes of its own."""
    return ["--gpus", f'"{gpus}"' if "," in gpus else gpus]


def _for_podman(gpus: str) -> list[str]:
    """podman names GPUs by the Container Device Interface."""
    devices = gpus.removeprefix("device=").split(",")
    return [word for device in devices for word in ("--device", f"nvidia.com/gpu={device}")]


def runtime(launch: DockerLaunch, suite: Suite, target: Target, host: Host) -> DockerRuntime:
    """Of containers on ``host``."""
    return DockerRuntime(target, host, launch.python, launch.module, launch=launch)


def in_container(launch: DockerLaunch, env: Mapping[str, str]) -> list[str]:
    """The words that run an image's Python on a script from standard input, without GPUs and without network.

    The engine takes the values of ``env`` from its own environment: on its command line all could read them.
    """
    words = [launch.engine, "run", "--rm", "--interactive", "--network", "none"]
    words += [word for mount in launch.mounts for word in ("--volume", mount)]
    words += _mounted(launch.options)
    words += [word for name in env for word in ("--env", name)]
    return [*words, "--entrypoint", launch.python, launch.image]


_MOUNTING = frozenset({"-v", "--volume", "--mount", "-e", "--env", "--env-file"})


def _mounted(options: Sequence[str]) -> list[str]:
    """Of an engine's options those that change which files and variables are inside: a file mounted over is another build."""
    words: list[str] = []
    for place, option in enumerate(options):
        if option in _MOUNTING:
            words += options[place : place + 2]
        elif option.partition("=")[0] in _MOUNTING and "=" in option:
            words.append(option)
    return words
