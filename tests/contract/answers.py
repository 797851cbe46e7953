"""Questions over HTTP, and the shape of their answers: JSON, event streams, Prometheus text, plain text."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, zip_longest

from .shape import NAMES, Json, Names, Shape, differences, shape_from_json, shape_of, shape_to_json

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Question:
    """One request: a GET without a body, a POST with one."""

    path: str
    body: Json = None
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """What an answer looks like: its status, the kind of its content, and the shape of each of its parts in order.

    JSON and text have one part. A stream has one for each run of equally shaped events, because how many events
    there are is no promise. Metrics have one, an object of metric names to types and labels.
    """

    status: int
    kind: str
    parts: tuple[Shape, ...] = ()

    def to_json(self) -> Json:
        return {
            "status": self.status,
            "kind": self.kind,
            "parts": [shape_to_json(part) for part in self.parts],
        }

    @classmethod
    def from_json(cls, form: Json) -> AnswerShape:
        match form:
            case {"status": int(status), "kind": str(kind), "parts": list(parts)}:
                return cls(status, kind, tuple(map(shape_from_json, parts)))
        raise ValueError(f"no recorded answer: {form!r}")


def ask(url: str, question: Question) -> AnswerShape:
    """Ask a running server, and reduce its answer to its shape."""
    data = None if question.body is None else json.dumps(question.body).encode()
    request = urllib.request.Request(
        url + question.path, data, {"content-type": "application/json"}, method=question.method
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return answer_shape(
                response.status, response.headers.get("content-type"), response.read().decode()
            )
    except urllib.error.HTTPError as error:
        with error:
            return answer_shape(error.code, error.headers.get("content-type"), error.read().decode())


def answer_shape(status: int, content_type: str | None, text: str) -> AnswerShape:
    """The shape of an answer by what it holds; SGLang gives metrics and short texts without a useful type."""
    if content_type and content_type.startswith("text/event-stream"):
        return AnswerShape(status, "events", event_shapes(text))
    if content_type and content_type.startswith("application/json"):
        return AnswerShape(status, "json", (shape_of(json.loads(text)),))
    if text.startswith("# HELP "):
        return AnswerShape(status, "metrics", (metrics_shape(text),))
    return AnswerShape(status, "text" if text else "nothing")


def event_shapes(text: str) -> tuple[Shape, ...]:
    """One shape for each run of equally shaped events; the closing `[DONE]` is a string."""
    events = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    shapes = (shape_of(event if event == "[DONE]" else json.loads(event)) for event in events)
    return tuple(shape for shape, _ in groupby(shapes))


# ------------------------------------------------------------------------------------------ metrics
SAMPLE = re.compile(r'^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? \S+')
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')
SUFFIXES = ("_bucket", "_count", "_sum", "_created")


def metrics_shape(text: str) -> Shape:
    """Prometheus text as an object: metric name to `gauge{label,label}` (histograms without their `le`)."""
    types: dict[str, str] = {}
    labels: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            types[name] = kind
        elif sample := SAMPLE.match(line):
            name = metric_of(sample["name"], types)
            labels.setdefault(name, set()).update(LABEL.findall(sample["labels"] or ""))
    return Shape(
        frozenset({"object"}),
        {
            name: Shape(frozenset({f"{kind}{{{','.join(sorted(labels.get(name, set()) - {'le'}))}}}"}))
            for name, kind in types.items()
        },
    )


def metric_of(sample: str, types: Mapping[str, str]) -> str:
    """The metric that a sample line belongs to (a histogram's lines carry suffixes)."""
    if sample in types:
        return sample
    return next((sample.removesuffix(end) for end in SUFFIXES if sample.removesuffix(end) in types), sample)


# -------------------------------------------------------------------------------------- differences
def answer_differences(answer: AnswerShape, promised: AnswerShape, names: Names = NAMES) -> Iterator[str]:
    """Where an answer breaks what was promised, a readable line each; `names` says who the two are."""
    ours, theirs = names
    if answer.status != promised.status:
        yield f"status: {ours} {answer.status}, {theirs} {promised.status}"
    if answer.kind != promised.kind:
        yield f"content: {ours} {answer.kind}, {theirs} {promised.kind}"
        return
    for index, (part, promised_part) in enumerate(zip_longest(answer.parts, promised.parts)):
        path = f"events[{index}]" if promised.kind == "events" else ""
        if part is None or promised_part is None:
            which, shape = (theirs, promised_part) if part is None else (ours, part)
            yield f"{path}: only {which} has {json.dumps(shape_to_json(shape))}"
        else:
            yield from differences(part, promised_part, path, names)
