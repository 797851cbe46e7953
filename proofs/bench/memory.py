"""Memory over a million chunks: how much the client's peak grows from a tenth of them to all.

Run as `python -m proofs.bench.memory` it plays both rounds in its own process and prints the peaks in bytes.
"""

from __future__ import annotations

import resource
import subprocess
import sys

from proofs.bench.clients import Job, timed
from tests.paced.server import PacedServer

STREAMS = 64
SMALL, LARGE = 1_600, 16_000  # chunks a stream: 102,400 and 1,024,000 in all
INTERVAL_S = 0.0015


def growth_per_chunk() -> float:
    """Bytes by which the peak of resident memory grows for each further chunk."""
    out = subprocess.run(
        [sys.executable, "-m", "proofs.bench.memory"], check=True, capture_output=True, text=True
    ).stdout
    small, large = (int(part) for part in out.split())
    return (large - small) / (STREAMS * (LARGE - SMALL))


def _main() -> None:
    import proofs.bench.clients as clients

    with PacedServer(INTERVAL_S, INTERVAL_S) as server:
        for chunks in (SMALL, LARGE):
            result = timed(clients.ours_tokens_only, Job(server.url, STREAMS, chunks))
            assert result.tokens == STREAMS * chunks, (result.tokens, result.failed[:1])
            server.take_log()
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    _main()
