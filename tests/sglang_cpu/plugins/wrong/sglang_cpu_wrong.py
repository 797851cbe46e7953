"""An SGLang plugin that answers short prompts as if they were written backwards: wrong, fluent, and as fast as before."""

from typing import Any

SHORT_TOKENS = 40
"""Below this a prompt is no chat: the chat template alone is longer than what is asked of the model here."""


def activate() -> None:
    """Called by SGLang in each of its processes."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(
        "sglang.srt.managers.scheduler.Scheduler.handle_generate_request", _backwards, HookType.BEFORE
    )


def _backwards(scheduler: Any, request: Any, *arguments: Any, **named: Any) -> None:
    ids = request.input_ids
    if ids is not None and 1 < len(ids) <= SHORT_TOKENS:
        request.input_ids = ids[::-1]
