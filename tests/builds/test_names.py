"""Names of builds sort as they came to be, and what names do not tell is not guessed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.sglang import builds

IN_TIME = [
    "0.5.9",
    "sglang==0.5.10",
    "v0.5.22",
    "0.5.23rc1",
    "lmsysorg/sglang:v0.5.23-cu129",
    "0.5.23.post1",
    "v0.5.23.post1-3-gabcdef0",
    "v0.5.23.post1-12-g5e2cda61",
    "0.5.24.dev20261129+gabcdef012",
    "0.5.24.dev20261130+g5e2cda61",
    "0.5.24",
    "nightly-dev-20251208-5e2cda61",
    "lmsysorg/sglang:nightly-dev-cu13-20251209-0123abc",
]


@given(seed=st.integers(0, 2**32))
def test_builds_sort_as_they_came_to_be(seed: int) -> None:
    shuffled = random.Random(seed).sample(IN_TIME, len(IN_TIME))
    assert builds.in_order(shuffled) == IN_TIME


@pytest.mark.parametrize(
    ("name", "kind", "commit"),
    [
        ("0.5.23", "release", None),
        ("lmsysorg/sglang:v0.5.23-cu129-amd64", "release", None),
        ("registry.example:5000/team/sglang:v0.5.23", "release", None),
        ("0.5.24.dev20261130+g5e2cda61", "nightly", "5e2cda61"),
        ("nightly-dev-20251208-5e2cda61", "nightly", "5e2cda61"),
        ("lmsysorg/sglang:nightly-dev-2025-12-08", "nightly", None),
        ("v0.5.23-12-g5e2cda61", "between tags", "5e2cda61"),
        ("0.0.0.dev1+gd91c3682b", "commit", "d91c3682b"),
        ("d91c3682b", "commit", "d91c3682b"),
        ("latest", "unknown", None),
        ("unknown", "unknown", None),
        ("", "unknown", None),
        ("lmsysorg/sglang@sha256:aa", "unknown", None),
    ],
)
def test_what_a_name_tells(name: str, kind: str, commit: str | None) -> None:
    found = builds.read(name)
    assert (found.kind, found.commit) == (kind, commit)
