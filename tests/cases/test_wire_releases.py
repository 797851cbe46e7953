"""Absent is not off: what a release cannot tell, an adaptive server, and two servers behind one address."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.sglang import releases
from suite.sglang.server import native
from tests.cases.attached import attached
from tests.cases.lookalike import GAUGES, Odd, reported, serving

BEFORE = ("0.5.9", "0.5.12", "0.5.18", "0.5.5.post3")
NO_RELEASE = ("0.0.0.dev1+gd91c3682b", "unknown", "", "nightly-dev-20251208-5e2cda61", "20251208", None)


@pytest.mark.parametrize("version", BEFORE)
def test_an_older_release_cannot_tell_and_it_is_said_since_when_one_can(version: str) -> None:
    said = releases.silence(version, releases.SPEC_IN_ANSWERS)
    assert said is not None
    assert version in said
    assert "0.5.19" in said


@pytest.mark.parametrize("version", [*NO_RELEASE, "0.5.19.dev20260901+g5e2cda6", "0.5.19rc1"])
def test_what_is_no_release_leads_to_no_sentence_about_releases(version: str | None) -> None:
    said = releases.silence(version, releases.SPEC_IN_ANSWERS)
    assert said is not None
    assert "from 0.5.19 on" not in said


@pytest.mark.parametrize("version", ["0.5.19", "0.5.23+cu130", "v0.6.0", "0.5.24.dev20261130+gd91c3682b"])
def test_later_ones_tell(version: str) -> None:
    assert releases.silence(version, releases.SPEC_IN_ANSWERS) is None


@given(st.text(max_size=30))
def test_any_text_may_be_a_version(text: str) -> None:
    assert releases.has(text, "0.5.19") in (True, False, None)


@pytest.mark.parametrize(
    ("version", "metrics"),
    [
        ("0.5.12", GAUGES.format(accept_length=3.12)),
        ("0.5.16", GAUGES.format(accept_length=2.9)),
        ("0.5.18", None),
        ("0.0.0.dev1+gd91c3682b", GAUGES.format(accept_length=0.0)),
        ("unknown", None),
    ],
)
def test_a_healthy_server_that_cannot_tell_is_on_by_those_who_can(
    tmp_path: Path, version: str, metrics: str | None
) -> None:
    with serving(Odd(version=version, metrics=metrics)) as url:
        ran = attached(tmp_path, url, "-m", "perf and activation")
    assert ran.code == 0, ran.out
    assert "1 passed" in ran.out


def test_a_present_release_that_reports_nothing_is_still_off(tmp_path: Path) -> None:
    with serving(Odd(version="0.5.23")) as url:
        ran = attached(tmp_path, url, "-m", "perf and activation")
    assert ran.code == 1
    assert "witnesses disagree" in ran.out


def test_acceptance_of_an_older_release_comes_from_its_own_generate(tmp_path: Path) -> None:
    def meta(steps: int, tokens: int) -> dict[str, object]:
        return {"spec_verify_ct": tokens - 1, "spec_accept_length": 1.0}

    with serving(Odd(version="0.5.16", meta_info=meta, metrics=None)) as url:
        ran = attached(tmp_path, url, "-m", "perf and activation")
    assert ran.code == 1
    assert "MTP is on, but dead: acceptance length 1.000" in ran.out
    assert "/generate" in ran.out


def test_one_of_two_replicas_without_mtp_is_told_as_that(tmp_path: Path) -> None:
    odd = Odd(details=lambda n, steps, tokens: reported(n, steps, tokens) if n % 2 else None)
    with serving(odd) as url:
        ran = attached(tmp_path, url, "-m", "perf and (activation or decode)")
    assert ran.code == 1
    assert "more than one server answers here" in ran.first_line_of("mtp_is_on_when_asked_for")
    assert "mixed_answers" in ran.out


def test_a_third_of_the_answers_without_mtp_in_a_measurement_is_invalid(tmp_path: Path) -> None:
    odd = Odd(details=lambda n, steps, tokens: None if n % 3 == 2 else reported(n, steps, tokens))
    with serving(odd) as url:
        ran = attached(tmp_path, url, "-m", "perf and decode")
    assert ran.code == 8
    assert "mixed_answers" in ran.out


def test_an_adaptive_server_breaks_no_identity(tmp_path: Path) -> None:
    def deeper(number: int, steps: int, tokens: int) -> dict[str, object]:
        told = reported(number, steps, tokens)
        return told | {
            "spec_num_correct_drafts": 5 * steps,
            "spec_correct_drafts_histogram": [0] * 5 + [steps],
        }

    info = {"speculative_adaptive": True}
    odd = Odd(info=info, details=deeper, tokens_a_step=6, metrics=None)
    with serving(odd) as url:
        ran = attached(tmp_path, url, "-m", "perf and (activation or decode)")
        assert "failed" not in ran.out
        assert "2 passed" in ran.out
        assert "acceptance_identity" not in ran.out
        assert "adaptive" in ran.out
        odd.info = {}
        fixed = attached(tmp_path / "fixed", url, "-m", "perf and decode")
    assert "acceptance_identity" in fixed.out


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_aborted_answer_failed_whatever_its_length(tmp_path: Path, reason: str) -> None:
    with serving(Odd(finish=reason, details=reported)) as url:
        ran = attached(tmp_path, url, "-m", "perf and decode")
    assert ran.code == 8
    assert "aborted" in ran.out
    assert "early_stop" not in ran.out


def test_a_rank_whose_drafts_all_fail_does_not_hide_behind_the_others(tmp_path: Path) -> None:
    states = [{"avg_spec_accept_length": length} for length in (3.1, 3.2, 1.0, 3.0)]
    odd = Odd(info={"dp_size": 4, "internal_states": states}, details=reported, metrics=None)
    with serving(odd) as url:
        ran = attached(tmp_path, url, "-m", "perf and activation")
    assert ran.code == 1
    assert ran.first_line_of("mtp_is_on_when").startswith("MTP is dead on data-parallel rank 2")


def test_hidden_speculation_of_an_older_release_is_seen_by_generate(tmp_path: Path) -> None:
    odd = Odd(version="0.5.16", meta_info=lambda steps, tokens: {"spec_verify_ct": steps})
    odd.info = {"speculative_algorithm": None}
    with serving(odd) as url:
        ran = attached(tmp_path, url, "-m", "perf and activation")
    assert ran.code == 1
    assert "/generate says on" in ran.out


@pytest.mark.parametrize(
    ("meta", "length"),
    [
        ({"spec_verify_ct": 8, "spec_num_correct_drafts": 15, "completion_tokens": 24}, 1 + 15 / 8),
        ({"spec_verify_ct": 8, "spec_accepted_drafts": 15, "completion_tokens": 24}, 1 + 15 / 8),
        ({"spec_verify_ct": 8, "spec_accept_token_num": 23, "completion_tokens": 24}, 23 / 8),
        ({"completion_tokens": 24}, None),
        ({"spec_verify_ct": 0, "completion_tokens": 1}, None),
        ({"spec_verify_ct": "many", "completion_tokens": 24}, None),
    ],
)
def test_what_generate_tells_by_release(meta: dict[str, object], length: float | None) -> None:
    assert native.parse({"text": "", "meta_info": meta}).acceptance_length == length
