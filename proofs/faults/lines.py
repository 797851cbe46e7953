"""The lines of the matrix: a fault, the scenarios it is played against, and what they must say of it."""

from __future__ import annotations

from dataclasses import dataclass, field

BROKEN, REGRESSION, INVALID, INFRASTRUCTURE = "broken promise", "regression", "invalid", "infrastructure"

CORE = ("activation", "lossless", "canary", "decode", "acceptance")
"""Kinds that a fault is played against, so that what is no fault of theirs is seen to leave them alone."""

BRIEF = ("activation", "lossless", "canary", "decode")
"""The same for faults that are seen without the acceptance pass, which is half of a run."""


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
    sentence, prints: what the sentence of the whole run must hold, and what must be printed somewhere.
    target and options: where to play it and what else to tell pytest, for faults that are not the simulator's.
    """

    fault: str
    must: tuple[Says, ...] = ()
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ("error",)
    kinds: tuple[str, ...] = CORE
    keyword: str = ""
    finding: str = ""
    sentence: str = ""
    prints: str = ""
    target: str = "simulator"
    options: tuple[str, ...] = ()
    title: str = field(default="")
    env: tuple[tuple[str, str], ...] = ()
    """Variables of the run: what its surroundings put in its way."""
    unsaid: str = ""
    """What must not stand anywhere in what pytest printed."""

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
IMPROVED = r"\bimprovement\b"
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


def _dies(
    fault: str,
    pattern: str,
    scenario: str = "mtp_is_on_when_asked_for",
    word: str = BROKEN,
    sentence: str = "not start",
) -> Line:
    """A server that does not start or dies: its own doing, whatever was being asked, or the machine's."""
    never = NO_VERDICT if word is INFRASTRUCTURE else ("error", REGRESSION, INFRASTRUCTURE)
    return Line(
        fault, (Says(scenario, word, pattern),), REQUESTS, never, ("activation", "decode"), sentence=sentence
    )


LINES: tuple[Line, ...] = (
    # nothing wrong, or too little to act on
    Line("", kinds=(*CORE, "spellings", "prefill", "speedup", "steadiness", "startup", "steptime", "log")),
    # a proxy that answers nobody stands in the environment: loopback is never asked through it
    Line(
        "",
        title="a proxy in the environment",
        env=tuple((name, "http://127.0.0.1:9") for name in ("http_proxy", "https_proxy", "all_proxy")),
    ),
    Line("slow-decode=0.005", kinds=("decode", "speedup")),
    Line("acceptance-drop=0.005", kinds=("decode", "acceptance")),
    Line("other-rounding", (), MEASURING, NO_VERDICT, (*CORE, "speedup"), unsaid=IMPROVED),
    Line("other-rounding=2", (), MEASURING, NO_VERDICT, ("decode", "acceptance"), unsaid=IMPROVED),
    Line("recut-chunks"),
    Line(
        "",
        kinds=("activation", "canary", "lossless"),
        options=("--flag=sglang-version=0.5.12",),
        title="a release that cannot tell, sound",
    ),
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
        (*BRIEF, "spellings"),
        sentence=r"MTP is on although --speculative-algorithm was not given",
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
        (*BRIEF, "spellings"),
        sentence=r"MTP is off although",
    ),
    Line(
        "mtp-hollow",
        (Says("mtp_is_on_when_asked_for", BROKEN, r"witnesses disagree: answers and counter say off"),),
        (*SPELLINGS, *MEASURING),
        sentence=r"witnesses disagree",
    ),
    Line(
        "mtp-hidden",
        (Says("mtp_is_off_unless_asked_for", BROKEN, r"witnesses disagree: answers and counter say on"),),
        ("mtp_is_on_when_asked_for", *SPELLINGS, *MEASURING),
        sentence=r"witnesses disagree",
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
        kinds=(*BRIEF, "spellings"),
        sentence=r"without MTP heads",
    ),
    # drafts
    Line(
        "draft-dead",
        (
            Says("mtp_is_on_when_asked_for", BROKEN, r"MTP is on, but dead: acceptance length 1\.000"),
            Says("acceptance_length", BROKEN, r"acceptance length 1\.000 is below the floor"),
        ),
        MEASURING,
        sentence=r"MTP drafts are dead \(0 of \d+ accepted\): \d+ figures",
    ),
    Line(
        "draft-partial",
        (Says("acceptance_length", REGRESSION, r"acceptance length -1[0-4]\.\d %"),),
        MEASURING,
        sentence=r"fewer drafts are accepted",
    ),
    Line(
        "draft-partial=0.04",
        (Says("acceptance_length", REGRESSION, r"acceptance length -[2-6]\.\d %", "code"),),
        MEASURING,
        kinds=("activation", "lossless", "decode", "acceptance"),
        sentence=r"fewer drafts are accepted",
        title="draft-partial=0.04, hardly loaded worse",
    ),
    Line(
        "other-rounding,draft-partial=0.08",
        (Says("acceptance_length", REGRESSION, r"acceptance length -"),),
        MEASURING,
        kinds=("activation", "acceptance"),
        sentence=r"fewer drafts are accepted",
        title="another build with a partly loaded draft",
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
        sentence=r"fewer drafts are accepted",
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
        sentence=r"mtp-on",
    ),
    Line(
        "loaded-acceptance=0.3@24",
        (Says("speed_holds", BROKEN, r"acceptance collapses under load", "mtp-on"),),
        kinds=("activation", "steadiness"),
        keyword="not full_cache and not hang_up",
        sentence="acceptance collapses under load",
    ),
    Line(
        "acceptance-episodes=1/2@24",
        (Says("speed_holds", BROKEN, r"acceptance falls in episodes: 1\.\d\d tokens per step", "mtp-on"),),
        kinds=("activation", "steadiness"),
        keyword="not full_cache and not hang_up",
        sentence=r"episodes",
    ),
    Line(
        "collapse-when-full",
        (Says("acceptance_holds_in_a_full_cache", BROKEN, r"acceptance collapses in a full cache"),),
        kinds=(*CORE, "steadiness"),
        keyword="not speed_holds and not hang_up",
        sentence=r"acceptance collapses in a full cache",
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
        sentence=r"mtp-off and mtp-on: wrong answers",
    ),
    Line(
        "mtp-lane-garbage",
        (
            Says("answers_are_right", BROKEN, r"wrong answers: 0 of \d+ canary questions right", "mtp-on"),
            Says("mtp_does_not_change_answers", BROKEN, r"MTP changes the answers", "mtp-on"),
        ),
        ("answers_are_right", "mtp_does_not_change_answers"),
        ("error", REGRESSION),
        kinds=BRIEF,
        sentence=r"mtp-on: wrong answers",
    ),
    Line(
        "short-prompts",
        (
            Says(
                "mtp_does_not_change_answers",
                BROKEN,
                r"MTP changes the answers to short text completions",
                "mtp-on",
            ),
            Says("answers_are_right", BROKEN, r"short text completions right, in mtp-off", "mtp-on"),
        ),
        ("answers_are_right", "mtp_does_not_change_answers"),
        ("error", REGRESSION),
        kinds=BRIEF,
        sentence=r"short text completions",
    ),
    Line(
        "aborts",
        (Says("decode_throughput", INVALID, r"failed_requests.*aborted"),),
        REQUESTS,
        NO_VERDICT[:2],
        ("decode",),
    ),
    Line(
        "replicas",
        (
            Says("mtp_is_on_when_asked_for", BROKEN, r"more than one server answers here"),
            Says("decode_throughput", INVALID, r"mixed_answers", "mtp-on"),
        ),
        REQUESTS,
        ("error", REGRESSION),
        kinds=BRIEF,
        sentence=r"more than one server",
    ),
    Line(
        "early-stop",
        (Says("decode_throughput", INVALID, r"early_stop"),),
        (*MEASURING, "answers_are_right"),
        ("error", REGRESSION),
        kinds=BRIEF,
        sentence=r"early_stop",
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
        sentence=r"slower",
    ),
    Line(
        "slow-decode-batch",
        (Says("decode_throughput", REGRESSION, r"output tokens/s -", "c8"),),
        (),
        sentence=r"from 8 clients on",
    ),
    Line(
        "slow-prefill",
        (Says("time_to_first_token", REGRESSION, r"TTFT \+"),),
        ("decode_throughput",),  # tokens/s of short answers hold a share of prefill: its cause is said
        kinds=("activation", "decode", "acceptance", "prefill"),
        sentence=r"prefill is slower",
    ),
    Line(
        "cuda-graph-off",
        (Says("log_is_clean", BROKEN, r"decoding runs without CUDA graphs"),),
        ("decode_throughput", "acceptance_length", "acceptance_by_context"),
        kinds=(*CORE, "log"),
        sentence=r"decoding runs without CUDA graphs",
    ),
    Line("warmup-slow", (), MEASURING, NO_VERDICT, ("activation", "decode", "acceptance")),
    Line(
        "decay",
        (Says("speed_holds", BROKEN, r"(output tokens/s|acceptance length) fades"),),
        kinds=("activation", "steadiness"),
        keyword="not full_cache and not hang_up",
        sentence=r"fades",
    ),
    Line(
        "throttle",
        (Says("decode_throughput", INVALID, r"clocks_throttled"),),
        MEASURING,
        NO_VERDICT,
        kinds=("activation", "decode"),
        sentence=r"clocks_throttled",
    ),
    Line(
        "power-cap",
        (Says("decode_throughput", INVALID, r"power_capped"),),
        MEASURING,
        NO_VERDICT,
        kinds=("activation", "decode"),
        sentence=r"power_capped",
    ),
    # the machine beside the server
    Line(
        "company",
        (Says("decode_throughput", INVALID, r"foreign_processes"),),
        MEASURING,
        NO_VERDICT,
        kinds=("activation", "decode"),
        sentence=r"foreign_processes",
    ),
    Line(
        "xid=31",
        (Says("decode_throughput", BROKEN, r"this build's kernels failed on a GPU: Xid 31"),),
        MEASURING,
        ("error", REGRESSION),
        kinds=("activation", "decode"),
        sentence=r"Xid 31",
    ),
    Line(
        "xid=79",
        (Says("decode_throughput", INFRASTRUCTURE, r"a GPU failed while it was measured: Xid 79"),),
        MEASURING,
        NO_VERDICT,
        kinds=("activation", "decode"),
        sentence=r"Xid 79",
    ),
    Line(
        "card-answers=[GPU requires reset]",
        (Says("decode_throughput", INFRASTRUCTURE, r"GPU 4 answers \[GPU requires reset\]"),),
        MEASURING,
        NO_VERDICT,
        kinds=("activation", "decode"),
        sentence=r"GPU requires reset",
    ),
    # cache and memory
    Line(
        "lost-prefix-reuse",
        (Says("shared_prefix_is_reused", BROKEN, r"prefix reuse lost", "mtp-on"),),
        ("shared_prefix_is_reused",),
        kinds=("activation", "decode", "prefill"),
        sentence=r"prefix reuse lost",
    ),
    Line(
        "leak",
        (Says("nothing_is_left_of_clients_that_hang_up", BROKEN, r"not given back"),),
        ("speed_holds", "acceptance_holds_in_a_full_cache", *MEASURING),
        ("error", REGRESSION),
        ("activation", "steadiness"),
        "not full_cache and not speed_holds",
        sentence=r"not given back",
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
        sentence=r"acceptance_identity",
    ),
    Line(
        "log-only",
        (Says("log_is_clean", BROKEN, r"the server's log shows trouble"),),
        kinds=(*CORE, "log"),
        sentence=r"log shows trouble",
    ),
    # recording
    Line(
        "garbage",
        (Says("answers_are_right", BROKEN, r"wrong answers"),),
        ("answers_are_right",),
        ("error", REGRESSION),
        kinds=("canary", "decode"),
        prints="nothing of mtp-off was recorded",
        sentence="wrong answers",
        options=("--record-baseline",),
        title="garbage, to be recorded",
    ),
    # the wire
    Line(
        "buffered-stream",
        (Says("decode_throughput", INVALID, r"buffering"),),
        MEASURING,
        NO_VERDICT,
        kinds=BRIEF,
        sentence="buffering",
    ),
    _all_fail("usage-missing", r"usage"),
    _all_fail("truncated-stream", r"reset|truncated"),
    _all_fail("stall", r"stalled", ("activation",), "mtp_is_on"),
    _all_fail("error-in-stream", r"error_event"),
    _all_fail("html-200", r"malformed|event stream|HTML"),
    # life
    Line(
        "hang-at-start",
        (Says("mtp_is_on_when_asked_for", BROKEN, r"not ready within"),),
        (),
        ("error", REGRESSION, INFRASTRUCTURE),
        ("activation",),
        "mtp_is_on_when",
    ),
    _dies("oom-at-start=capture", r"OutOfMemory"),
    _dies("oom-at-start=pools", r"OutOfMemory"),
    _dies("oom-at-start=draft", r"OutOfMemory"),
    _dies("crash-after", r"died", "decode_throughput", sentence="died"),
    _dies("gpu-lost", r"GPU", "decode_throughput", INFRASTRUCTURE, "GPU"),
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
