"""The load tools compared beside the clients, each as it comes: what it is told, and what its own export says of each stream.

All are asked for one thing: as many streams at once as there are prompts, one request each, chat completions, streamed,
with usage, and an export of every request. A stream is found again in the paced server's log by a number that goes with
it: a seed, or, where a tool cannot send one for each prompt, "stream #17" in the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofs.bench.clients import CONTENT
from tests.sglang_cpu.tokenizer import tokenizer_config_json, tokenizer_json

MODEL = "paced"
TOKENIZER = "bench/paced"


@dataclass(frozen=True, slots=True)
class Reported:
    """What a tool says of one stream, in seconds: time to first token, time from first to last, times between chunks.

    `gaps_s` is None where the tool's export holds no times of single chunks.
    """

    ttft_s: float
    span_s: float
    gaps_s: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Task:
    """One run of a tool: `streams` streams of `chunks` chunks from the server at `url`; its files are in `directory`."""

    url: str
    streams: int
    chunks: int
    directory: Path

    @property
    def prompts(self) -> Path:
        """The prompts, a JSON object a line."""
        return self.directory / "prompts.jsonl"

    @property
    def hub(self) -> Path:
        """A Hugging Face home that holds one tokenizer, so that nothing is asked of the real one."""
        return self.directory / "hf"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's directory."""
        return self.hub / "hub" / f"models--{TOKENIZER.replace('/', '--')}" / "snapshots" / ("0" * 40)


@dataclass(frozen=True, slots=True)
class Tool:
    """A load tool: its name in the table, the package it comes in, and how it is told and read."""

    name: str
    package: str
    module: str
    prompt: Callable[[int, int], dict[str, Any]]
    arguments: Callable[[Task], list[str]]
    read: Callable[[Task], Mapping[int, Reported]]


def prepare(tool: Tool, task: Task) -> None:
    """Write the prompts and the tokenizer."""
    lines = (json.dumps(tool.prompt(stream, task.chunks)) for stream in range(task.streams))
    task.prompts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    task.tokenizer.mkdir(parents=True)
    for name, content in (
        ("tokenizer.json", tokenizer_json()),
        ("tokenizer_config.json", tokenizer_config_json()),
    ):
        (task.tokenizer / name).write_text(json.dumps(content), encoding="utf-8")
    refs = task.tokenizer.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text(task.tokenizer.name, encoding="utf-8")


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


# -------------------------------------------------------------------------------------- sglang.bench_serving
def _sglang_prompt(stream: int, chunks: int) -> dict[str, Any]:
    message = {"role": "user", "content": CONTENT}
    usage = {"include_usage": True}
    return {"messages": [message], "max_tokens": chunks, "seed": stream, "stream_options": usage}


def _sglang_arguments(task: Task) -> list[str]:
    return [
        *("--backend", "sglang-oai-chat", "--base-url", task.url, "--model", MODEL),
        *("--tokenizer", str(task.tokenizer)),
        *("--dataset-name", "openai", "--dataset-path", str(task.prompts)),
        *("--num-prompts", str(task.streams), "--max-concurrency", str(task.streams)),
        *("--warmup-requests", "0", "--disable-tqdm"),
        *("--output-details", "--output-file", str(task.directory / "out.jsonl")),
    ]


def read_sglang(task: Task) -> dict[int, Reported]:
    """`--output-details` lists the requests in the order of the prompts: one TTFT and the times between chunks."""
    (record,) = _json_lines(task.directory / "out.jsonl")
    found = {}
    for stream, (ttft, gaps) in enumerate(zip(record["ttfts"], record["itls"], strict=True)):
        if gaps:  # a failed request has none
            found[stream] = Reported(ttft, sum(gaps), tuple(gaps))
    return found


# -------------------------------------------------------------------------------------------------- GuideLLM
def _guidellm_prompt(stream: int, chunks: int) -> dict[str, Any]:
    return {"prompt": f"stream #{stream}: {CONTENT}", "output_tokens_count": chunks}


def _guidellm_arguments(task: Task) -> list[str]:
    backend = f"kind=openai_http,target={task.url},model={MODEL},request_format=/v1/chat/completions"
    return [
        *("run", "--backend", backend),
        *("--profile", f"kind=concurrent,streams={task.streams}"),
        *("--constraint", f"kind=max_requests,count={task.streams}"),
        *("--tokenizer", f"kind=huggingface_auto,model={task.tokenizer}"),
        *("--data", f"kind=json_file,path={task.prompts}"),
        *("--output", f"kind=json,path={task.directory / 'out.json'}"),
        "--disable-console-interactive",
    ]


def read_guidellm(task: Task) -> dict[int, Reported]:
    """The report holds, of each request, when it was sent and when its first and last token came, and what was sent."""
    report = json.loads((task.directory / "out.json").read_text(encoding="utf-8"))
    found = {}
    for request in report["benchmarks"][0]["requests"]["successful"]:
        number = re.search(r"stream #(\d+)", request["request_args"])
        if number is None:
            raise ValueError("a request in GuideLLM's report does not hold the prompt that was sent")
        times = request["info"]["timings"]
        first, last = times["first_token_iteration"], times["last_token_iteration"]
        found[int(number[1])] = Reported(first - times["request_start"], last - first, None)
    return found


# ---------------------------------------------------------------------------------------------------- AIPerf
def _aiperf_prompt(stream: int, chunks: int) -> dict[str, Any]:
    return {"text": CONTENT, "output_length": chunks, "extra": {"seed": stream}}


def _aiperf_arguments(task: Task) -> list[str]:
    return [
        *("profile", "--model", MODEL, "--url", task.url, "--endpoint-type", "chat", "--streaming"),
        *("--tokenizer", TOKENIZER, "--use-server-token-count"),
        *("--input-file", str(task.prompts), "--custom-dataset-type", "single_turn"),
        *("--concurrency", str(task.streams), "--request-count", str(task.streams)),
        *("--export-level", "records", "--output-artifact-dir", str(task.directory / "out")),
        *("--ui", "none", "--no-gpu-telemetry", "--no-server-metrics"),
    ]


def read_aiperf(task: Task) -> dict[int, Reported]:
    """profile_export.jsonl has a record a request; inputs.json says what each conversation sent, the seed included."""
    out = task.directory / "out"
    inputs = json.loads((out / "inputs.json").read_text(encoding="utf-8"))["data"]
    seeds = {session["session_id"]: session["payloads"][0]["seed"] for session in inputs}
    found = {}
    for record in _json_lines(out / "profile_export.jsonl"):
        metrics = record["metrics"]
        if record.get("error") or "inter_chunk_latency" not in metrics:
            continue
        gaps = tuple(gap / 1e3 for gap in _milliseconds(metrics["inter_chunk_latency"]))
        (ttft,) = _milliseconds(metrics["time_to_first_token"])
        found[seeds[record["metadata"]["conversation_id"]]] = Reported(ttft / 1e3, sum(gaps), gaps)
    return found


def _milliseconds(metric: Mapping[str, Any]) -> Sequence[float]:
    if metric["unit"] != "ms":
        raise ValueError(f"AIPerf's export is in {metric['unit']!r}, expected ms")
    value = metric["value"]
    return value if isinstance(value, list) else [value]


SGLANG = Tool(
    "sglang.bench_serving", "sglang", "sglang.bench_serving", _sglang_prompt, _sglang_arguments, read_sglang
)
GUIDELLM = Tool("GuideLLM", "guidellm", "guidellm", _guidellm_prompt, _guidellm_arguments, read_guidellm)
AIPERF = Tool("AIPerf", "aiperf", "aiperf", _aiperf_prompt, _aiperf_arguments, read_aiperf)
TOOLS = {"bench_serving": SGLANG, "guidellm": GUIDELLM, "aiperf": AIPERF}
"""By the names that `--peers` takes."""
