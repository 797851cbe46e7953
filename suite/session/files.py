"""What the files on a target's host say about speculation: its checkpoint, the installed SGLang, a ``--config`` file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import PurePosixPath

from suite.config import DockerLaunch, ProcessLaunch, Suite, Target
from suite.hosts import Host, HostError
from suite.probes import checkpoint, installation
from suite.probes.installation import Installation, Scanned
from suite.session.witnesses import OnDisk
from suite.sglang.errors import ProbeError
from suite.sglang.flags import Flags

SGLANG = "sglang.launch_server"


class Files:
    """Looks once a run at each thing; what cannot be read is an answer that says so.

    Args:
        host: gives the target's host, opened when first needed.
    """

    def __init__(self, suite: Suite, target: Target, host: Callable[[], Host]) -> None:
        self._suite = suite
        self._target = target
        self._open = host
        self._checkpoints: dict[str, tuple[bool | None, str]] = {}

    @property
    def _host(self) -> Host:
        return self._open()

    @property
    def _cwd(self) -> str | None:
        launch = self._target.launch
        own = launch.cwd if isinstance(launch, ProcessLaunch) else None
        return own or (str(self._suite.path.resolve().parent) if self._host.is_local else None)

    @cached_property
    def _python(self) -> str | None:
        """The server's interpreter; ``None`` where there is none to be run from here (containers, attached servers)."""
        launch = self._target.launch
        if not isinstance(launch, ProcessLaunch):
            return None
        relative = "/" in launch.interpreter and not launch.interpreter.startswith("/")
        return str(PurePosixPath(self._cwd or ".") / launch.interpreter) if relative else launch.interpreter

    @cached_property
    def _runs_sglang(self) -> bool:
        launch = self._target.launch
        return isinstance(launch, ProcessLaunch | DockerLaunch) and launch.module == SGLANG

    @cached_property
    def _scanned(self) -> Scanned | str:
        """The installed source, or why it could not be read."""
        if not self._runs_sglang or self._python is None:
            return "the installed source cannot be read from here"
        try:
            return installation.scan(self._host, self._python, env=dict(self._target.env), cwd=self._cwd)
        except (ProbeError, HostError) as error:
            return str(error).splitlines()[0]

    @cached_property
    def installed(self) -> Installation | None:
        """What is installed beside the server; ``None`` if that cannot be told."""
        return None if isinstance(self._scanned, str) else self._scanned.installation

    def on_disk(self, model: str) -> OnDisk:
        """What the checkpoint ``model`` and the installed source say."""
        heads, evidence = self._heads(model)
        scanned = self._scanned
        if isinstance(scanned, str):
            return OnDisk(heads, evidence, None, scanned)
        if scanned.blind:
            return OnDisk(
                heads,
                evidence,
                None,
                "this SGLang declares no speculative_algorithm: the setting was renamed",
            )
        places = self.activations()
        said = f"{scanned.files} files of SGLang {scanned.installation.version}: " + (
            f"{len(places)} could switch it on: {places[0]}" if places else "none switches it on unasked"
        )
        return OnDisk(heads, evidence, places, said)

    def activations(self) -> tuple[str, ...]:
        """Source lines and plugins that could switch speculation on unasked."""
        if isinstance(self._scanned, str):
            return ()
        return tuple(map(str, self._scanned.activations)) + self.plugins()

    def plugins(self) -> tuple[str, ...]:
        """Entry points by which other packages get into the server."""
        found = self.installed.plugins if self.installed else ()
        return tuple(f"{plugin.group}: {plugin.name} of {plugin.distribution}" for plugin in found)

    def _heads(self, model: str) -> tuple[bool | None, str]:
        if model not in self._checkpoints:
            self._checkpoints[model] = self._look_at(model)
        return self._checkpoints[model]

    def _look_at(self, model: str) -> tuple[bool | None, str]:
        try:
            found = checkpoint.read(self._host, model, self._python or "python3", cwd=self._cwd)
        except (ProbeError, HostError) as error:
            return None, str(error).splitlines()[0]
        return (found.has_mtp if found.agrees else None), str(found)

    def config_text(self, flags: Flags) -> str | None:
        """What the file of ``--config`` holds; ``None`` without one, or if it cannot be read."""
        if "config" not in flags:
            return None
        path = PurePosixPath(self._cwd or ".") / str(flags["config"])
        try:
            return self._host.read_text(str(path))
        except HostError:
            return None
