"""Stands in for ``python -m pytest -m perf --shard I/N``: leaves the files of a shard, and ends as it is told.

In ``$STAND_IN`` are the files, prepared; ``hang-I`` there has the first try of shard I wait for its end after half of its
work, ``fail-I`` has every try of it end so. Imports nothing of the suite, so that it is quick.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path


def main(words: list[str]) -> int:
    number = int(words[words.index("--shard") + 1].partition("/")[0])
    again = words[words.index("--resume") + 1] if "--resume" in words else None
    results = Path(words[words.index("--results") + 1])
    prepared = Path(os.environ["STAND_IN"])
    folder = Path(again) if again else results / f"shard{number}of3"
    folder.mkdir(exist_ok=True)
    with (folder / "journal.jsonl").open("ab", buffering=0) as file:

        def note(what: str) -> None:
            file.write((prepared / f"shard-{number}.{what}").read_bytes())

        def stop(signal_number: int, frame: object) -> None:
            note("stopped")
            sys.exit(2)

        signal.signal(signal.SIGTERM, stop)
        note("resumed" if again else "half")
        (prepared / f"reached-{number}").touch()
        print(f"measuring shard {number}, {'again' if again else 'anew'}", flush=True)
        if (prepared / f"fail-{number}").exists():
            return 9
        if not again and (prepared / f"hang-{number}").exists():
            time.sleep(60)
        note("rest")
    for name in ("run.json", "verdicts.json"):
        shutil.copy(prepared / f"shard-{number}.{name}", folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
