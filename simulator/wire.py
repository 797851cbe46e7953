"""The parts that answers of all APIs share: usage, acceptance details, finish reasons, events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from simulator.answers import THINK_END
from simulator.arguments import release
from simulator.sequences import Finish, Sequence
from simulator.service import Service

DETAILS_SINCE = (0, 5, 19)  # older releases ignore return_spec_tokens_details
RENAMED = {
    "spec_accept_rate": "spec_acceptance_rate",
    "spec_accept_length": "spec_acceptance_length",
    "spec_num_correct_drafts": "spec_num_accepted_draft_tokens",
    "spec_num_proposed_drafts": "spec_num_draft_tokens_total",
    "spec_verify_ct": "spec_num_verify_calls",
    "spec_correct_drafts_histogram": "spec_accepted_histogram",
}

dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + dumps(value).encode("utf-8", "replace") + b"\n\n"


DONE = b"data: [DONE]\n\n"


def usage(service: Service, counted: Iterable[tuple[Sequence, int]], n: int = 1) -> dict[str, Any]:
    """The usage of sequences with so many output tokens each; a prompt with n choices counts once."""
    prompt = completion = reasoning = cached = 0
    for sequence, tokens in counted:
        if sequence.index % n == 0:
            prompt += sequence.prompt.tokens
            cached += sequence.cached_tokens
        completion += tokens
        reasoning += reasoning_tokens(service, sequence, tokens)
    reports_cache = service.resolved.settings["enable_cache_report"]
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached} if reports_cache else None,
        "reasoning_tokens": reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
    }


def without_nulls(counted: dict[str, Any]) -> dict[str, Any]:
    """A usage object as the last event of a completion stream has it."""
    return {key: value for key, value in counted.items() if value is not None}


def reasoning_tokens(service: Service, sequence: Sequence, tokens: int) -> int:
    """How many of its output tokens count as reasoning; none without a reasoning parser."""
    if service.resolved.settings["reasoning_parser"] is None:
        return 0
    return min(tokens, sequence.answer.reasoning_tokens)


def acceptance(sequence: Sequence) -> dict[str, Any] | None:
    """What the sequence's drafts came to, in SGLang's keys; None if nothing was drafted."""
    if not sequence.histogram or not sequence.verifications or not sequence.reports:
        return None
    proposed = sequence.verifications * (len(sequence.histogram) - 1)
    return {
        "spec_accept_rate": sequence.drafts_correct / proposed,
        "spec_accept_length": sequence.output_tokens / sequence.verifications,
        "spec_num_correct_drafts": sequence.drafts_correct,
        "spec_num_proposed_drafts": proposed,
        "spec_verify_ct": sequence.verifications,
        "spec_correct_drafts_histogram": list(sequence.histogram),
    }


def reported(service: Service, details: dict[str, Any] | None) -> dict[str, Any] | None:
    """Acceptance keys as this server reports them: faults rename and drop them."""
    if details is None or service.behaviour.dropped_keys:
        return None
    if service.behaviour.redefined_keys:
        details = details | {
            "spec_num_correct_drafts": details["spec_num_correct_drafts"] + details["spec_verify_ct"]
        }
    if service.behaviour.renamed_keys:
        return {RENAMED.get(key, key): value for key, value in details.items()}
    return details


def extension(service: Service, body: dict[str, Any], sequences: list[Sequence]) -> dict[str, Any] | None:
    """The `sglext` object of an OpenAI answer, if the request asks for acceptance details and there are any."""
    if not body.get("return_spec_tokens_details") or release(service.arguments.own.version) < DETAILS_SINCE:
        return None
    found = [_openai_details(details) for s in sequences if (details := acceptance(s)) is not None]
    shown = [details for each in found if (details := reported(service, each)) is not None]
    if not shown:
        return None
    return {"spec_tokens_details": shown if body.get("n", 1) > 1 else shown[0]}


def _openai_details(details: dict[str, Any]) -> dict[str, Any]:
    rate, length = details["spec_accept_rate"], details["spec_accept_length"]
    rest = {
        key: value for key, value in details.items() if key not in ("spec_accept_rate", "spec_accept_length")
    }
    return {
        "spec_accept_rate": rate,
        "spec_accept_length": length,
        "spec_cap_length": 0.0,
        "spec_block_accept_length": 0.0,
        **rest,
        "spec_cap_lens_histogram": [],
    }


def finish_type(finish: Finish | None) -> str | None:
    """The finish_reason of an OpenAI answer."""
    return finish.type if finish is not None else None


def matched_stop(finish: Finish | None) -> int | str | None:
    """The stop token or text that ended it."""
    return finish.matched if finish is not None and finish.type == "stop" else None


def weight_versions(tokens: int) -> dict[str, Any]:
    """Which weights made which tokens: always the ones of the launch."""
    return {
        "weight_version": "default",
        "weight_versions": [{"version": "default", "start": 0, "end": tokens}],
    }


def visible_text(sequence: Sequence, start: int, stop: int) -> str:
    """The text of output tokens [start, stop), ended before a matched stop string."""
    text = sequence.answer.text(start, stop)
    if sequence.text_end is not None and stop >= sequence.output_tokens:
        before = len(sequence.answer.text(0, start))
        text = text[: max(0, sequence.text_end - before)]
    return text


def split_reasoning(
    service: Service, body: dict[str, Any], sequence: Sequence, start: int, stop: int
) -> tuple[str, str]:
    """(reasoning, content) of output tokens [start, stop); all content without a reasoning parser."""
    parses = service.resolved.settings["reasoning_parser"] is not None and body.get(
        "separate_reasoning", True
    )
    thought = sequence.answer.reasoning_tokens
    if not parses or not thought:
        return "", visible_text(sequence, start, stop)
    reasoning = sequence.answer.text(min(start, thought - 1), min(stop, thought - 1))
    content = visible_text(sequence, max(start, thought + 1), stop) if stop > thought + 1 else ""
    return reasoning.replace(THINK_END, ""), content


def logprob(sequence: Sequence, place: int) -> float:
    """A made-up log probability of an output token, the same every time."""
    return -(sequence.answer.ids(place, place + 1)[0] % 997) / 1994.0


def error(message: str, kind: str = "BadRequestError", code: int = 400) -> dict[str, Any]:
    """SGLang's error object."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}
