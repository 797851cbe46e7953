"""What one answer may say of itself, from what was asked: numbers beyond that are believed by nobody."""

from __future__ import annotations

from dataclasses import dataclass

from suite.load.records import SpecDetails

OVERSHOOT_TOKENS = 64
"""Output tokens beyond those asked for: what one verify step may bring too many, and then some."""

TEMPLATE_TOKENS = 65_536
"""Prompt tokens that a chat template may add to what was sent: system prompts, tools."""

DRAFTS_A_STEP = 64
"""Drafts that one verify step may have right. SGLang's users draft 1 to 16."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that an answer may count. `prompt_bytes` bound the prompt's tokens, for none is shorter than a byte."""

    output_tokens: int
    prompt_bytes: int | None = None
    choices: int = 1

    @property
    def most_tokens(self) -> int:
        """Completion tokens of all choices together."""
        return self.output_tokens + OVERSHOOT_TOKENS * self.choices

    def broken_counts(
        self, prompt: int | None, cached: int | None, reasoning: int | None, output: int | None
    ) -> str | None:
        """Which of an answer's counts cannot be, in words, or None."""
        most_prompt = None if self.prompt_bytes is None else self.prompt_bytes + TEMPLATE_TOKENS
        for name, value, most, because in (
            ("prompt_tokens", prompt, most_prompt, f"of a prompt of {self.prompt_bytes} bytes"),
            ("cached_tokens", cached, prompt, "of all prompt tokens"),
            ("reasoning_tokens", reasoning, output, "of all completion tokens"),
        ):
            if value is not None and value < 0:
                return f"{name} is negative: {_told(value)}"
            if value is not None and most is not None and value > most:
                return f"{name} is {_told(value)}, more than {most} {because}"
        return None

    def broken_speculation(self, spec: SpecDetails, output: int) -> str | None:
        """What of an answer's speculation counters cannot be, in words, or None.

        A verify step and a right draft bring an output token each, but for the last step, whose tokens may be cut off.
        """
        if spec.correct_drafts and not spec.verify_steps:
            return f"{_told(spec.correct_drafts)} correct drafts in no verify step"
        most = output + OVERSHOOT_TOKENS * self.choices
        if spec.verify_steps > most:
            return f"{_told(spec.verify_steps)} verify steps for {output} output tokens"
        if spec.correct_drafts > min(most, spec.verify_steps * DRAFTS_A_STEP):
            length = 1 + spec.correct_drafts / spec.verify_steps
            return (
                f"{_told(spec.correct_drafts)} correct drafts in {spec.verify_steps} verify steps "
                f"(acceptance length {length:.4g}) for {output} output tokens"
            )
        if spec.proposed_drafts > spec.verify_steps * 16 * DRAFTS_A_STEP:
            return f"{_told(spec.proposed_drafts)} drafts proposed in {spec.verify_steps} verify steps"
        return None


def _told(number: int) -> str:
    """A number for a sentence, also one of thousands of digits."""
    return str(number) if abs(number) < 10**15 else f"about 2**{number.bit_length() - 1}"
