"""/generate, SGLang's own API: what its ``meta_info`` says of speculation, also in releases whose other answers say nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from suite.redact import Secret
from suite.sglang import http
from suite.sglang.errors import UnreadableServer
from suite.sglang.server.info import root

PROMPT = "def fibonacci(n):\n    "
CORRECT = ("spec_num_correct_drafts", "spec_accepted_drafts")
"""Correct drafts by their names from 0.5.12 and 0.5.11 on; what 0.5.10 counted held the bonus token and is not read."""


@dataclass(frozen=True, slots=True)
class NativeAnswer:
    """What one answer told: its tokens, verify steps and correct drafts; ``None`` for what was not in it."""

    tokens: int
    verify_steps: int | None
    correct_drafts: int | None

    @property
    def acceptance_length(self) -> float | None:
        """1 + correct drafts / verify steps; without the former (tokens - 1) / verify steps, a little too small."""
        if not self.verify_steps:
            return None
        if self.correct_drafts is not None:
            return 1 + self.correct_drafts / self.verify_steps
        return (self.tokens - 1) / self.verify_steps


def ask(
    base_url: str, max_tokens: int, api_key: Secret | str | None = None, timeout_s: float = 120.0
) -> NativeAnswer | None:
    """Have a short piece of code continued greedily; ``None`` where there is no /generate.

    Raises:
        ServerProbeError: see :mod:`suite.sglang.errors`.
    """
    sampling = {"max_new_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
    body = json.dumps({"text": PROMPT, "sampling_params": sampling}).encode()
    url = root(base_url) + "/generate"
    headers = {"Content-Type": "application/json"}
    answer = http.ask(url, method="POST", body=body, headers=headers, api_key=api_key, timeout_s=timeout_s)
    if answer.status in (404, 405):
        return None
    if answer.status != 200:
        raise http.refused(url, answer)
    return parse(http.parsed(answer.text, url), url)


def parse(answer: Any, url: str = "/generate") -> NativeAnswer:
    """Read an answer.

    Raises:
        UnreadableServer: it has no ``meta_info``.
    """
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    if not isinstance(meta, dict):
        raise UnreadableServer(
            f"{url}: the answer is JSON, but not an SGLang server's: it has no 'meta_info'"
        )
    correct = (_count(meta, name) for name in CORRECT)
    return NativeAnswer(
        tokens=_count(meta, "completion_tokens") or 0,
        verify_steps=_count(meta, "spec_verify_ct"),
        correct_drafts=next((count for count in correct if count is not None), None),
    )


def _count(meta: Mapping[str, Any], name: str) -> int | None:
    value = meta.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
