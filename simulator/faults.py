"""The fault catalogue: names, strengths, and the inputs of the model that each one changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from simulator.behaviour import Behaviour


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to be broken: `default` is the strength when none is given, "" where it has none."""

    name: str
    strength: str
    default: str
    description: str
    apply: Callable[[Behaviour, str], Behaviour]


def _number(text: str, low: float = 0.0, high: float = 0.999) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not low <= value <= high:
        raise ValueError(f"{text} is not between {low:g} and {high:g}")
    return value


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _slow_batch(odd: Behaviour, text: str) -> Behaviour:
    fraction, _, batch = text.partition("@")
    return replace(odd, slow_batch=(_number(fraction), _count(batch or "8")))


def _loaded_loss(odd: Behaviour, text: str) -> Behaviour:
    fraction, _, batch = text.partition("@")
    return replace(odd, loaded_loss=(_number(fraction), _count(batch or "8")))


def _episodes(odd: Behaviour, text: str) -> Behaviour:
    times, _, batch = text.partition("@")
    dead, slash, period = times.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not SECONDS/PERIOD@BATCH")
    return replace(odd, episodes=(_number(dead, 0, 1e6), _number(period, 0.01, 1e6), _count(batch or "8")))


def _flip(odd: Behaviour, text: str) -> Behaviour:
    key, colon, value = text.partition(":")
    if not colon or not key:
        raise ValueError(f"{text!r} is not KEY:VALUE")
    return replace(odd, flipped_defaults=(*odd.flipped_defaults, (key.replace("-", "_"), value)))


def _remove_flag(odd: Behaviour, text: str) -> Behaviour:
    return replace(odd, removed_flags=(*odd.removed_flags, "--" + text.lstrip("-")))


def _out_of_memory(odd: Behaviour, text: str) -> Behaviour:
    if text not in ("pools", "capture", "draft"):
        raise ValueError(f"{text!r} is not pools, capture or draft")
    return replace(odd, out_of_memory=text)


def _throttle(odd: Behaviour, text: str) -> Behaviour:
    fraction, _, after = text.partition("@")
    return replace(odd, throttle=_number(fraction), throttle_after_s=_number(after or "0", 0, 1e6))


def _power_cap(odd: Behaviour, text: str) -> Behaviour:
    return replace(_throttle(odd, text), slowed_by="sw_power_cap")


def _xid(odd: Behaviour, text: str) -> Behaviour:
    number, _, after = text.partition("@")
    return replace(odd, xid=_count(number), xid_after=_count(after or "2"))


CATALOGUE: tuple[Fault, ...] = (
    # activation
    Fault("mtp-auto-on", "", "", "speculation is on without being asked for", lambda b, _: replace(b, speculate_unasked=True)),
    Fault("mtp-ignored", "", "", "NEXTN is accepted and silently not followed", lambda b, _: replace(b, ignore_speculation=True)),
    Fault("mtp-hollow", "", "", "/server_info says EAGLE, decoding is plain", lambda b, _: replace(b, hollow_speculation=True)),
    Fault("mtp-hidden", "", "", "speculation works without being asked for, /server_info says it is off",
          lambda b, _: replace(b, speculate_unasked=True, hidden_speculation=True)),
    Fault("headless-draft", "", "", "with NEXTN a checkpoint without MTP layers starts all the same, its draft random (SGLang 0.5.23 does)",
          lambda b, _: replace(b, start_headless=True)),
    # drafts
    Fault("draft-dead", "", "", "no draft is ever accepted: acceptance length 1.0", lambda b, _: replace(b, draft_dead=True)),
    Fault("draft-partial", "loss", "0.12", "draft loaded without part of its weights: acceptance length shorter by this fraction",
          lambda b, v: replace(b, acceptance_loss=_number(v))),
    Fault("other-rounding", "build", "1", "no fault: another build that rounds otherwise; greedy answers part, acceptance moves, nothing is worse",
          lambda b, v: replace(b, rounding=_count(v))),
    Fault("acceptance-drop", "loss", "0.3", "acceptance length shorter by this fraction, answers unchanged",
          lambda b, v: replace(b, acceptance_loss=_number(v))),
    Fault("draft-cost", "factor", "2.8", "drafting costs this many times as much: acceptance fine, no speed-up",
          lambda b, v: replace(b, draft_cost=_number(v, 0.1, 100))),
    Fault("collapse-when-full", "share", "0.8", "no draft is accepted while more than this share of the KV cache is in use",
          lambda b, v: replace(b, collapse_above=_number(v))),
    Fault("loaded-acceptance", "loss@batch", "0.3@8", "drafts are right less often by this fraction from this batch size on, from the start",
          _loaded_loss),
    Fault("acceptance-episodes", "seconds/period@batch", "1/2@8",
          "no draft is accepted for some seconds in every period, from this batch size on", _episodes),
    # answers
    Fault("garbage", "", "", "both lanes answer repetitive rubbish (with MTP: faster, acceptance higher)", lambda b, _: replace(b, garbage="all")),
    Fault("mtp-lane-garbage", "", "", "rubbish only while speculating", lambda b, _: replace(b, garbage="mtp")),
    Fault("short-prompts", "tokens", "20", "while speculating, prompts of fewer tokens are answered wrongly: no chat is so short",
          lambda b, v: replace(b, short_garbage=_count(v))),
    Fault("early-stop", "share", "0.4", "answers end after this share of max_tokens, ignore_eos or not",
          lambda b, v: replace(b, early_stop=_number(v, 0.01, 1.0))),
    Fault("aborts", "every", "3", "of so many requests one is given up half-way, finish_reason abort",
          lambda b, v: replace(b, abort_every=_count(v))),
    Fault("replicas", "every", "2", "of so many requests one is answered by a replica without MTP, as behind a router",
          lambda b, v: replace(b, plain_every=_count(v))),
    # speed
    Fault("slow-decode", "loss", "0.2", "decode tokens/s lower by this fraction", lambda b, v: replace(b, slow_decode=_number(v))),
    Fault("slow-decode-batch", "loss@batch", "0.2@8", "decode slower by this fraction from this batch size on", _slow_batch),
    Fault("slow-prefill", "loss", "0.3", "prefill tokens/s lower by this fraction", lambda b, v: replace(b, slow_prefill=_number(v))),
    Fault("cuda-graph-off", "", "", "decoding runs without CUDA graphs, and the log says so",
          lambda b, _: replace(b, cuda_graph=False, graph_in_log=False)),
    Fault("warmup-slow", "factor", "6", "the warm-up effect is this many times as strong, and as many times as long",
          lambda b, v: replace(b, warmup=_number(v, 0, 100), warmup_length=_number(v, 0.1, 100))),
    Fault("decay", "loss a minute", "1.0", "speed and acceptance fade with uptime, this much a minute",
          lambda b, v: replace(b, decay_per_minute=_number(v, 0, 60))),
    Fault("throttle", "loss[@seconds]", "0.15", "GPU clock lower by this fraction, visible in the GPU state file",
          _throttle),
    Fault("power-cap", "loss[@seconds]", "0.1", "as throttle, but the power cap holds the clock", _power_cap),
    # the machine beside the server
    Fault("company", "requests", "2", "after this many requests another process computes on a GPU",
          lambda b, v: replace(b, company_after=_count(v))),
    Fault("xid", "number[@requests]", "31@2", "the kernel's log shows this Xid of one GPU, the server lives on", _xid),
    Fault("card-answers", "words", "[GPU requires reset]", "one GPU answers nvidia-smi these words in place of numbers",
          lambda b, v: replace(b, card_answers=v)),
    # cache and memory
    Fault("lost-prefix-reuse", "", "", "no cached prefix is reused while speculating", lambda b, _: replace(b, reuse_while_speculating=False)),
    Fault("leak", "tokens", "256", "every request leaves this many KV tokens and one running request behind",
          lambda b, v: replace(b, leak_tokens=_count(v))),
    # configuration and reports
    Fault("flipped-default", "key:value", "attention_backend:triton", "a setting that was not given resolves to another value", _flip),
    Fault("removed-flag", "flag", "--moe-runner-backend", "this SGLang no longer knows the flag: exit 2", _remove_flag),
    Fault("renamed-metric", "", "", "acceptance keys and metrics have other names", lambda b, _: replace(b, renamed_keys=True)),
    Fault("redefined-metric", "", "", "correct drafts count the bonus token too: the identities no longer hold",
          lambda b, _: replace(b, redefined_keys=True)),
    Fault("dropped-keys", "", "", "acceptance keys and metrics are missing", lambda b, _: replace(b, dropped_keys=True)),
    Fault("usage-missing", "", "", "answers come without usage", lambda b, _: replace(b, usage_missing=True)),
    Fault("log-only", "", "", "nothing but the log is wrong: cuda graph False, warnings",
          lambda b, _: replace(b, log_symptoms=True, graph_in_log=False)),
    # the wire
    Fault("recut-chunks", "", "", "chunks are cut anew on their way: one token or several steps each", lambda b, _: replace(b, recut_chunks=True)),
    Fault("buffered-stream", "bytes", "4096", "a proxy before the server collects this much of a stream before it sends it on",
          lambda b, v: replace(b, buffered_bytes=_count(v))),
    Fault("truncated-stream", "chunks", "5", "the connection is cut after this many chunks", lambda b, v: replace(b, truncate_after=_count(v))),
    Fault("stall", "seconds", "60", "a stream pauses this long after its fifth chunk", lambda b, v: replace(b, stall_s=_number(v, 0, 1e6))),
    Fault("error-in-stream", "chunks", "5", "an error object ends the stream after this many chunks, status 200",
          lambda b, v: replace(b, error_after=_count(v))),
    Fault("html-200", "", "", "completions are answered with a proxy's HTML page and status 200", lambda b, _: replace(b, html=True)),
    # life
    Fault("hang-at-start", "", "", "loading never ends", lambda b, _: replace(b, hang_at_start=True)),
    Fault("oom-at-start", "moment", "capture", "out of memory at start: pools, capture, or draft (only with MTP)", _out_of_memory),
    Fault("crash-after", "requests", "3", "the scheduler dies in the request after this many", lambda b, v: replace(b, crash_after=_count(v))),
    Fault("gpu-lost", "requests", "3", "the GPU falls off the bus in the request after this many (Xid 79)",
          lambda b, v: replace(b, gpu_lost_after=_count(v))),
)  # fmt: skip


def behaviour_of(faults: Iterable[str]) -> Behaviour:
    """The behaviour that `NAME` and `NAME=STRENGTH` ask for; each item may be a comma list.

    Raises ValueError for an unknown name or a strength that does not fit, saying what would.
    """
    known = {fault.name: fault for fault in CATALOGUE}
    odd = Behaviour()
    for item in (part.strip() for text in faults for part in text.split(",")):
        if not item:
            continue
        name, _, strength = item.partition("=")
        fault = known.get(name)
        if fault is None:
            near = get_close_matches(name, known, n=1)
            raise ValueError(
                f"no fault {name!r}" + (f"; did you mean {near[0]}?" if near else "; see --list-faults")
            )
        if strength and not fault.strength:
            raise ValueError(f"fault {name} takes no strength")
        try:
            odd = fault.apply(odd, strength or fault.default)
        except ValueError as error:
            raise ValueError(f"fault {name}={strength}: {error} (it takes {fault.strength})") from None
    return odd


def listing() -> str:
    """The catalogue as a table for `--list-faults`."""
    rows = [(f.name + (f"={f.default}" if f.default else ""), f.strength, f.description) for f in CATALOGUE]
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{name:<{wide[0]}}  {strength:<{wide[1]}}  {text}" for name, strength, text in rows)
