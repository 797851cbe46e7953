"""The scheduler's books in virtual time: no token lost, none invented, drafts add up, memory is kept."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.scheduler import Limits
from tests.simulator.virtual import CODE, machine, play, sequence, together

ARRIVALS = st.lists(
    st.tuples(st.floats(0, 2), st.integers(1, 90), st.integers(1, 120)), min_size=1, max_size=12
)  # (when, words of prompt, output tokens)


def _workload(scheduler, arrivals):
    arrivals = sorted(arrivals)
    return [
        (at_s, sequence(scheduler, f"{n} " + "word " * words, tokens, n))
        for n, (at_s, words, tokens) in enumerate(arrivals)
    ]


@settings(deadline=None, max_examples=40)
@given(
    arrivals=ARRIVALS,
    steps=st.none() | st.integers(1, 6),
    running=st.integers(1, 8),
    chunk=st.sampled_from([-1, 16, 8192]),
)
def test_tokens_are_conserved(arrivals, steps, running, chunk) -> None:
    scheduler = machine(steps=steps, limits=Limits(running, 3000, chunk), noise=0.01)
    run = play(scheduler, _workload(scheduler, arrivals))
    for one, line in run.timelines.items():
        assert one.finish is not None
        assert one.finish.type == "length"
        assert one.output_tokens == one.limit == line[-1][1]
        assert [tokens for _, tokens in line] == sorted({tokens for _, tokens in line}), "usage only grows"
        assert [at for at, _ in line] == sorted(at for at, _ in line)
        assert line[0][0] > one.arrival_s
    assert scheduler.used_tokens == 0
    assert not scheduler.running


@settings(deadline=None, max_examples=40)
@given(arrivals=ARRIVALS, steps=st.integers(1, 6))
def test_drafts_add_up(arrivals, steps) -> None:
    scheduler = machine(steps=steps)
    run = play(scheduler, _workload(scheduler, arrivals))
    for one in run.timelines:
        assert sum(one.histogram) == one.verifications
        assert sum(accepted * count for accepted, count in enumerate(one.histogram)) == one.drafts_correct
        assert len(one.histogram) == steps + 1
        made = 1 + one.verifications + one.drafts_correct
        assert made - steps <= one.output_tokens <= made, "only the last step may be cut short"
    decodes = [step for step in run.steps if step.kind == "decode"]
    assert sum(step.drafts_proposed for step in decodes) == steps * sum(
        one.verifications for one in run.timelines
    )
    assert sum(step.drafts_correct for step in decodes) == sum(one.drafts_correct for one in run.timelines)


@settings(deadline=None, max_examples=30)
@given(arrivals=ARRIVALS, running=st.integers(1, 4))
def test_steps_follow_one_another_and_batches_are_bounded(arrivals, running) -> None:
    scheduler = machine(limits=Limits(running, 100_000, 8192), noise=0.01)
    run = play(scheduler, _workload(scheduler, arrivals))
    for before, after in zip(run.steps, run.steps[1:], strict=False):
        assert after.start_s >= before.end_s
        assert after.end_s >= after.start_s
    assert all(step.batch <= running for step in run.steps if step.kind == "decode")


def test_a_busy_machine_loses_no_time_between_steps() -> None:
    run = together(machine(), 4)
    assert all(after.start_s == before.end_s for before, after in zip(run.steps, run.steps[1:], strict=False))


def test_the_same_launch_twice_is_the_same_to_the_last_digit() -> None:
    first, second = (together(machine(steps=3, noise=0.01, seed=7), 3) for _ in range(2))
    assert [step.end_s for step in first.steps] == [step.end_s for step in second.steps]
    assert first.acceptance_length == second.acceptance_length


def test_acceptance_does_not_depend_on_company_or_time() -> None:
    alone = machine(steps=3)
    run = play(alone, [(0.0, sequence(alone, CODE))])
    crowd = machine(steps=3, noise=0.02, seed=99)
    mine = sequence(crowd, CODE)
    play(crowd, [(5.0, mine), *((5.0, sequence(crowd, f"other {n}", 64, n)) for n in range(7))])
    (same,) = run.timelines
    assert mine.histogram == same.histogram


def test_waiting_requests_get_their_turn_in_order() -> None:
    scheduler = machine(limits=Limits(2, 100_000, 8192))
    run = together(scheduler, 6, tokens=32)
    starts = [line[0][0] for line in run.timelines.values()]
    assert starts == sorted(starts)
    assert starts[2] > starts[0]


def test_a_long_prompt_is_cut_into_chunks_and_holds_up_decoding() -> None:
    scheduler = machine(limits=Limits(8, 100_000, 1000))
    short = sequence(scheduler, "short", 200)
    long = sequence(scheduler, "x" * 4 * 5000, 4, 1)
    run = play(scheduler, [(0.0, short), (0.1, long)])
    prefills = [step for step in run.steps if step.kind == "prefill" and step.new_tokens > 100]
    assert [step.new_tokens for step in prefills] == [1000] * 5
    gaps = [b - a for (a, _), (b, _) in zip(run.timelines[short], run.timelines[short][1:], strict=False)]
    assert max(gaps) > 5 * sorted(gaps)[len(gaps) // 2]


def test_a_prompt_seen_before_is_not_computed_again() -> None:
    scheduler = machine()
    text = "The same long beginning. " * 200
    first = sequence(scheduler, text + "one", 8)
    play(scheduler, [(0.0, first)])
    second, third = sequence(scheduler, text + "two", 8, 1), sequence(scheduler, "Other. " + text, 8, 2)
    run = play(scheduler, [(scheduler.now_s, second), (scheduler.now_s + 5, third)])
    assert first.cached_tokens == third.cached_tokens == 0
    assert second.cached_tokens > 0.95 * second.prompt.tokens
    computed = [step.new_tokens for step in run.steps if step.kind == "prefill"]
    assert computed == [second.prompt.tokens - second.cached_tokens, third.prompt.tokens]


def test_a_full_pool_sends_the_newest_back_and_nothing_is_lost() -> None:
    scheduler = machine(limits=Limits(8, 1100, 8192), radix=False)
    run = together(scheduler, 6, tokens=400)
    assert scheduler.retractions > 0
    assert all(one.output_tokens == 400 for one in run.timelines)
    assert scheduler.used_tokens == 0


def test_aborted_sequences_leave_at_the_next_step() -> None:
    scheduler = machine()
    one, other = sequence(scheduler, "a", 500), sequence(scheduler, "b", 20, 1)
    for each in (one, other):
        scheduler.submit(each, 0.0)
    for _ in range(5):
        scheduler.step()
    one.aborted = True
    while scheduler.busy:
        scheduler.step()
    assert one.finish is not None
    assert one.finish.type == "abort"
    assert one.output_tokens < 20
    assert other.output_tokens == 20
    assert scheduler.used_tokens == 0


@pytest.mark.parametrize("steps", [None, 3])
def test_noise_of_a_round_is_as_large_as_told(steps) -> None:
    import statistics

    rates = [
        together(machine(steps=steps, noise=0.004, seed=seed), 1).decode_tokens_per_s for seed in range(40)
    ]
    spread = statistics.stdev(rates) / statistics.mean(rates)
    assert 0.002 < spread < 0.008
