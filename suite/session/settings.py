"""What the command line and ``suite.toml`` say together: one target, one budget, its figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from suite import config as suite_config
from suite import packaged
from suite.config import AttachLaunch, ConfigError, Sizes, Suite, Target
from suite.foreign import one_line
from suite.gate import Plan
from suite.options import OPTIONS
from suite.session import attached, comparing, preconditions
from suite.session.attached import Attached
from suite.session.comparing import Comparing
from suite.sglang.flags import FlagChangeValue, parse_change


class Settings:
    """Read once a session, when the first scenario is collected.

    Raises:
        ConfigError: the file or an option cannot be used.
    """

    def __init__(self, config: pytest.Config) -> None:
        option = config.getoption
        preconditions.not_empty(config, OPTIONS)
        self.suite: Suite = suite_config.load(config_path(config))
        target = self.suite.target(option("--target"))
        target = preconditions.attached(target, option("--server-url"), option("--api-key-env"))
        self.attached: Attached | None = None
        if isinstance(target.launch, AttachLaunch):
            self.attached = attached.look(self.suite, target, own=not option("--target"))
        self.target: Target = self.attached.target if self.attached is not None else target
        self.comparing: Comparing | None = comparing.asked(config, self.suite, self.target)
        own_budget = comparing.BUDGET if self.comparing is not None else target.default_budget
        self.budget: str = option("--budget") or own_budget
        self.sizes: Sizes = _sizes(
            target.sizes(self.budget),
            option("--launches"),
            option("--rounds"),
            _whole_numbers("--concurrency", option("--concurrency"), "numbers of clients, such as 1,4,8"),
            _whole_numbers("--contexts", option("--contexts"), "numbers of tokens, such as 1024,10240"),
        )
        self.extra_flags: dict[str, FlagChangeValue] = dict(_changes(option("--flag")))
        preconditions.removable(target, self.extra_flags)
        preconditions.prompts(self.sizes.kinds)
        self.minutes: float | None = option("--minutes")
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"--minutes {self.minutes:g}: must be more than 0")
        self.results = config.rootpath / option("--results")
        preconditions.writable(self.results, "--results")
        self.baselines = config.rootpath / option("--baselines")
        self.record: bool = option("--record-baseline")
        if self.record:
            preconditions.writable(self.baselines, "--baselines")
        self.accepted: str = option("--accept-regression").strip()
        if self.accepted and not self.record:
            raise ConfigError("--accept-regression needs --record-baseline")
        self.require_baseline: bool = option("--require-baseline")
        self.duet: bool = option("--duet")
        self.promote_on_pass: bool = option("--promote-on-pass")
        if self.promote_on_pass:
            preconditions.writable(self.baselines, "--baselines")
        own = config.option
        selected = own.keyword or getattr(own, "lf", False) or not _all_of_them(config)
        self.whole: bool = not selected and own.markexpr in ("", "perf") and not own.aa
        """Does this run put every question of its budget, not a selection by ``-k``, another marker, files or ids?"""

    @property
    def plan(self) -> Plan:
        """How much is to be measured, as it is kept with the run."""
        return Plan(
            budget=self.budget,
            launches=self.sizes.launches,
            rounds=self.sizes.rounds,
            look_launches=[self.sizes.launches * look for look in range(1, self.sizes.looks + 1)],
            require_baseline=self.require_baseline,
            recording=self.record,
            accepted=self.accepted,
            duet=self.duet,
        )

    @property
    def fewest_launches(self) -> int:
        """Launches of each arm without which nothing can be told."""
        return comparing.FEWEST if self.comparing is not None and not self.duet else 1

    def cut(self, sizes: Sizes) -> None:
        """Measure no more than this: what ``--minutes`` left of the plan."""
        self.sizes = sizes
        self.whole = False

    def cut_as(self, plan: Plan) -> None:
        """Measure as much as an earlier run that was cut."""
        looks = len(plan.look_launches)
        smaller = {"launches": plan.launches, "rounds": plan.rounds, "looks": looks}
        self.cut(self.sizes.model_copy(update=smaller))


def _all_of_them(config: pytest.Config) -> bool:
    """Are all scenarios among what was named on the command line?"""
    scenarios, here = packaged.scenarios(), config.invocation_params.dir
    named = [here.joinpath(word).resolve() for word in config.args if "::" not in word]
    return any(path == scenarios or path in scenarios.parents for path in named)


def config_path(config: pytest.Config) -> Path:
    """The configuration file that was named, or the root directory's."""
    named = config.getoption("--suite-config")
    return Path(named) if named else config.rootpath / "suite.toml"


def _sizes(
    sizes: Sizes,
    launches: int | None,
    rounds: int | None,
    concurrencies: list[int] | None,
    contexts: list[int] | None,
) -> Sizes:
    asked = {"rounds": rounds, "concurrencies": concurrencies, "contexts": contexts}
    changes: dict[str, object] = {name: value for name, value in asked.items() if value is not None}
    if launches is not None:
        changes |= {"launches": launches, "looks": 1}
    options = {
        "rounds": "--rounds",
        "launches": "--launches",
        "concurrencies": "--concurrency",
        "contexts": "--contexts",
    }
    return preconditions.sized(sizes, changes, options)


def _whole_numbers(option: str, text: str | None, what: str) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 and int(part) >= 1 for part in parts):
        raise ConfigError(f"{option} {one_line(text, 60)}: expected {what}")
    return sorted({int(part) for part in parts})


def _changes(words: list[str]) -> Iterator[tuple[str, FlagChangeValue]]:
    for word in words:
        try:
            yield parse_change(word)
        except ValueError as error:
            raise ConfigError(f"--flag: {one_line(str(error))}") from None
