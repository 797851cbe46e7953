"""More servers that somebody brings: what is missing in one place is no word against what is said in another."""

from __future__ import annotations

from pathlib import Path

from tests.cases.attached import attached
from tests.cases.lookalike import Odd, reported, serving


def test_counters_that_a_proxy_thinned_out_do_not_contradict_the_answers(tmp_path: Path) -> None:
    with serving(Odd(details=reported)) as url:  # gauges alone, as a relabelling proxy may leave them
        ran = attached(tmp_path, url.replace("http:", "HTTP:"), "-m", "perf and activation")
    assert ran.code == 0, ran.out
    assert "1 passed" in ran.out


def test_a_server_below_a_prefix_of_v1_is_told_as_that(tmp_path: Path) -> None:
    with serving(Odd(details=reported, metrics=None, prefix="/v1")) as url:
        ran = attached(tmp_path, url, "-m", "perf and activation")
    assert ran.code == 9, ran.out
    assert f"an SGLang server answers below {url}, as behind a proxy with that prefix" in ran.out


def test_a_server_with_an_admin_key_names_what_is_to_be_given(tmp_path: Path) -> None:
    """The sentence itself must survive the scrubbing of secrets."""
    with serving(Odd(details=reported, metrics=None, flush_key="sesame")) as url:
        ran = attached(tmp_path, url, "-m", "perf and decode")
    assert ran.code == 9, ran.out
    assert "started with an admin key takes only that one here: name the variable" in " ".join(
        ran.out.split()
    )


def test_acceptance_that_a_release_cannot_tell_breaks_no_promise(tmp_path: Path) -> None:
    with serving(Odd(version="0.5.12", metrics=None)) as url:
        ran = attached(tmp_path, url, "-m", "perf and acceptance")
    assert ran.code == 8, ran.out
    assert "SGLang 0.5.12 reports no speculative work in its answers" in " ".join(ran.out.split())
    assert "NO-GO" not in ran.out
