"""Workloads: shipped kinds, sizes, prefixes, hashes, and a person's own file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.load import LoadError, workloads
from suite.load.workloads import KINDS, Prompt, Workload


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_prompts_are_fit_for_measuring(kind: str) -> None:
    workload = workloads.load(kind)
    assert workload.requests is not None
    assert workload.requests >= 8
    written = [p.text for p in workload.prompts[: workload.requests]]
    assert all(100 <= len(text) <= 900 for text in written)
    firsts = [text.split()[0] if " " in text else text[:2] for text in written]
    assert len(set(firsts)) == len(firsts), "prompts written one by one must not share a prefix"
    assert all(p.kind == kind for p in workload.prompts)
    assert all(p.messages[-1]["role"] == "user" for p in workload.prompts)


def test_no_two_shipped_prompts_are_alike() -> None:
    prompts = [p for kind in KINDS for p in workloads.load(kind).prompts]
    assert len({p.text for p in prompts}) == len(prompts)
    assert len({p.id for p in prompts}) == len(prompts), "answers of two builds are paired by the prompt's id"


def test_a_kind_plays_its_written_prompts_unless_more_are_asked_for() -> None:
    workload = workloads.load("code")
    assert workload.requests is not None
    assert not any(p.id.startswith("code-1-") for p in workload.prompts[: workload.requests])
    assert workload.sized(requests=300).requests == 300


def test_the_hash_follows_what_is_asked_and_nothing_else() -> None:
    code = workloads.load("code")
    assert code.content_hash == workloads.load("code").content_hash
    hashes = {
        code.content_hash,
        workloads.load("maths").content_hash,
        code.sized(max_tokens=7).content_hash,
        code.sized(prompt_chars_max=50).content_hash,
        code.sized(unique_prefix="a").content_hash,
        code.sized(shared_prefix="a").content_hash,
    }
    assert len(hashes) == 6
    assert code.sized(unique_prefix="a").content_hash == code.sized(unique_prefix="b").content_hash


def test_a_prompt_that_is_not_played_does_not_change_the_hash() -> None:
    code = workloads.load("code").sized(requests=30)
    fewer = Workload("code", code.prompts[:40], requests=30)
    assert fewer.content_hash == code.content_hash
    assert Workload("code", code.prompts[1:], requests=30).content_hash != code.content_hash


def test_a_hash_is_the_same_on_every_machine() -> None:
    # sha256 over the canonical JSON, worked out with sha256sum over the text written out by hand
    prompt = Prompt("any", "k", ({"role": "user", "content": "é"},))
    text = r'{"prefixes":[false,null],"prompts":[["k",[{"content":"\u00e9","role":"user"}],[]]],"sizes":[null,null,null]}'
    import hashlib

    assert Workload("w", (prompt,)).content_hash == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_unique_prefixes_make_every_request_start_differently() -> None:
    workload = workloads.load("prose").sized(unique_prefix="n-")
    starts = [workload.prompt(i).text[:12] for i in range(40)]
    assert len(set(starts)) == 40


def test_a_shared_prefix_comes_before_every_prompt_and_after_the_unique_part() -> None:
    shared = workloads.load("code").sized(shared_prefix="COMMON ")
    assert all(shared.prompt(i).text.startswith("COMMON ") for i in range(10))
    both = shared.sized(unique_prefix="u")
    assert both.prompt(3).text.startswith("[u3] COMMON ")


@given(st.integers(1, 1200), st.integers(0, 30))
def test_a_cut_prompt_is_a_beginning_of_the_whole_and_no_longer_than_asked(chars: int, index: int) -> None:
    workload = workloads.load("agent")
    whole, cut = workload.prompt(index), workload.sized(prompt_chars_max=chars).prompt(index)
    assert sum(len(m["content"]) for m in cut.messages) <= chars
    for kept, original in zip(cut.messages, whole.messages, strict=False):
        assert original["content"].startswith(kept["content"])


def test_random_tokens_are_of_exact_length_and_say_nothing_of_acceptance() -> None:
    workload = workloads.random_tokens(100, prompts=3, vocabulary=256)
    assert [len(p.token_ids) for p in workload.prompts] == [100, 100, 100]
    assert all(0 <= t < 256 for p in workload.prompts for t in p.token_ids)
    assert not workload.acceptance_meaningful


def test_kinds_can_be_mixed() -> None:
    workload = workloads.load("code+prose")
    assert [p.kind for p in workload.prompts[:4]] == ["code", "prose", "code", "prose"]
    assert len(workload.prompts) == len(workloads.load("code").prompts) + len(workloads.load("prose").prompts)


def test_a_persons_own_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [
        {"messages": [{"role": "user", "content": "one"}]},
        {"messages": [{"role": "user", "content": "two"}], "kind": "x"},
    ]
    path.write_text("\n".join(json.dumps(r) for r in rows) + "\n\n")
    workload = workloads.load(path)
    assert [(p.id, p.kind) for p in workload.prompts] == [("mine-1", "mine"), ("mine-2", "x")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not JSON"),
        ("[]", 'line 2: expected {"messages"'),
        ('{"messages": []}', 'line 2: expected {"messages"'),
        ('{"messages": ["hi"]}', 'line 2: every message needs "role" and "content"'),
    ],
)
def test_a_broken_file_names_the_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "fine"}]}\n' + line)
    with pytest.raises(LoadError, match=said.replace("[", r"\[").replace("{", r"\{")):
        workloads.load(path)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(LoadError, match="Did you mean 'maths'"):
        workloads.load("math")
    with pytest.raises(LoadError, match="did you mean 'max_tokens'"):
        workloads.load("code").sized(max_token=3)
    with pytest.raises(LoadError, match="no prompts"):
        Workload("empty", ())
