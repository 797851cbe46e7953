"""Shapes: what they forget, what they keep, and that a broken promise is found and named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .answers import answer_shape, metrics_shape
from .shape import Json, Shape, differences, shape_from_json, shape_of, shape_to_json

names = st.text("abcxyz_", min_size=1, max_size=4)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def broken(simulator: Json, sglang: Json) -> list[str]:
    return list(differences(shape_of(simulator), shape_of(sglang)))


@settings(deadline=None)
@given(values)
def test_a_shape_survives_being_stored(value: Json) -> None:
    shape = shape_of(value)
    assert shape_from_json(json.loads(json.dumps(shape_to_json(shape)))) == shape


@settings(deadline=None)
@given(values, values)
def test_a_union_survives_being_stored(one: Json, other: Json) -> None:
    shape = shape_of(one) | shape_of(other)
    assert shape_from_json(json.loads(json.dumps(shape_to_json(shape)))) == shape


@settings(deadline=None)
@given(values, values, values)
def test_a_union_does_not_depend_on_the_order(one: Json, other: Json, third: Json) -> None:
    first, second, last = shape_of(one), shape_of(other), shape_of(third)
    assert shape_to_json(first | second) == shape_to_json(second | first)
    assert shape_to_json((first | second) | last) == shape_to_json(first | (second | last))
    assert first | first == first


@settings(deadline=None)
@given(values, values)
def test_every_value_keeps_the_promise_of_a_union_it_is_part_of(one: Json, other: Json) -> None:
    assert not list(differences(shape_of(one), shape_of(one) | shape_of(other)))


@settings(deadline=None)
@given(st.dictionaries(names, scalars.filter(lambda value: value is not None), min_size=1), st.data())
def test_a_dropped_field_is_found(answer: dict[str, Json], data: st.DataObject) -> None:
    dropped = data.draw(st.sampled_from(sorted(answer)))
    rest = {name: value for name, value in answer.items() if name != dropped}
    assert broken(rest, answer) == [f"{dropped}: simulator lacks it, SGLang has it"]
    assert broken(answer, rest) == [f"{dropped}: simulator has it, SGLang lacks it"]


@settings(deadline=None)
@given(values)
def test_null_breaks_no_promise(value: Json) -> None:
    assert not broken(None, value)
    assert not broken(value, None)


@pytest.mark.parametrize(
    ("simulator", "sglang", "line"),
    [
        (1, 1.0, "answer: simulator int, SGLang float"),
        (True, 1, "answer: simulator bool, SGLang int"),
        ([1], {"a": 1}, "answer: simulator list, SGLang object"),
        ({"a": [{"b": 1}]}, {"a": [{"b": "x"}]}, "a[].b: simulator int, SGLang string"),
        ({"a": [{"b": 1}, {}]}, {"a": [{"b": 1}]}, "a[].b: simulator only sometimes, SGLang always"),
        (
            {"a": {"b": {"c": None, "d": 1}}},
            {"a": {"b": {"c": 1}}},
            "a.b.d: simulator has it, SGLang lacks it",
        ),
    ],
)
def test_a_difference_is_named_by_its_path(simulator: Json, sglang: Json, line: str) -> None:
    assert broken(simulator, sglang) == [line]


def test_a_field_that_sglang_gives_only_sometimes_may_be_left_out() -> None:
    assert not broken({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}, {"b": 1}]})


# ----------------------------------------------------------------------------------- event streams, metrics
def stream(*events: Json) -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def test_how_many_equal_events_a_stream_has_is_no_part_of_its_shape() -> None:
    short = answer_shape(200, "text/event-stream", stream({"text": "a"}, {"usage": 1}))
    long = answer_shape(
        200, "text/event-stream; charset=utf-8", stream({"text": "a"}, {"text": "b"}, {"usage": 2})
    )
    assert short == long
    assert len(short.parts) == 3


def test_the_order_of_events_is_part_of_its_shape() -> None:
    one = answer_shape(200, "text/event-stream", stream({"text": "a"}, {"usage": 1}))
    other = answer_shape(200, "text/event-stream", stream({"usage": 1}, {"text": "a"}))
    assert one != other


METRICS = """\
# HELP sglang:gen_throughput Tokens a second
# TYPE sglang:gen_throughput gauge
sglang:gen_throughput{model_name="a \\"quoted\\" {brace}",tp_rank="0"} 1.5e3
# HELP sglang:ttft_seconds Time to first token
# TYPE sglang:ttft_seconds histogram
sglang:ttft_seconds_bucket{le="0.1",model_name="tiny"} 1.0
sglang:ttft_seconds_bucket{le="+Inf",model_name="tiny"} 2.0
sglang:ttft_seconds_count{model_name="tiny"} 2.0
sglang:ttft_seconds_sum{model_name="tiny"} 0.3
# HELP sglang:plain_total Without labels
# TYPE sglang:plain_total counter
sglang:plain_total 0.0
"""


def test_metrics_keep_names_types_and_label_keys() -> None:
    assert shape_to_json(metrics_shape(METRICS)) == {
        "sglang:gen_throughput": "gauge{model_name,tp_rank}",
        "sglang:plain_total": "counter{}",
        "sglang:ttft_seconds": "histogram{model_name}",
    }


def test_a_renamed_metric_and_a_lost_label_are_found() -> None:
    changed = METRICS.replace("plain_total", "simple_total").replace(',tp_rank="0"', "")
    assert sorted(differences(metrics_shape(changed), metrics_shape(METRICS))) == [
        "sglang:gen_throughput: simulator gauge{model_name}, SGLang gauge{model_name,tp_rank}",
        "sglang:plain_total: simulator lacks it, SGLang has it",
        "sglang:simple_total: simulator has it, SGLang lacks it",
    ]


def test_an_empty_shape_of_kinds_is_refused() -> None:
    with pytest.raises(ValueError, match="no shape"):
        shape_from_json(3)
    assert shape_from_json("int|null") == Shape(frozenset({"int", "null"}))
