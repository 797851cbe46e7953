"""Run the server in a container with a name and labels of ours, by docker or podman."""

from __future__ import annotations

from collections.abc import Mapping

from suite.config import DockerLaunch, Target
from suite.servers.runtimes.base import LaunchPlan, LaunchRequest, secrets_apart
from suite.sglang.flags import Flags

LABEL = "sglang-perf-gate"


class DockerWay:
    """The container runs detached; what the supervisor watches is the engine's log of it, followed to its end.

    Killing a client of the engine ends no container: it is ended by name, kindly with the engine's ``stop``,
    at once with ``rm -f``.
    """

    enter: list[list[str]] = []  # noqa: RUF012 (a container stands beside what runs already)
    leave: list[list[str]] = []  # noqa: RUF012
    base = Flags()

    def __init__(self, launch: DockerLaunch, target: Target) -> None:
        self._launch = launch
        self._target = target

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        engine, name = self._launch.engine, f"{LABEL}-{asked.token}"
        plain, secret = secrets_apart(asked.env, asked.flags)
        run = [*self._run(asked, name, plain, secret), self._launch.image, *self._launch.words]
        return LaunchPlan(
            stages=[[*run, *asked.flags.argv()], [engine, "logs", "--follow", name]],
            shown=[*run, *asked.flags.shown()],
            env=secret,
            status=[engine, "inspect", "--format", _STATE, name],
            end=[[engine, "stop", "--time", f"{self._target.timeouts.drain_s:.0f}", name]],
            kill=[[engine, "rm", "--force", "--volumes", name]],
        )

    def _run(
        self, asked: LaunchRequest, name: str, plain: Mapping[str, str], secret: Mapping[str, str]
    ) -> list[str]:
        # --init: SGLang ends itself by SIGKILL when a child dies, and a container's first process cannot
        words = [self._launch.engine, "run", "--detach", "--init", "--name", name]
        labels = {"launch": asked.token, "target": asked.target, "arm": asked.arm}
        for key, value in labels.items():
            words += ["--label", f"{LABEL}.{key}={value}"]
        words += ["--network=host", "--ipc=host"]
        if self._launch.gpus:
            podman = self._launch.engine.rpartition("/")[2].startswith("podman")
            words += _for_podman(self._launch.gpus) if podman else _for_docker(self._launch.gpus)
        for mount in self._launch.mounts:
            words += ["--volume", mount]
        for variable, value in plain.items():
            words += ["--env", f"{variable}={value}"]
        for variable in secret:  # the engine takes the value from its own environment
            words += ["--env", variable]
        return [*words, *self._launch.options]


_STATE = "ExitCode={{.State.ExitCode}} OOMKilled={{.State.OOMKilled}} Error={{.State.Error}}"


def _for_docker(gpus: str) -> list[str]:
    """docker reads the value as comma-separated, so a list of devices stands in quotes of its own."""
    return ["--gpus", f'"{gpus}"' if "," in gpus else gpus]


def _for_podman(gpus: str) -> list[str]:
    """podman names GPUs by the Container Device Interface."""
    devices = gpus.removeprefix("device=").split(",")
    return [word for device in devices for word in ("--device", f"nvidia.com/gpu={device}")]
