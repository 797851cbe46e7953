"""What the files on a target's host say about speculation: its checkpoint, the installed SGLang, a ``--config`` file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from suite.hosts import HostError
from suite.probes import checkpoint, installation
from suite.probes.installation import Scanned
from suite.servers.errors import ServerError
from suite.servers.runtimes import Runtime
from suite.session.build import BuildUnderTest
from suite.session.witnesses import OnDisk
from suite.sglang.errors import ProbeError
from suite.sglang.flags import Flags


class HostEvidence:
    """Looks once a run at each thing; what cannot be read is an answer that says so.

    Args:
        runtime: gives the way to the target's SGLang, asked when first needed; it may raise HostError or ServerError.
        build: has looked at what is installed.
    """

    def __init__(self, runtime: Callable[[], Runtime], build: BuildUnderTest) -> None:
        self._open = runtime
        self._build = build
        self._checkpoints: dict[tuple[str, str], tuple[bool | None, str]] = {}

    @cached_property
    def _scanned(self) -> Scanned | str:
        """The installed source, or why it could not be read."""
        try:
            runtime = self._open()
            env = runtime.env()
            python = runtime.python(env)
            installed = self._build.installed
            if installed is None or python is None:
                return "the installed source cannot be read from here"
            return installation.scan(runtime.host, python, env=env, cwd=runtime.cwd, installed=installed)
        except (ProbeError, HostError, ServerError) as error:
            return str(error).splitlines()[0]

    def on_disk(self, model: str, revision: str = "") -> OnDisk:
        """What the checkpoint ``model`` (of a ``revision`` in a cache) and the installed source say."""
        heads, evidence = self._heads(model, revision)
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
        found = () if isinstance(self._scanned, str) else self._scanned.installation.plugins
        return tuple(f"{plugin.group}: {plugin.name} of {plugin.distribution}" for plugin in found)

    def _heads(self, model: str, revision: str) -> tuple[bool | None, str]:
        where = (model, revision)
        if where not in self._checkpoints:
            self._checkpoints[where] = self._look_at(*where)
        return self._checkpoints[where]

    def _look_at(self, model: str, revision: str) -> tuple[bool | None, str]:
        try:
            runtime = self._open()
            env = runtime.env()
            python = runtime.python(env) or "python3"
            found = checkpoint.read(runtime.host, model, python, env, runtime.cwd, revision)
        except (ProbeError, HostError, ServerError) as error:
            return None, str(error).splitlines()[0]
        return (found.has_mtp if found.agrees else None), str(found)

    def config_text(self, flags: Flags) -> str | None:
        """What the file of ``--config`` holds; ``None`` without one, or if it cannot be read."""
        if "config" not in flags:
            return None
        try:
            return self._open().host.read_text(self._open().path(str(flags["config"])))
        except (HostError, ServerError):
            return None
