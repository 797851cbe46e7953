"""What can be wrong with a modelled server, each thing at its neutral value: the inputs that faults change."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = 10**9


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The healthy server by default. Fractions are losses: 0.2 means a fifth less."""

    # what the command line resolves to
    speculate_unasked: bool = False
    ignore_speculation: bool = False
    hollow_speculation: bool = False
    """The configuration says EAGLE, decoding is plain."""
    hidden_speculation: bool = False
    """Decoding speculates, the configuration says it does not."""
    start_headless: bool = False
    """Start speculating although the checkpoint has no MTP layers, with a draft of uninitialised weights."""
    flipped_defaults: tuple[tuple[str, str], ...] = ()
    removed_flags: tuple[str, ...] = ()

    # starting
    hang_at_start: bool = False
    out_of_memory: str = ""
    """Empty, or the moment of it: "pools", "capture", "draft" (only when speculating)."""

    # the speed of steps
    slow_decode: float = 0.0
    slow_batch: tuple[float, int] = (0.0, NEVER)
    """(loss, from this batch size on)."""
    slow_prefill: float = 0.0
    draft_cost: float = 1.0
    cuda_graph: bool = True
    warmup: float = 1.0
    warmup_length: float = 1.0
    decay_per_minute: float = 0.0
    throttle: float = 0.0
    throttle_after_s: float = float(NEVER)
    slowed_by: str = "sw_thermal_slowdown"
    """What nvidia-smi names as the reason of the lower clock."""

    # the machine beside it
    company_after: int = NEVER
    """Requests after which a process that is not the server's computes on a GPU."""
    xid: int = 0
    """The Xid that the kernel's log shows after some requests, the server living on; 0 for none."""
    xid_after: int = NEVER
    card_answers: str = ""
    """Words that one GPU answers nvidia-smi in place of numbers."""

    # drafts
    rounding: int = 0
    """Which build it is, of those that are as good and round otherwise: greedy answers part, nothing is worse."""
    acceptance_loss: float = 0.0
    """How much shorter the acceptance length is, a fraction of it."""
    draft_dead: bool = False
    collapse_above: float = 2.0
    """Above this share of the KV cache in use no draft is accepted."""
    loaded_loss: tuple[float, int] = (0.0, NEVER)
    """(how much less often drafts are right, from this batch size on)."""
    episodes: tuple[float, float, int] = (0.0, 1.0, NEVER)
    """(seconds without an accepted draft, in every so many seconds, from this batch size on)."""

    # cache and memory
    reuse_while_speculating: bool = True
    leak_tokens: int = 0
    """KV tokens that each finished request leaves behind."""

    # answers
    garbage: str = ""
    """Empty, or the lanes that answer rubbish: "all", "mtp"."""
    short_garbage: int = 0
    """Prompts of fewer tokens are answered with rubbish while speculating, their drafts all wrong."""
    early_stop: float = 0.0
    """The share of the wanted output after which answers end, 0.0 for never."""

    abort_every: int = NEVER
    """Of so many requests one is given up half-way, finish_reason "abort"."""
    plain_every: int = NEVER
    """Of so many requests one goes to a replica that does not speculate."""

    # what is said about it
    renamed_keys: bool = False
    redefined_keys: bool = False
    """The token that every verify step yields anyway is counted as a correct draft."""
    dropped_keys: bool = False
    usage_missing: bool = False
    log_symptoms: bool = False
    graph_in_log: bool = True

    # the wire
    recut_chunks: bool = False
    buffered_bytes: int = 0
    """How much of a stream is collected before it is sent on, as a proxy does."""
    truncate_after: int = NEVER
    stall_s: float = 0.0
    error_after: int = NEVER
    html: bool = False

    # its end
    crash_after: int = NEVER
    gpu_lost_after: int = NEVER
