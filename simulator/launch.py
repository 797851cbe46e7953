"""The life of one server: arguments, the story of loading in the log, the port, serving, the end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from simulator import arguments as command_line
from simulator import checkpoint as checkpoints
from simulator import faults, gpu_state, logs, profiles
from simulator.behaviour import Behaviour
from simulator.checkpoint import Checkpoint
from simulator.profiles import Profile
from simulator.resolution import SECRETS, LaunchError, Resolved, resolve

if TYPE_CHECKING:
    import uvicorn

    from simulator.service import Service


def main(argv: list[str]) -> int:
    """Run a server until it is told to end; the exit status SGLang would have."""
    try:
        arguments = command_line.parse(argv)
    except ValueError as error:
        logs.raw(f"Traceback (most recent call last):\nValueError: {error}")
        return 1
    odd = faults.behaviour_of(arguments.own.faults)
    profile = profiles.load(arguments.own.profile)
    try:
        checkpoint = checkpoints.read(arguments.given["model_path"])
        resolved = resolve(arguments, checkpoint, profile, odd)
        start_s = profile.start_s if arguments.own.start_s is None else arguments.own.start_s
        load(resolved, checkpoint, profile, odd, start_s)
        listener = bind(resolved.settings["host"], resolved.settings["port"])
    except checkpoints.CheckpointError as error:
        logs.raw(f"Traceback (most recent call last):\n{error}")
        return 1
    except LaunchError as error:
        return give_up(error)
    from simulator.service import Service

    service = Service(arguments, checkpoint, profile, resolved, odd, start_s)
    try:
        with listener:
            return asyncio.run(serve(service, listener))
    finally:
        gpu_state.remove(service.gpu_state_file)


def give_up(error: LaunchError) -> int:
    """Write the last lines; where a child process would have died of it, end as the parent then does: by SIGKILL."""
    for line in error.lines:
        logs.raw(line)
    if not error.in_child:
        return 1
    logs.write("Received sigquit from a child process. It usually means the child failed.")
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


def load(
    resolved: Resolved, checkpoint: Checkpoint, profile: Profile, odd: Behaviour, start_s: float
) -> None:
    """Take the time that loading takes, and write what SGLang writes meanwhile. LaunchError if memory runs out."""
    settings = resolved.settings
    logs.tensor_parallel(settings["tp_size"])
    for warning in resolved.warnings:
        logs.write(warning)
    if odd.log_symptoms:
        logs.write("Current Triton version is below the recommended version. Errors may occur.")
    shown = {key: "******" if key in SECRETS and value else value for key, value in settings.items()}
    logs.write(f"server_args={shown}")
    free_gb = profile.gpu_memory_gb
    free_gb = _load_weights(checkpoint.architecture, profile.weights_gb, free_gb, start_s * 0.4, odd)
    if resolved.speculation is not None:
        _out_of_memory_if(odd.out_of_memory == "draft", "draft model")
        free_gb = _load_weights("Qwen3_5ForCausalLMMTP", profile.draft_gb, free_gb, start_s * 0.1, odd)
    tokens = resolved.limits.kv_tokens
    half_gb = tokens * profile.kv_gb_per_token / 2
    logs.scheduler(
        f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {tokens}, K size: {half_gb:.2f} GB, V size: {half_gb:.2f} GB"
    )
    free_gb -= 2 * half_gb
    logs.scheduler(f"Memory pool end. avail mem={free_gb:.2f} GB")
    _capture_graphs(free_gb, start_s * 0.3, odd, settings["disable_cuda_graph"])
    logs.scheduler(
        f"max_total_num_tokens={tokens}, chunked_prefill_size={settings['chunked_prefill_size']}, "
        f"max_prefill_tokens={settings['max_prefill_tokens']}, max_running_requests={resolved.limits.running}, "
        f"context_len={resolved.context_length}, available_gpu_mem={free_gb:.2f} GB"
    )


def _load_weights(architecture: str, size_gb: float, free_gb: float, seconds: float, odd: Behaviour) -> float:
    logs.scheduler(f"Load weight begin. avail mem={free_gb:.2f} GB")
    while odd.hang_at_start:
        signal.pause()
    logs.raw("Multi-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]")
    time.sleep(seconds)
    logs.raw(
        f"Multi-thread loading shards: 100% Completed | 1/1 [{seconds:.0f}<00:00, {1 / max(seconds, 0.01):.2f}it/s]"
    )
    free_gb -= size_gb
    logs.scheduler(
        f"Load weight end. elapsed={seconds:.2f} s, type={architecture}, avail mem={free_gb:.2f} GB, mem usage={size_gb:.2f} GB."
    )
    return free_gb


def _capture_graphs(free_gb: float, seconds: float, odd: Behaviour, disabled: bool) -> None:
    if disabled or not odd.cuda_graph:
        logs.scheduler(
            "Disable cuda graph because --disable-cuda-graph is set or the backend does not support it."
        )
        return
    logs.scheduler(
        f"Capture cuda graph begin. This can take up to several minutes. avail mem={free_gb:.2f} GB"
    )
    _out_of_memory_if(odd.out_of_memory == "capture", "cuda graph")
    time.sleep(seconds)
    logs.scheduler(
        f"Capture cuda graph end. Time elapsed: {seconds:.2f} s. mem usage=0.31 GB. avail mem={free_gb - 0.31:.2f} GB."
    )


def _out_of_memory_if(due: bool, what: str) -> None:
    if due:
        raise LaunchError(
            "Scheduler hit an exception: Traceback (most recent call last):",
            f"Exception: Capture {what} failed: CUDA out of memory. Tried to allocate 1.20 GiB.",
            "Possible solutions:",
            "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
            "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)",
            in_child=True,
        )


def bind(host: str, port: int) -> socket.socket:
    """The listening socket; only now is a port that is taken found out, as with SGLang."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it every answer waits 40 ms for an ACK
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise LaunchError(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('{host}', {port}): {reason}"
        ) from None
    return listener


async def serve(service: Service, listener: socket.socket) -> int:
    """Serve until SIGTERM or SIGINT, then let running requests finish."""
    server = _server(service)
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    logs.write(f"INFO:     Started server process [{os.getpid()}]")
    serving = loop.create_task(server.serve(sockets=[listener]))
    host, port = listener.getsockname()[:2]
    logs.write(f"INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)")
    await asyncio.sleep(service.start_s * 0.1)
    gc.collect()
    gc.freeze()  # a collection over everything imported would be seen as a late chunk
    service.start()
    show_gpus(service)
    logs.write("The server is fired up and ready to roll!")
    await ending.wait()
    logs.write("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    while service.scheduler.busy:
        await asyncio.sleep(0.05)
    logs.write("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    service.stop()
    server.should_exit = True
    await serving
    logs.write(f"INFO:     Finished server process [{os.getpid()}]")
    return 0


def show_gpus(service: Service) -> None:
    """Write what nvidia-smi would show, now and when throttling sets in."""
    used_gb = service.profile.gpu_memory_gb * service.resolved.settings["mem_fraction_static"]
    state = gpu_state.healthy(service.resolved.settings["tp_size"], used_gb, service.profile.gpu_memory_gb)
    state["answers"] = service.behaviour.card_answers
    gpu_state.write(service.gpu_state_file, state)
    if service.behaviour.throttle:
        hot = gpu_state.throttled(state, service.behaviour.throttle, service.behaviour.slowed_by)
        wait_s = service.behaviour.throttle_after_s
        asyncio.get_running_loop().call_later(wait_s, gpu_state.write, service.gpu_state_file, hot)


def _server(service: Service) -> uvicorn.Server:
    import uvicorn

    from simulator.app import build

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # SIGTERM drains first, see serve()

    return Server(
        uvicorn.Config(
            build(service),
            loop="asyncio",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="critical",
            server_header=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=5,
        )
    )
