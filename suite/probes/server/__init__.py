"""What a running SGLang server says about itself: resolved configuration, speculation, counters."""

from suite.probes.server.changes import drift
from suite.probes.server.effect import Difference, adjustments, took_effect
from suite.probes.server.info import ServerInfo, Speculation, parse, read
from suite.probes.server.prometheus import Counters, counters

__all__ = [
    "Counters",
    "Difference",
    "ServerInfo",
    "Speculation",
    "adjustments",
    "counters",
    "drift",
    "parse",
    "read",
    "took_effect",
]
