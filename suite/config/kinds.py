"""What scenarios ask about: the kinds, each a marker and a name in a budget's list of ``scenarios``. The only list there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

SCENARIO_KINDS = {
    "spellings": "the same as activation for every other way to switch MTP on",
    "activation": "is speculation off unless asked for, and on when asked for",
    "decode": "output tokens/s and time per output token",
    "prefill": "time to first token by context, and reuse of shared prefixes",
    "acceptance": "acceptance length by kind of content, temperature and context",
    "speedup": "what MTP gains over the same server without it",
    "depth": "speed by number of draft steps (a table to tune by)",
    "lossless": "does MTP change greedy answers",
    "canary": "are answers right at all",
    "backends": "which kernels start, answer rightly, and how fast (a table)",
    "traffic": "does your own traffic keep its latency limits, and up to what rate",
    "steadiness": "does a server stay fast for long and free what it used",
    "startup": "time to ready by phase, memory, KV capacity",
    "steptime": "time per decode step with acceptance held constant",
    "log": "does the server's log show trouble that its answers do not",
    "configuration": "what changed since the baseline in settings and installed versions",
}
"""By name what it asks. A scenario of two kinds goes by the first here: spellings are marked activation too."""

KINDS = tuple(SCENARIO_KINDS)

if TYPE_CHECKING:
    ScenarioKind: TypeAlias = str
else:
    ScenarioKind = Literal[KINDS]
