"""What a Python expression says about ``speculative_algorithm``: is it the setting, was one asked for, what is given.

A value counts as *activation* unless reading the code shows that an algorithm had been asked for before
(``alias``), that it was read from a message under that very name (``input``), that it is None (``reset``),
that the setting is only handed on (``copy``) or that it is declared with the default None (``declaration``).
What cannot be told apart counts as activation: this may accuse wrongly, it must not acquit wrongly.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cached_property

NAME = "speculative_algorithm"
FLAG = re.compile(r"^--speculative-algo[a-z]*(=|$)")
WORST = ("copy", "declaration", "reset", "alias", "input", "activation")
"""The classes, from harmless to what the scan is for."""

_CHANGED_BY = ("upper", "lower", "strip", "casefold")
_PARSED_BY = ("from_string", "str", "repr", "SpeculativeAlgorithm", "deepcopy", "copy")
UNKNOWN = ast.Tuple(elts=[], ctx=ast.Load())
"""Stands for a value that cannot be seen."""


def is_key(node: ast.AST) -> bool:
    """Is ``node`` the setting's name as a constant, as a key or a flag?"""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    text = node.value
    return text.replace("-", "_") == NAME or (bool(FLAG.match(text)) and "=" not in text)


def called(node: ast.Call) -> str:
    """The last name of what a call calls: ``setattr``, ``replace``, ``from_string``."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def is_none(node: ast.AST) -> bool:
    """Is ``node`` a constant that means off?"""
    if isinstance(node, ast.Constant):
        return node.value in (None, "", "NONE", False)
    return isinstance(node, ast.Attribute) and node.attr == "NONE"


def _is_something(node: ast.AST) -> bool:
    """A constant or a member of an enumeration that is not None: only these are known not to be."""
    constant = isinstance(node, ast.Constant) or (isinstance(node, ast.Attribute) and node.attr.isupper())
    return constant and not is_none(node)


def worst(classes: Iterable[str]) -> str:
    """The least harmless of some classes."""
    return max(classes, key=WORST.index, default="copy")


class ExpressionReader:
    """Reads expressions of one ``function``, knowing which of its variables stand for the algorithm."""

    def __init__(self, function: ast.AST | None = None) -> None:
        self._function = function

    @cached_property
    def local(self) -> frozenset[str]:
        """Variables that are only ever bound to the algorithm itself."""
        return frozenset(stand_ins(self._function)) if self._function else frozenset()

    def is_it(self, node: ast.AST) -> bool:
        """Is ``node`` the algorithm itself, by whatever access?"""
        if isinstance(node, ast.Name):
            return node.id == NAME or node.id in self.local
        if isinstance(node, ast.Attribute):
            return node.attr == NAME
        if isinstance(node, ast.Subscript):
            return is_key(node.slice)
        if isinstance(node, ast.NamedExpr):
            return self.is_it(node.value)
        return isinstance(node, ast.Call) and _looks_up(node) and _fallback(node) is None

    def about(self, node: ast.AST) -> bool:
        """The algorithm itself, or it in capitals, as text, as a member of the enumeration."""
        if isinstance(node, ast.Call):
            if called(node) in _CHANGED_BY and isinstance(node.func, ast.Attribute):
                return self.about(node.func.value)
            if called(node) in _PARSED_BY and node.args:
                return self.about(node.args[0])
        return self.is_it(node)

    def asked_if(self, test: ast.AST, truth: bool) -> bool:
        """Does ``test`` being ``truth`` show that an algorithm had been asked for?"""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.asked_if(test.operand, not truth)
        if isinstance(test, ast.BoolOp):
            every = isinstance(test.op, ast.Or) if truth else isinstance(test.op, ast.And)
            return (all if every else any)(self.asked_if(value, truth) for value in test.values)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0], truth)
        if (
            isinstance(test, ast.Call)
            and isinstance(test.func, ast.Attribute)
            and called(test).startswith("is_")
        ):
            return self.about(test.func.value) and truth is (called(test) != "is_none")
        return truth and self.about(test)

    def _compared(self, left: ast.AST, op: ast.cmpop, right: ast.AST, truth: bool) -> bool:
        if self.about(right) and isinstance(op, ast.Eq | ast.NotEq):
            left, right = right, left
        if not self.about(left):
            return False
        if isinstance(op, ast.In | ast.NotIn):
            choices = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
            named = bool(choices) and all(_is_something(choice) for choice in choices)
            return named and truth is isinstance(op, ast.In)
        if not isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
            return False
        equal = isinstance(op, ast.Is | ast.Eq)
        if is_none(right):
            return truth is not equal
        return _is_something(right) and truth is equal

    def judge(self, value: ast.AST, asked: bool, keyed: bool = False) -> str:
        """The class of giving ``value`` to the setting.

        ``asked``: an algorithm had been asked for already. ``keyed``: the code stands under a test that a
        message's key is this very name, so a value worked out from the message's is an ``input``.
        """
        if is_none(value):
            return "reset"
        if self.is_it(value) or (isinstance(value, ast.Call) and self._parses(value)):
            return "copy"
        if isinstance(value, ast.IfExp):
            sides = ((value.body, True), (value.orelse, False))
            return worst(self.judge(v, asked or self.asked_if(value.test, t), keyed) for v, t in sides)
        if isinstance(value, ast.BoolOp):
            return self._judge_chain(value, asked, keyed)
        if isinstance(value, ast.NamedExpr):
            return self.judge(value.value, asked, keyed)
        if asked:
            return "alias"
        if isinstance(value, ast.Call):
            fallback = _fallback(value) if _looks_up(value) else None
            if fallback is None and self._takes_it(value):
                return "alias"
            if keyed and any(isinstance(argument, ast.Name) for argument in value.args):
                return "input"
        return "input" if keyed and isinstance(value, ast.Name) else "activation"

    def _judge_chain(self, value: ast.BoolOp, asked: bool, keyed: bool) -> str:
        """``x or "EAGLE"``, ``x and x.upper()``: each part under what the parts before it have shown."""
        classes: list[str] = []
        for part in value.values:
            classes.append(self.judge(part, asked, keyed))
            asked = asked or self.asked_if(part, isinstance(value.op, ast.And))
        return worst(classes)

    def resolver(self, value: ast.AST) -> str | None:
        """The function that makes one algorithm of another in ``value``; text's own methods (upper) are none."""
        if not isinstance(value, ast.Call) or not self._takes_it(value):
            return None
        own = isinstance(value.func, ast.Attribute) and self.about(value.func.value)
        return None if own or called(value) in _CHANGED_BY else called(value)

    def _parses(self, call: ast.Call) -> bool:
        return called(call) in _PARSED_BY and bool(call.args) and self.about(call.args[0])

    def _takes_it(self, call: ast.Call) -> bool:
        """Is the call's value worked out from the algorithm, as ``x.upper()`` or ``resolve(x)``?"""
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(call.func, ast.Attribute):
            given.append(call.func.value)
        return any(self.about(argument) for argument in given)


def _looks_up(call: ast.Call) -> bool:
    """``getattr(x, NAME)``, ``x.get(NAME)``, ``x.pop(NAME)``, with or without a fallback."""
    place = {"getattr": 1, "get": 0, "pop": 0}.get(called(call))
    return place is not None and len(call.args) > place and is_key(call.args[place])


def _fallback(call: ast.Call) -> ast.AST | None:
    """What a look-up gives when there is nothing, unless that is None."""
    last = call.args[-1]
    return None if is_key(last) or is_none(last) else last


def fallback(call: ast.Call) -> ast.AST | None:
    """The fallback of a look-up of the setting that is not None, or ``None``: ``getattr(x, NAME, "EAGLE")``."""
    return _fallback(call) if _looks_up(call) else None


def stand_ins(function: ast.AST) -> set[str]:
    """The function's variables that are only ever bound to the algorithm itself."""
    reader, same, bound = ExpressionReader(), list[str](), list[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            same += [node.targets[0].id] * reader.about(node.value)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.append(node.id)
        elif isinstance(node, ast.arg):
            bound.append(node.arg)
    return {name for name in same if same.count(name) == bound.count(name)}
