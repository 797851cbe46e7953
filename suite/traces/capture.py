"""Take a trace: ask a running SGLang to profile a bounded number of steps, give it something to do, fetch what it wrote."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from suite.foreign import MIB, one_line
from suite.hosts import Host, HostError
from suite.load import ClosedLoop, Endpoint, LoadError, Sampling, play, workloads
from suite.sglang import http
from suite.sglang.errors import ServerProbeError
from suite.traces.errors import TraceError
from suite.traces.torch_trace import PACKED_BYTES, Span, read

CONTENT, PROMPT_CHARS = "code", 400
"""What is asked: the same prompts of both builds, short enough for any context."""
MOST_TOKENS_A_STEP = 8
"""Answers are made so long that even a server that verifies this many tokens per step takes all steps."""
TOLERATED_WAIT_S = 120.0
"""For the file after the last step: SGLang writes it while it serves nothing else."""
LOOK_EVERY_S = 0.5
SUFFIX = ".trace.json.gz"
FIRST_RANK = re.compile(r"-TP-0(?=[-.])")


@dataclass(frozen=True, slots=True)
class Capture:
    """How a profile is taken: decoding steps, clients at a time, whether GPUs are watched, seconds for an answer."""

    steps: int
    clients: int = 1
    gpus: bool = True
    request_s: float = 600.0

    @property
    def max_tokens(self) -> int:
        return self.steps * MOST_TOKENS_A_STEP


@contextmanager
def folder_on(host: Host) -> Iterator[str]:
    """A folder of the host for traces, gone at the end with what is in it.

    Raises HostError where it cannot be made.
    """
    made = host.run(["mktemp", "-d", "-t", "sglang-perf-gate-profile.XXXXXX"]).check().stdout.strip()
    try:
        yield made
    finally:
        host.run(["rm", "-r", "-f", "--", made])


def capture(
    endpoint: Endpoint,
    host: Host,
    folder: str,
    wanted: Capture,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[bytes, list[Span]]:
    """A trace of the server's first rank, as it was written and as it was read.

    endpoint: of a server that serves nothing else meanwhile; folder: of its host, where it may write. The first
    answers are not profiled: they compile and capture. Raises TraceError for a server that does not profile, or
    whose trace cannot be read; LoadError if it does not answer; HostError if its host cannot be reached.
    """
    _play(endpoint, wanted)
    body = {
        "output_dir": folder,
        # the reading of each client's prompt is a step of the server's, too
        "num_steps": wanted.steps + wanted.clients + 1,
        "activities": ["CPU", "GPU"] if wanted.gpus else ["CPU"],
        "with_stack": False,
        "record_shapes": False,
    }
    _ask(endpoint, "start_profile", body)
    try:
        _play(endpoint, wanted)
    finally:
        _stop(endpoint)
    say("profiled; waiting for the trace")
    return _fetched(host, folder)


def _play(endpoint: Endpoint, wanted: Capture) -> None:
    played = play(
        endpoint,
        workloads.load(CONTENT).sized(prompt_chars_max=PROMPT_CHARS),
        ClosedLoop(wanted.clients, wanted.clients),
        sampling=Sampling(max_tokens=wanted.max_tokens, temperature=0.0, ignore_eos=True),
        timeout_s=wanted.request_s,
        stall_s=wanted.request_s,
        unique_prefix=True,
    )
    if not played.ok:
        faults = [str(r.fault) for r in played.requests if r.fault is not None]
        raise LoadError(
            f"no request could be answered for a profile: {next(iter(faults), 'no reason given')}"
        )


def _ask(endpoint: Endpoint, what: str, body: object) -> None:
    url = f"{endpoint.root_url}/{what}"
    try:
        answer = http.ask(
            url,
            method="POST",
            body=msgspec.json.encode(body),
            headers={**endpoint.headers, "Content-Type": "application/json"},
            api_key=endpoint.admin_api_key or endpoint.api_key,
            timeout_s=60.0,
        )
    except ServerProbeError as error:
        raise TraceError(f"the server did not start its profiler: {error}") from None
    if answer.status == 404:
        raise TraceError(f"POST {url} answered 404: this server cannot profile itself")
    if answer.status != 200:
        raise TraceError(f"POST {url} answered {answer.status}: {one_line(answer.body)}")


def _stop(endpoint: Endpoint) -> None:
    """End a profile that has not come to its number of steps; one that has is refused, and that is no matter."""
    try:
        _ask(endpoint, "stop_profile", {})
    except TraceError:
        return


def _fetched(host: Host, folder: str) -> tuple[bytes, list[Span]]:
    deadline = time.monotonic() + TOLERATED_WAIT_S
    error = TraceError(
        f"the server wrote no trace into {folder} of {host.name} within {TOLERATED_WAIT_S:g} s"
    )
    size = -1
    while time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
        name = _name(host, folder)
        if name is None:
            continue
        path = f"{folder}/{name}"
        before, size = size, host.size(path) or 0
        if size > PACKED_BYTES:
            raise TraceError(
                f"{name} has {size // MIB} MiB, and {PACKED_BYTES // MIB} are read: profile fewer steps"
            )
        if size != before or not size:
            continue
        try:
            data = host.read_bytes(path, 0, PACKED_BYTES + 1)
            return data, read(data, name)
        except (TraceError, HostError) as unread:  # written on meanwhile, or a file that only its owner reads
            error = (
                unread if isinstance(unread, TraceError) else TraceError(f"{name} cannot be read: {unread}")
            )
    raise error


def _name(host: Host, folder: str) -> str | None:
    """The first rank's file: of what every rank does, one tells enough."""
    there = [name for name in host.list_dir(folder) if name.endswith(SUFFIX)]
    first = [name for name in there if FIRST_RANK.search(name)]
    return next(iter(first or there), None)
