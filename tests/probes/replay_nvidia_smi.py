"""Stands in for nvidia-smi: replays a recording, field by field, once or in a loop.

Called as ``replay_nvidia_smi.py RECORDING [nvidia-smi's arguments]``. A ``.csv`` recording has a header of
fields, one row a card, and frames divided by empty lines; a ``.txt`` one an exit status and what was printed.
"""

from __future__ import annotations

import csv
import io
import itertools
import sys
import time
from pathlib import Path


def frames_of(text: str) -> tuple[list[str], list[list[list[str]]]]:
    header, *rest = text.split("\n", 1)
    blocks = rest[0].strip("\n").split("\n\n")
    rows = [list(csv.reader(io.StringIO(block), skipinitialspace=True)) for block in blocks]
    return [field.strip() for field in header.split(",")], rows


def main() -> int:
    recording, options = Path(sys.argv[1]), dict(word.partition("=")[::2] for word in sys.argv[2:])
    text = recording.read_text()
    if recording.suffix == ".txt":
        status, _, said = text.partition("\n")
        sys.stdout.write(said)
        return int(status)
    if "--query-compute-apps" in options:
        beside = recording.with_suffix(".apps")
        sys.stdout.write(beside.read_text() if beside.exists() else "")
        return 0
    header, frames = frames_of(text)
    names = options["--query-gpu"].split(",")
    for name in names:
        # newer drivers accept the older name of the reasons' field
        if name not in header and name.replace("throttle", "event") not in header:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    places = [header.index(n if n in header else n.replace("throttle", "event")) for n in names]
    every_s = float(options.get("--loop-ms", 0)) / 1000
    for number in itertools.count() if every_s else range(1):
        for row in frames[min(number, len(frames) - 1)]:
            print(", ".join(_plain(row[place], options["--format"]) for place in places), flush=True)
        time.sleep(every_s)
    return 0


def _plain(value: str, form: str) -> str:
    number, _, unit = value.partition(" ")
    return number if "nounits" in form and unit in ("W", "MHz", "MiB", "%") else value


if __name__ == "__main__":
    sys.exit(main())
