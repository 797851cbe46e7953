"""Prompts and contexts made from parts: many, all different, whole sentences, and the same on every machine."""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.kinds import kind_of
from suite.load import contexts, making, workloads
from suite.load.workloads import KINDS, Prompt

MANY = 512
VERSIONS = {
    "code": "22f64de3183b",
    "maths": "13cc70fe6a68",
    "prose": "3bfbd8e1e725",
    "json": "23e822d57ee2",
    "summary": "2a088ebd1b93",
    "multilingual": "acf18f714c83",
    "agent": "17616b7408de",
    "contexts": "e2d92bb8769a",
}
"""Hashes of what is made today. Baselines of acceptance hang on these texts: whoever changes a part makes all of them
incomparable, has to record anew, and says so by changing the line here."""


def _made(kind: str) -> list[Prompt]:
    return [p for p in workloads.load(kind).prompts if re.fullmatch(rf"{kind}-\d+-\d+-\d+", p.id)]


def _shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split() if " " in text else list(text)
    return set(zip(words, words[1:], words[2:], strict=False))


def _alike(one: str, two: str) -> float:
    """The share of runs of three words that two texts have in common (Jaccard)."""
    a, b = _shingles(one), _shingles(two)
    return len(a & b) / len(a | b)


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_enough_of_every_kind(kind: str) -> None:
    assert len(_made(kind)) >= MANY


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_subject_and_task_comes_once(kind: str) -> None:
    made = [tuple(map(int, p.id.rsplit("-", 3)[1:])) for p in _made(kind)]
    assert len(set(made)) == len(made)
    first = {(family, subject) for family, subject, _ in made}
    assert len({(f, s) for f, s, _ in made[: len(first)]}) == len(first), (
        "all subjects come before any comes again"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_slot_is_left_and_no_sentence_broken(kind: str) -> None:
    for prompt in _made(kind):
        text = "\n".join(str(m["content"]) for m in prompt.messages)
        assert not re.search(r"<[a-z]+>|\|", text), prompt.id
        assert not re.search(
            r"  (?!#)| [,;:.](?:\s|$)|(?<!\.)\.\.(?!\.)|[,;]\.", text.replace(" :", "").replace(" ;", "")
        ), (
            prompt.id,
            text,
        )
        assert re.search(r"[.?!。」»。)\d]$", text), (prompt.id, text[-30:])


@pytest.mark.parametrize("kind", ["code", "maths", "prose", "json", "summary", "agent"])
def test_articles_agree_with_what_follows(kind: str) -> None:
    wrong = re.compile(r"\ba (?:[aeio]\w|un[^i]|hour\b|honest)|\ban (?:[bcdfgjklmnpqrtvwxyz]\w|uni|one\b)")
    for prompt in _made(kind):
        found = wrong.search(prompt.text)
        assert found is None, (prompt.id, prompt.text[max(0, found.start() - 20) : found.end() + 20])


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "multilingual"])
@settings(deadline=None)
@given(data=st.data())
def test_two_prompts_of_a_pass_differ_in_a_fifth_at_least(kind: str, data: st.DataObject) -> None:
    made = _made(kind)[:MANY]
    one, two = data.draw(st.lists(st.sampled_from(made), min_size=2, max_size=2, unique_by=lambda p: p.id))
    assert _alike(one.text, two.text) < 0.8


@pytest.mark.parametrize("kind", ["code", "maths", "prose", "json", "multilingual"])
def test_the_modelled_model_takes_them_for_what_they_are(kind: str) -> None:
    found = [kind_of(str(p.messages[-1]["content"])) for p in _made(kind)]
    assert found.count(kind) >= 0.8 * len(found)


def test_they_are_the_same_in_another_process() -> None:
    """Nothing hangs on the process's own hash seed, on the order of a set, or on the locale."""
    code = "from suite.load import workloads; print(workloads.load('json').sized(requests=500).content_hash)"
    env = {"PYTHONHASHSEED": "77", "LC_ALL": "C", "PYTHONPATH": ":".join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == workloads.load("json").sized(requests=500).content_hash


@pytest.mark.parametrize("kind", KINDS)
def test_the_version_of_a_kind_is_known(kind: str) -> None:
    everything = "\n".join(f"{p.id} {p.text}" for p in workloads.load(kind).prompts)
    assert hashlib.sha256(everything.encode()).hexdigest()[:12] == VERSIONS[kind]


def test_the_version_of_the_contexts_is_known() -> None:
    everything = "\n".join(contexts.text(30_000, number) for number in range(24))
    assert hashlib.sha256(everything.encode()).hexdigest()[:12] == VERSIONS["contexts"]


TINY = """
common_tasks = ["Praise <subject>."]
[[family]]
tasks = ["<part> and <part> of <subject>.", "Draw <subject>. <part> first."]
subjects = ["a", "b", "c"]
[family.parts]
part = ["legs", "arms"]
"""


def test_subjects_and_tasks_are_paired_as_written() -> None:
    rows = making.made(TINY, "tiny")
    assert len(rows) == 9
    texts = {row["id"]: row["messages"][0]["content"] for row in rows}
    assert {texts[f"tiny-1-{n}-3"] for n in (1, 2, 3)} == {"Praise a.", "Praise b.", "Praise c."}
    assert texts["tiny-1-1-1"] in ("Legs and arms of a.", "Arms and legs of a."), "no part is used twice"
    assert texts["tiny-1-1-2"] in ("Draw a. Legs first.", "Draw a. Arms first."), (
        "a sentence begins with a capital"
    )


# contexts


@given(st.integers(30, 3000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_context_has_its_length_and_differs_from_any_other_from_the_start(
    chars: int, a: int, b: int
) -> None:
    one, other = contexts.text(chars, a), contexts.text(chars, b)
    assert len(one) == len(other) == chars
    assert one == contexts.text(chars, a)
    shared = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))
    )
    assert a == b or shared < 16


@given(st.integers(0, 1000), st.integers(100, 5000))
def test_a_shorter_context_is_the_beginning_of_a_longer_one(seed: int, chars: int) -> None:
    assert contexts.text(chars + 700, seed).startswith(contexts.text(chars, seed))


@pytest.mark.parametrize("seed", range(12))
def test_long_documents_do_not_run_in_circles(seed: int) -> None:
    sentences = re.split(r"(?<=[.?!])\s+", contexts.text(200_000, seed))
    assert len(set(sentences)) > 0.7 * len(sentences)
    assert not re.search(r"<[a-z]+>", contexts.text(200_000, seed))


def test_documents_are_as_dense_as_one_another() -> None:
    """One document is counted for all: words are as long in every one, so equal characters are about equal tokens."""
    words = [len(contexts.text(20_000, seed).split()) for seed in range(36)]
    assert max(words) / min(words) < 1.12
