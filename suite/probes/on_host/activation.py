"""Every place in one file's syntax tree that can give ``speculative_algorithm`` a value, and the guards around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from suite.probes.on_host import algorithm
from suite.probes.on_host.algorithm import FLAG, NAME, UNKNOWN, ExpressionReader, called, is_key, is_none

Site = dict[str, Any]
"""file, line, function, kind (how), class (what it means), text (the line itself)."""

_READERS = ("getattr", "hasattr", "delattr", "get", "pop", "attrgetter", "add_argument", "Arg")
_SOURCE_TEXT = re.compile(NAME + r"[\"')\]]*\s*[=,]\s*[\"'][A-Za-z]")


class Scan(ast.NodeVisitor):
    """Walks one file in the order of its statements, so that an early return guards what follows it."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.lines = path, source.splitlines()
        self.sites: list[Site] = []
        self.resolvers: dict[str, list[Site]] = {}
        """Functions that make one algorithm of another, and the sites that have no guard but them."""
        self.reader, self.asked, self.keyed = ExpressionReader(), False, False
        self.where: list[str] = []

    def note(self, node: ast.AST, kind: str, verdict: str) -> None:
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1].strip()[:160] if line <= len(self.lines) else ""
        place = {"file": self.path, "line": line, "function": ".".join(self.where)}
        self.sites.append({**place, "kind": kind, "class": verdict, "text": text})

    def give(self, node: ast.AST, kind: str, value: ast.AST) -> None:
        verdict = self.reader.judge(value, self.asked, self.keyed)
        self.note(node, kind, verdict)
        resolver = self.reader.resolver(value)
        if verdict == "alias" and resolver:
            unguarded = [] if self.asked else self.sites[-1:]
            self.resolvers.setdefault(resolver, []).extend(unguarded)

    def block(self, statements: Sequence[ast.stmt]) -> None:
        before = self.asked
        for statement in statements:
            self.visit(statement)
            if isinstance(statement, ast.If):
                self.asked |= _leaves(statement.body) and self.reader.asked_if(statement.test, False)
                self.asked |= _leaves(statement.orelse) and self.reader.asked_if(statement.test, True)
            elif isinstance(statement, ast.Assert):
                self.asked |= self.reader.asked_if(statement.test, True)
        self.asked = before

    def under(self, asked: bool, visit: Callable[[Any], None], argument: Any, keyed: bool = False) -> None:
        before = self.asked, self.keyed
        self.asked, self.keyed = self.asked or asked, self.keyed or keyed
        visit(argument)
        self.asked, self.keyed = before

    def generic_visit(self, node: ast.AST) -> None:
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self.block(value)
                continue
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.AST):
                    self.visit(item)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        keyed = isinstance(node.test, ast.Compare) and _tests_the_name(node.test)
        self.under(self.reader.asked_if(node.test, True), self.block, node.body, keyed)
        self.under(self.reader.asked_if(node.test, False), self.block, node.orelse)

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            values = [part.value for part in ast.walk(case.pattern) if isinstance(part, ast.MatchValue)]
            named = bool(values) and not any(map(is_none, values)) and not _catches_all(case.pattern)
            self.under(named and self.reader.about(node.subject), self.block, case.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, self.reader, node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for argument, default in _defaults(node.args):
            if argument.arg == NAME:
                self.note(argument, "parameter default", "declaration" if is_none(default) else "activation")
        self._inside(node.name, ExpressionReader(node), node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (ast's own word)

    def _inside(self, name: str, reader: ExpressionReader, node: ast.AST) -> None:
        """A definition is run later and elsewhere: what guards it does not guard its body."""
        before = self.reader, self.asked, self.keyed
        self.reader, self.asked, self.keyed = reader, False, False
        self.where.append(name)
        self.generic_visit(node)
        self.where.pop()
        self.reader, self.asked, self.keyed = before

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(node, target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node, node.target, UNKNOWN)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._target(node, node.target, node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._target(node, node.target, UNKNOWN)
        self.generic_visit(node)

    visit_AsyncFor = visit_For  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not _names_it(node.target):
            self.generic_visit(node)
            return
        for value in (_field_default(node.value), *_annotated_defaults(node.annotation)):
            if value is None or is_none(value):
                self.note(node, "declared field", "declaration")
            else:
                self.give(node, "declared field", value)

    def _target(self, node: ast.AST, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for place, element in enumerate(target.elts):
                self._target(node, element, values[place] if len(values) == len(target.elts) else UNKNOWN)
        elif isinstance(target, ast.Subscript) and _built_name(target.slice):
            self.note(node, "item by a built name", "activation")
        elif _names_it(target):
            kinds = {ast.Subscript: "item", ast.Attribute: "attribute"}
            self.give(node, kinds.get(type(target), "variable"), value)

    def visit_Call(self, node: ast.Call) -> None:
        name = called(node)
        if name in ("setattr", "__setattr__"):
            self._setattr(node, name)
        elif name in ("exec", "eval", "compile") and any(NAME in text for text in _texts(node)):
            self.note(node, f"source text for {name}", "activation")
        elif name not in _READERS and len(node.args) > 1 and is_key(node.args[0]):
            self.give(node, f"{name}(name, value)", node.args[1])
        if algorithm.fallback(node) is not None and not self.asked:
            self.note(node, "fallback of a look-up", "activation")
        for keyword in node.keywords:
            if keyword.arg == NAME:
                self.give(keyword.value, f"{name}(...)", keyword.value)
        if name in ("add_argument", "Arg"):
            self._argument(node)
        else:
            self.generic_visit(node)

    def _setattr(self, node: ast.Call, name: str) -> None:
        arguments = node.args[-2:]
        if len(arguments) == 2 and is_key(arguments[0]):
            self.give(node, name, arguments[1])
        elif len(arguments) == 2 and _built_name(arguments[0]):
            self.note(node, f"{name} by a built name", "activation")

    def _argument(self, node: ast.Call) -> None:
        """argparse's ``add_argument("--speculative-algorithm", default=...)``."""
        if any(map(is_key, node.args)):
            given = [k.value for k in node.keywords if k.arg in ("default", "const")]
            self.note(node, "argparse", "declaration" if all(map(is_none, given)) else "activation")

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and is_key(key):
                self.give(key, "dictionary", value)
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant) and node.elts[0].value == NAME:
            self.give(node, "pair", node.elts[1])
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """A comparison gives nothing a value, but what is compared may: ``(x := ...)``, a look-up's fallback."""
        for part in (node.left, *node.comparators):
            if not isinstance(part, ast.Constant | ast.Tuple | ast.List | ast.Set):
                self.visit(part)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # not a docstring
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        if FLAG.match(node.value):
            self.note(node, "command line", "alias" if self.asked else "activation")
        elif _SOURCE_TEXT.search(node.value):
            self.note(node, "source text", "activation")


class Returns(Scan):
    """What the functions called ``name`` return, judged like an assignment; whether there are any is in ``found``."""

    def __init__(self, path: str, source: str, name: str) -> None:
        super().__init__(path, source)
        self.name, self.found = name, False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.found |= node.name == self.name
        super().visit_FunctionDef(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self.where[-1:] == [self.name]:
            super().give(node, "returned by the resolver", node.value)

    def give(self, node: ast.AST, kind: str, value: ast.AST) -> None:
        """Everything but returns has been noted by :class:`Scan`."""

    def note(self, node: ast.AST, kind: str, verdict: str) -> None:
        if kind == "returned by the resolver":
            super().note(node, kind, verdict)


def _tests_the_name(test: ast.Compare) -> bool:
    """``key == "speculative_algorithm"``: what stands under it decodes a message's value of that name."""
    return isinstance(test.ops[0], ast.Eq) and any(map(is_key, (test.left, *test.comparators)))


def _names_it(target: ast.AST) -> bool:
    if isinstance(target, ast.Starred):
        return _names_it(target.value)
    if isinstance(target, ast.Subscript):
        return is_key(target.slice)
    return getattr(target, "attr", getattr(target, "id", None)) == NAME


def _field_default(value: ast.AST | None) -> ast.AST | None:
    """The default inside ``field(default=...)``, or the value itself."""
    if isinstance(value, ast.Call) and called(value) in ("field", "Field"):
        given = [k.value for k in value.keywords if k.arg in ("default", "default_factory")]
        return (given + list(value.args) + [ast.Constant(value=None)])[0]
    return value


def _annotated_defaults(annotation: ast.AST) -> list[ast.AST]:
    """``default=`` inside an annotation, where it is not None."""
    calls = [node for node in ast.walk(annotation) if isinstance(node, ast.Call)]
    given = [
        k.value for call in calls for k in call.keywords if k.arg in ("default", "const", "default_factory")
    ]
    return [value for value in given if not is_none(value)]


def _defaults(arguments: ast.arguments) -> list[tuple[ast.arg, ast.AST]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    pairs: list[tuple[ast.arg, ast.AST]] = list(zip(last, arguments.defaults, strict=True))
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return pairs + [(argument, default) for argument, default in named if default is not None]


def _built_name(node: ast.AST) -> bool:
    """A name put together from pieces of which one says ``speculative``: it may be this one."""
    if isinstance(node, ast.Constant):
        return False
    return any("speculative" in text or text.endswith("_algorithm") for text in _texts(node))


def _texts(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _catches_all(pattern: ast.AST) -> bool:
    return any(isinstance(part, ast.MatchAs) and part.pattern is None for part in ast.walk(pattern))


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    return bool(statements) and isinstance(statements[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
