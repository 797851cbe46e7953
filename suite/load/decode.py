"""Turns one answer's stamped bytes into its timeline: typed by msgspec, tokens from usage and from nothing else.

Decoding costs more than stamping, so it runs apart from it: after the round, or in short slices while it lasts.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import lt
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from suite.foreign import one_line
from suite.load.bounds import Bounds
from suite.load.chunks import (
    Choice,
    Chunk,
    PlainUsage,
    Spec,
    Usage,
    decode_chunk,
    decode_chunks,
    decode_plain,
)
from suite.load.records import Fault, FaultKind, SpecDetails, Timeline
from suite.load.sse import EVENT_END, EVENT_START, EventCutter, TooLong

T = TypeVar("T", bound=np.generic)


GIVEN_UP = frozenset({"abort", "error", "cancelled"})
"""Finish reasons of answers that no model ended: SGLang aborts when it runs out of room, drains or hits its own limits."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_BLOCK = 512  # arrivals put away at a time
_TOGETHER = 64  # reads decoded at once: enough to save calls, few enough to stay in the processor's cache


class AnswerDecoder:
    """One answer under decoding: feed it (stamp, bytes) in order of arrival, then ask for the result.

    Stamps are any clock; what comes out (`timeline`, `Fault.at_s`) is on the same one. What counts more than `bounds`
    allow is a fault, and whatever comes after a fault is not looked at.
    """

    __slots__ = (
        "_all_times", "_all_tokens", "_away", "_bounds", "_by_choice", "_cutter", "_done", "_expected",
        "_keep_text", "_most_tokens", "cached_tokens", "chunks", "completion_tokens", "fault",
        "finish_reasons", "prompt_tokens", "reasoning", "reasoning_tokens", "spec", "text", "text_t",
        "times", "tokens",
    )  # fmt: skip

    def __init__(self, keep_text: bool = False, bounds: Bounds | None = None) -> None:
        self._cutter = EventCutter()
        self._keep_text = keep_text
        self._done = False
        self._by_choice: dict[int, int] = {}  # counts of single choices, filled only if there are several
        self._bounds = bounds
        self._most_tokens = bounds.most_tokens if bounds else 2**31
        self._expected = bounds.output_tokens if bounds else 0
        self._all_times = np.empty(0)
        self._all_tokens = np.empty(0, dtype=np.int64)
        self._away = 0
        self.times = array("d")  # arrivals of tokens that are not yet put away
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
        if self.fault is not None:
            return
        try:
            events = self._cutter.feed(piece)
        except TooLong as error:
            self._fail(FaultKind.oversized, str(error), t)
            return
        for event in events:
            self._event(t, event)

    def feed_events(self, stamps: Sequence[float], events: Sequence[bytes]) -> None:
        """The same as `feed` for reads that were one event each, given by their data, but decoded together.

        To be called only while no unfinished event is held.
        """
        if len(events) <= _TOGETHER:
            self._feed_some(stamps, events)
            return
        for start in range(0, len(events), _TOGETHER):
            self._feed_some(stamps[start : start + _TOGETHER], events[start : start + _TOGETHER])

    def _feed_some(self, stamps: Sequence[float], events: Sequence[bytes]) -> None:
        """All together, or else by halves, until what is unusual stands alone."""
        if len(events) > 1 and not self._feed_together(stamps, events):
            half = len(events) // 2
            self._feed_some(stamps[:half], events[:half])
            self._feed_some(stamps[half:], events[half:])
        elif len(events) == 1:
            self.feed(stamps[0], EVENT_START + events[0] + EVENT_END)

    def _feed_together(self, stamps: Sequence[float], events: Sequence[bytes]) -> bool:
        """Decode events as one JSON array; False, untouched, if any is not one line of one object."""
        objects = b",".join(events)
        if b"\n" in objects or b"\r" in objects:
            return False
        array_of_all = b"[%b]" % objects
        if self._feed_plain(stamps, array_of_all):
            return True
        try:
            chunks = decode_chunks(array_of_all)
        except _UNREADABLE:
            return False
        if len(chunks) != len(events):
            return False
        for t, chunk, data in zip(stamps, chunks, events, strict=True):
            self._chunk(t, chunk, data)
        return True

    def _feed_plain(self, stamps: Sequence[float], events: bytes) -> bool:
        """Decode chunks that do nothing but bring further tokens; False, untouched, if one does anything else."""
        if self._keep_text or self._by_choice or self.fault is not None:
            return False
        try:
            usages = [chunk.usage for chunk in decode_plain(events)]
        except _UNREADABLE:
            return False
        totals = [usage.completion_tokens for usage in usages]
        rising = all(map(lt, [self.completion_tokens or 0, *totals], totals))
        if len(totals) != len(stamps) or not rising or totals[-1] > self._most_tokens:
            return False
        self.chunks += len(totals)
        self.times.extend(stamps)
        self.tokens.extend(totals)
        self.completion_tokens = totals[-1]
        self._newest_counts(usages)
        return True

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
        elif given_up := [reason for reason in self.finish_reasons.values() if reason in GIVEN_UP]:
            after = f"after {self.completion_tokens or 0} tokens"
            self._fail(
                FaultKind.aborted,
                f"the server ended this answer by itself, finish_reason {given_up[0]!r}, {after}",
            )
        elif self.completion_tokens is None:
            self._fail(
                FaultKind.usage_missing, "no chunk carried usage.completion_tokens; tokens cannot be counted"
            )
        elif self._bounds is not None and (broken := self._beyond(self._bounds, self.completion_tokens)):
            self._fail(FaultKind.implausible, broken)
        elif self.spec is not None and (broken := self.spec.contradiction):
            self._fail(FaultKind.acceptance_identity, broken)

    def _beyond(self, bounds: Bounds, output: int) -> str | None:
        counts = bounds.broken_counts(self.prompt_tokens, self.cached_tokens, self.reasoning_tokens, output)
        if counts or self.spec is None or self.spec.negative:
            return counts
        return bounds.broken_speculation(self.spec, output)

    def _implausible(self, total: int) -> str:
        shown = str(total) if abs(total) < 10**15 else f"about 2**{total.bit_length() - 1}"
        asked = f"where {self._expected} were asked for" if self._expected else "of any answer"
        return f"completion_tokens is {shown} {asked}"

    def timeline(self, zero: float) -> Timeline:
        """The arrivals of tokens, in seconds since `zero`; to be called once, at the end: it takes the memory over."""
        self.put_away(1)
        if self._away and (not self.text_t or self._away > 1):
            times = self._all_times[: self._away]
            times -= zero
            return Timeline(times, self._all_tokens[: self._away])
        times = np.array(self.text_t, dtype=np.float64) - zero
        tokens = np.full(len(times), -1, dtype=np.int64)
        if len(tokens) and self.completion_tokens is not None:
            tokens[-1] = self.completion_tokens
        return Timeline(times, tokens, per_chunk=False)

    def put_away(self, least: int = _BLOCK) -> None:
        """Move arrivals, if they are so many, to arrays of the answer's expected size.

        To be called now and then: growing one by one would fragment the heap.
        """
        if len(self.times) < least:
            return
        start, end = self._away, self._away + len(self.times)
        if end > len(self._all_times):
            size = max(end, self._expected, 2 * len(self._all_times))
            self._all_times = _enlarged(self._all_times, size)
            self._all_tokens = _enlarged(self._all_tokens, size)
        self._all_times[start:end] = self.times
        self._all_tokens[start:end] = self.tokens
        self._away = end
        del self.times[:], self.tokens[:]

    def _event(self, t: float, data: bytes) -> None:
        try:
            chunk = decode_chunk(data)
        except _UNREADABLE as error:
            if data == b"[DONE]":
                self._done = True
            elif data and self.fault is None:
                self._fail(
                    FaultKind.malformed, f"an event is not a completion chunk ({error}): {_excerpt(data)}", t
                )
            return
        self._chunk(t, chunk, data)

    def _chunk(self, t: float, chunk: Chunk, data: bytes) -> None:
        if self.fault is not None:
            return
        if chunk.error is not None or chunk.object == "error":
            self._fail(
                FaultKind.error_event, f"the server sent an error inside the stream: {_excerpt(data)}", t
            )
            return
        self.chunks += 1
        brought_text = False
        for choice in chunk.choices or ():
            if self._bounds is not None and not 0 <= choice.index < self._bounds.choices:
                self._fail(
                    FaultKind.implausible, f"choice {choice.index} of {self._bounds.choices} asked for", t
                )
                return
            if choice.finish_reason is not None:
                self.finish_reasons[choice.index] = one_line(choice.finish_reason, 40)
            delta = choice.delta
            text = choice.text if delta is None else delta.content
            reasoning = None if delta is None else delta.reasoning_content or delta.reasoning
            if text or reasoning:
                brought_text = True
                if self._keep_text:
                    self.text.append(text or "")
                    self.reasoning.append(reasoning or "")
        if chunk.usage is not None:
            self._usage(t, chunk.usage, chunk.choices)
        if brought_text and not self.completion_tokens:
            self.text_t.append(t)
        if chunk.sglext is not None and chunk.sglext.spec_tokens_details is not None:
            self._speculation(chunk.sglext.spec_tokens_details)

    def _usage(self, t: float, usage: Usage, choices: list[Choice] | None) -> None:
        self._newest_counts((usage,))
        total = usage.completion_tokens
        if total is None:
            return
        before = self.completion_tokens or 0
        if choices and (choices[0].index or self._by_choice):
            total = self._over_choices(choices[0].index, total, before)
        if not 0 <= total <= self._most_tokens:
            self._fail(FaultKind.implausible, self._implausible(total), t)
            return
        self.completion_tokens = total
        if total > before:
            self.times.append(t)
            self.tokens.append(total)
        elif total < before:
            self._fail(FaultKind.usage_backwards, f"completion_tokens fell from {before} to {total}", t)

    def _newest_counts(self, usages: Sequence[Usage | PlainUsage]) -> None:
        """Take over the counts besides completion_tokens, of each the newest that is stated."""
        self.prompt_tokens = _newest([u.prompt_tokens for u in usages], self.prompt_tokens)
        self.reasoning_tokens = _newest([u.reasoning_tokens for u in usages], self.reasoning_tokens)
        details = [u.prompt_tokens_details for u in usages]
        self.cached_tokens = _newest(
            [None if d is None else d.cached_tokens for d in details], self.cached_tokens
        )

    def _over_choices(self, index: int, count: int, before: int) -> int:
        """With n > 1 a chunk's usage counts that chunk's choice alone: the new total over all choices."""
        if not self._by_choice:
            self._by_choice[0] = before
        total = before - self._by_choice.get(index, 0) + count
        self._by_choice[index] = count
        return total

    def _speculation(self, details: Spec | list[Spec]) -> None:
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


def _newest(values: Sequence[int | None], otherwise: int | None) -> int | None:
    return next((value for value in reversed(values) if value is not None), otherwise)


def _enlarged(old: NDArray[T], size: int) -> NDArray[T]:
    new = np.empty(size, dtype=old.dtype)  # not zeroed: memory that is never used is never real
    new[: len(old)] = old
    return new


def _excerpt(data: bytes) -> str:
    return one_line(data.removeprefix(b"data: "))
