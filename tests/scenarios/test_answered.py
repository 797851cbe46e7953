"""What is kept of each answer: names that pair the same prompts of two builds, counts, and hashes that tell texts apart."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from suite.gate import Answers
from suite.load import ClientHealth, Fault, FaultKind, RequestRecord, Round, SpecDetails, Timeline
from suite.session.answered import answers_of, joined


def _record(
    prompt: str = "p",
    spec: tuple[int, int] | None = (10, 20),
    text: str | None = "words",
    reasoning: str | None = None,
    fault: Fault | None = None,
    tokens: int | None = 31,
) -> RequestRecord:
    details = SpecDetails(spec[0], spec[1], 3 * spec[0], (0,)) if spec else None
    line = Timeline(np.array([0.1]), np.array([1]))
    return RequestRecord(
        0, prompt, "code", 0.0, 0.0, 0.0, 1.0, line, 9, 0, tokens, 0, ("length",), details, fault, 1, 31, text, reasoning
    )  # fmt: skip


def _round(*records: RequestRecord) -> Round:
    return Round(records, ClientHealth(0, 0, 0, 0, 0, 0), 1.0, 0.0, 0.0, "w", "h", "closed", 1)


def test_every_good_answer_is_kept_under_the_name_of_its_prompt():
    broken = _record("c", fault=Fault(FaultKind.reset, "gone"))
    found = answers_of(_round(_record("a", (7, 9)), broken, _record("b", (8, 1))))
    assert found is not None
    assert (found.prompts, found.steps, found.drafts, found.tokens) == (["a", "b"], [7, 8], [9, 1], [31, 31])
    assert len(found.texts) == 2


def test_nothing_answered_is_nothing_kept():
    assert answers_of(_round(_record(fault=Fault(FaultKind.reset, "gone")))) is None
    assert joined([None, None]) is None


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.integers(1, 4))
def test_names_are_unique_and_the_same_every_time(asked, rounds):
    played = [answers_of(_round(*(_record(name) for name in asked))) for _ in range(rounds)]
    found, again = joined(played), joined(played)
    assert found is not None
    assert found == again
    assert len(set(found.prompts)) == len(found.prompts) == len(asked) * rounds
    assert [name[0] for name in found.prompts] == asked * rounds


def test_a_round_without_answers_does_not_shift_the_names_of_the_next():
    one = answers_of(_round(_record("a")))
    found = joined([one, None, one])
    assert found is not None
    assert found.prompts == ["a", "a@3"]


@given(
    st.lists(st.text(max_size=20), min_size=2, max_size=2),
    st.lists(st.text(max_size=20), min_size=2, max_size=2),
)
def test_the_same_text_has_the_same_hash_and_another_has_not(texts, thoughts):
    found = answers_of(_round(*(_record(text=t, reasoning=r) for t, r in zip(texts, thoughts, strict=True))))
    assert found is not None
    alike = texts[0] == texts[1] and thoughts[0] == thoughts[1]
    assert (found.texts[0] == found.texts[1]) is alike


def test_where_a_thought_ends_counts():
    found = answers_of(_round(_record(text="b", reasoning="a"), _record(text="ab", reasoning="")))
    assert found is not None
    assert found.texts[0] != found.texts[1]


def test_what_only_some_answers_tell_is_left_out():
    found = answers_of(_round(_record("a"), _record("b", spec=None, text=None)))
    assert found == Answers(["a", "b"], tokens=[31, 31])
    whole = answers_of(_round(_record("a")))
    both = joined([whole, found])
    assert both is not None
    assert (both.steps, both.texts, both.tokens) == ([], [], [31, 31, 31])
