"""What went wrong while requests were played and no metric shows: requests that failed, a server that stood still."""

from __future__ import annotations

import numpy as np

from suite.foreign import one_line
from suite.load import RequestRecord, Round

STILL_S = 5.0
"""A pause within an answer that no server makes by itself while it decodes: half a minute is most time-outs' patience."""


def mishaps(round_: Round) -> list[str]:
    """A sentence each, without a subject; empty if all went well."""
    failed = [record for record in round_.requests if not record.ok]
    told = []
    if failed:
        told.append(
            f"{len(failed)} of {len(round_.requests)} requests failed, the first by {one_line(str(failed[0].fault))}"
        )
    pauses = [(longest_pause(record), record.index) for record in round_.requests]
    long = [pause for pause in pauses if pause[0] >= STILL_S]
    if long:
        seconds, _ = max(long)
        told.append(f"the server paused for {seconds:.1f} s ({len(long)} of {len(pauses)} answers waited)")
    return told


def longest_pause(record: RequestRecord) -> float:
    """Seconds of the longest silence within an answer, also the one that it ended in; 0 for one that never began."""
    arrived = record.timeline.t_s
    if len(arrived) == 0:
        return 0.0
    within = float(np.diff(arrived).max()) if len(arrived) > 1 else 0.0
    return max(within, record.ended_s - float(arrived[-1]))
