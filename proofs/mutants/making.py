"""Mutants of a file: one small change each, made by cosmic-ray's operators."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPERATORS = (
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ZeroIterationForLoop",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBinaryOperator_Mul_Div",
    "ReplaceBinaryOperator_Div_Mul",
    "ReplaceBinaryOperator_Pow_Mul",
    "ReplaceBinaryOperator_BitAnd_BitOr",
    "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Lt_GtE",
    "ReplaceComparisonOperator_Gt_LtE",
    "ReplaceComparisonOperator_LtE_Gt",
    "ReplaceComparisonOperator_GtE_Lt",
    "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceComparisonOperator_Is_IsNot",
    "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceUnaryOperator_USub_UAdd",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_Invert",
)
"""Of cosmic-ray's operators those that a person could have mistyped: its others swap ``+`` for ``<<`` and the like, which
any test kills."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed file. ``before`` and ``after`` are the changed line, ``line`` its number."""

    path: str
    line: int
    before: str
    after: str
    source: str

    @property
    def key(self) -> str:
        """What stays the same while lines move: file, line and change."""
        return f"{self.path}: {self.before} -> {self.after}"


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a file, annotations and docstrings left alone, none twice."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    source, seen = path.read_text("utf-8"), set[str]()
    for name in OPERATORS:
        operator: Any = plugins.get_operator(f"core/{name}")()
        for occurrence in itertools.count():
            changed = mutate_code(source, operator, occurrence)
            if changed is None:
                break
            if changed != source and changed not in seen and (found := _difference(source, changed)):
                seen.add(changed)
                yield Mutant(str(path), *found, changed)


def _difference(source: str, changed: str) -> tuple[int, str, str] | None:
    """Number, old and new text of the changed line; None where it means nothing when the code runs.

    That is an annotation (``int | None``), and whether a dataclass is frozen or has slots.
    """
    old, new = source.splitlines(), changed.splitlines()
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            before = " ".join(line.strip() for line in old[start:end])
            after = " ".join(line.strip() for line in new[first:last])
            return (
                None
                if _annotation(before, after) or before.startswith("@dataclass")
                else (start + 1, before, after)
            )
    return None


def _annotation(before: str, after: str) -> bool:
    """``A | B`` in a signature or a field is never evaluated: ``from __future__ import annotations``."""
    return before.replace(" | ", " & ") == after.replace(" | ", " & ") and (
        before.startswith("def ")
        or ("None" in before and "=" not in before.partition("#")[0].replace("==", ""))
    )
