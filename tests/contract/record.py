"""Records the shapes of real SGLang's answers, one JSON file per arm: what the simulator is held to.

    python -m tests.contract.record [--version 0.5.23]

It starts the server of tests/sglang_cpu. For a new SGLang, record and read the difference in version control.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sglang_cpu import install

from .answers import AnswerShape
from .arms import Arms
from .servers import ARMS, running, sglang_command, sglang_environment

CAPTURES = Path(__file__).parent / "captures"


def write_capture(answers: Mapping[str, AnswerShape], path: Path) -> None:
    """Write a capture whole, sorted and indented: the next SGLang's differences are read in version control."""
    text = json.dumps({name: answer.to_json() for name, answer in answers.items()}, indent=1) + "\n"
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def read_capture(path: Path) -> dict[str, AnswerShape]:
    """The answers of one recorded server."""
    forms = json.loads(path.read_text(encoding="utf-8"))
    return {name: AnswerShape.from_json(form) for name, form in forms.items()}


def main() -> None:
    """Start real SGLang in each arm, ask, and write the captures."""
    parser = argparse.ArgumentParser(description="Record the shapes of real SGLang's answers, without a GPU.")
    parser.add_argument("--version", default=install.DEFAULT_VERSION, choices=install.known_versions())
    parser.add_argument("--to", type=Path, default=CAPTURES, metavar="DIR")
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)

    def start(arm: str) -> AbstractContextManager[str]:
        return running([*sglang_command(asked.version), *ARMS[arm]], Path(logs, arm), sglang_environment())

    with TemporaryDirectory() as logs, Arms(start) as servers:
        for arm in ARMS:
            capture: Path = asked.to / f"{asked.version}-{arm}.json"
            write_capture(servers.answers(arm), capture)
            print(capture)


if __name__ == "__main__":
    main()
