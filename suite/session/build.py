"""Which build is under test, under its true name: versions, commit and files of SGLang, its image, its variables."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from suite.config import AttachLaunch, DockerLaunch
from suite.hosts import HostError
from suite.hosts.names import LOOPBACK
from suite.probes import image, installation
from suite.probes.on_host.installed import BUILD_VARIABLES
from suite.servers.errors import ServerError
from suite.servers.runtimes import Runtime
from suite.sglang.errors import ProbeError

SGLANG = "sglang.launch_server"


class BuildUnderTest:
    """Asked once a run; what cannot be asked is left out and noted, never guessed.

    Args:
        runtime: gives the way to the target's SGLang.
        directory: the run's own, which is no part of a build's name where a variable holds it.
    """

    def __init__(self, runtime: Callable[[], Runtime], directory: Path) -> None:
        self._open = runtime
        self._directory = str(directory)
        self.notes: list[str] = []
        self.lock: list[str] = []
        """What is installed beside SGLang, as pins; known once the build was looked at."""
        self.place: dict[str, str] = {}
        """Where the build was run from: ``engine``, ``python``, ``checkout``; likewise."""

    def subject(self, env: Mapping[str, str]) -> dict[str, str]:
        """Everything known, by name.

        Args:
            env: the variables that the arm sets for the server, secrets masked; they win over its host's.
        """
        facts, inherited = self._facts
        ours = {n: v for n, v in {**inherited, **env}.items() if BUILD_VARIABLES.match(n)}
        variables = {f"env.{name}": value.replace(self._directory, "{run}") for name, value in ours.items()}
        return {**facts, **variables}

    @cached_property
    def _facts(self) -> tuple[dict[str, str], Mapping[str, str]]:
        """What the build is, and the variables that its host gives every server."""
        try:
            runtime = self._open()
            facts = self._image(runtime)
            installed = self._installed(runtime)
        except (ProbeError, HostError, ServerError) as error:
            self.notes.append(f"the build was not seen: {str(error).splitlines()[0]}")
            return {}, {}
        if installed is None:
            return facts, runtime.variables
        self.lock = [f"{name}=={version}" for name, version in installed.beside.items()]
        self.place["checkout"] = installed.root
        return {**facts, **installed.subject()}, installed.environment

    def _image(self, runtime: Runtime) -> dict[str, str]:
        launch = runtime.target.launch
        if not isinstance(launch, DockerLaunch):
            return {}
        self.place["engine"] = launch.engine
        try:
            return image.inspect(runtime.host, launch.engine, launch.image)
        except ProbeError as error:
            self.notes.append(str(error))
            return {"image": launch.image}

    def _installed(self, runtime: Runtime) -> installation.Installation | None:
        launch = runtime.target.launch
        if isinstance(launch, AttachLaunch):
            return self._attached(runtime, launch)
        if self.installed is not None:
            self.place["python"] = runtime.interpreter or "python3"
        return self.installed

    @cached_property
    def installed(self) -> installation.Installation | None:
        """The SGLang that launches run; ``None`` where no interpreter leads to it, or to something else.

        Raises:
            ProbeError, HostError, ServerError: it cannot be seen.
        """
        runtime = self._open()
        env = runtime.env()
        python = runtime.python(env)
        if python is None or runtime.module != SGLANG:
            return None
        return installation.look(runtime.host, python, env=env, cwd=runtime.cwd)

    def _attached(self, runtime: Runtime, launch: AttachLaunch) -> installation.Installation | None:
        """The SGLang of a server that somebody else runs, if it is on the target's host, by the process that listens."""
        url = urllib.parse.urlsplit(launch.url)
        if url.port is None or url.hostname not in LOOPBACK:
            self.notes.append("the build is known only from its answers: the server's host is not at hand")
            return None
        found = installation.listening(runtime.host, url.port)
        if found is None or found.interpreter is None:
            self.notes.append(
                f"the build is known only from its answers: who listens on {url.port} cannot be seen"
            )
            return None
        if found.container:
            self.notes.append(
                "the build is known only from its answers: the server runs in a container; "
                'a target with kind = "docker" names its image'
            )
            return None
        try:
            return installation.look(runtime.host, found.interpreter, env=found.environment, cwd=found.cwd)
        except ProbeError as error:
            said = (
                str(error).splitlines()[0].partition(";")[0]
            )  # what to do is for a server that is launched here
            self.notes.append(f"the build is known only from its answers: {said}, which listens there")
            return None
