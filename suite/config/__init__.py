"""``suite.toml`` to typed targets and arms; every error names the file, the table and the key."""

from suite.config.errors import ConfigError
from suite.config.kinds import KINDS, ScenarioKind
from suite.config.reading import load, parse
from suite.config.tables import (
    Arm,
    AttachLaunch,
    BuildTable,
    ClientTable,
    DockerLaunch,
    Gate,
    HostTable,
    Launch,
    MetricChange,
    ProcessLaunch,
    Sizes,
    Suite,
    SystemdLaunch,
    Target,
    Timeouts,
    TrafficTable,
)

__all__ = [
    "KINDS",
    "Arm",
    "AttachLaunch",
    "BuildTable",
    "ClientTable",
    "ConfigError",
    "DockerLaunch",
    "Gate",
    "HostTable",
    "Launch",
    "MetricChange",
    "ProcessLaunch",
    "ScenarioKind",
    "Sizes",
    "Suite",
    "SystemdLaunch",
    "Target",
    "Timeouts",
    "TrafficTable",
    "load",
    "parse",
]
