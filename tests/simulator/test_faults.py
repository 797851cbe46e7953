"""Every fault of the catalogue does what it says, and a server without faults does none of it."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import simulator
from simulator import faults
from simulator.behaviour import Behaviour
from simulator.scheduler import Limits
from tests.simulator.process import MODEL_WITHOUT_MTP, Server, chat_body, serving
from tests.simulator.virtual import CODE, machine, play, sequence, together

STORY = "Write a long story about the sea."
NEXTN = ("--speculative-algorithm", "NEXTN")
NVIDIA_SMI = Path(simulator.__file__).parent / "bin" / "nvidia-smi"


def _odd(*names: str) -> Behaviour:
    return faults.behaviour_of(names)


def _speed(odd: Behaviour | None, clients: int = 1, steps: int | None = None, **kind) -> float:
    return together(machine(steps=steps, odd=odd, **kind), clients, tokens=200).decode_tokens_per_s


# the catalogue


def test_every_fault_changes_something_and_is_told_apart() -> None:
    odd = {fault.name: faults.behaviour_of([fault.name]) for fault in faults.CATALOGUE}
    same = {frozenset(("draft-partial", "acceptance-drop"))}
    for name, behaviour in odd.items():
        assert behaviour != Behaviour(), name
        for other, another in odd.items():
            if name != other and frozenset((name, other)) not in same:
                assert behaviour != another, (name, other)


def test_no_fault_is_no_fault() -> None:
    assert faults.behaviour_of([]) == faults.behaviour_of([""]) == Behaviour()


def test_faults_add_up() -> None:
    odd = _odd("slow-decode=0.1,draft-dead", "slow-prefill=0.5")
    assert (odd.slow_decode, odd.draft_dead, odd.slow_prefill) == (0.1, True, 0.5)


# the model, in virtual time


def test_slow_decode_is_as_slow_as_told() -> None:
    assert _speed(_odd("slow-decode=0.2")) / _speed(None) == pytest.approx(0.8, rel=0.001)


def test_slow_decode_at_large_batches_only() -> None:
    odd = _odd("slow-decode-batch=0.2@4")
    assert _speed(odd, 3) == pytest.approx(_speed(None, 3), rel=1e-9)
    assert _speed(odd, 4) / _speed(None, 4) == pytest.approx(0.8, rel=0.01)


def test_slow_prefill_leaves_decoding_alone() -> None:
    firsts = []
    for odd in (None, _odd("slow-prefill=0.5")):
        scheduler = machine(odd=odd)
        run = play(scheduler, [(0.0, sequence(scheduler, "x" * 40_000, 60))])
        ((line),) = run.timelines.values()
        firsts.append(line[0][0])
        assert run.decode_tokens_per_s == pytest.approx(_speed(None), rel=0.02)
    assert firsts[1] / firsts[0] == pytest.approx(2.0, rel=0.001)


def test_costly_drafts_eat_the_speed_up_and_leave_acceptance() -> None:
    healthy, costly = (together(machine(steps=3, odd=odd), 1) for odd in (Behaviour(), _odd("draft-cost")))
    assert costly.acceptance_length == healthy.acceptance_length
    assert costly.decode_tokens_per_s / _speed(None) == pytest.approx(1.0, abs=0.1)


def test_decay_takes_speed_and_acceptance() -> None:
    scheduler = machine(steps=3, odd=_odd("decay=6"))
    run = play(scheduler, [(0.0, sequence(scheduler, CODE, 3000))])
    decodes = [step for step in run.steps if step.kind == "decode"]
    early, late = decodes[:100], decodes[-100:]
    assert sum(s.end_s - s.start_s for s in late) > 1.2 * sum(s.end_s - s.start_s for s in early)
    assert sum(s.drafts_correct for s in late) < 0.8 * sum(s.drafts_correct for s in early)


def test_collapse_when_the_cache_is_full() -> None:
    limits = Limits(8, 4000, 8192)
    for odd, collapsed in ((Behaviour(), False), (_odd("collapse-when-full=0.8"), True)):
        scheduler = machine(steps=3, odd=odd, limits=limits)
        low = together(scheduler, 1, 400).acceptance_length
        high = together(scheduler, 7, 560, "Another piece of code").acceptance_length
        assert low > 3
        assert (high < 2.5) is collapsed


def test_acceptance_falls_in_large_batches_only_and_from_the_start() -> None:
    for odd, falls in ((Behaviour(), False), (_odd("loaded-acceptance=0.3@6"), True)):
        low = together(machine(steps=3, odd=odd), 2, 400).acceptance_length
        high = together(machine(steps=3, odd=odd), 7, 400).acceptance_length
        assert low > 3
        assert (high < 0.8 * low) is falls


def test_episodes_without_accepted_drafts_come_and_go() -> None:
    scheduler = machine(steps=3, odd=_odd("acceptance-episodes=0.5/1@1"))
    run = play(scheduler, [(0.0, sequence(scheduler, CODE, 3000))])
    decodes = [s for s in run.steps if s.kind == "decode"]
    dead = [s for s in decodes if s.start_s % 1 < 0.5]
    alive = [s for s in decodes if s.start_s % 1 >= 0.5]
    assert sum(s.drafts_correct for s in dead) == 0 < sum(s.drafts_correct for s in alive)


def test_lost_reuse_only_while_speculating() -> None:
    text = "The same long beginning. " * 100
    for steps, reused in ((None, True), (3, False)):
        scheduler = machine(steps=steps, odd=_odd("lost-prefix-reuse"))
        play(scheduler, [(0.0, sequence(scheduler, text, 4))])
        again = sequence(scheduler, text, 4, 1)
        play(scheduler, [(scheduler.now_s, again)])
        assert (again.cached_tokens > 0) is reused


def test_warm_up_is_longer_and_stronger() -> None:
    ratio = {}
    for name in ("", "warmup-slow"):
        cold = together(machine(odd=_odd(name), warm=False), 1, 256).decode_tokens_per_s
        ratio[name] = cold / _speed(None)
    assert ratio["warmup-slow"] < 0.8 < ratio[""] < 1.0


def test_leaks_fill_the_pool() -> None:
    scheduler = machine(odd=_odd("leak=100"))
    together(scheduler, 5, 20)
    assert (scheduler.used_tokens, scheduler.leaked_sequences) == (500, 5)


def test_eager_steps_are_slower() -> None:
    assert _speed(_odd("cuda-graph-off")) < 0.6 * _speed(None)


def test_throttling_sets_in_when_told() -> None:
    hardware = machine(odd=_odd("throttle=0.2@3")).hardware
    assert hardware.decode_s(1, 0, uptime_s=2.9) == pytest.approx(0.8 * hardware.decode_s(1, 0, uptime_s=3.0))


# served


def _asked(server: Server, question: str, tokens: int = 300) -> dict[str, Any]:
    return server.chat(question, max_tokens=tokens, ignore_eos=True, return_spec_tokens_details=True)


def _details(
    server: Server, question: str = "Write a python function.", tokens: int = 300
) -> dict[str, object] | None:
    answer = _asked(server, question, tokens)
    extension = answer.get("sglext")
    return extension["spec_tokens_details"] if extension else None


def _length_over(server: Server, questions: list[str]) -> float:
    """Acceptance length over many prompts, asked at once: of one alone it says little."""
    with ThreadPoolExecutor(16) as pool:
        found = [d for d in pool.map(lambda question: _details(server, question), questions) if d is not None]
    assert len(found) == len(questions)
    correct, verified = (
        sum(d[f"spec_{name}"] for d in found) for name in ("num_correct_drafts", "verify_ct")
    )  # type: ignore[misc]
    return 1 + correct / verified


def _length(server: Server, question: str = "Write a python function.") -> float:
    details = _details(server, question)
    assert details is not None
    return 1 + details["spec_num_correct_drafts"] / details["spec_verify_ct"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("fault", "flags", "reported", "works"),
    [
        ("mtp-auto-on", (), "EAGLE", True),
        ("mtp-ignored", NEXTN, None, False),
        ("mtp-hollow", NEXTN, "EAGLE", False),
        ("mtp-hidden", (), None, True),
    ],
)
def test_activation(tmp_path, fault, flags, reported, works) -> None:
    with serving(tmp_path / "log", *flags, "--fault", fault) as server:
        info = server.get("/server_info")
        assert info["speculative_algorithm"] == reported
        assert "fault" not in info["launch_command"], "the server does not give itself away"
        assert (_details(server) is not None) is works


def test_acceptance_faults(tmp_path) -> None:
    lengths = {}
    for name in ("", "draft-dead", "draft-partial", "acceptance-drop=0.3"):
        with serving(tmp_path / "log", *NEXTN, "--simulator-seed", "1", "--fault", name) as server:
            lengths[name] = _length_over(server, [f"Write a python function, number {n}." for n in range(32)])
            assert server.chat("What is 17+25?")["choices"][0]["message"]["content"] == "42"
    healthy = lengths[""]
    assert healthy == pytest.approx(3.385, rel=0.04)  # 32 prompts, 6 % from one to the next
    assert lengths["draft-dead"] == 1.0
    assert lengths["draft-partial"] / healthy == pytest.approx(0.88, abs=0.015)
    assert lengths["acceptance-drop=0.3"] / healthy == pytest.approx(0.7, abs=0.015)


def test_another_build_of_the_same_quality_answers_otherwise(tmp_path) -> None:
    questions = [f"Write a python function, number {n}." for n in range(8)]
    texts, steps = {}, {}
    for name in ("", "other-rounding", "other-rounding=1", "other-rounding=2"):
        with serving(tmp_path / "log", *NEXTN, "--fault", name) as server:
            answers = [_asked(server, question) for question in questions]
            texts[name] = [str(a["choices"][0]["message"]) for a in answers]
            steps[name] = [a["sglext"]["spec_tokens_details"]["spec_verify_ct"] for a in answers]
            assert server.chat("What is 17+25?")["choices"][0]["message"]["content"] == "42"
    assert texts["other-rounding"] == texts["other-rounding=1"], "one build answers the same in every launch"
    assert steps["other-rounding"] == steps["other-rounding=1"]
    for one, other in (("", "other-rounding"), ("other-rounding", "other-rounding=2")):
        assert sum(a != b for a, b in zip(texts[one], texts[other], strict=True)) >= 5
        assert steps[one] != steps[other]


def test_a_headless_draft_starts_and_is_dead(tmp_path) -> None:
    with serving(tmp_path / "log", *NEXTN, "--fault", "headless-draft", model=MODEL_WITHOUT_MTP) as server:
        assert server.get("/server_info")["speculative_algorithm"] == "EAGLE"
        assert _length(server) == 1.0


@pytest.mark.parametrize(("fault", "off_is_garbage"), [("garbage", True), ("mtp-lane-garbage", False)])
def test_garbage_is_wrong_and_fast(tmp_path, fault, off_is_garbage) -> None:
    with serving(tmp_path / "off", "--fault", fault) as server:
        answer = server.chat("What is 17+25?", max_tokens=20)["choices"][0]["message"]["content"]
        assert ("42" not in answer) is off_is_garbage
    with serving(tmp_path / "on", *NEXTN, "--fault", fault) as server:
        assert "42" not in server.chat("What is 17+25?", max_tokens=20)["choices"][0]["message"]["content"]
        assert _length(server) > 3.6


def test_early_stops_ignore_ignore_eos(tmp_path) -> None:
    with serving(tmp_path / "log", "--fault", "early-stop=0.5") as server:
        answer = server.chat(STORY, max_tokens=200, ignore_eos=True)
    assert answer["usage"]["completion_tokens"] == 100
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_renamed_and_dropped_keys(tmp_path) -> None:
    for fault in ("renamed-metric", "dropped-keys"):
        with serving(tmp_path / "log", *NEXTN, "--enable-metrics", "--fault", fault) as server:
            details = _details(server)
            metrics = server.ask("GET", "/metrics")[1].decode()
            state = server.get("/server_info")["internal_states"][0]
        assert "sglang:spec_verify_calls_total" not in metrics
        assert "avg_spec_accept_length" not in state
        if fault == "renamed-metric":
            assert details is not None
            assert "spec_verify_ct" not in details
            assert details["spec_num_verify_calls"] > 0  # type: ignore[operator]
            assert "sglang:spec_num_verify_total" in metrics
        else:
            assert details is None


def test_a_redefined_count_breaks_the_identities(tmp_path) -> None:
    with serving(tmp_path / "log", *NEXTN, "--fault", "redefined-metric") as server:
        details = _details(server)
    assert details is not None
    histogram = details["spec_correct_drafts_histogram"]
    assert details["spec_num_correct_drafts"] > sum(place * count for place, count in enumerate(histogram))  # type: ignore[operator,arg-type]


def test_usage_missing(tmp_path) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    with serving(tmp_path / "log", "--fault", "usage-missing") as server:
        assert server.chat(STORY, max_tokens=5)["usage"] is None
        events = server.events(
            "/v1/chat/completions", **chat_body(STORY, max_tokens=5, stream_options=options)
        )
    assert not any(event.get("usage") for event in events)


def test_recut_chunks_keep_every_token(tmp_path) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = chat_body(STORY, max_tokens=120, ignore_eos=True, stream_options=options)
    texts, cuts = [], []
    for flags in ((), ("--fault", "recut-chunks")):
        with serving(tmp_path / "log", *NEXTN, *flags) as server:
            events = server.events("/v1/chat/completions", **body)
        texts.append("".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"]))
        counts = [0, *(e["usage"]["completion_tokens"] for e in events if e["choices"] and e.get("usage"))]
        assert counts[-1] == 120
        cuts.append({after - before for before, after in itertools.pairwise(counts)})
    assert texts[0] == texts[1]
    assert max(cuts[1]) > 4 >= max(cuts[0])


def _read_raw(server: Server, body: object, timeout_s: float = 5.0) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answer = connection.getresponse()
    assert answer.status == 200
    return answer.read()


def test_faults_of_the_wire(tmp_path) -> None:
    body = chat_body(STORY, max_tokens=50, stream=True)
    with (
        serving(tmp_path / "cut", "--fault", "truncated-stream=4") as server,
        pytest.raises((http.client.IncompleteRead, ConnectionError)),
    ):
        _read_raw(server, body)
    with serving(tmp_path / "error", "--fault", "error-in-stream=4") as server:
        *_, last, done = _read_raw(server, body).decode().strip().split("\n\n")
        assert json.loads(last[6:])["error"]["code"] == 500
        assert done == "data: [DONE]"
    with serving(tmp_path / "html", "--fault", "html-200") as server:
        assert _read_raw(server, body).startswith(b"<html>")
    with serving(tmp_path / "stall", "--fault", "stall=30") as server, pytest.raises(TimeoutError):
        _read_raw(server, body, timeout_s=1.0)


@pytest.mark.parametrize(
    ("fault", "sign"),
    [("crash-after=2", "illegal memory access"), ("gpu-lost=2", "Xid (PCI:0000:41:00): 79")],
)
def test_servers_that_die(tmp_path, fault, sign) -> None:
    with serving(tmp_path / "log", "--fault", fault) as server:
        for _ in range(2):
            server.chat("What is 17+25?")
        with pytest.raises(OSError):
            server.chat("What is 17+25?")
        assert server.process.wait(5) == -signal.SIGKILL
    text = server.log.read_text()
    assert sign in text
    assert "Received sigquit from a child process" in text


def test_flipped_default(tmp_path) -> None:
    with serving(
        tmp_path / "a", "--fault", "flipped-default", "--fault", "flipped-default=chunked_prefill_size:2048"
    ) as server:
        info = server.get("/server_info")
    assert info["attention_backend"] == "triton"
    assert info["chunked_prefill_size"] == 2048
    with serving(tmp_path / "b", "--fault", "flipped-default", "--attention-backend", "flashinfer") as server:
        assert server.get("/server_info")["attention_backend"] == "flashinfer", "what is given is not flipped"


def test_symptoms_in_the_log_only(tmp_path) -> None:
    with serving(tmp_path / "log", "--fault", "log-only") as server:
        server.chat(STORY, max_tokens=100, ignore_eos=True)
    text = server.log.read_text()
    assert "cuda graph: False" in text
    assert "falling back to eager execution" in text


def test_throttling_is_seen_by_nvidia_smi(tmp_path) -> None:
    env = {"SIMULATED_GPU_STATE": str(tmp_path / "gpu.json")}

    def smi(query: str) -> list[str]:
        command = [str(NVIDIA_SMI), f"--query-gpu={query}", "--format=csv,noheader,nounits"]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, **env}
        ).stdout.splitlines()

    with serving(tmp_path / "log", "--tp-size", "2", "--fault", "throttle=0.2@1", env=env):
        before = smi("clocks.sm,clocks_event_reasons.sw_thermal_slowdown")
        assert len(before) == 2
        deadline = time.monotonic() + 10
        while "Not Active" in (after := smi("clocks.sm,clocks_event_reasons.sw_thermal_slowdown"))[0]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert int(after[0].split(",")[0]) == pytest.approx(0.8 * int(before[0].split(",")[0]), rel=0.01)
    assert int(smi("clocks.sm")[0]) < 1000, "idle when the server is gone"
    with serving(tmp_path / "killed", "--tp-size", "2", env=env) as server:
        server.process.kill()
        server.process.wait()
        assert (tmp_path / "gpu.json").exists()
        assert int(smi("clocks.sm")[0]) < 1000, "idle when it was killed, too"


def test_a_looping_nvidia_smi_sees_the_gpu_get_lost(tmp_path) -> None:
    env = {**os.environ, "SIMULATED_GPU_STATE": str(tmp_path / "gpu.json")}
    query = [str(NVIDIA_SMI), "--query-gpu=index,clocks.sm", "--format=csv,noheader,nounits", "--loop-ms=50"]
    with serving(tmp_path / "log", "--fault", "gpu-lost=1", env=env) as server:
        looping = subprocess.Popen(query, stdout=subprocess.PIPE, text=True, env=env)
        assert looping.stdout is not None
        assert looping.stdout.readline().strip() == "0, 2325"
        server.chat("What is 17+25?")
        with pytest.raises(OSError):
            server.chat("What is 17+25?")
        assert "Unable to determine the device handle" in looping.stdout.read()
        assert looping.wait(5) == 15


def test_nvidia_smi_names_unknown_fields_and_processes(tmp_path) -> None:
    def smi(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(NVIDIA_SMI), *options],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"SIMULATED_GPUS": "2"},
        )

    assert 'Field "speed" is not a valid field' in smi("--query-gpu=speed").stdout
    assert smi("--query-gpu=clocks.sm,name", "--format=csv").stdout.splitlines()[0] == "clocks.sm [MHz], name"
    assert smi("--query-compute-apps=pid", "--format=csv,noheader").stdout == ""
    assert len(smi("-L").stdout.splitlines()) == 2


def test_every_fault_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    named = set(re.findall(r"`([a-z0-9-]+)`", text.split("## Faults")[1].split("## How")[0]))
    assert {fault.name for fault in faults.CATALOGUE} <= named
