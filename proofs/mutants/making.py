"""Mutants of a file: one small change each, made by cosmic-ray's operators."""

from __future__ import annotations

import ast
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
    """All mutants of a file that do otherwise when they run, none twice.

    Left out: annotations, whether arguments have names, ``strict`` of zip, ``frozen`` and ``slots`` of dataclasses.
    """
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    source = path.read_text("utf-8")
    seen = {_run(source)}
    for name in OPERATORS:
        operator: Any = plugins.get_operator(f"core/{name}")()
        for occurrence in itertools.count():
            changed = mutate_code(source, operator, occurrence)
            if changed is None:
                break
            try:
                does = _run(changed)
            except SyntaxError:  # ``**`` of a call is an operator to cosmic-ray
                continue
            if does not in seen and (found := _difference(source, changed)):
                seen.add(does)
                yield Mutant(str(path), *found, changed)


def _difference(source: str, changed: str) -> tuple[int, str, str] | None:
    """Number, old and new text of the changed line."""
    old, new = source.splitlines(), changed.splitlines()
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            before = " ".join(line.strip() for line in old[start:end])
            return start + 1, before, " ".join(line.strip() for line in new[first:last])
    return None


class _Run(ast.NodeTransformer):
    """What is left of code when it runs: no annotation, no check of it on itself, nothing that only forbids misuse."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        node.args, node.posonlyargs = [*node.posonlyargs, *node.args, *node.kwonlyargs], []
        node.kwonlyargs, node.defaults = [], [*node.defaults, *(d for d in node.kw_defaults if d is not None)]
        node.kw_defaults = []
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.keywords = [word for word in node.keywords if word.arg not in ("strict", "slots", "frozen")]
        self.generic_visit(node)
        return node


def _run(source: str) -> str:
    return ast.dump(_Run().visit(ast.parse(source)))
