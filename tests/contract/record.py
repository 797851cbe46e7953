"""Records the shapes of a running server's answers in one JSON file.

python -m tests.contract.record http://127.0.0.1:30000 tests/contract/captures/0.5.23-on.json
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path

from .answers import AnswerShape, ask
from .questions import QUESTIONS

CAPTURES = Path(__file__).parent / "captures"


def ask_all(url: str) -> dict[str, AnswerShape]:
    """The shapes of a server's answers to every question, in order (the metrics come after the requests)."""
    return {name: ask(url, question) for name, question in QUESTIONS.items()}


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
    """Ask the server named on the command line and write its capture."""
    parser = argparse.ArgumentParser(description="Record the shapes of a running server's answers.")
    parser.add_argument("url", help="such as http://127.0.0.1:30000")
    parser.add_argument("file", type=Path, help="the capture to write")
    asked = parser.parse_args()
    write_capture(ask_all(asked.url.rstrip("/")), asked.file)
    print(f"{asked.file}: {len(QUESTIONS)} answers")


if __name__ == "__main__":
    main()
