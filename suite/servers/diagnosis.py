"""How a server's last words and exit status become a named failure: a table of rules, the first that fits wins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suite import xids
from suite.servers import errors
from suite.servers.errors import Evidence, LaunchFailed
from suite.servers.phases import DRAFT_WEIGHTS, WEIGHTS
from suite.sglang.flags import canonical, history_of


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of an end.

    ``code`` is the exit status (negative for a signal, ``None`` while the server still runs), ``kernel`` the
    kernel's own lines since the launch, ``cards`` the PCI addresses of the GPUs it was given (none: any), ``status`` what the container engine or systemd says.
    """

    lines: list[str]
    phase: str
    code: int | None = None
    out_of_memory_kills: int = 0
    kernel: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    status: str = ""
    first_command: tuple[str, ...] = ()
    version: str | None = None

    @property
    def killed(self) -> bool:
        """Ended by SIGKILL: by itself (SGLang, when a child dies), by the kernel, or by somebody."""
        return self.code in (-9, 137)


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern of one log line, and the failure it means.

    ``summary`` and ``advice`` may use the pattern's groups; ``because`` must hold too, if given.
    """

    pattern: re.Pattern[str]
    kind: type[LaunchFailed]
    summary: str
    advice: str
    because: Callable[[Signs], bool] = lambda signs: True


def _rule(
    pattern: str,
    kind: type[LaunchFailed],
    summary: str,
    advice: str,
    because: Callable[[Signs], bool] = lambda signs: True,
) -> Rule:
    return Rule(re.compile(pattern), kind, summary, advice, because)


_COMBINATION = (
    "Compare with the command line above; the line of SGLang's source that refused it is in the log."
)
_LOWER = "LOWER --mem-fraction-static: weights and pools left too little for this."
_ERROR = re.compile(r"\berror\b", re.IGNORECASE)
_LAST_CHARS = 200
_HALF_COPIED = "Compare the directory with its source: shards are missing or were copied in part."

# Texts of SGLang 0.5.9 to 0.5.23 (server_args.py, arg_groups/, model_loader/, model_executor/, engine.py),
# transformers, torch, CUDA, docker and podman. Causes stand before consequences.
RULES: tuple[Rule, ...] = (
    _rule(
        r"address already in use|\bport (?:number )?\d+ is (?:already )?in use",
        errors.PortTaken,
        "another process took the port while the server was loading",
        "Start again: a free port is picked when [targets.NAME] gives none.",
    ),
    _rule(
        r"No module named '?(?P<module>[\w.]+)",
        errors.CannotStart,
        "the interpreter has no module {module}",
        "Name the interpreter of the environment where SGLang is installed: launch.python.",
        lambda signs: signs.code == 1 and len(signs.lines) < 30,
    ),
    _rule(
        r"container-init binary not found",
        errors.CannotStart,
        "podman has no init to put into the container",
        "Install catatonit on the host.",
    ),
    _rule(
        r"pull access denied|manifest unknown|could not select device driver|unknown or invalid runtime"
        r"|short-name|[Nn]o such image|Error response from daemon|Cannot connect to the",
        errors.CannotStart,
        "the container engine cannot start this image: {line}",
        "Run the command above yourself, and check image and gpus in [targets.NAME.launch].",
        lambda signs: bool(signs.first_command) or signs.code == 125,
    ),
    _rule(
        r"num.nextn_predict_layers is not in the config|not found in MTP model|Unexpected MTP weight",
        errors.DraftWeightsMissing,
        "the checkpoint has no usable MTP weights: {line}",
        "Use a checkpoint with its MTP tensors (some quantized copies leave them out), or leave NEXTN off.",
    ),
    _rule(
        r"Cannot find any model weights with `(?P<path>.*?)`",
        errors.DraftWeightsMissing,
        "no draft weights in {path}",
        "Check --speculative-draft-model-path.",
        lambda signs: signs.phase == DRAFT_WEIGHTS,
    ),
    _rule(
        r"Cannot find any model weights with `(?P<path>.*?)`",
        errors.WeightsMissing,
        "no weights in {path}",
        _HALF_COPIED,
    ),
    _rule(
        r"Repo id must be in the form.*?'(?P<path>[^']+)'\. Use"
        r"|(?P<path2>\S+) (?:is not a local folder|does not appear to have a file named)"
        r"|Incorrect path_or_model_id: '(?P<path3>[^']+)'",
        errors.WeightsMissing,
        "no checkpoint at {path}",
        "Check model in [targets.NAME]; a relative path counts from the directory the server starts in.",
    ),
    _rule(
        r"SafetensorError|Error while deserializing header|No such file or directory: '?(?P<path>\S+\.safetensors)",
        errors.WeightsMissing,
        "a shard of the checkpoint cannot be read: {line}",
        _HALF_COPIED,
    ),
    _rule(
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        errors.OutOfMemory,
        "not enough GPU memory for the KV pools: they came out empty",
        "RAISE --mem-fraction-static, or leave the server more: fewer running requests, more cards.",
    ),
    _rule(
        r"[Rr]aise --mem-fraction-static|increase --mem-fraction-static",
        errors.OutOfMemory,
        "not enough GPU memory for the pools: {line}",
        "RAISE --mem-fraction-static, or follow the server's own advice.",
    ),
    _rule(
        r"Capture (?:\w+ )*(?:cuda |CUDA )?graph failed|set --mem-fraction-static to a smaller value",
        errors.OutOfMemory,
        "CUDA graphs could not be captured",
        _LOWER + " Or capture fewer: --cuda-graph-max-bs (from 0.5.20 on: --cuda-graph-max-bs-decode).",
    ),
    _rule(
        r"OutOfMemoryError|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY",
        errors.OutOfMemory,
        "the weights do not fit into GPU memory",
        "Use more cards (--tp-size), or a smaller quantization; see that no other process holds the GPUs.",
        lambda signs: signs.phase in (WEIGHTS, DRAFT_WEIGHTS),
    ),
    _rule(
        r"OutOfMemoryError|CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|Prefill out of memory",
        errors.OutOfMemory,
        "GPU memory ran out while {phase}",
        _LOWER,
    ),
    _rule(
        r"no CUDA-capable device|CUDA driver version is insufficient|uncorrectable (?:ECC|NVLink)|GPU is lost"
        r"|fallen off the bus|Driver/library version mismatch|CUDA error: (?:unknown error|system not yet)"
        r"|Failed to initialize NVML|nvidia-smi has failed",
        errors.DriverError,
        "the GPU or its driver failed: {line}",
        "This is the machine, not SGLang: see nvidia-smi and the kernel's log; reset the GPU or reboot.",
    ),
    _rule(
        r"Unknown speculative algorithm name: (?P<name>\S+)",
        errors.IncompatibleFlags,
        "this SGLang has no speculative algorithm {name}",
        "NEXTN is MTP; lower case is accepted from 0.5.16 on.",
    ),
    _rule(
        r"speculative_num_draft_tokens is None",
        errors.IncompatibleFlags,
        "SGLang refuses --speculative-num-draft-tokens without --speculative-num-steps",
        "Give --speculative-num-steps and --speculative-eagle-topk too, or neither of the three.",
    ),
)

# What went wrong in SGLang's own reading of its flags: the trace goes through these files.
_READS_FLAGS = re.compile(r'File "[^"]*/(?:server_args|arg_groups/\w+)\.py", line \d+')
_EXCEPTION = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt)(?::\s.*)?$")
_ARGPARSE = re.compile(
    r"error: (?P<what>unrecognized arguments|ambiguous option|argument|the following arg)\S*:? ?(?P<rest>.*)"
)
_KERNEL_KILL = re.compile(r"(?:Out of memory|Memory cgroup out of memory).*?Killed process.*")


def diagnose(signs: Signs, evidence: Evidence) -> LaunchFailed:
    """The failure that a server's end shows."""
    return (
        _by_flags(signs, evidence)
        or _by_kernel(signs, evidence)
        or _by_rule(signs, evidence, RULES)
        or _by_start(signs, evidence)
        or _by_trace(signs, evidence)
        or _by_status(signs, evidence)
    )


def hopeless(signs: Signs, evidence: Evidence) -> LaunchFailed | None:
    """The failure of a server that still runs and never will be ready; SGLang notices minutes later."""
    return _by_rule(signs, evidence, RULES[:1])


def _by_rule(signs: Signs, evidence: Evidence, rules: Iterable[Rule]) -> LaunchFailed | None:
    for rule in rules:
        if not rule.because(signs):
            continue
        for line in reversed(signs.lines):  # a trace quotes its source before it comes to the point
            if match := rule.pattern.search(line):
                groups = {re.sub(r"\d$", "", k): v for k, v in match.groupdict().items() if v}
                words = {"path": "?", **groups, "line": _bare(line), "phase": signs.phase}
                return rule.kind(rule.summary.format(**words), rule.advice.format(**words), evidence)
    return None


def _by_flags(signs: Signs, evidence: Evidence) -> LaunchFailed | None:
    """argparse's own words: it exits 2 and says why in its last line."""
    if signs.code != 2:
        return None
    for line in reversed(signs.lines[-50:]):
        if match := _ARGPARSE.search(line):
            said = line[line.index("error: ") + 7 :]
            named = re.findall(r"--[A-Za-z][\w-]*", said)
            advice = [_became(flag, signs) for flag in named if match["what"].startswith("unrec")]
            return errors.IncompatibleFlags(
                f"this SGLang refuses its command line: {said}", "\n".join(filter(None, advice)), evidence
            )
    return None


def _became(flag: str, signs: Signs) -> str:
    """What a flag was called before or is called now: from the table by version, else by likeness."""
    known = history_of(flag, signs.version)
    if known:
        return known + "."
    usage = {canonical(name) for line in signs.lines for name in re.findall(r"--[a-z][\w-]*", line)}
    near = difflib.get_close_matches(canonical(flag), sorted(usage - {canonical(flag)}), n=1)
    return f"{flag} is unknown to it; it has --{near[0]}." if near else f"{flag} is unknown to it."


def _by_kernel(signs: Signs, evidence: Evidence) -> LaunchFailed | None:
    found = xids.of_cards(xids.read("\n".join(signs.kernel)), signs.cards)
    if (xid := xids.worst(found)) is not None:
        return _by_xid(xid, signs, evidence)
    said = next((m.group() for line in signs.kernel if (m := _KERNEL_KILL.search(line))), "")
    scheduler = any("died during initialization (exit code: -9)" in line for line in signs.lines)
    if "OOMKilled=true" in signs.status or "oom-kill" in signs.status:
        said = said or signs.status
    elif not (signs.out_of_memory_kills and (signs.killed or scheduler)):
        return None
    return errors.KilledByKernel(
        f"the machine ran out of main memory and the kernel killed the server while {signs.phase}"
        + (f": {said}" if said else ""),
        "Give the machine (or the container's memory limit) more, or load with less: fewer parallel loaders.",
        evidence,
    )


def _by_xid(xid: xids.Xid, signs: Signs, evidence: Evidence) -> LaunchFailed:
    if xid.meaning.whose == "program":
        return errors.KernelFault(
            f"this build's kernels failed on a GPU while {signs.phase}: {xid}",
            "This is the program, not the machine: the server's last lines name the kernel or the place. Another "
            "backend (--attention-backend, --moe-runner-backend) may avoid it; report it with these lines.",
            evidence,
        )
    return errors.DriverError(
        f"the GPU's driver reported an error: {xid}",
        "This is the machine, not SGLang: reset the GPU or reboot, then run again.",
        evidence,
    )


def _by_trace(signs: Signs, evidence: Evidence) -> LaunchFailed | None:
    raised = next((line for line in reversed(signs.lines) if _EXCEPTION.match(line)), None)
    if raised and any(_READS_FLAGS.search(line) for line in signs.lines[-60:]):
        where = next(line.strip() for line in reversed(signs.lines) if _READS_FLAGS.search(line))
        return errors.IncompatibleFlags(
            f"this SGLang refuses this combination of flags: {raised} ({where})", _COMBINATION, evidence
        )
    child = next((line for line in signs.lines if "Received sigquit from a child process" in line), None)
    child = child or next((line for line in signs.lines if "died during initialization" in line), None)
    if child:
        return errors.ChildDied(
            f"a process of the server died while {signs.phase}: {raised or _bare(child)}",
            "The child's own last words are in the log above that line.",
            evidence,
        )
    if raised and signs.code:
        return errors.ExitedEarly(
            f"the server ended with {_status(signs)} while {signs.phase}: {raised}", "", evidence
        )
    return None


def _by_start(signs: Signs, evidence: Evidence) -> LaunchFailed | None:
    """The server's program was never reached: the engine or systemd refused, or there is no such program."""
    if not signs.first_command and signs.code not in (125, 126, 127):
        return None
    program = signs.first_command[0] if signs.first_command else "the command"
    last = next((_bare(line) for line in reversed(signs.lines) if line.strip()), "it printed nothing")
    return errors.CannotStart(
        f"{program} ended with {_status(signs)} before there was a server: {last}",
        "Run the command above yourself.",
        evidence,
    )


def _by_status(signs: Signs, evidence: Evidence) -> LaunchFailed:
    advice = ""
    if signs.killed:
        advice = (
            "Nothing of SGLang says that a child died, and the kernel counted no kill for memory: somebody "
            "killed it (kill -9, a container's limit, a batch system)."
        )
    status = f"; {signs.status}" if signs.status else ""
    last = next((_bare(line) for line in reversed(signs.lines) if _ERROR.search(line)), "")
    said = f": {last[:_LAST_CHARS]}" if last and not signs.killed else ""
    return errors.ExitedEarly(
        f"the server ended with {_status(signs)} while {signs.phase}{status}{said}", advice, evidence
    )


def _status(signs: Signs) -> str:
    if signs.code is not None and signs.code < 0:
        return f"signal {-signs.code}"
    return f"exit status {signs.code}"


def _bare(line: str) -> str:
    """A log line without SGLang's time stamp and rank."""
    return re.sub(r"^\[[^\]]*\] ", "", line.strip())


def signs_of(
    news: Mapping[str, Any],
    lines: list[str],
    phase: str,
    version: str | None,
    cards: tuple[str, ...] = (),
) -> Signs:
    """The supervisor's news of an exit as signs."""
    status = " ".join(news["status"].split())
    return Signs(
        lines=lines,
        phase=phase,
        code=_code_by_name(status, news["code"]),
        out_of_memory_kills=news["out_of_memory_kills"],
        kernel=tuple(news["kernel"]),
        cards=cards,
        status=status,
        first_command=tuple(news["command"] or ()),
        version=version,
    )


def _code_by_name(status: str, code: int) -> int:
    """The server's own exit status where the process watched was only the engine's or systemd's client."""
    if match := re.search(r"\bExitCode=(\d+)", status):
        return int(match[1])
    if match := re.search(r"\bExecMainStatus=(\d+)", status):
        killed = re.search(r"\bExecMainCode=[23]\b", status)  # CLD_KILLED, CLD_DUMPED
        return -int(match[1]) if killed else int(match[1]) or code
    return code
