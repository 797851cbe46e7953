"""The server's log: lines in SGLang's shapes, on standard error."""

from __future__ import annotations

import sys
import time

_rank = ""


def tensor_parallel(size: int) -> None:
    """From now on mark scheduler lines with the first rank, as SGLang does when there are several."""
    global _rank
    _rank = " TP0" if size > 1 else ""


def write(text: str) -> None:
    """One line of the server's main process."""
    _line("", text)


def scheduler(text: str) -> None:
    """One line of the scheduler process."""
    _line(_rank, text)


def raw(text: str) -> None:
    """Text without a time in front: tracebacks, progress bars."""
    print(text, file=sys.stderr, flush=True)


def scheduler_crash() -> None:
    """What is left in the log when a scheduler process has died of an error in a kernel."""
    scheduler(
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "sglang/srt/managers/scheduler.py", line 0, in run_scheduler_process\n'
        "    scheduler.event_loop_overlap()\n"
        "RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    write("Received sigquit from a child process. It usually means the child failed.")


def gpu_lost() -> None:
    """What is left in the log when a GPU has fallen off the bus."""
    raw("NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
    scheduler(
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "sglang/srt/managers/scheduler.py", line 0, in run_scheduler_process\n'
        "    scheduler.event_loop_overlap()\n"
        "torch.AcceleratorError: CUDA error: GPU is lost"
    )
    write("Received sigquit from a child process. It usually means the child failed.")


def _line(rank: str, text: str) -> None:
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{rank}] {text}", file=sys.stderr, flush=True)
