"""The shape of an answer: which keys, of which types, without the values; and where two shapes differ.

A shape is what many answers have in common. It is written as JSON that a person can read in a review:

    "int"                            always an integer          "int|null"   an integer or null
    {"id": "string", "usage?": ...}  an object; usage is not always there
    ["float"]                        a list of floats           []           a list, empty whenever it was seen
    {"either": ["null", {...}]}      null or an object
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Names: TypeAlias = tuple[str, str]
NAMES: Names = ("simulator", "SGLang")


@dataclass(frozen=True, slots=True)
class Shape:
    """The kinds of value seen in one place; `fields` describes objects, `item` the elements of lists."""

    kinds: frozenset[str]
    fields: Mapping[str, Shape] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    item: Shape | None = None

    def __or__(self, other: Shape) -> Shape:
        """What both have in common: every kind of either; a field is optional unless every object has it."""
        if self == other:
            return self
        names = [*self.fields, *(name for name in other.fields if name not in self.fields)]
        one_sided = self.fields.keys() ^ other.fields.keys()
        both_objects = "object" in self.kinds and "object" in other.kinds
        return Shape(
            self.kinds | other.kinds,
            {
                name: union(shape.fields[name] for shape in (self, other) if name in shape.fields)
                for name in names
            },
            self.optional | other.optional | (one_sided if both_objects else frozenset()),
            union(shape.item for shape in (self, other) if shape.item) if self.item or other.item else None,
        )

    @property
    def required(self) -> set[str]:
        """The fields that every object has."""
        return self.fields.keys() - self.optional


def union(shapes: Iterable[Shape]) -> Shape:
    """The shape of all of them together; at least one is needed."""
    return reduce(Shape.__or__, shapes)


def shape_of(value: Json) -> Shape:
    """The shape of one JSON value."""
    if isinstance(value, dict):
        return Shape(frozenset({"object"}), {name: shape_of(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return Shape(frozenset({"list"}), item=union(map(shape_of, value)) if value else None)
    return Shape(frozenset({scalar_kind(value)}))


def scalar_kind(value: bool | int | float | str | None) -> str:
    """The name of a scalar's type; `1` is an int and `1.0` a float, as SGLang's clients read them."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "int" if isinstance(value, int) else "float"


# ------------------------------------------------------------------------------------------ as JSON
def shape_to_json(shape: Shape) -> Json:
    """The form that is stored, described at the top of this file."""
    forms: list[Json] = []
    scalars = sorted(shape.kinds - {"list", "object"})
    if scalars:
        forms.append("|".join(scalars))
    if "list" in shape.kinds:
        forms.append([shape_to_json(shape.item)] if shape.item else [])
    if "object" in shape.kinds:
        forms.append(
            {
                name + ("?" if name in shape.optional else ""): shape_to_json(inner)
                for name, inner in sorted(shape.fields.items())
            }
        )
    return forms[0] if len(forms) == 1 else {"either": forms}


def shape_from_json(form: Json) -> Shape:
    """The shape that was stored."""
    if isinstance(form, str):
        return Shape(frozenset(form.split("|")))
    if isinstance(form, list):
        return Shape(frozenset({"list"}), item=shape_from_json(form[0]) if form else None)
    if not isinstance(form, dict):
        raise ValueError(f"no shape: {form!r}")
    forms = form.get("either")
    if isinstance(forms, list) and len(form) == 1 and len(forms) > 1:
        return union(map(shape_from_json, forms))
    return Shape(
        frozenset({"object"}),
        {name.removesuffix("?"): shape_from_json(inner) for name, inner in form.items()},
        frozenset(name.removesuffix("?") for name in form if name.endswith("?")),
    )


# -------------------------------------------------------------------------------------- differences
def differences(shape: Shape, promised: Shape, path: str = "", names: Names = NAMES) -> Iterator[str]:
    """Where a shape breaks what was promised, a readable line each; `names` says who the two are.

    Null agrees with everything (a field that is null today may be set tomorrow), an empty list with every list.
    """
    found, wanted = shape.kinds - {"null"}, promised.kinds - {"null"}
    if found and wanted and not found <= wanted:
        yield f"{path or 'answer'}: {names[0]} {' or '.join(sorted(found))}, {names[1]} {' or '.join(sorted(wanted))}"
        return
    if "object" in found and "object" in wanted:
        for name in sorted(promised.required - shape.fields.keys()):
            yield f"{joined(path, name)}: {names[0]} lacks it, {names[1]} has it"
        for name in sorted(shape.fields.keys() - promised.fields.keys()):
            yield f"{joined(path, name)}: {names[0]} has it, {names[1]} lacks it"
        for name in sorted(shape.optional & promised.required):
            yield f"{joined(path, name)}: {names[0]} only sometimes, {names[1]} always"
        for name in sorted(shape.fields.keys() & promised.fields.keys()):
            yield from differences(shape.fields[name], promised.fields[name], joined(path, name), names)
    if shape.item and promised.item:
        yield from differences(shape.item, promised.item, f"{path}[]", names)


def joined(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name
