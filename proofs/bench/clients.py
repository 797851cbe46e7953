"""The clients under comparison. Each plays `streams` streams that start at once and says when every chunk arrived.

Run as `python -m proofs.bench.clients NAME`: jobs come as pickles on stdin, results go as pickles to stdout, so that each
client has a process of its own that is warm, and its CPU is that process's.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from suite.load import ClosedLoop, Endpoint, Prompt, Round, Sampling, Workload, play
from suite.load.endpoint import TransportName

CONTENT = (
    "Write a long and detailed account of how bread is baked in a village oven, from the fire to the crust."
)
"""What is asked: the paced server answers all alike."""


@dataclass(frozen=True, slots=True)
class Job:
    """One round: `streams` streams of `chunks` chunks each."""

    url: str
    streams: int
    chunks: int


@dataclass(slots=True)
class Result:
    """Per stream (by seed) its start and the arrival of each chunk with tokens, on CLOCK_MONOTONIC; CPU and wall time."""

    started_s: dict[int, float] = field(default_factory=dict)
    arrived_s: dict[int, list[float]] = field(default_factory=dict)
    tokens: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    failed: list[str] = field(default_factory=list)


def ours(job: Job) -> Result:
    """`suite.load.play` as it comes, decoding included."""
    return _ours(job, "stamping")


def ours_public(job: Job) -> Result:
    """`suite.load.play` over the openai package's public aiohttp transport."""
    return _ours(job, "public")


def ours_tokens_only(job: Job) -> Result:
    """As `ours`, but of the timelines only the number of tokens is handed out."""
    round_ = _play(job, "stamping")
    failed = [str(r.fault) for r in round_.requests if r.fault is not None]
    return Result(tokens=sum(int(r.timeline.tokens[-1]) for r in round_.ok), failed=failed)


def _ours(job: Job, transport: TransportName) -> Result:
    round_ = _play(job, transport)
    result = Result()
    for record in round_.requests:
        if record.fault is not None:
            result.failed.append(str(record.fault))
        result.started_s[record.index] = record.started_s + round_.started_monotonic_s
        result.arrived_s[record.index] = (record.timeline.t_s + round_.started_monotonic_s).tolist()
    return result


def _play(job: Job, transport: TransportName) -> Round:
    prompt = Prompt("bench", "prose", ({"role": "user", "content": CONTENT},))
    return play(
        Endpoint(job.url, "paced", transport=transport),
        Workload("bench", (prompt,)),
        ClosedLoop(job.streams, job.streams),
        sampling=Sampling(max_tokens=job.chunks, seed=0, seed_per_request=True),
    )


def typed_openai(job: Job) -> Result:
    """AsyncOpenAI as its documentation shows it: `async for chunk in stream`, on pydantic objects."""
    import openai

    result = Result()

    async def one(client: openai.AsyncOpenAI, seed: int) -> None:
        arrived: list[float] = []
        tokens = 0
        result.started_s[seed] = time.perf_counter()
        stream = await client.chat.completions.create(
            model="paced",
            messages=[{"role": "user", "content": CONTENT}],
            max_tokens=job.chunks,
            seed=seed,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        )
        async for chunk in stream:
            now = time.perf_counter()
            if chunk.usage is not None and chunk.usage.completion_tokens > tokens:
                tokens = chunk.usage.completion_tokens
                arrived.append(now)
        result.arrived_s[seed] = arrived

    async def everyone() -> None:
        async with openai.AsyncOpenAI(base_url=f"{job.url}/v1", api_key="none", max_retries=0) as client:
            await asyncio.gather(*(one(client, seed) for seed in range(job.streams)))

    asyncio.run(everyone())
    return result


def plain_aiohttp(job: Job) -> Result:
    """The loop one would write by hand on aiohttp: lines, json, a time and a token count a chunk."""
    import aiohttp

    result = Result()

    async def one(session: aiohttp.ClientSession, seed: int) -> None:
        arrived: list[float] = []
        tokens = 0
        body = {
            "model": "paced",
            "messages": [{"role": "user", "content": CONTENT}],
            "max_tokens": job.chunks,
            "seed": seed,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        text = ""
        result.started_s[seed] = time.perf_counter()
        async with session.post(
            f"{job.url}/v1/chat/completions", data=json.dumps(body, separators=(",", ":"))
        ) as r:
            r.raise_for_status()
            async for line in r.content:
                data = line.strip().removeprefix(b"data: ")
                if not data or data == b"[DONE]":
                    continue
                chunk = json.loads(data)
                now = time.perf_counter()
                if chunk["choices"]:
                    text += chunk["choices"][0]["delta"].get("content") or ""
                usage = chunk.get("usage")
                if usage and usage["completion_tokens"] > tokens:
                    tokens = usage["completion_tokens"]
                    arrived.append(now)
        result.arrived_s[seed] = arrived

    async def everyone() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(one(session, seed) for seed in range(job.streams)))

    asyncio.run(everyone())
    return result


PUBLIC = "ours, public transport"
CLIENTS: dict[str, Callable[[Job], Result]] = {
    "ours": ours,
    PUBLIC: ours_public,
    "plain aiohttp loop": plain_aiohttp,
    "typed AsyncOpenAI": typed_openai,
}


def timed(client: Callable[[Job], Result], job: Job) -> Result:
    """Run a job and fill in its CPU and wall time."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = client(job)
    result.cpu_s, result.wall_s = time.process_time() - cpu, time.perf_counter() - wall
    return result


def _serve(name: str) -> None:
    client = CLIENTS[name]
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(timed(client, job), sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    import proofs.bench.clients  # so that pickled classes carry this module's name, not __main__

    proofs.bench.clients._serve(sys.argv[1])
