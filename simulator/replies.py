"""Right answers to a few kinds of checkable question, so that a server that answers rubbish can be told apart.

Understood: arithmetic ("What is 17+25?", "9 times 12"), copying ("Repeat exactly: ..."), JSON (an object to return, a
JSON schema, or quoted keys), counting (from A to B, letters in a word, items of a list).
"""

from __future__ import annotations

import ast
import itertools
import json
import operator
import re
from collections.abc import Callable
from typing import Any

_WORDS = {
    "plus": "+",
    "minus": "-",
    "times": "*",
    "multiplied by": "*",
    "divided by": "/",
    "×": "*",
    "÷": "/",
    "−": "-",
}
_EXPRESSION = re.compile(
    r"\b(?:what(?:'s| is)|how much is|calculate|compute|evaluate|result of|value of)[\s:]*"
    r"([-(]*\d[\d.]*\)*(?:\s*[-+*/]\s*[-(]*\d[\d.]*\)*)+)(?!\s*[\w^(])",
    re.IGNORECASE,
)
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COPY = re.compile(
    r"(?:^|[.!?\]\n] *|\bplease )(?:(?:repeat|copy|echo)\b|(?:say|write|output|print|answer|reply|respond)(?: with)? "
    r"(?:exactly|only|just|verbatim|the following|this)\b)[^\"'`:\n]{0,80}"
    r"(?:(?::\s*)?(?:\"(?P<double>[^\"]+)\"|(?<!\w)'(?P<single>[^']+)'|`(?P<tick>[^`]+)`)|:\s*(?P<rest>\S[^\n]*))",
    re.IGNORECASE,
)
_MANY = re.compile(r"\b(?:array|lists?|records|rows|entries|long|detailed|many|\d{2,})\b", re.IGNORECASE)
_FROM_TO = re.compile(r"\bcount(?: up| down)? from (-?\d+) (?:up to|down to|to) (-?\d+)", re.IGNORECASE)
_LETTERS = re.compile(
    r"\bhow many (?:times does the (?:letter|character) )?[\"'`]?(\w)[\"'`]?(?:'s|s)?(?: letters?)?"
    r"(?: (?:appears?|occurs?))?(?: are)?(?: there)? in (?:the word )?[\"'`]?(\w+)",
    re.IGNORECASE,
)
_ITEMS = re.compile(
    r"\bhow many (?:items|words|numbers|elements|names|entries)\b[^:]*:\s*([^\n?]+)", re.IGNORECASE
)
_KEYS = re.compile(r"\b(?:keys?|fields?|properties)\b", re.IGNORECASE)
_MOST_DIGITS = 40
_LONGEST = 2000


def reply_to(question: str, schema: dict[str, Any] | None = None) -> str | None:
    """The right answer to a question of one of these kinds; None for any other. `schema` binds the form."""
    if schema is not None:
        return json.dumps(instance_of(schema))
    if len(question) > _LONGEST:
        return None
    for understand in (_json, _count, _arithmetic, _copy, _continue):
        reply = understand(question)
        if reply is not None:
            return reply
    return None


def instance_of(schema: dict[str, Any]) -> Any:
    """A small value that a JSON schema accepts: the first of an enum, one item, every property."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or (kind is None and "properties" in schema):
        return {name: instance_of(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance_of(schema.get("items", {}))] * max(1, int(schema.get("minItems", 1)))
    if kind in ("integer", "number"):
        return max(1, int(schema.get("minimum", 1)))
    return {"boolean": True, "null": None}.get(
        kind or "", "x" * max(0, int(schema.get("minLength", 0))) or "value"
    )


def _json(question: str) -> str | None:
    if not re.search(r"\bjson\b", question, re.IGNORECASE):
        return None
    start = question.find("{")
    if start >= 0:
        try:
            value, _ = json.JSONDecoder().raw_decode(question[start:])
        except ValueError:
            return None
        if isinstance(value, dict) and value.get("type") == "object" and "properties" in value:
            return json.dumps(instance_of(value))
        return None if _MANY.search(question[:start]) else json.dumps(value)
    keys = re.findall(r"[\"'`](\w+)[\"'`]", question)
    if keys and _KEYS.search(question) and not _MANY.search(question.split(keys[0])[0]):
        return json.dumps({key: _value_for(key, question) for key in dict.fromkeys(keys)})
    return None


def _value_for(key: str, question: str) -> Any:
    """What the question says a key's value is ("name" is "Ada"), a list or number where it says so, else a word."""
    said = re.search(rf"[\"'`]{key}[\"'`]\s*(?:is|=|:|set to|with value)\s*[\"'`]?([\w.-]+)", question)
    if said:
        return int(said[1]) if said[1].lstrip("-").isdigit() else said[1]
    near = re.search(
        rf"[\"'`]{key}[\"'`]\s*\(?(?:an?|of type|as)?\s*\(?(integer|number|list|array|boolean|string)",
        question,
    )
    return {"integer": 1, "number": 1, "list": [], "array": [], "boolean": True}.get(
        near[1] if near else "", "value"
    )


def _count(question: str) -> str | None:
    if match := _FROM_TO.search(question):
        first, last = int(match[1]), int(match[2])
        if abs(last - first) > 2000:
            return None
        step = 1 if last >= first else -1
        return ", ".join(str(number) for number in range(first, last + step, step))
    if match := _ITEMS.search(question):
        text = match[1].strip().rstrip(".")
        return str(len([item for item in (text.split(",") if "," in text else text.split()) if item.strip()]))
    if match := _LETTERS.search(question):
        return str(match[2].lower().count(match[1].lower()))
    return None


def _continue(question: str) -> str | None:
    """How a bare text of sums or numbers in a row goes on."""
    if match := re.fullmatch(r"(\d{1,6}) \+ (\d{1,6}) =", question.strip()):
        return f" {int(match[1]) + int(match[2])}"
    if re.fullmatch(r"(?:\d{1,6}, ?){2,}\d{1,6},", question.strip()):
        row = [int(number) for number in re.findall(r"\d+", question)]
        steps = {after - before for before, after in itertools.pairwise(row)}
        return f" {row[-1] + steps.pop()}" if len(steps) == 1 else None
    return None


def _arithmetic(question: str) -> str | None:
    text = question
    for word, sign in _WORDS.items():
        text = re.sub(rf"(?<=\d)\s*{word}\s*(?=-?\d)", f" {sign} ", text, flags=re.IGNORECASE)
    text = re.sub(r"(?<=\d)\s*x\s*(?=\d)", " * ", text)
    match = _EXPRESSION.search(text)
    if match is None or sum(c.isdigit() for c in match[1]) > _MOST_DIGITS:
        return None
    try:
        value = _evaluate(ast.parse(match[1].strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError):
        return None
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def _evaluate(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    raise ValueError("not plain arithmetic")


def _copy(question: str) -> str | None:
    match = _COPY.search(question)
    return next((part.strip() for part in match.groups() if part), None) if match else None
