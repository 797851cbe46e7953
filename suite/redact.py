"""Secrets out of whatever people see: command lines, environments and free text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from suite.sglang.flags import MASK

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
_NOT_SECRET = re.compile(r"(TOKENIZER|TOKEN_MODE|MAX_TOKENS|NUM_TOKENS)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Does a variable of this name hold something that must not be shown?"""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """``variables`` with the value of every secret replaced by ``***``."""
    return {name: MASK if is_secret(name) else value for name, value in variables.items()}


def scrub(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every occurrence of a secret replaced by ``***``.

    Texts of fewer than four characters are left alone: masking them would garble everything else.
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    return text
