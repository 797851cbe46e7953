"""A name means one thing: no two classes of the suite share theirs."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SUITE = Path(__file__).parents[2] / "suite"


def test_no_class_name_is_defined_twice():
    places = defaultdict(list)
    for path in sorted(SUITE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(SUITE)}:{node.lineno}")
    assert len(places) > 100  # they were found
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
