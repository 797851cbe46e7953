"""``suite.toml`` to typed targets and arms; every error names the file, the table and the key."""

from suite.config.errors import ConfigError
from suite.config.kinds import KINDS
from suite.config.launches import AttachLaunch, DockerLaunch, ProcessLaunch, SystemdLaunch
from suite.config.loading import load, parse
from suite.config.tables import (
    Arm,
    BuildTable,
    HostTable,
    Sizes,
    Suite,
    Target,
    TrafficTable,
)
