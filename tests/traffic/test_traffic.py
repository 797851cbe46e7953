"""Own traffic: public formats read as their publishers describe them, replayed with their lengths, beginnings and times."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.load import ClosedLoop, Endpoint, LoadError, Prompt, Sampling, Schedule, Workload, play
from suite.traffic import FORMATS, PaceResult, Trace, highest, read, workload_of
from tests.perf.running import ROOT, config, perf
from tests.simulator.process import serving

MOONCAKE = """\
{"timestamp": 27482, "input_length": 1200, "output_length": 52, "hash_ids": [46, 47, 2366]}
{"timestamp": 30535, "input_length": 1300, "output_length": 26, "hash_ids": [46, 47, 2367]}
"""
AZURE_2023 = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
AZURE_2024 = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01.510000+00:00,2399,6\n"
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n118,GPT-4,417,276,693,API log\n"
)
SHAREGPT = json.dumps(
    [
        {
            "id": "a",
            "conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because. " * 20}],
        },
        {"id": "b", "conversations": [{"from": "gpt", "value": "An answer to nothing"}]},
    ]
)
OPENAI = '{"messages": [{"role": "user", "content": "Hello"}], "timestamp": 3.5, "max_tokens": 40}\n'


@pytest.fixture
def trace(tmp_path: Path) -> Callable[[str], Trace]:
    def written(text: str) -> Trace:
        (tmp_path / "t").write_text(text)
        return read(tmp_path / "t")

    return written


@pytest.mark.parametrize(
    ("text", "name", "times", "inputs", "outputs"),
    [
        (MOONCAKE, "mooncake", [0.0, 3.053], [1200, 1300], [52, 26]),
        (AZURE_2023, "azure", [0.0, 4.314579], [374, 396], [44, 109]),
        (AZURE_2024, "azure", [0.0, 1.50007], [2162, 2399], [5, 6]),
        (BURSTGPT, "burstgpt", [0.0, 113.0], [472, 417], [18, 276]),  # the one that failed is left out
        (SHAREGPT, "sharegpt", [None], [None], [45]),
        (OPENAI, "openai", [0.0], [None], [40]),
    ],
)
def test_public_formats(trace, text, name, times, inputs, outputs) -> None:
    found = trace(text)
    assert found.format == name
    assert [r.at_s for r in found.requests] == pytest.approx(times, abs=1e-4)
    assert [r.input_tokens for r in found.requests] == inputs
    assert [r.output_tokens for r in found.requests] == outputs


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "no format that is known (mooncake, azure, burstgpt, sharegpt, openai)"),
        ("", "no format that is known"),
        (
            '{"timestamp": "x", "input_length": 1, "output_length": 1}',
            "line 1: timestamp 'x' is not a number",
        ),
        ('{"timestamp": 1, "input_length": -5, "output_length": 1}', "line 1: input_length '-5'"),
        ('{"timestamp": 1, "input_length": 5, "output_length": 1, "hash_ids": "a"}', '"hash_ids" must be'),
        ('{"messages": []}', 'expected "messages"'),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "half of a surrogate pair"),
        ("TIMESTAMP,ContextTokens,Generated\n", "no column GeneratedTokens"),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n",
            "line 2: TIMESTAMP 'yesterday' is not a date",
        ),
        ("[1]", "entry 1"),
        ("[]", "holds no request"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(trace, text: str, says: str) -> None:
    with pytest.raises(LoadError) as told:
        trace(text)
    assert says in str(told.value)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.text(max_size=200))
def test_any_text_is_read_or_refused_in_words(name: str, text: str) -> None:
    try:
        found = [r for r in FORMATS[name](text, "t") if r is not None]
    except LoadError:
        return
    assert all(r.at_s is None or math.isfinite(r.at_s) for r in found)


def test_a_part_of_a_trace(trace) -> None:
    whole = trace(AZURE_2023)
    assert len(whole.first(requests=1).requests) == 1
    assert len(whole.first(seconds=1.0).requests) == 1
    assert whole.span_s == pytest.approx(4.314579)


# the highest rate


def server_that_holds(up_to: float, width: float = 0.2) -> Callable[[float], PaceResult]:
    """Of a server at 10 requests/s at pace 1: the share falls off around a rate, as a logistic of its logarithm."""

    def step(pace: float) -> PaceResult:
        rate = 10.0 * pace
        return PaceResult(rate, 1 / (1 + math.exp((math.log(rate) - math.log(up_to)) / width * 4)))

    return step


@pytest.mark.parametrize("up_to", [3.0, 11.0, 47.0, 300.0])
def test_the_highest_rate_is_found_whatever_the_own_pace(up_to: float) -> None:
    play_at = server_that_holds(up_to)
    found = highest(play_at(1.0), play_at, 0.5)
    assert found.value == pytest.approx(up_to, rel=0.03)
    assert found.detail["kept_at_per_s"] <= found.value <= found.detail["lost_at_per_s"]


def test_a_server_a_tenth_slower_has_a_tenth_less() -> None:
    fast, slow = server_that_holds(50.0), server_that_holds(45.0)
    before, after = highest(fast(1.0), fast, 0.95).value, highest(slow(1.0), slow, 0.95).value
    assert before is not None
    assert after is not None
    assert after / before == pytest.approx(0.9, abs=0.03)


def test_what_is_not_found_is_said() -> None:
    never = highest(PaceResult(10.0, 0.1), lambda pace: PaceResult(10.0 * pace, 0.1), 0.95)
    assert never.value is None
    assert "even at 0.0781 requests/s too few keep the limits" in (never.reason or "")
    always = highest(PaceResult(10.0, 1.0), lambda pace: PaceResult(10.0 * pace, 1.0), 0.95)
    assert always.value is None
    assert "nothing faster was tried" in (always.reason or "")


# replayed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    log = tmp_path_factory.mktemp("traffic") / "server.log"
    with serving(log, "--speculative-algorithm", "NEXTN", "--enable-cache-report") as running:
        yield f"http://127.0.0.1:{running.port}"


def test_lengths_beginnings_and_times_are_those_of_the_trace(server: str, trace) -> None:
    replay = workload_of(trace(MOONCAKE), Endpoint(server))
    assert replay.times_s == pytest.approx((0.0, 3.053))
    first, second = (prompt.text for prompt in replay.workload.prompts)
    common = next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    assert len(first) * 0.75 < common < len(first)  # 1024 of 1200 tokens are the same two blocks
    round_ = play(Endpoint(server), replay.workload, replay.at(10.0), sampling=Sampling(ignore_eos=True))
    assert [r.prompt_tokens for r in round_.requests] == pytest.approx([1200, 1300], rel=0.05)
    assert [r.completion_tokens for r in round_.requests] == [52, 26]
    assert (round_.requests[1].cached_tokens or 0) > 700
    assert round_.requests[1].intended_s == pytest.approx(0.3053, abs=0.01)
    assert (
        round_.requests[1].origin_s == round_.requests[1].intended_s
    )  # an open loop: lateness is the server's


def test_what_does_not_fit_is_left_out_and_counted(server: str, trace) -> None:
    replay = workload_of(trace(AZURE_2023), Endpoint(server), context_length=500)
    assert (len(replay.times_s), replay.left_out) == (1, 1)
    with pytest.raises(LoadError, match="no request of t fits"):
        workload_of(trace(AZURE_2023), Endpoint(server), context_length=100)


def test_conversations_without_times_need_a_rate(server: str, trace) -> None:
    with pytest.raises(LoadError, match="--rate"):
        workload_of(trace(SHAREGPT), Endpoint(server))
    assert workload_of(trace(SHAREGPT), Endpoint(server), rate_per_s=5.0).times_s == (0.0,)
    scaled = workload_of(trace(AZURE_2023), Endpoint(server), rate_per_s=2.0)
    assert scaled.times_s == pytest.approx((0.0, 0.5))


def test_a_prompts_own_length_is_asked_for_and_part_of_what_was_asked(server: str) -> None:
    message = {"role": "user", "content": "Count to a thousand, in words."}
    prompts = tuple(Prompt(str(n), "own", (message,), max_tokens=n) for n in (5, 9))
    workload = Workload("own", prompts)
    round_ = play(
        Endpoint(server), workload, ClosedLoop(1, 2), sampling=Sampling(max_tokens=50, ignore_eos=True)
    )
    assert [(r.completion_tokens, r.max_tokens) for r in round_.requests] == [(5, 5), (9, 9)]
    alike = Workload("own", tuple(Prompt(str(n), "own", (message,)) for n in (5, 9)))
    assert alike.content_hash != workload.content_hash
    assert Schedule((0.0, 1.0)).requests == 2


def replay(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "suite", "replay", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_replays_and_finds_the_rate(server: str, tmp_path: Path) -> None:
    done = replay(
        "scenarios/traffic.jsonl",
        f"--server-url={server}",
        *("--requests=16", "--pace=4", "--ttft=2", "--tpot=0.05", "--share=0.5", "--find-rate"),
        f"--json={tmp_path / 'out.json'}",
    )
    assert done.returncode in (0, 8), done.stderr  # a fast machine may keep the limits at every pace
    assert "traffic (mooncake): 16 requests" in done.stdout
    assert "TTFT within 2000 ms, TPOT within 50 ms for 50% of requests" in done.stdout
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["metrics"]["goodput_requests_per_s"]["value"] > 0
    assert "highest_rate_per_s" in told["metrics"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nowhere.jsonl"], "cannot read traffic nowhere.jsonl"),
        (["scenarios/traffic.jsonl", "--find-rate"], "--find-rate needs limits"),
        (["scenarios/traffic.jsonl", "--pace=0"], "--pace"),
        (["scenarios/traffic.jsonl", "--share=2"], "--share"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_one_line(options: list[str], says: str) -> None:
    done = replay(*options, "--server-url=http://127.0.0.1:9")
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


TABLE = """\
[targets.here.traffic.chat]
file = "{file}"
requests = 12
pace = 6.0
ttft_s = 2.0
tpot_s = 0.05
share = 0.5
"""


def test_traffic_is_measured_and_judged_in_a_run(tmp_path: Path) -> None:
    option = config(tmp_path)
    path = Path(option.partition("=")[2])
    text = path.read_text().replace('"decode", "acceptance"]', '"traffic"]')
    path.write_text(text + TABLE.format(file=ROOT / "scenarios" / "traffic.jsonl"))
    ran = perf(tmp_path, option, "--rounds=2", "--launches=1", "-k", "own_traffic and off")
    assert "own_traffic[chat]" in ran.out
    (series,) = ran.run["session"]["series"]
    assert series["question"] == "own_traffic[chat]"
    rounds = series["launches"][0]["rounds"]
    assert len(rounds["goodput_requests_per_s"]) == 2
    assert all(value > 0 for value in rounds["goodput_requests_per_s"])
    assert "TTFT within 2000 ms" in series["identity"]["traffic"]


def test_a_target_without_traffic_is_not_asked_and_a_wrong_table_is_told(tmp_path: Path) -> None:
    option = config(tmp_path)
    path = Path(option.partition("=")[2])
    path.write_text(path.read_text().replace('"decode", "acceptance"]', '"traffic"]'))
    ran = perf(tmp_path, option, "--collect-only", "-q")
    assert "own_traffic" not in ran.out
    path.write_text(path.read_text() + '[targets.here.traffic.chat]\nfile = "x"\nttft = 2.0\n')
    wrong = perf(tmp_path, option, "--collect-only", "-q")
    assert wrong.code == 4
    assert "targets.here.traffic.chat" in wrong.out
