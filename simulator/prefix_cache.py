"""The prefix cache: which leading blocks of a prompt have their keys and values in memory already."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from itertools import islice

from simulator.prompts import BLOCK_TOKENS


class PrefixCache:
    """Blocks by chained hash, least recently used last in line; a block is only as good as all before it."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._blocks: OrderedDict[int, None] = OrderedDict()
        self._pins: Counter[int] = Counter()

    @property
    def tokens(self) -> int:
        """Tokens held."""
        return len(self._blocks) * BLOCK_TOKENS

    @property
    def pinned_tokens(self) -> int:
        """Tokens that running sequences need, each counted once however many share it."""
        return len(self._pins) * BLOCK_TOKENS

    def pin(self, blocks: Sequence[int]) -> int:
        """Keep these blocks while a sequence runs; how many there are."""
        if not self.enabled:
            return 0
        self._pins.update(blocks)
        return len(blocks)

    def unpin(self, blocks: Sequence[int]) -> None:
        """A sequence no longer needs them."""
        for block in blocks if self.enabled else ():
            self._pins[block] -= 1
            if self._pins[block] <= 0:
                del self._pins[block]

    def match(self, blocks: Sequence[int], prompt_tokens: int) -> int:
        """Tokens of the prompt that need not be computed; the last token of a prompt always must be."""
        if not self.enabled:
            return 0
        found = 0
        while found < len(blocks) and blocks[found] in self._blocks:
            found += 1
        self._touch(blocks[:found])
        return min(found * BLOCK_TOKENS, max(0, prompt_tokens - 1))

    def insert(self, blocks: Sequence[int]) -> None:
        """Remember a computed sequence."""
        if self.enabled:
            self._touch(blocks)

    def trim(self, limit_tokens: int) -> None:
        """Forget the least recently used that no running sequence needs until `limit_tokens` are held."""
        surplus = len(self._blocks) - max(0, limit_tokens) // BLOCK_TOKENS
        if surplus <= 0:
            return
        idle = (block for block in self._blocks if block not in self._pins)
        for block in list(islice(idle, surplus)):
            del self._blocks[block]

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()

    def _touch(self, blocks: Sequence[int]) -> None:
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
