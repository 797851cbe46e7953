"""A launch goes on until what is judged is known as well as was asked for, and says before how small a change it will show."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.config import Sizes
from suite.gate import Invalid
from suite.metrics import Value
from suite.session.fitness import TIMING, tolerated
from suite.session.plan import rounds_of_a_pass
from suite.session.recording import WorkloadResult
from suite.session.rounds import RoundPlayer


def _more(steps: list[float], sizes: Sizes, metrics: tuple[str, ...] = ("tpot_s",), **asked: object) -> bool:
    """Whether a measurement whose rounds had these step times (and a TTFT that is all over the place) goes on."""
    said: list[str] = []
    run = SimpleNamespace(sizes=sizes, passing=said.append)
    values = [{"step_s": Value(s, "s"), "ttft_s": Value(s * (1 + n % 2), "s")} for n, s in enumerate(steps)]
    rounds = RoundPlayer(
        run,  # type: ignore[arg-type]
        SimpleNamespace(launch_id="mtp-on, launch 1"),  # type: ignore[arg-type]
        SimpleNamespace(metrics=metrics),  # type: ignore[arg-type]
        benchmark=pytest.fail,
    )
    whole = {"rounds": 3, "counts_only": False, "label": "code, 1 client"} | asked
    played = WorkloadResult(rounds=[None] * len(steps), values=values)  # type: ignore[list-item]
    return rounds._imprecise(SimpleNamespace(**whole), played)  # type: ignore[arg-type]


def test_steady_rounds_are_enough_and_wandering_ones_are_not():
    sizes = Sizes(rounds=3, rounds_max=8, precision=0.003)
    assert not _more([0.01, 0.01001, 0.01], sizes)
    assert _more([0.01, 0.0105, 0.0098], sizes)
    assert _more([0.01, 0.01001, 0.01], sizes, metrics=("ttft_s",)), "what is judged is what must be known"


def test_no_budget_asks_for_more_unless_it_says_how_many():
    assert not _more([0.01, 0.02, 0.01], Sizes(rounds=3))
    assert not _more([0.01, 0.02, 0.01], Sizes(rounds=3, rounds_max=3))
    assert not _more([0.01, 0.02, 0.01], Sizes(rounds=3, rounds_max=8), counts_only=True)


@given(st.lists(st.floats(0.001, 0.1), min_size=8, max_size=12))
def test_it_ends_at_the_latest_where_the_budget_ends(steps):
    assert not _more(steps, Sizes(rounds=3, rounds_max=8))


@given(st.integers(1, 4096), st.integers(1, 64), st.integers(1, 16))
def test_a_pass_never_takes_longer_than_one_client_would(prompts, clients, requests):
    assert 0 < rounds_of_a_pass(prompts, clients, requests) <= prompts / requests
    assert rounds_of_a_pass(2 * prompts, clients, requests) >= rounds_of_a_pass(
        prompts, clients, requests
    ) or (prompts < clients)


@pytest.mark.parametrize(
    ("context", "prompts"), [(None, 256), (1024, 256), (10240, 51), (122_880, 4), (1_000_000, 4)]
)
def test_long_contexts_are_asked_of_fewer_prompts(context, prompts):
    assert Sizes().prompts_of(context) == prompts
    assert Sizes(acceptance_prompts=2).prompts_of(context) == 2


@pytest.mark.parametrize("name", sorted(TIMING))
def test_what_only_spoils_times_spoils_no_counts(name):
    """How much is accepted does not depend on how fast it comes; an answer that ends early is another matter."""
    found = [Invalid(name, "seen"), Invalid("early_stop", "seen")]
    counts, times = (
        tolerated(found, ["power_capped"], SimpleNamespace(counts_only=only))  # type: ignore[arg-type]
        for only in (True, False)
    )
    assert [reason.name for reason in counts] == ["early_stop"]
    assert (name in [reason.name for reason in times]) is (name != "power_capped")
