"""What the benchmark makes of other load tools: their exports, their CPU, their failures. None of them is needed here."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import psutil
import pytest

from proofs.bench import bounded, peer_install, peers
from proofs.bench.peer_install import Installed
from proofs.bench.peer_tools import AIPERF, GUIDELLM, SGLANG, TOOLS, Reported, Task, Tool, prepare
from tests.paced.server import PacedServer, Truth, compiler

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the paced server needs a C compiler")
QUIET = dict(os.environ)


def task_in(directory: Path, streams: int = 2, chunks: int = 3) -> Task:
    return Task("http://127.0.0.1:1", streams, chunks, directory)


# ---------------------------------------------------------------------------------------------------- exports
def test_bench_serving_lists_requests_in_the_order_of_the_prompts(tmp_path: Path) -> None:
    record = {
        "completed": 2,
        "request_rate": float("inf"),
        "ttfts": [0.5, 0.25],
        "itls": [[0.125, 0.25], [0.5, 1.0]],
    }
    (tmp_path / "out.jsonl").write_text(json.dumps(record) + "\n")
    assert SGLANG.read(task_in(tmp_path)) == {
        0: Reported(0.5, 0.375, (0.125, 0.25)),
        1: Reported(0.25, 1.5, (0.5, 1.0)),
    }


def test_a_request_that_failed_in_bench_serving_is_not_a_stream(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text(json.dumps({"ttfts": [0.5, 0.0], "itls": [[0.125, 0.25], []]}) + "\n")
    assert list(SGLANG.read(task_in(tmp_path))) == [0]


def test_guidellm_names_the_stream_in_what_was_sent(tmp_path: Path) -> None:
    def request(stream: int, start: float, first: float, last: float) -> dict[str, object]:
        sent = {"body": {"messages": [{"content": [{"type": "text", "text": f"stream #{stream}: Write"}]}]}}
        timings = {"request_start": start, "first_token_iteration": first, "last_token_iteration": last}
        return {"request_args": json.dumps(sent), "info": {"timings": timings}}

    requests = {"successful": [request(1, 8.0, 8.5, 10.0), request(0, 8.0, 8.25, 9.25)], "errored": []}
    (tmp_path / "out.json").write_text(json.dumps({"benchmarks": [{"requests": requests}]}))
    assert GUIDELLM.read(task_in(tmp_path)) == {0: Reported(0.25, 1.0, None), 1: Reported(0.5, 1.5, None)}


def aiperf_export(directory: Path, unit: str = "ms") -> None:
    out = directory / "out"
    out.mkdir()
    sessions = [
        {"session_id": name, "payloads": [{"seed": seed}]} for name, seed in (("a", 1), ("b", 0), ("c", 2))
    ]
    (out / "inputs.json").write_text(json.dumps({"data": sessions}))

    def record(session: str, ttft: float, gaps: list[float]) -> dict[str, object]:
        latencies = {"value": gaps, "unit": unit}
        metrics = {"time_to_first_token": {"value": ttft, "unit": unit}, "inter_chunk_latency": latencies}
        return {"metadata": {"conversation_id": session}, "metrics": metrics}

    failed = {"metadata": {"conversation_id": "c"}, "metrics": {}, "error": {"message": "reset"}}
    records = [record("b", 250.0, [125.0, 250.0]), record("a", 500.0, [500.0, 1000.0]), failed]
    (out / "profile_export.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))


def test_aiperf_is_matched_by_its_conversations_and_speaks_milliseconds(tmp_path: Path) -> None:
    aiperf_export(tmp_path)
    assert AIPERF.read(task_in(tmp_path)) == {
        0: Reported(0.25, 0.375, (0.125, 0.25)),
        1: Reported(0.5, 1.5, (0.5, 1.0)),
    }


def test_another_unit_in_aiperfs_export_is_not_taken_for_milliseconds(tmp_path: Path) -> None:
    aiperf_export(tmp_path, unit="us")
    with pytest.raises(ValueError, match="'us', expected ms"):
        AIPERF.read(task_in(tmp_path))


@pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))
def test_every_stream_is_told_its_number_and_its_length(tmp_path: Path, tool: Tool) -> None:
    prepare(tool, task_in(tmp_path, streams=12, chunks=34))
    lines = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    for stream, line in enumerate(lines):
        seed = line.get("seed", line.get("extra", {}).get("seed"))
        assert seed == stream or line["prompt"].startswith(f"stream #{stream}:")
        assert 34 in line.values()
    assert (task_in(tmp_path).tokenizer / "tokenizer.json").exists()


# --------------------------------------------------------------------------------------------- errors and CPU
def truth_of(
    streams: int, chunks: int, first_s: float = 100.0, interval_s: float = 0.010
) -> dict[int, Truth]:
    left = first_s + interval_s * np.arange(chunks)
    return {stream: Truth(first_s - 0.010, left) for stream in range(streams)}


def test_errors_are_those_against_the_log() -> None:
    truth = truth_of(2, 3)
    said = {
        0: Reported(ttft_s=0.012, span_s=0.020, gaps_s=(0.010, 0.010)),
        1: Reported(ttft_s=0.018, span_s=0.026, gaps_s=(0.013, 0.013)),
    }
    gap_ms, ttft_ms, span_ms = peers.compare(said, truth, 2, 3)
    assert gap_ms == pytest.approx(3.0)  # of 0, 0, 3, 3
    assert ttft_ms == pytest.approx(5.0)  # of 2 and 8
    assert span_ms == pytest.approx(5.94)  # p99 of 0 and 6, interpolated


def test_no_times_between_chunks_is_not_no_error() -> None:
    said = {0: Reported(0.010, 0.020, None)}
    assert peers.compare(said, truth_of(1, 3), 1, 3)[0] is None


@pytest.mark.parametrize(
    ("said", "truth", "words"),
    [
        ({0: Reported(0.01, 0.02, None)}, truth_of(2, 3), "1 of 2 streams are in its export"),
        ({0: Reported(0.01, 0.02, None)}, truth_of(1, 3), "1 of 2 streams reached the server"),
        ({s: Reported(0.01, 0.02, None) for s in range(2)}, truth_of(2, 4), "4 chunks left, not 3"),
        ({s: Reported(0.01, 0.02, (0.02,)) for s in range(2)}, truth_of(2, 3), "3 chunks left, it saw 2"),
    ],
)
def test_a_run_that_lost_something_has_no_figures(
    said: dict[int, Reported], truth: dict[int, Truth], words: str
) -> None:
    with pytest.raises(peers.Failed, match=words):
        peers.compare(said, truth, 2, 3)


@pytest.mark.parametrize(("imports_s", "report_s"), [(0.0, 0.0), (5.0, 0.0), (0.0, 3.0), (7.0, 9.0)])
def test_cpu_per_chunk_is_that_of_the_streams_alone(imports_s: float, report_s: float) -> None:
    truth = truth_of(64, 400)  # requests arrive at 99.99 s, the last chunk leaves at 103.99 s
    said = {stream: Reported(0.010, 3.99, None) for stream in truth}
    samples = [
        (80.0, 0.0),
        (99.99, imports_s),
        (103.99, imports_s + 2.0),
        (110.0, imports_s + 2.0 + report_s),
    ]
    assert peers.cpu_per_chunk_us(samples, said, truth) == pytest.approx(2.0 / (64 * 400) * 1e6)


def test_a_tool_that_lags_pays_until_it_has_seen_the_last_chunk() -> None:
    truth = truth_of(64, 400)
    said = {stream: Reported(0.010, 3.99, None) for stream in truth}
    said[5] = Reported(0.010, 5.99, None)
    samples = [(90.0, 0.0), (110.0, 20.0)]  # a whole core all the time
    assert peers.cpu_per_chunk_us(samples, said, truth) == pytest.approx(6.0 / (64 * 400) * 1e6)


def test_streams_that_wait_for_others_do_not_run_at_once() -> None:
    first, second, late = (Truth(at, np.array([at + 1.0, at + 2.0])) for at in (0.0, 1.0, 2.5))
    assert peers.most_at_once({0: first, 1: second, 2: late}) == 2
    assert peers.most_at_once({0: first, 1: late}) == 1


def test_cpu_over_few_chunks_is_not_told() -> None:
    truth = truth_of(1, 384)
    said = {0: Reported(0.010, 3.83, None)}
    assert peers.cpu_per_chunk_us([(99.0, 0.0), (104.0, 1.0)], said, truth) is None


def test_the_notes_tell_what_the_figures_are_of_and_who_did_not_keep_up() -> None:
    def figures(gap_ms: float | None, at_once: int) -> peers.PeerFigures:
        return peers.PeerFigures(20.0, gap_ms, 3.0, 4.0, 9.0, 12.0, at_once)

    compared = peers.Peers({}, 0.010)
    compared._rows[("bench_serving", 64)] = peers.Row([figures(1.0, 64)] * 3)
    compared._rows[("guidellm", 64)] = peers.Row([figures(None, 50)] * 2, "gave up after 68 s")
    compared._rows[("aiperf", 64)] = peers.Row([], "exit 1: no")
    notes = "\n".join(compared.notes())
    assert "medians of 3 at 64 streams" in notes
    assert "sglang.bench_serving 12 s (9 s of CPU), GuideLLM 12 s (9 s of CPU)." in notes
    assert "GuideLLM exports when a request's first and last chunk came" in notes
    assert "GuideLLM had at most 50 of 64 streams running at once" in notes
    assert notes.count("at once") == 1
    assert "AIPerf" not in notes


# --------------------------------------------------------------------------------------------------- commands
def test_a_command_that_does_not_end_is_killed_with_all_its_processes(tmp_path: Path) -> None:
    nest = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pids', 'w').write(f'{child.pid}'); time.sleep(600)\n"
    )
    with pytest.raises(bounded.GaveUp, match="gave up after 2 s"):
        bounded.run([sys.executable, "-c", nest], QUIET, tmp_path, tmp_path / "log", limit_s=2)
    child = int((tmp_path / "pids").read_text())
    end = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the child lives on"
        time.sleep(0.05)


def test_cpu_of_children_counts_while_they_live_and_after(tmp_path: Path) -> None:
    burn = (
        "import time; end = time.process_time() + 0.6\nwhile time.process_time() < end: pass\ntime.sleep(0.7)"
    )
    nest = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print('done')"
    ended = bounded.run([sys.executable, "-c", nest], QUIET, tmp_path, tmp_path / "log", limit_s=120)
    assert (ended.status, ended.output) == (0, "done\n")
    assert ended.cpu_s >= 0.6
    seen = [cpu for _, cpu in ended.samples]
    assert seen == sorted(seen)
    assert seen[-1] >= 0.5  # the child sleeps 0.7 s after it burnt: a look or two fall into that time


FAKE = """
import json, sys, time, urllib.request
url, prompts, out = sys.argv[1:]
ttfts, itls = [], []
for line in open(prompts):
    start, arrived = time.perf_counter(), []
    with urllib.request.urlopen(urllib.request.Request(url, line.encode())) as answer:
        for data in answer:
            if b"some words" in data:
                arrived.append(time.perf_counter())
    ttfts.append(arrived[0] - start)
    itls.append([b - a for a, b in zip(arrived, arrived[1:])])
open(out, "w").write(json.dumps({"ttfts": ttfts, "itls": itls}))
"""


def fake(directory: Path, code: str) -> Installed:
    """A load tool of a few lines, which writes what bench_serving would."""
    (directory / "fake_tool.py").write_text(code)
    tool = Tool(
        "fake",
        "fake",
        "fake_tool",
        SGLANG.prompt,
        lambda task: [task.url, str(task.prompts), str(task.directory / "out.jsonl")],
        SGLANG.read,
    )
    return Installed(tool, Path(sys.executable), "fake 1.0", directory)


@needs_compiler
def test_a_tool_is_run_read_and_held_to_the_log(tmp_path: Path) -> None:
    with PacedServer(0.002, 0.002) as server:
        played = peers.play(fake(tmp_path, FAKE), server, streams=3, chunks=40, interval_s=0.002)
    gap_ms, _, span_ms = peers.compare(played.reported, played.truth, 3, 40)
    assert gap_ms is not None
    assert 0.0 < gap_ms < 1000
    assert 0.0 < span_ms < 1000
    assert played.cpu_s > 0


@needs_compiler
def test_a_tool_that_breaks_says_so_in_its_row_and_is_not_tried_with_more_streams(tmp_path: Path) -> None:
    broken = fake(tmp_path, "import sys; print('no luck'); sys.exit(3)")
    compared = peers.Peers({"bench_serving": broken}, 0.002)
    with PacedServer(0.002, 0.002) as server:
        for streams in (64, 256):
            compared.take_turn(server, 0, streams, 20, lambda text: None)
    ((_, at_64),) = compared.at(64)
    ((_, at_256),) = compared.at(256)
    assert at_64.failed == "exit 3: no luck"
    assert at_256.failed == "not run: it failed with fewer streams"
    assert compared.notes() == []


@needs_compiler
def test_without_a_seed_the_prompt_names_the_stream() -> None:
    body = {"messages": [{"content": "stream #41: Write"}], "max_completion_tokens": 7, "stream": True}
    with PacedServer(0.001, 0.001) as server:
        request = urllib.request.Request(server.url, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
        log = server.take_log()
    assert {stream: len(truth.left_s) for stream, truth in log.items()} == {41: 7}


HANGING = (
    FAKE.split("    with urllib")[0].replace("for line", "import socket\nheld = []\nfor line")
    + """
    line = line.encode()
    held.append(socket.create_connection(url.removeprefix("http://").split(":")))
    held[-1].sendall(b"POST / HTTP/1.1\\r\\ncontent-length: %d\\r\\n\\r\\n%s" % (len(line), line))
time.sleep(600)
"""
)


@needs_compiler
def test_of_a_tool_that_was_killed_nothing_stays_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "START_S", 1.0)
    monkeypatch.setattr(peers, "SLOWNESS", 0.0)
    with PacedServer(0.002, 0.002) as server:
        with pytest.raises(peers.Failed, match="gave up after 1 s"):
            peers.play(fake(tmp_path, HANGING), server, streams=3, chunks=5_000, interval_s=0.002)
        assert server.take_log() == {}


# ----------------------------------------------------------------------------------------------- installation
def test_what_is_not_there_is_told_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_install, "HOME", tmp_path)
    (tmp_path / "aiperf.reason").write_text("ERROR: no space left\n")
    found = peer_install.find(["guidellm", "aiperf"])
    assert found.installed == {}
    assert found.missing["guidellm"] == "not installed (python -m proofs.bench.peers install)"
    assert found.missing["aiperf"] == "could not be installed: ERROR: no space left"


def test_an_installation_that_fails_leaves_its_reason_and_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def make(name: str, any_torch: bool) -> None:
        raise peer_install.CannotInstall("ERROR: No matching distribution found for x")

    monkeypatch.setattr(peer_install, "HOME", tmp_path / "new")
    monkeypatch.setattr(peer_install, "_make", make)
    found = peer_install.install(["guidellm", "aiperf"])
    assert set(found.missing) == {"guidellm", "aiperf"}
    assert capsys.readouterr().out.count("could not be installed: ERROR: No matching distribution") == 2


def test_a_cuda_build_of_torch_is_seen_before_it_is_downloaded() -> None:
    def report(*names: str) -> str:
        return json.dumps({"install": [{"metadata": {"name": name, "version": "1"}} for name in names]})

    assert peer_install.takes_cuda(report("torch", "sympy", "nvidia-cublas"))
    assert not peer_install.takes_cuda(report("torch", "sympy"))


def test_of_pips_many_words_the_error_is_kept() -> None:
    output = "WARNING: one\nERROR: No matching distribution found for x==1\n\n[notice] a new release of pip\n"
    assert peer_install.last_words(output) == "ERROR: No matching distribution found for x==1"
    assert peer_install.last_words("one\ntwo\n") == "two"
    assert (
        peer_install.last_words("install.py: could not:\n  | ERROR: none\n  | see above\n") == "ERROR: none"
    )


def test_a_run_sees_no_hub_no_proxy_no_key_and_no_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {"HTTPS_PROXY": "http://proxy:1", "PYTHONPATH": "/x", "OPENAI_API_KEY": "k", "GUIDELLM__X": "1"}
    for name, value in hidden.items():
        monkeypatch.setenv(name, value)
    environment = Installed(AIPERF, Path("python"), "aiperf").environment(tmp_path)
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert environment["HOME"] == str(tmp_path)
    assert environment["PATH"] == os.environ["PATH"]
    assert not hidden.keys() & environment.keys()


def test_peers_are_chosen_by_name() -> None:
    assert peers.chosen("all") == list(TOOLS)
    assert peers.chosen("none") == []
    assert peers.chosen("aiperf, guidellm") == ["aiperf", "guidellm"]
    with pytest.raises(Exception, match="no peer called wrk"):
        peers.chosen("wrk")
