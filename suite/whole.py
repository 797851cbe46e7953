"""Files that are there whole or not at all, whatever ends the writer."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """``text`` in place of whatever was there, whose mode stays; a link leads where it led.

    Raises:
        OSError: it cannot be written; what was there is untouched.
    """
    path = path.resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
