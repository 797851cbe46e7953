"""What genuine SGLang's profiles say of builds that were slowed by hand: the part that was slowed, and no other.

    python -m tests.sglang_cpu.why

Two minutes on two quiet cores; exit status 0 only if each was named as it must be.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec

from suite.__main__ import main as suite_command
from suite.traces.compare import StepDifference
from suite.traces.why import TABLE_FILE
from tests.sglang_cpu.install import ROOT

TARGET = "sglang-cpu"
WAITED_S, DRAFTS_A_STEP = 0.01, 1
"""What `slow-draft` waits within each drafting, and how often a step drafts."""


def main() -> int:
    """Profile both builds against SGLang as it is, and say what is not as it must be."""
    wrong = slow_draft(_told("slow-draft")) + slow_kernel(_told("slow-kernel"))
    print("\n".join(wrong or ["all as it must be"]))
    return 1 if wrong else 0


def slow_draft(found: StepDifference) -> list[str]:
    """The draft must be named first, have grown by what was waited, and verification by next to nothing of it."""
    more = {part.part: part.change.more_s for part in found.parts}
    wrong = []
    if found.parts[0].part != "draft":
        wrong.append(f"slow-draft: the draft grew, and {found.parts[0].part} is named first")
    if not 0.8 < more["draft"] / (WAITED_S * DRAFTS_A_STEP) < 1.5:
        wrong.append(
            f"slow-draft: the draft must be {1e3 * WAITED_S:g} ms longer, not {1e3 * more['draft']:.1f}"
        )
    if more["verify"] > more["draft"] / 4:
        wrong.append(f"slow-draft: verification is said to be {1e3 * more['verify']:.1f} ms longer")
    return wrong


def slow_kernel(found: StepDifference) -> list[str]:
    """The target runs the kernel in every layer, the draft in one: verification first, and more calls in each part."""
    wrong = []
    if found.parts[0].part != "verify":
        wrong.append(f"slow-kernel: verification grew most, and {found.parts[0].part} is named first")
    for part in ("verify", "draft", "draft-extend"):
        rows = [
            row for row in found.kernels if row.part == part and row.after_calls > 2 * row.before_calls > 0
        ]
        if not rows:
            wrong.append(f"slow-kernel: no operator of {part} is said to run more often")
    return wrong


def _told(build: str) -> StepDifference:
    with tempfile.TemporaryDirectory(prefix="why-") as place:
        asked = ["--target", TARGET, "--reference", "own", "--candidate", build, "--out", place]
        status = suite_command(["why", f"--suite-config={ROOT / 'suite.toml'}", *asked])
        if status:
            raise SystemExit(f"{build}: python -m suite why ended with status {status}")
        return msgspec.json.decode((Path(place) / TABLE_FILE).read_bytes(), type=StepDifference)


if __name__ == "__main__":
    sys.exit(main())
