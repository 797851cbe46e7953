"""Turns one answer's stamped bytes into its timeline: typed by msgspec, tokens from usage and from nothing else.

Decoding costs more than stamping, so it runs apart from it: after the round, or in short slices while it lasts.
"""

from __future__ import annotations

from array import array

import msgspec
import numpy as np

from suite.load.records import Fault, FaultKind, SpecDetails, Timeline
from suite.load.sse import EventCutter


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    reasoning_tokens: int | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # the name other servers use


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Spec(msgspec.Struct):
    spec_verify_ct: int | None = None
    spec_num_correct_drafts: int | None = None
    spec_num_proposed_drafts: int | None = None
    spec_correct_drafts_histogram: list[int] | None = None


class _Extension(msgspec.Struct):
    spec_tokens_details: _Spec | list[_Spec] | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    sglext: _Extension | None = None
    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None
    message: str | None = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode


class Answer:
    """One answer under decoding: feed it (stamp, bytes) in order of arrival, then ask for the result.

    Stamps are any clock; what comes out (`timeline`, `Fault.at_s`) is on the same one.
    """

    __slots__ = (
        "_cutter",
        "_done",
        "_keep_text",
        "_last_total",
        "_sum_of_choices",
        "cached_tokens",
        "chunks",
        "completion_tokens",
        "fault",
        "finish_reasons",
        "prompt_tokens",
        "reasoning",
        "reasoning_tokens",
        "spec",
        "text",
        "text_t",
        "times",
        "tokens",
    )

    def __init__(self, keep_text: bool = False) -> None:
        self._cutter = EventCutter()
        self._keep_text = keep_text
        self._done = False
        self._last_total = 0
        self._sum_of_choices: dict[int, int] = {}
        self.times = array("d")
        self.tokens = array("q")
        self.text_t = array("d")  # arrivals of text, filled only while the server gives no count a chunk
        self.chunks = 0
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.reasoning_tokens: int | None = None
        self.finish_reasons: dict[int, str] = {}
        self.spec: SpecDetails | None = None
        self.fault: Fault | None = None
        self.text: list[str] = []
        self.reasoning: list[str] = []

    def feed(self, t: float, piece: bytes) -> None:
        """Take in one read that arrived at `t`."""
        for event in self._cutter.feed(piece):
            self._event(t, event)

    def finish(self) -> None:
        """Say that no more bytes will come, and judge whether the answer is whole."""
        if self.fault is not None:
            return
        if not self._done and len(self.finish_reasons) == 0:
            seen = f"{self.chunks} chunks" if self.chunks else "no completion chunk at all"
            self._fail(
                FaultKind.truncated,
                f"the stream ended without [DONE] and without a finish reason, after {seen}",
            )
        elif not self._done:
            self._fail(FaultKind.truncated, "the stream ended without [DONE]")
        elif not self.finish_reasons:
            self._fail(FaultKind.truncated, "the stream ended with [DONE] but no choice has a finish reason")
        elif self.completion_tokens is None:
            self._fail(
                FaultKind.usage_missing, "no chunk carried usage.completion_tokens; tokens cannot be counted"
            )
        elif self.spec is not None and (broken := broken_identity(self.spec)):
            self._fail(FaultKind.acceptance_identity, broken)

    def timeline(self, zero: float) -> Timeline:
        """The arrivals of tokens, in seconds since `zero`."""
        if self.tokens and (not self.text_t or len(self.tokens) > 1):
            times = np.frombuffer(self.times, dtype=np.float64) - zero
            return Timeline(times, np.frombuffer(self.tokens, dtype=np.int64).copy())
        times = np.frombuffer(self.text_t, dtype=np.float64) - zero if self.text_t else np.empty(0)
        tokens = np.full(len(times), -1, dtype=np.int64)
        if len(tokens) and self.completion_tokens is not None:
            tokens[-1] = self.completion_tokens
        return Timeline(times, tokens, per_chunk=False)

    def _event(self, t: float, data: bytes) -> None:
        if self.fault is not None:
            return
        try:
            chunk = _decode_chunk(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if data == b"[DONE]":
                self._done = True
            if data in (b"[DONE]", b""):
                return
            self._fail(
                FaultKind.malformed, f"an event is not a completion chunk ({error}): {_excerpt(data)}", t
            )
            return
        if (chunk.error and chunk.error != b"null") or chunk.object == "error":
            self._fail(
                FaultKind.error_event, f"the server sent an error inside the stream: {_excerpt(data)}", t
            )
            return
        self.chunks += 1
        choices, usage = chunk.choices, chunk.usage
        brought_text = self._choices(choices) if choices else False
        if usage is not None:
            self._usage(t, usage, choices)
        if brought_text and not self.tokens:
            self.text_t.append(t)
        if chunk.sglext is not None and chunk.sglext.spec_tokens_details is not None:
            self._speculation(chunk.sglext.spec_tokens_details)

    def _choices(self, choices: list[_Choice]) -> bool:
        brought_text = False
        for choice in choices:
            if choice.finish_reason is not None:
                self.finish_reasons[choice.index] = choice.finish_reason
            delta = choice.delta
            text = choice.text if delta is None else delta.content
            reasoning = None if delta is None else delta.reasoning_content or delta.reasoning
            if text or reasoning:
                brought_text = True
                if self._keep_text:
                    if text:
                        self.text.append(text)
                    if reasoning:
                        self.reasoning.append(reasoning)
        return brought_text

    def _usage(self, t: float, usage: _Usage, choices: list[_Choice] | None) -> None:
        self.prompt_tokens = usage.prompt_tokens if usage.prompt_tokens is not None else self.prompt_tokens
        details = usage.prompt_tokens_details
        if details is not None and details.cached_tokens is not None:
            self.cached_tokens = details.cached_tokens
        if usage.reasoning_tokens is not None:
            self.reasoning_tokens = usage.reasoning_tokens
        count = usage.completion_tokens
        if count is None:
            return
        if choices:  # with n > 1 the usage of a chunk counts that chunk's choice alone
            index = choices[0].index
            before = self._sum_of_choices.get(index, 0)
            self._sum_of_choices[index] = count
            total = self._last_total - before + count
        else:
            total = count
        if total < self._last_total:
            message = f"completion_tokens fell from {self._last_total} to {total}"
            self._fail(FaultKind.usage_backwards, message, t)
            return
        if total > self._last_total:
            self.times.append(t)
            self.tokens.append(total)
            self._last_total = total
        self.completion_tokens = total

    def _speculation(self, details: _Spec | list[_Spec]) -> None:
        parts = details if isinstance(details, list) else [details]
        histogram = [0] * max((len(p.spec_correct_drafts_histogram or ()) for p in parts), default=0)
        for part in parts:
            if part.spec_verify_ct is None or part.spec_num_correct_drafts is None:
                return  # an older server's shape: "not reported", never a guess
            for accepted, steps in enumerate(part.spec_correct_drafts_histogram or ()):
                histogram[accepted] += steps
        self.spec = SpecDetails(
            verify_steps=sum(p.spec_verify_ct or 0 for p in parts),
            correct_drafts=sum(p.spec_num_correct_drafts or 0 for p in parts),
            proposed_drafts=sum(p.spec_num_proposed_drafts or 0 for p in parts),
            histogram=tuple(histogram),
        )

    def _fail(self, kind: FaultKind, message: str, t: float | None = None) -> None:
        self.fault = Fault(kind, message, at_s=t)


def broken_identity(spec: SpecDetails) -> str | None:
    """What contradicts itself in one answer's speculation counters, or None.

    Identities of SGLang 0.5.12 and later: the histogram counts verify steps, so it sums to them, and its entries
    weighted by their index are the correct drafts. Without a histogram there is only an upper bound to check.
    """
    if min(spec.verify_steps, spec.correct_drafts, spec.proposed_drafts, *spec.histogram, 0) < 0:
        return f"a speculation counter is negative: {spec}"
    if spec.histogram:
        steps = sum(spec.histogram)
        if steps != spec.verify_steps:
            return f"spec_correct_drafts_histogram sums to {steps}, but spec_verify_ct is {spec.verify_steps}"
        correct = sum(accepted * count for accepted, count in enumerate(spec.histogram))
        if correct != spec.correct_drafts:
            return f"the histogram holds {correct} correct drafts, but spec_num_correct_drafts is {spec.correct_drafts}"
    if spec.proposed_drafts and spec.correct_drafts > spec.proposed_drafts:
        return f"{spec.correct_drafts} correct drafts of only {spec.proposed_drafts} proposed"
    return None


def _excerpt(data: bytes, limit: int = 300) -> str:
    text = data.decode("utf-8", "replace")
    return text if len(text) <= limit else text[:limit] + "..."
