"""The tables of ``suite.toml``, as types."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from suite.config import overlay
from suite.config.errors import one_of
from suite.config.kinds import KINDS, ScenarioKind
from suite.config.launches import Launch, ProcessLaunch, SuiteTable
from suite.sglang.flags import FlagChangeValue, Flags

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""A name that is safe in a file name and a test id: lower case letters, digits, dots, dashes."""


class HostTable(SuiteTable):
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


class Arm(SuiteTable):
    """One server configuration under test: changes to the target's flags and environment, by name.

    A value of ``false`` removes a flag; an empty text removes a variable.
    """

    name: str = ""
    description: str = ""
    flags: dict[str, FlagChangeValue] = {}
    env: dict[str, str] = {}


class BuildTable(SuiteTable):
    """An SGLang that servers can be launched from, by name, for ``--reference`` and ``--candidate``.

    At most one of: ``version`` (``0.5.23``, installed into an environment of its own), ``nightly`` (``2026-11-30``),
    ``python`` (an interpreter or virtual environment), ``image``, ``checkout`` (a git repository, at ``commit``). None
    of them: the target's own. ``packages`` are requirements put over what that SGLang asks for, in environments that
    the suite makes. ``flags`` and ``env`` change the target's, as an arm does.
    """

    name: str = ""
    description: str = ""
    version: str | None = None
    nightly: str | None = None
    python: str | None = None
    image: str | None = None
    checkout: str | None = None
    commit: str | None = None
    packages: list[str] = []
    flags: dict[str, FlagChangeValue] = {}
    env: dict[str, str] = {}

    @model_validator(mode="after")
    def _one_of(self) -> BuildTable:
        kinds = ("version", "nightly", "python", "image", "checkout")
        given = [name for name in kinds if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"is one thing: {' and '.join(given)} are given")
        if self.commit is not None and self.checkout is None:
            raise ValueError("has a commit, and no checkout that it is of")
        return self


class ClientTable(SuiteTable):
    """How late the measuring client may itself be before a round is invalid; see docs/client.md.

    The defaults suit a client with a core of its own. Where server and client share a few cores, say more.
    """

    lag_p99_s: float = Field(default=0.005, gt=0)
    lag_of_itl: float = Field(default=0.5, gt=0)
    cpu_share: float = Field(default=0.9, gt=0, le=1)


class Timeouts(SuiteTable):
    """How long to wait, in seconds, before a launch or an ending counts as failed."""

    ready_s: float = Field(default=3000.0, gt=0)
    phase_s: dict[str, float] = {}
    drain_s: float = Field(default=30.0, gt=0)
    request_s: float = Field(default=600.0, gt=0)
    stall_s: float = Field(default=60.0, gt=0)


MOST_LAUNCHES = 100
"""Launches per arm. Each is minutes of a whole machine."""

MOST_ROUNDS = 1000

MOST_CLIENTS = 4096
"""Clients at a time, as many as the measuring client was tried with (docs/client.md)."""

Clients: TypeAlias = Annotated[int, Field(ge=1, le=MOST_CLIENTS)]


class Sizes(SuiteTable):
    """How much a budget measures. Token counts are the server's own; ``None`` leaves a default in place.

    ``scenarios`` are the kinds this budget holds. A size is a list where a scenario is put once for each value;
    an empty list leaves those scenarios out. A launch plays ``rounds``, and goes on to ``rounds_max`` (None: no further)
    until the standard error of its step time, or TTFT, is ``precision`` (0.003: 0.3 %). Acceptance is asked of ``acceptance_prompts`` distinct prompts of each
    kind once, ``acceptance_clients`` at a time; of long contexts as many as ``acceptance_context_tokens`` hold.
    """

    scenarios: list[ScenarioKind] = list(KINDS)

    rounds_max: int | None = Field(default=None, ge=1, le=MOST_ROUNDS)
    precision: float = Field(default=0.003, gt=0, lt=1)
    launches: int = Field(default=1, ge=1, le=MOST_LAUNCHES)
    rounds: int = Field(default=5, ge=1, le=MOST_ROUNDS)
    looks: int = Field(default=1, ge=1, le=3)
    warmup_requests: int = Field(default=2, ge=0)
    max_tokens: int = Field(default=256, ge=8)
    prompt_chars: int | None = Field(default=None, ge=16)
    requests: int = Field(default=4, ge=1)
    concurrencies: list[Clients] = [1]
    contexts: list[Annotated[int, Field(ge=1, le=10**8)]] = [1024]
    kinds: list[str] = ["code", "maths", "prose"]
    acceptance_prompts: int = Field(default=256, ge=2)
    acceptance_clients: int = Field(default=32, ge=1)
    acceptance_context_tokens: int = Field(default=524_288, ge=1)
    temperatures: list[Annotated[float, Field(ge=0, le=10)]] = [0.0]
    canary_questions: int = Field(default=24, ge=4)
    lossless_prompts: int = Field(default=8, ge=1)
    steady_s: float = Field(default=60.0, gt=0)
    round_estimate_s: float = Field(default=15.0, gt=0)

    def prompts_of(self, context: int | None = None) -> int:
        """How many distinct prompts an acceptance question asks, of a kind or of a context of so many tokens.

        Long ones are dear: as many as ``acceptance_context_tokens`` hold, at least four.
        """
        if context is None:
            return self.acceptance_prompts
        return min(self.acceptance_prompts, max(4, self.acceptance_context_tokens // context))


class TrafficTable(SuiteTable):
    """Traffic of one's own, and the limits that its requests must keep (``[targets.NAME.traffic.NAME]``).

    ``file``: relative to ``suite.toml``; ``format``: found by its first line if empty; ``pace``: so many times as fast as it
    came; ``rate_per_s``: scaled to that, and needed where no times are known; ``requests``, ``seconds``: the first of them
    only; ``output_tokens``: length of every answer, in place of the trace's; ``share``: of requests that must keep the limits.
    """

    file: str
    format: str = ""
    pace: float = Field(default=1.0, gt=0)
    rate_per_s: float | None = Field(default=None, gt=0)
    requests: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=60.0, gt=0)
    output_tokens: int | None = Field(default=None, ge=2)
    ttft_s: float | None = Field(default=None, gt=0)
    tpot_s: float | None = Field(default=None, gt=0)
    e2e_s: float | None = Field(default=None, gt=0)
    share: float = Field(default=0.95, gt=0, le=1)

    @model_validator(mode="after")
    def _limited(self) -> TrafficTable:
        if self.ttft_s is None and self.tpot_s is None and self.e2e_s is None:
            raise ValueError("states no limit: give ttft_s, tpot_s or e2e_s")
        return self


class MetricChange(SuiteTable):
    """What the gate does otherwise for one metric; what is left out keeps its default."""

    margin: float | None = Field(default=None, gt=0, lt=1)
    gated: bool | None = None


class Gate(SuiteTable):
    """The gate's settings: by metric (``[gate.metrics.ttft_s]``), and by arm and metric (``[gate.arms.NAME.ttft_s]``).

    ``duet_launch_sd``: relative SD of what launches of one build differ by here, asked in turn (``--duet``).
    """

    metrics: dict[str, MetricChange] = {}
    arms: dict[Name, dict[str, MetricChange]] = {}
    duet_launch_sd: float | None = Field(default=None, gt=0, lt=1)


Tolerable: TypeAlias = Literal[
    "not_warmed_up",
    "client_saturated",
    "cached_prompt_tokens",
    "clocks_throttled",
    "power_capped",
    "foreign_processes",
    "gpu_silent",
]
"""Reasons of invalidity that a person may know of and decide to live with on a target."""


class Target(SuiteTable):
    """A place and a model: host, how to launch, checkpoint, base flags, environment, arms.

    Floors hold whatever the baseline says: acceptance length of any kind of content, MTP speed-up at one client,
    share of canary questions answered rightly (0: this checkpoint cannot answer). ``divergence_ceiling`` is how
    often, in a token, greedy answers with and without MTP may part. ``backends`` lists values to try of a flag;
    each makes an arm ``FLAG.VALUE`` out of ``mtp-on``. ``known`` are scenarios (functions, without ``test_``) that
    are known to fail here, with the reason; one that passes after all fails the run until its line is deleted.
    ``cards`` are what a rehearsal pretends where the host cannot be asked (``rtx-pro-6000x8``), ``checkpoint_config``
    a folder here with the model's config files, where ``model`` is a path elsewhere. ``nvidia_smi`` and
    ``kernel_log`` are the commands that tell of the GPUs and print the kernel's log (where that may not be read,
    journalctl is asked).
    ``builds`` are SGLangs by name, for comparing two; ``versions`` says how a version is had here (``{version}`` stands
    for it): where its interpreter is, or by which image or flags. Without it, it is installed.
    ``baselines`` says whose they are: of each host (``host``: which machine it is, its GPUs by their UUIDs and PCI addresses
    are part of a figure's identity), or shared by all hosts with the same cards (``kind``).
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
    cards: str = ""
    checkpoint_config: str = ""
    nvidia_smi: str = "nvidia-smi"
    kernel_log: str = "dmesg"
    acceptance_floor: float = Field(default=1.2, ge=1.0)
    speedup_floor: float = Field(default=1.05, ge=0)
    canary_floor: float = Field(default=0.9, ge=0, le=1)
    divergence_ceiling: float = Field(default=0.01, ge=0, le=1)
    timeouts: Timeouts = Timeouts()
    client: ClientTable = ClientTable()
    tolerate: list[Tolerable] = []
    arms: dict[Name, Arm] = {}
    default_budget: str = "quick"
    baselines: Literal["host", "kind"] = "host"
    budgets: dict[Name, Sizes] = {}
    builds: dict[Name, BuildTable] = {}
    versions: BuildTable | None = None
    gate: Gate = Gate()
    backends: dict[str, list[str]] = {}
    traffic: dict[Name, TrafficTable] = {}
    known: dict[str, str] = {}

    def in_run(self, directory: Path) -> Target:
        """The same for one run: ``{run}`` in a value of its environment is the run's own ``directory``."""
        env = {name: value.replace("{run}", str(directory)) for name, value in self.env.items()}
        return self.model_copy(update={"env": env})

    def base_flags(self) -> Flags:
        """The target's own flags, with the model path, before any arm."""
        return Flags({"model-path": self.model}).merge(self.flags)

    def arm(self, name: str) -> Arm:
        """The arm called ``name``.

        Raises:
            ConfigError: there is none; the text lists those there are.
        """
        there = f"it has: {', '.join(self.arms)}"
        return one_of(self.arms, name, f"target {self.name!r} has no arm {name!r}", there)

    def launched_as(self, arm: str) -> str:
        """The arm whose launches answer for ``arm``: one of ``backends`` that changes nothing is ``mtp-on`` itself."""
        flag, found, value = arm.partition(".")
        if not found or value not in self.backends.get(flag, []) or not {arm, "mtp-on"} <= set(self.arms):
            return arm
        own, base = self.arms[arm], self.arms["mtp-on"]
        same = self.arm_flags(own) == self.arm_flags(base) and self.arm_env(own) == self.arm_env(base)
        return "mtp-on" if same else arm

    def sizes(self, budget: str) -> Sizes:
        """What ``budget`` measures on this target.

        Raises:
            ConfigError: there is no such budget.
        """
        there = f"there are: {', '.join(self.budgets)}"
        return one_of(self.budgets, budget, f"--budget {budget!r} is not among [budgets]", there)

    def arm_flags(self, arm: Arm) -> Flags:
        """What is asked of SGLang for ``arm``: the target's flags with the arm's changes, merged by name."""
        return self.base_flags().merge(arm.flags)

    def arm_env(self, arm: Arm) -> dict[str, str]:
        """The variables set for ``arm``; an empty text in the arm removes the target's variable."""
        kept = {name: value for name, value in self.env.items() if name not in arm.env}
        return {**kept, **{name: value for name, value in arm.env.items() if value != ""}}


class Suite(SuiteTable):
    """The whole of ``suite.toml``."""

    path: Path = Path("suite.toml")
    builtin: bool = True
    """Are the built-in arms and budgets there, under the file's own?"""
    default_target: str
    default_budget: str = "quick"
    hosts: dict[Name, HostTable] = {}
    arms: dict[Name, Arm] = {}
    budgets: dict[Name, Sizes] = {}
    builds: dict[Name, BuildTable] = {}
    gate: Gate = Gate()
    targets: dict[Name, Target]

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Lay the file over what is built in, give every table its own name, and every target what all share."""
        if not isinstance(data, dict):
            return data
        data = overlay.with_builtin(data)
        for group in ("hosts", "arms", "builds", "targets"):
            data[group] = overlay.named(data.get(group, {}))
        if isinstance(data["targets"], dict):
            alike = {name: overlay.like(table, data["targets"]) for name, table in data["targets"].items()}
            data["targets"] = {
                name: overlay.placed(overlay.with_shared(table, data), data) for name, table in alike.items()
            }
        return data

    def target(self, name: str | None = None) -> Target:
        """The target called ``name``, or the default one.

        Raises:
            ConfigError: there is none; the text suggests the nearest and lists those there are.
        """
        wanted = name or self.default_target
        asked = "default_target" if name is None else "--target"
        fault = f"{self.path}: {asked} {wanted!r} is not among [targets]"
        return one_of(self.targets, wanted, fault, f"there are: {', '.join(sorted(self.targets))}")

    def host(self, name: str) -> HostTable:
        """The host called ``name``; ``local`` is always this machine.

        Raises:
            ConfigError: there is none.
        """
        if name == "local":
            return HostTable()
        advice = f'write a table [hosts.{name}] with ssh = "[user@]address", or use "local"'
        return one_of(self.hosts, name, f"{self.path}: host {name!r} is not among [hosts]", advice)
