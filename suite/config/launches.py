"""Tables ``[targets.NAME.launch]``: each kind of launch, what it is given and what follows from that."""

from __future__ import annotations

import sys
from typing import Annotated, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from suite.redact import learn_credentials


class SuiteTable(BaseModel):
    """A table of ``suite.toml``: no key that it does not know, nothing converted, nothing changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ProcessLaunch(SuiteTable):
    """Run the server with an interpreter on the host: ``PYTHON -m MODULE FLAGS``, or ``COMMAND FLAGS``.

    ``python`` may be ``{python}``, the interpreter that runs this suite. ``wrapper`` stands before it
    (``["numactl", "--cpunodebind=0"]``). ``command`` are words that take the flags behind them, in place of
    ``PYTHON -m MODULE``: ``["sglang", "serve"]``, ``["uv", "run", "sglang", "serve"]``, ``["conda", "run", "-n",
    "NAME", "python", "-m", "sglang.launch_server"]``, a script that passes its arguments on; ``python`` then only
    says who has that SGLang, where the command does not show it. ``cwd`` defaults to the directory of
    ``suite.toml`` on this machine and to the login directory over SSH; ``{suite}`` in it is the former.
    """

    kind: Literal["process"] = "process"
    python: str = ""
    module: str = "sglang.launch_server"
    command: list[str] = []
    wrapper: list[str] = []
    cwd: str | None = None

    @property
    def words(self) -> list[str]:
        """What the flags stand behind."""
        own = self.command or ["{python}" if not self.python else self.python, "-m", self.module]
        return [*self.wrapper, *(word.replace("{python}", sys.executable) for word in own)]

    @property
    def interpreter(self) -> str | None:
        """The Python that has this SGLang, as far as the table says it by itself."""
        python = self.python or ("" if self.command else "{python}")
        return python.replace("{python}", sys.executable) or None

    @property
    def is_simulator(self) -> bool:
        """Is the server this suite's simulator?"""
        return self.module == "simulator" or self.command[-2:] == ["-m", "simulator"]


class DockerLaunch(SuiteTable):
    """Run the server in a container of ours: ``ENGINE run ... IMAGE PYTHON -m MODULE FLAGS``.

    ``command`` are words in place of ``PYTHON -m MODULE``: ``["sglang", "serve"]``.
    """

    kind: Literal["docker"]
    image: str
    engine: str = "docker"
    gpus: str | None = "all"
    mounts: list[str] = []
    options: list[str] = []
    python: str = "python3"
    module: str = "sglang.launch_server"
    command: list[str] = []

    @property
    def words(self) -> list[str]:
        """What the flags stand behind, within the image."""
        return self.command or [self.python, "-m", self.module]


class SystemdLaunch(SuiteTable):
    """Run the arms as transient copies of a systemd unit; the unit itself is stopped before and started after."""

    kind: Literal["systemd"]
    unit: str
    scope: Literal["system", "user"] = "system"


def server_url(text: str) -> str:
    """``text``, if it is the address of a server.

    Raises:
        ValueError: it is none, or holds a user or a password: those have a place of their own.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        parts, usable = None, None
    if parts is not None and "@" in parts.netloc:
        learn_credentials(parts.netloc.rpartition("@")[0])
        raise ValueError(
            "holds a user or a password: name a variable that holds the key as api_key_env instead"
        )
    if not usable or parts is None or parts.query or parts.fragment or not text.isprintable() or " " in text:
        raise ValueError("must read http://HOST:PORT (or https://)")
    return text


class AttachLaunch(SuiteTable):
    """Measure a server that somebody else runs: nothing is launched, everything is inspected.

    Keys are named by the variables that hold them. A server with ``--admin-api-key`` takes only that key for
    ``/flush_cache``.
    """

    kind: Literal["attach"]
    url: Annotated[str, AfterValidator(server_url)]
    api_key_env: str | None = None
    admin_api_key_env: str | None = None


Launch: TypeAlias = Annotated[
    ProcessLaunch | DockerLaunch | SystemdLaunch | AttachLaunch, Field(discriminator="kind")
]

LAUNCHES: dict[str, type[SuiteTable]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(get_args(Launch)[0])
}
"""The same by their ``kind``."""
