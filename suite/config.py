"""``suite.toml`` to typed targets and arms; every error names the file, the table and the key."""

from __future__ import annotations

import difflib
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from suite.flags import FlagChangeValue, Flags

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""A name that is safe in a file name and a test id: lower case letters, digits, dots, dashes."""


class ConfigError(Exception):
    """``suite.toml`` cannot be used; the text says which file, table and key, and what to do."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Host(_Table):
    """Where commands run. ``ssh`` is a name of the person's own SSH configuration or ``[user@]address[:port]``.

    ``None`` means this machine. ``known_hosts`` and ``identity_file`` override the SSH configuration.
    """

    name: str = "local"
    ssh: str | None = None
    known_hosts: str | None = None
    identity_file: str | None = None
    config_file: str | None = None
    connect_timeout_s: float = Field(default=20.0, gt=0)

    @property
    def is_local(self) -> bool:
        return self.ssh is None


class ProcessLaunch(_Table):
    """Run the server with an interpreter on the host: ``PYTHON -m MODULE FLAGS``.

    ``python`` may be ``{python}``, the interpreter that runs this suite. ``wrapper`` stands before it
    (``["numactl", "--cpunodebind=0"]``). ``cwd`` defaults to the directory of ``suite.toml`` on this
    machine and to the login directory over SSH; ``{suite}`` in it is the former.
    """

    kind: Literal["process"] = "process"
    python: str = "{python}"
    module: str = "sglang.launch_server"
    wrapper: list[str] = []
    cwd: str | None = None

    @property
    def interpreter(self) -> str:
        return self.python.replace("{python}", sys.executable)


class DockerLaunch(_Table):
    """Run the server in a container of ours: ``ENGINE run ... IMAGE PYTHON -m MODULE FLAGS``."""

    kind: Literal["docker"]
    image: str
    engine: str = "docker"
    gpus: str | None = "all"
    mounts: list[str] = []
    options: list[str] = []
    python: str = "python3"
    module: str = "sglang.launch_server"


class SystemdLaunch(_Table):
    """Run the arms as transient copies of a systemd unit; the unit itself is stopped before and started after."""

    kind: Literal["systemd"]
    unit: str
    scope: Literal["system", "user"] = "system"


class AttachLaunch(_Table):
    """Measure a server that somebody else runs: nothing is launched, everything is inspected."""

    kind: Literal["attach"]
    url: str
    api_key_env: str | None = None


Launch: TypeAlias = Annotated[
    ProcessLaunch | DockerLaunch | SystemdLaunch | AttachLaunch, Field(discriminator="kind")
]


class Arm(_Table):
    """One server configuration under test: changes to the target's flags and environment, by name.

    A value of ``false`` removes a flag; an empty text removes a variable.
    """

    name: str = ""
    description: str = ""
    flags: dict[str, FlagChangeValue] = {}
    env: dict[str, str] = {}


class ClientLimits(_Table):
    """How late the measuring client may itself be before a round is invalid; see docs/client.md.

    The defaults suit a client with a core of its own. Where server and client share a few cores, say more.
    """

    lag_p99_s: float = Field(default=0.005, gt=0)
    lag_of_itl: float = Field(default=0.5, gt=0)
    cpu_share: float = Field(default=0.9, gt=0, le=1)


class Timeouts(_Table):
    """How long to wait, in seconds, before a launch or an ending counts as failed."""

    ready_s: float = Field(default=3000.0, gt=0)
    phase_s: dict[str, float] = {}
    drain_s: float = Field(default=30.0, gt=0)
    request_s: float = Field(default=600.0, gt=0)
    stall_s: float = Field(default=60.0, gt=0)


ScenarioKind: TypeAlias = Literal[
    "spellings",
    "activation",
    "decode",
    "prefill",
    "acceptance",
    "speedup",
    "depth",
    "lossless",
    "canary",
    "backends",
    "steadiness",
    "startup",
    "steptime",
    "log",
    "configuration",
]
"""What a scenario asks about: its marker, and its name in a budget's list of ``scenarios``.

Spellings are marked activation too, and go by the first name here.
"""

KINDS: tuple[ScenarioKind, ...] = get_args(ScenarioKind)


class Sizes(_Table):
    """How much a budget measures. Token counts are the server's own; ``None`` leaves a default in place.

    ``scenarios`` are the kinds this budget holds. A size is a list where a scenario is put once for each value;
    an empty list leaves those scenarios out.
    """

    scenarios: list[ScenarioKind] = list(KINDS)

    launches: int = Field(default=1, ge=1)
    rounds: int = Field(default=5, ge=1)
    looks: int = Field(default=1, ge=1, le=3)
    warmup_requests: int = Field(default=2, ge=0)
    max_tokens: int = Field(default=256, ge=8)
    prompt_chars: int | None = Field(default=None, ge=16)
    requests: int = Field(default=4, ge=1)
    concurrencies: list[int] = [1]
    contexts: list[int] = [1024]
    kinds: list[str] = ["code", "maths", "prose"]
    temperatures: list[float] = [0.0]
    canary_questions: int = Field(default=24, ge=4)
    lossless_prompts: int = Field(default=8, ge=1)
    steady_s: float = Field(default=60.0, gt=0)
    round_estimate_s: float = Field(default=15.0, gt=0)


class MetricChange(_Table):
    """What the gate does otherwise for one metric; what is left out keeps its default."""

    margin: float | None = Field(default=None, gt=0, lt=1)
    gated: bool | None = None


class Gate(_Table):
    """The gate's settings: by metric (``[gate.metrics.ttft_s]``), and by arm and metric (``[gate.arms.NAME.ttft_s]``)."""

    metrics: dict[str, MetricChange] = {}
    arms: dict[Name, dict[str, MetricChange]] = {}


Tolerable: TypeAlias = Literal[
    "not_warmed_up",
    "client_saturated",
    "unequal_output_lengths",
    "cached_prompt_tokens",
    "clocks_throttled",
    "power_capped",
    "foreign_processes",
]
"""Reasons of invalidity that a person may know of and decide to live with on a target."""


class Target(_Table):
    """A place and a model: host, how to launch, checkpoint, base flags, environment, arms.

    Floors hold whatever the baseline says: acceptance length of any kind of content, MTP speed-up at one client,
    share of canary questions answered rightly (0: this checkpoint cannot answer). ``divergence_ceiling`` is how
    often, in a token, greedy answers with and without MTP may part. ``backends`` lists values to try of a flag;
    each makes an arm ``FLAG.VALUE`` out of ``mtp-on``. ``known`` are scenarios (functions, without ``test_``) that
    are known to fail here, with the reason; one that passes after all fails the run until its line is deleted.
    ``tolerate`` names reasons of invalidity that this target is known for and that do not count here; ``like``
    another target whose table this one changes.
    """

    name: str = ""
    description: str = ""
    like: str = ""
    host: str = "local"
    nodes: list[str] = []
    model: str
    flags: dict[str, FlagChangeValue] = {}
    env: dict[str, str] = {}
    launch: Launch = ProcessLaunch()
    port: int | None = Field(default=None, ge=1, le=65535)
    bind: str = "127.0.0.1"
    gpus: int = Field(default=0, ge=0)
    start_estimate_s: float = Field(default=30.0, ge=0)
    nvidia_smi: str = "nvidia-smi"
    acceptance_floor: float = Field(default=1.2, ge=1.0)
    speedup_floor: float = Field(default=1.05, ge=0)
    canary_floor: float = Field(default=0.9, ge=0, le=1)
    divergence_ceiling: float = Field(default=0.01, ge=0, le=1)
    timeouts: Timeouts = Timeouts()
    client: ClientLimits = ClientLimits()
    tolerate: list[Tolerable] = []
    arms: dict[Name, Arm] = {}
    default_budget: str = "quick"
    budgets: dict[Name, Sizes] = {}
    gate: Gate = Gate()
    backends: dict[str, list[str]] = {}
    known: dict[str, str] = {}

    def base_flags(self) -> Flags:
        """The target's own flags, with the model path, before any arm."""
        return Flags({"model-path": self.model}).merge(self.flags)

    def arm(self, name: str) -> Arm:
        """The arm called ``name``.

        Raises:
            ConfigError: there is none; the text lists those there are.
        """
        try:
            return self.arms[name]
        except KeyError:
            raise ConfigError(
                f"target {self.name!r} has no arm {name!r}{_nearest(name, self.arms)}; "
                f"it has: {', '.join(self.arms)}"
            ) from None

    def sizes(self, budget: str) -> Sizes:
        """What ``budget`` measures on this target.

        Raises:
            ConfigError: there is no such budget.
        """
        try:
            return self.budgets[budget]
        except KeyError:
            raise ConfigError(
                f"--budget {budget!r} is not among [budgets]{_nearest(budget, self.budgets)}; "
                f"there are: {', '.join(self.budgets)}"
            ) from None

    def arm_flags(self, arm: Arm) -> Flags:
        """What is asked of SGLang for ``arm``: the target's flags with the arm's changes, merged by name."""
        return self.base_flags().merge(arm.flags)

    def arm_env(self, arm: Arm) -> dict[str, str]:
        """The variables set for ``arm``; an empty text in the arm removes the target's variable."""
        kept = {name: value for name, value in self.env.items() if name not in arm.env}
        return {**kept, **{name: value for name, value in arm.env.items() if value != ""}}


class Suite(_Table):
    """The whole of ``suite.toml``."""

    path: Path = Path("suite.toml")
    default_target: str
    default_budget: str = "quick"
    hosts: dict[Name, Host] = {}
    arms: dict[Name, Arm] = {}
    budgets: dict[Name, Sizes] = {}
    gate: Gate = Gate()
    targets: dict[Name, Target]

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Give every table its own name, and every target the shared arms, budgets and gate settings."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for group in ("hosts", "arms", "targets"):
            data[group] = _named(data.get(group, {}))
        if isinstance(data["targets"], dict):
            alike = {name: _like(table, data["targets"]) for name, table in data["targets"].items()}
            data["targets"] = {
                name: _placed(_with_shared(table, data), data) for name, table in alike.items()
            }
        return data

    def target(self, name: str | None = None) -> Target:
        """The target called ``name``, or the default one.

        Raises:
            ConfigError: there is none; the text suggests the nearest and lists those there are.
        """
        wanted = name or self.default_target
        try:
            return self.targets[wanted]
        except KeyError:
            asked = "default_target" if name is None else "--target"
            raise ConfigError(
                f"{self.path}: {asked} {wanted!r} is not among [targets]{_nearest(wanted, self.targets)}; "
                f"there are: {', '.join(sorted(self.targets))}"
            ) from None

    def host(self, name: str) -> Host:
        """The host called ``name``; ``local`` is always this machine.

        Raises:
            ConfigError: there is none.
        """
        if name == "local":
            return Host()
        try:
            return self.hosts[name]
        except KeyError:
            raise ConfigError(
                f"{self.path}: host {name!r} is not among [hosts]{_nearest(name, self.hosts)}; "
                f'write a table [hosts.{name}] with ssh = "[user@]address", or use "local"'
            ) from None


def _named(tables: Any) -> Any:
    if not isinstance(tables, dict):
        return tables
    return {
        name: {**table, "name": name} if isinstance(table, dict) else table for name, table in tables.items()
    }


def _like(target: Any, targets: Mapping[str, Any]) -> Any:
    """A target that says ``like = "OTHER"`` is that one with its own keys laid over it."""
    if not isinstance(target, dict) or not isinstance(target.get("like"), str):
        return target
    base = targets.get(target["like"])
    if base is None:
        raise ConfigError(
            f"[targets.{target['name']}] key 'like': {target['like']!r} is not among "
            f"[targets]{_nearest(target['like'], targets)}"
        )
    return _overlaid(base, target)


def _placed(target: Any, whole: Mapping[str, Any]) -> Any:
    """``{suite}`` in a launch's ``cwd`` is the directory of this file, for a host that sees the same files."""
    launch = target.get("launch") if isinstance(target, dict) else None
    if not isinstance(launch, dict) or not isinstance(launch.get("cwd"), str):
        return target
    directory = str(Path(whole["path"]).resolve().parent)
    return {**target, "launch": {**launch, "cwd": launch["cwd"].replace("{suite}", directory)}}


def _with_shared(target: Any, whole: Mapping[str, Any]) -> Any:
    """A target's arms, budgets and gate settings are the shared ones with its own laid over them, key by key."""
    if not isinstance(target, dict):
        return target
    laid = {key: _overlaid(whole.get(key, {}), target.get(key, {})) for key in ("arms", "budgets", "gate")}
    if isinstance(laid["arms"], dict):
        tried = _of_backends(target.get("backends"), laid["arms"])
        laid["arms"] = {
            **laid["arms"],
            **{name: _overlaid(arm, laid["arms"].get(name, {})) for name, arm in tried.items()},
        }
    budget = {"default_budget": whole["default_budget"]} if "default_budget" in whole else {}
    return {**budget, **target, **laid, "arms": _named(laid["arms"])}


def _of_backends(backends: Any, arms: Mapping[str, Any]) -> dict[str, Any]:
    """The arms that try the backends a target lists: ``mtp-on`` with one flag changed."""
    base = arms.get("mtp-on", {})
    if not isinstance(backends, dict) or not isinstance(base, dict):
        return {}
    return {
        f"{flag}.{value}": _overlaid(
            base, {"description": f"mtp-on with --{flag} {value}", "flags": {flag: value}}
        )
        for flag, values in backends.items()
        for value in (values if isinstance(values, list) else [])
    }


def _overlaid(base: Any, changes: Any) -> Any:
    """``changes`` over ``base``, tables within tables; anything else in ``changes`` wins."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return {**base, **{key: _overlaid(base.get(key), value) for key, value in changes.items()}}


def load(path: Path) -> Suite:
    """Read and check ``suite.toml``.

    Raises:
        ConfigError: missing, unreadable, not TOML, or not as the tables must be; all faults at once.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file. Run pytest from the repository's root, or name the file with --suite-config"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return parse(data, path)


def parse(data: Mapping[str, Any], path: Path) -> Suite:
    """Check what was read from ``path``.

    Raises:
        ConfigError: as for :func:`load`.
    """
    if "path" in data:
        raise ConfigError(f"{path}: unknown key 'path'")
    try:
        suite = Suite.model_validate({**data, "path": path})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(_sentences(error, path))) from None
    suite.target()
    for name, target in suite.targets.items():
        try:
            target.sizes(target.default_budget)
        except ConfigError as error:
            raise ConfigError(f"{path}: [targets.{name}] key 'default_budget': {error}") from None
        for host in (target.host, *target.nodes):
            try:
                suite.host(host)
            except ConfigError as error:
                raise ConfigError(f"{error} (asked for by [targets.{name}])") from None
    return suite


# What pydantic puts into an error's place that stands in no file: the tag of a union.
_TAGS = frozenset({"process", "docker", "systemd", "attach"})


def _sentences(error: ValidationError, path: Path) -> Iterable[str]:
    seen: set[str] = set()
    places = {fault["loc"] for fault in error.errors()}
    for fault in error.errors():
        if fault["loc"][0] == "targets" and fault["loc"][2:] in places:
            continue  # a fault of a shared table, seen again in each target that it was laid under
        parts = [str(part) for part in fault["loc"]]
        sentence = f"{path}: {_sentence(parts, fault['type'], fault['msg'], fault.get('input'))}"
        if sentence not in seen:
            seen.add(sentence)
            yield sentence


def _sentence(parts: list[str], kind: str, message: str, given: Any) -> str:
    launch = parts.index("launch") if "launch" in parts else -1
    tag = parts[launch + 1] if 0 <= launch < len(parts) - 1 and parts[launch + 1] in _TAGS else None
    place = [
        part for index, part in enumerate(parts) if not (index == launch + 1 and part == tag and tag)
    ] or ["(whole file)"]
    if "flags" in place:  # a flag's value may be of several types: one sentence for all of them
        place = place[: place.index("flags") + 2]
        message = "must be text, a number, true (a switch), false (removed) or a list of text and numbers"
        kind = "flag_value"
    if kind == "extra_forbidden":
        known = _known_keys(place[:-1], tag)
        return f"{_table(place)} unknown key {place[-1]!r}{_nearest(place[-1], known)}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return (
            f"[{'.'.join(place)}] key 'kind': must be one of {', '.join(sorted(_TAGS))}, not {_kind(given)}"
        )
    if kind == "missing":
        return f"{_table(place)} needs the key {place[-1]!r}"
    if kind == "string_pattern_mismatch" and place[-1] == "[key]":
        return (
            f"{_table(place[:-1])} the name {given!r} may hold only lower case letters, digits, '.', '_', '-'"
        )
    reason = message[0].lower() + message[1:]
    return f"{_table(place)} key {place[-1]!r}: {reason}, not {given!r}"


def _kind(given: Any) -> str:
    return repr(given["kind"]) if isinstance(given, dict) and "kind" in given else "absent"


def _table(place: list[str]) -> str:
    return f"[{'.'.join(place[:-1])}]" if len(place) > 1 else "at the top:"


def _known_keys(table: list[str], launch: str | None) -> Iterable[str]:
    """The keys that may stand in a table, for suggesting the nearest."""
    groups: dict[str, type[BaseModel]] = {
        "hosts": Host,
        "arms": Arm,
        "targets": Target,
        "budgets": Sizes,
        "gate": Gate,
        "metrics": MetricChange,
        "timeouts": Timeouts,
        "client": ClientLimits,
    }
    launches: dict[str | None, type[BaseModel]] = {
        "process": ProcessLaunch,
        "docker": DockerLaunch,
        "systemd": SystemdLaunch,
        "attach": AttachLaunch,
    }
    model: type[BaseModel] = Suite
    for part in table:
        if part == "launch":
            return launches.get(launch, ProcessLaunch).model_fields
        model = groups.get(part, model)
    return [key for key in model.model_fields if key not in ("name", "path")]


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
