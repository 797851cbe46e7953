"""A tokenizer that reads bytes and writes words: one token a byte of the prompt, one token a word of the answer.

The words are never merged from bytes, so only the model can produce them. They are plain ASCII: every token shows as
text at once, where lone bytes above 0x7F would be held back by the server until they make a character.
"""

from collections.abc import Mapping
from itertools import islice, product

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
VOCABULARY = 1024
BYTES = 256
WORDS = range(BYTES, VOCABULARY - len(SPECIAL_TOKENS))
SPECIAL_IDS: Mapping[str, int] = {token: WORDS.stop + index for index, token in enumerate(SPECIAL_TOKENS)}
SPACE = "\u0120"  # how byte-level BPE writes a space

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in byte-level BPE (GPT-2's table), in order of code point."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    return [*map(chr, sorted(printable)), *(chr(256 + n) for n in range(256 - len(printable)))]


def words() -> list[str]:
    """Two-syllable words with a space in front, as many as there are word tokens."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    return [SPACE + first + second for first, second in islice(product(syllables, syllables), len(WORDS))]


def tokenizer_json() -> dict[str, object]:
    """The content of tokenizer.json: byte-level BPE without merges."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token, token_id in SPECIAL_IDS.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for index, token in enumerate([*byte_alphabet(), *words()])},
            "merges": [],
        },
    }


def tokenizer_config_json() -> dict[str, object]:
    """The content of tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "chat_template": CHAT_TEMPLATE,
    }
