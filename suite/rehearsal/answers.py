"""What a build of SGLang answered to a target's command lines on pretended cards: the data of a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from suite.rehearsal.cards import Cards
from suite.sglang.server.info import Speculation

Word = Literal["resolved", "refused", "undecided", "failed"]
"""``undecided``: it hangs on what only a real card or kernel package can tell; ``failed``: the rehearsal itself did."""

LATER: Mapping[str, str] = {
    "disable_chunked_prefix_cache": "the model runner",
    "disaggregation_decode_retraction_backup": "the scheduler",
    "enable_tf32_matmul": "the engine",
    "mamba_full_memory_ratio": "the engine",
    "max_mamba_cache_size": "the model runner, from the memory that is left",
    "mm_enable_dp_encoder": "the engine",
    "pp_max_micro_batch_size": "the scheduler",
    "swa_full_tokens_ratio": "the engine",
    "watermark_config": "/server_info, which redacts it",
    "watermark_key": "/server_info, which redacts it",
    "watermark_key_b": "/server_info, which redacts it",
}
"""Settings that no resolution decides, and who fills them in later: the difference between a rehearsal on the CPU and
the /server_info of the server that was then started so (0.5.20 and 0.5.23, MTP off and on)."""


class Question(msgspec.Struct, frozen=True):
    """Something that SGLang asked of what is not there, and the place in its source."""

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.what} ({self.where})"


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one command line.

    Args:
        word: how far it came.
        asks: does its command line, or the file that it names, ask for speculation?
        reason: SGLang's own last words where it is not resolved.
        settings: as in /server_info, flattened.
        said: what SGLang logged meanwhile, in order.
        asked: questions that nobody here can answer; ``open`` are the settings that hang on them, with both values.
    """

    word: Word
    asks: bool
    reason: str = ""
    settings: dict[str, Any] = {}
    said: list[str] = []
    asked: list[Question] = []
    open: dict[str, list[Any]] = {}

    @property
    def speculation(self) -> Speculation:
        """The speculative settings it would run with."""
        return Speculation.of(self.settings)

    @property
    def as_meant(self) -> bool:
        """Is speculation on exactly where it was asked for? Only of what is resolved."""
        return self.word == "resolved" and self.speculation.on is self.asks

    def __str__(self) -> str:
        if self.word == "resolved":
            return f"{self.speculation}{self._hanging()}"
        words = {
            "refused": "would be refused",
            "undecided": "not decided here",
            "failed": "could not be rehearsed",
        }
        return f"{words[self.word]}: {self.reason}"

    def _hanging(self) -> str:
        """What is not decided of it, and the questions that it hangs on."""
        if not self.open:
            return ""
        asked = "; ".join(map(str, self.asked)) or "; ".join(str(values[0]) for values in self.open.values())
        return f" (not decided here: {', '.join(self.open)}, because SGLang asks {asked})"


class Rehearsal(msgspec.Struct, frozen=True, omit_defaults=True):
    """All command lines of a target on one build.

    Args:
        target: the target's name.
        build: what the build is called: its release, or its release and where it is.
        cards: the pretended cards; ``None``: none, the machine as it was.
        versions: of sglang, torch and transformers, as installed where it was rehearsed.
        arms: the answers by arm.
        unasked: the first arm that asks for speculation, without its speculative flags: what MTP changes besides.
        checkpoint: what stood in for the model's files, where something did.
        cuda: the CUDA version that torch was made to report.
        torch_required: this SGLang's own requirement; it may have been rehearsed with another torch.
        flags: every flag of its parser, without dashes, and the setting it sets.
        defaults: every setting's default on the command line.
        imported: questions asked while it was imported.
    """

    target: str
    build: str
    cards: Cards | None
    versions: dict[str, str]
    arms: dict[str, Answer]
    unasked: tuple[str, Answer] | None = None
    checkpoint: str = ""
    cuda: str = ""
    torch_required: str = ""
    flags: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    imported: list[Question] = []

    @property
    def status(self) -> int:
        """1 where an arm would be refused or is not on/off as it means, 8 where some are not decided, else 0."""
        answers = self.arms.values()
        if any(a.word == "refused" or (a.word == "resolved" and not a.as_meant) for a in answers):
            return 1
        return 8 if any(a.word != "resolved" for a in answers) else 0
