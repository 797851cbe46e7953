"""What a running SGLang server says about itself: resolved configuration, speculation, counters."""

from suite.sglang.server.effect import FlagDifference, took_effect
from suite.sglang.server.info import ServerInfo, Speculation, parse, read, root
from suite.sglang.server.prometheus import Counters, counters

__all__ = [
    "Counters",
    "FlagDifference",
    "ServerInfo",
    "Speculation",
    "counters",
    "parse",
    "read",
    "root",
    "took_effect",
]
