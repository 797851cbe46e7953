"""What a log shows that answers do not."""

import pytest

from suite.questions.log_checks import symptoms

SOUND = (
    "[2026-11-29 14:00:00 TP0] Decode batch, #running-req: 1, #token: 900, token usage: 0.01, accept len: 2.50, "
    "accept rate: 0.50, cuda graph: True, gen throughput (token/s): 123.45, #queue-req: 0"
)


def test_a_sound_log_has_none():
    assert symptoms([SOUND] * 5, graphs_expected=True) == []


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        (SOUND.replace("graph: True", "graph: False"), "decoding runs without CUDA graphs"),
        (SOUND.replace("len: 2.50", "len: 1.00"), "no draft is accepted"),
        ("Scheduler hit an exception: Traceback", "an error in a kernel or the scheduler"),
        ("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus", "the driver reported a GPU error"),
    ],
)
def test_each_symptom_is_named_with_its_line(line, meaning):
    (told,) = symptoms([SOUND, line], graphs_expected=True)
    assert told.startswith(f"{meaning}: 1 line, the first: ")
    assert line.strip() in told


def test_without_graphs_to_expect_their_absence_says_nothing():
    assert symptoms([SOUND.replace("graph: True", "graph: False")], graphs_expected=False) == []


def test_an_acceptance_of_one_and_a_half_is_no_dead_draft():
    assert symptoms([SOUND.replace("len: 2.50", "len: 1.005")], graphs_expected=True) == []
