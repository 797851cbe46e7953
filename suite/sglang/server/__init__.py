"""What a running SGLang server says about itself: resolved configuration, speculation, counters."""

from suite.sglang.server.effect import took_effect
from suite.sglang.server.info import ServerInfo, parse, read, root
from suite.sglang.server.prometheus import Counters, counters
