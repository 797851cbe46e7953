"""Answers: made of tokens that join to the text, the same every time, right where they can be checked."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import prompts
from simulator.answers import THINK_END, Answer, pieces_of
from simulator.replies import reply_to


@given(st.text())
def test_pieces_join_to_the_text(text) -> None:
    assert "".join(pieces_of(text)) == text


@given(text=st.text(min_size=1), stop=st.integers(1, 300), start=st.integers(0, 300))
def test_the_same_prompt_has_the_same_answer(text, start, stop) -> None:
    one, two = Answer(prompts.from_text(text)), Answer(prompts.from_text(text))
    two.text(0, 500)
    assert one.text(start, stop) == two.text(start, stop)
    assert one.ids(start, stop) == two.ids(start, stop)


def test_different_prompts_have_different_answers() -> None:
    texts = {Answer(prompts.from_text(f"Tell story {n}")).text(0, 200) for n in range(20)}
    assert len(texts) == 20


def test_an_answer_ends_with_a_token_without_text() -> None:
    answer = Answer(prompts.from_text("Tell me briefly about the sea."), eos_token_id=7)
    end = answer.natural_end
    assert end is not None
    assert answer.ends_at(end)
    assert not answer.ends_at(end - 1)
    assert answer.ids(end - 1, end) == [7]
    assert answer.text(end - 1, end) == ""
    assert answer.text(end, end + 20).strip(), "past the end it goes on, repeating itself"


def test_a_cut_answer_ends_at_the_cut() -> None:
    answer = Answer(prompts.from_text("What is 17+25?"), thinking=True, eos_token_id=7)
    answer.cut(5)
    assert answer.natural_end == 5
    assert answer.ids(4, 5) == [7]
    assert answer.text(4, 5) == ""


def test_thoughts_come_first_and_are_marked() -> None:
    answer = Answer(prompts.from_text("What is 17+25?"), thinking=True)
    text = answer.text(0, answer.natural_end or 0)
    thought, _, reply = text.partition(THINK_END)
    assert thought
    assert reply.strip() == "42"
    assert answer.text(0, answer.reasoning_tokens).endswith(THINK_END)


@given(question=st.integers(0, 10**6), build=st.integers(1, 50), thinking=st.booleans())
def test_another_build_answers_alike_until_it_parts_and_no_worse(question, build, thinking) -> None:
    prompt = prompts.from_text(f"Tell story {question}")
    one, other = Answer(prompt, thinking=thinking), Answer(prompt, thinking=thinking, build=build)
    assert other.parts_at is not None
    assert one.pieces(0, other.parts_at) == other.pieces(0, other.parts_at)
    assert one.text(0, other.parts_at + 200) != other.text(0, other.parts_at + 200)
    assert other.kind == one.kind
    again = Answer(prompt, thinking=thinking, build=build)
    assert again.text(0, 400) == other.text(0, 400), "one build answers the same every time"


def test_as_many_answers_part_as_were_seen_to() -> None:
    """18 of 24 answers of 128 tokens on genuine SGLang; a binomial of 24 at that rate has a spread of 9 %."""
    made = [Answer(prompts.from_text(f"Tell story {n}"), build=1) for n in range(600)]
    assert 0.66 <= sum((a.parts_at or 0) < 128 for a in made) / len(made) <= 0.84


def test_what_can_be_checked_is_right_in_every_build() -> None:
    for build in range(9):
        answer = Answer(prompts.from_text("What is 17+25?"), build=build, thinking=True)
        assert answer.text(0, answer.natural_end or 0).endswith("</think>\n\n42")


def test_garbage_is_repetitive_and_never_ends() -> None:
    answer = Answer(prompts.from_text("What is 17+25?"), garbage=True)
    assert answer.natural_end is None
    assert len(set(answer.pieces(0, 500))) < 5


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("What is 17+25?", "42"),
        ("What is 12 times 12? Answer with the number only.", "144"),
        ("Compute (3+4)*5.", "35"),
        ("How much is 100 divided by 8?", "12.5"),
        ("Repeat exactly: hello World 42", "hello World 42"),
        ('Copy this text verbatim: "abc, def; ghi"', "abc, def; ghi"),
        ("Reply with exactly this text: foo-bar 9", "foo-bar 9"),
        ("Count from 1 to 5.", "1, 2, 3, 4, 5"),
        ("How many r's are in strawberry?", "3"),
        ("How many items are in this list: apple, pear, plum?", "3"),
        ('Return the JSON object {"a": 1, "b": [2, 3]} and nothing else.', '{"a": 1, "b": [2, 3]}'),
        ("Write a long story about the sea.", None),
        ("Solve x^2 - 5x + 6 = 0 and explain each step.", None),
        ('Write a JSON array of 50 records like {"id": 1}.', None),
        ("[1-2] Please copy this word for word: a b", "a b"),
        ("Digest this diary. 06:20 copy job killed, pages return. 06:30 cache serves: prices.", None),
        ("Implement a - b in python", None),
    ],
)
def test_checkable_questions(question, reply) -> None:
    assert reply_to(question) == reply


def test_a_schema_is_followed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "population": {"type": "integer", "minimum": 5},
            "tags": {"type": "array", "items": {"enum": ["x", "y"]}},
        },
        "required": ["city", "population"],
    }
    for reply in (
        reply_to("Describe a city.", schema),
        reply_to("Give JSON for this schema: " + json.dumps(schema)),
    ):
        assert reply is not None
        value = json.loads(reply)
        assert isinstance(value["city"], str)
        assert value["population"] >= 5
        assert value["tags"][0] in ("x", "y")
