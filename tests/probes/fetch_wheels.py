"""Downloads the SGLang releases that ``test_real_releases.py`` scans, into ``.sglang-cpu/wheels`` (95 MB).

Run it from anywhere: ``python tests/probes/fetch_wheels.py``. What is there already is not fetched again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RELEASES = ("0.5.9", "0.5.12", "0.5.16", "0.5.20", "0.5.23")
WHEELS = Path(__file__).parents[2] / ".sglang-cpu" / "wheels"


def wheel(release: str) -> Path | None:
    """The wheel of a release, if it has been fetched."""
    return next(iter(sorted(WHEELS.glob(f"sglang-{release}-*.whl"))), None)


def main() -> int:
    WHEELS.mkdir(parents=True, exist_ok=True)
    for release in RELEASES:
        if wheel(release) is None:
            words = ["pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", f"sglang=={release}"]
            options = ["--python-version=3.11", "--platform=manylinux_2_34_x86_64", "--platform=any"]
            subprocess.run([sys.executable, "-m", *words, *options, "--dest", str(WHEELS)], check=True)
        print(wheel(release))
    return 0


if __name__ == "__main__":
    sys.exit(main())
