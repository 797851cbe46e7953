"""The lines of the matrix: a fault, the scenarios it is played against, and what they must say of it."""

from __future__ import annotations

from dataclasses import dataclass, field

BROKEN, REGRESSION, INVALID, INFRASTRUCTURE = "broken promise", "regression", "invalid", "infrastructure"

CORE = ("activation", "lossless", "canary", "decode", "acceptance")
"""Kinds that every fault is played against, so that what is no fault of theirs is seen to leave them alone."""


@dataclass(frozen=True, slots=True)
class Says:
    """A scenario must end with ``word``, and the first line of what it says must match ``pattern``.

    ``where`` must occur in the item's parameters (an arm, a size), ``why`` must match somewhere below the first line.
    """

    scenario: str
    word: str
    pattern: str
    where: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One fault.

    must: what must be said. also: scenarios that may fail beside, for the same reason; all others must not fail.
    Where nothing must be said but some scenarios may be undecided, the run may end with 8, never with 1.
    never: words that no scenario may use. kinds: the markers to select. finding: what a table must show.
    target and options: where to play it and what else to tell pytest, for faults that are not the simulator's.
    """

    fault: str
    must: tuple[Says, ...] = ()
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ("error",)
    kinds: tuple[str, ...] = CORE
    keyword: str = ""
    finding: str = ""
    target: str = "simulator"
    options: tuple[str, ...] = ()
    title: str = field(default="")

    @property
    def name(self) -> str:
        """What the line is called."""
        return self.title or self.fault or "no fault"


SPELLINGS = (
    "mtp_is_on_in_any_spelling",
    "half_a_switch_leaves_mtp_off",
    "speculation_that_no_flag_asks_for_is_traced",
    "a_checkpoint_without_mtp_heads_does_not_start",
)
MEASURING = (
    "decode_throughput",
    "acceptance_length",
    "acceptance_by_context",
    "mtp_speedup",
    "mtp_speedup_by_context",
)
REQUESTS = (
    "mtp_is_off_unless_asked_for",
    "mtp_is_on_when_asked_for",
    "answers_are_right",
    "mtp_does_not_change_answers",
    *SPELLINGS,
    *MEASURING,
)
NO_VERDICT = ("error", REGRESSION, BROKEN)


def _all_fail(
    fault: str, pattern: str, kinds: tuple[str, ...] = ("decode", "activation"), keyword: str = ""
) -> Line:
    """A fault of the wire: every request fails, nothing is proven, and nobody calls it a regression."""
    says = (
        (Says("decode_throughput", INVALID, pattern),)
        if "decode" in kinds
        else (Says("mtp_is_on_when_asked_for", INVALID, pattern),)
    )
    return Line(fault, says, REQUESTS, NO_VERDICT, kinds, keyword)


def _dies(fault: str, pattern: str, scenario: str = "mtp_is_on_when_asked_for") -> Line:
    """A fault of the machine or of the launch: infrastructure, whatever was being asked."""
    return Line(
        fault, (Says(scenario, INFRASTRUCTURE, pattern),), REQUESTS, NO_VERDICT, ("activation", "decode")
    )


LINES: tuple[Line, ...] = (
    # nothing wrong, or too little to act on
    Line("", kinds=(*CORE, "spellings", "prefill", "speedup", "steadiness", "startup", "steptime", "log")),
    Line("slow-decode=0.005", kinds=("decode", "speedup")),
    Line("acceptance-drop=0.005", kinds=("decode", "acceptance")),
    Line("recut-chunks"),
    # activation
    Line(
        "mtp-auto-on",
        (
            Says(
                "mtp_is_off_unless_asked_for",
                BROKEN,
                r"MTP is on although --speculative-algorithm was not given",
            ),
            Says(
                "half_a_switch_leaves_mtp_off", BROKEN, r"MTP is on although .*only --speculative-num-steps"
            ),
        ),
        (*SPELLINGS, *MEASURING),
        ("error", REGRESSION),
        (*CORE, "spellings"),
    ),
    Line(
        "mtp-ignored",
        (
            Says(
                "mtp_is_on_when_asked_for",
                BROKEN,
                r"MTP is off although --speculative-algorithm NEXTN was given",
            ),
            Says("mtp_is_on_in_any_spelling", BROKEN, r"MTP is off although --speculative-algo"),
        ),
        (
            "speculation_that_no_flag_asks_for_is_traced",
            "a_checkpoint_without_mtp_heads_does_not_start",
            *MEASURING,
        ),
        ("error", REGRESSION),
        (*CORE, "spellings"),
    ),
    Line(
        "mtp-hollow",
        (Says("mtp_is_on_when_asked_for", BROKEN, r"witnesses disagree: answers and counter say off"),),
        (*SPELLINGS, *MEASURING),
    ),
    Line(
        "mtp-hidden",
        (Says("mtp_is_off_unless_asked_for", BROKEN, r"witnesses disagree: answers and counter say on"),),
        ("mtp_is_on_when_asked_for", *SPELLINGS, *MEASURING),
    ),
    Line(
        "headless-draft",
        (
            Says(
                "a_checkpoint_without_mtp_heads_does_not_start",
                BROKEN,
                r"starts with --speculative-algorithm NEXTN on a checkpoint without MTP heads",
            ),
        ),
        kinds=(*CORE, "spellings"),
    ),
    # drafts
    Line(
        "draft-dead",
        (
            Says("mtp_is_on_when_asked_for", BROKEN, r"MTP is on, but dead: acceptance length 1\.000"),
            Says("acceptance_length", BROKEN, r"acceptance length 1\.000 is below the floor"),
        ),
        MEASURING,
    ),
    Line(
        "draft-partial",
        (Says("acceptance_length", REGRESSION, r"acceptance length -1[0-4]\.\d %"),),
        MEASURING,
    ),
    Line(
        "acceptance-drop",
        (
            Says("acceptance_length", REGRESSION, r"acceptance length -(2[6-9]|3[0-3])\.\d %"),
            Says(
                "decode_throughput",
                REGRESSION,
                r"output tokens/s -",
                "mtp-on",
                "fewer tokens were accepted, steps took",
            ),
        ),
        MEASURING,
    ),
    Line(
        "draft-cost",
        (
            Says("mtp_speedup", BROKEN, r"MTP speed-up \d\.\d+ is below the floor"),
            Says(
                "decode_throughput",
                REGRESSION,
                r"output tokens/s -",
                "mtp-on",
                "steps got slower, as many tokens were",
            ),
        ),
        ("mtp_speedup", "mtp_speedup_by_context", "decode_throughput"),
        kinds=(*CORE, "speedup"),
    ),
    Line(
        "collapse-when-full",
        (Says("acceptance_holds_in_a_full_cache", BROKEN, r"acceptance collapses in a full cache"),),
        kinds=(*CORE, "steadiness"),
        keyword="not speed_holds and not hang_up",
    ),
    # answers
    Line(
        "garbage",
        (
            Says("answers_are_right", BROKEN, r"wrong answers: 0 of \d+ canary questions right", "mtp-on"),
            Says("answers_are_right", BROKEN, r"wrong answers: 0 of \d+ canary questions right", "mtp-off"),
        ),
        ("answers_are_right",),
        ("error", REGRESSION),
    ),
    Line(
        "mtp-lane-garbage",
        (
            Says("answers_are_right", BROKEN, r"wrong answers: 0 of \d+ canary questions right", "mtp-on"),
            Says("mtp_does_not_change_answers", BROKEN, r"MTP changes the answers", "mtp-on"),
        ),
        ("answers_are_right", "mtp_does_not_change_answers"),
        ("error", REGRESSION),
    ),
    Line(
        "early-stop",
        (Says("decode_throughput", INVALID, r"early_stop"),),
        (*MEASURING, "answers_are_right"),
        ("error", REGRESSION),
    ),
    # speed
    Line(
        "slow-decode",
        (
            Says(
                "decode_throughput", REGRESSION, r"output tokens/s -(19|20|21)\.\d %", why="steps got slower"
            ),
        ),
        ("decode_throughput",),
    ),
    Line(
        "slow-decode-batch",
        (Says("decode_throughput", REGRESSION, r"output tokens/s -", "c8"),),
        (),
    ),
    Line(
        "slow-prefill",
        (Says("time_to_first_token", REGRESSION, r"TTFT \+"),),
        ("decode_throughput",),  # tokens/s of short answers hold a share of prefill: its cause is said
        kinds=("activation", "decode", "acceptance", "prefill"),
    ),
    Line(
        "cuda-graph-off",
        (Says("log_is_clean", BROKEN, r"decoding runs without CUDA graphs"),),
        ("decode_throughput", "acceptance_length", "acceptance_by_context"),
        kinds=(*CORE, "log"),
    ),
    Line("warmup-slow", (), MEASURING, NO_VERDICT, ("activation", "decode", "acceptance")),
    Line(
        "decay",
        (Says("speed_holds", BROKEN, r"(output tokens/s|acceptance length) fades"),),
        kinds=("activation", "steadiness"),
        keyword="not full_cache and not hang_up",
    ),
    Line(
        "throttle",
        (Says("decode_throughput", INVALID, r"clocks_throttled"),),
        MEASURING,
        NO_VERDICT,
    ),
    # cache and memory
    Line(
        "lost-prefix-reuse",
        (Says("shared_prefix_is_reused", BROKEN, r"prefix reuse lost", "mtp-on"),),
        ("shared_prefix_is_reused",),
        kinds=("activation", "decode", "prefill"),
    ),
    Line(
        "leak",
        (Says("nothing_is_left_of_clients_that_hang_up", BROKEN, r"not given back"),),
        ("speed_holds", "acceptance_holds_in_a_full_cache", *MEASURING),
        ("error", REGRESSION),
        ("activation", "steadiness"),
        "not full_cache and not speed_holds",
    ),
    # configuration and reports
    Line(
        "flipped-default=schedule_policy:lpm",
        kinds=(*CORE, "configuration"),
        finding=r"schedule_policy \w+ -> lpm",
    ),
    Line(
        "flipped-default,slow-decode=0.2",
        (
            Says(
                "decode_throughput",
                REGRESSION,
                r"output tokens/s -",
                why="likely cause.*attention_backend .* -> triton",
            ),
        ),
        ("decode_throughput",),
        kinds=("decode", "configuration"),
        finding=r"attention_backend .* -> triton",
        title="flipped-default + slow-decode",
    ),
    _dies("removed-flag=--enable-cache-report", r"enable-cache-report"),
    Line(
        "renamed-metric",
        (Says("acceptance_length", BROKEN, r"acceptance length unknown"),),
        ("mtp_is_on_when_asked_for", *SPELLINGS, *MEASURING),
        ("error", REGRESSION),
    ),
    Line(
        "dropped-keys",
        (Says("acceptance_length", BROKEN, r"acceptance length unknown"),),
        ("mtp_is_on_when_asked_for", *SPELLINGS, *MEASURING),
        ("error", REGRESSION),
    ),
    Line(
        "redefined-metric",
        (Says("acceptance_length", INVALID, r"acceptance_identity"),),
        REQUESTS,
        NO_VERDICT,
    ),
    Line(
        "log-only",
        (Says("log_is_clean", BROKEN, r"the server's log shows trouble"),),
        kinds=(*CORE, "log"),
    ),
    # the wire
    _all_fail("usage-missing", r"usage"),
    _all_fail("truncated-stream", r"reset|truncated"),
    _all_fail("stall", r"stalled", ("activation",), "mtp_is_on"),
    _all_fail("error-in-stream", r"error_event"),
    _all_fail("html-200", r"malformed|event stream|HTML"),
    # life
    Line(
        "hang-at-start",
        (Says("mtp_is_on_when_asked_for", INFRASTRUCTURE, r"not ready within"),),
        (),
        NO_VERDICT,
        ("activation",),
        "mtp_is_on_when",
    ),
    _dies("oom-at-start=capture", r"OutOfMemory"),
    _dies("oom-at-start=pools", r"OutOfMemory"),
    _dies("oom-at-start=draft", r"OutOfMemory"),
    _dies("crash-after", r"ServerDied", "decode_throughput"),
    _dies("gpu-lost", r"GPU", "decode_throughput"),
)


REAL: tuple[Line, ...] = (
    Line(
        "", kinds=("activation", "acceptance"), target="sglang-cpu", title="real SGLang, a sound checkpoint"
    ),
    Line(
        "",
        (
            Says(
                "mtp_is_on_when_asked_for", BROKEN, r"MTP is on, but (all but )?dead: acceptance length 1\.0"
            ),
            Says("acceptance_length", BROKEN, r"acceptance length 1\.\d+ is below the floor"),
        ),
        ("acceptance_by_context",),
        kinds=("activation", "acceptance"),
        target="sglang-cpu",
        options=("--flag=model-path=.sglang-cpu/checkpoints/qwen3_5_moe_vl-dead-draft",),
        title="real SGLang, MTP head of random weights",
    ),
)
"""Lines of a genuine SGLang on the CPU (`python tests/sglang_cpu/install.py` first), played with `--real`."""
