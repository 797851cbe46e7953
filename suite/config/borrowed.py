"""``{env:NAME}`` in a flag or a variable: taken from this machine's environment at a launch, so that no file holds a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from suite import redact
from suite.sglang.flags import FlagChangeValue, Flags

_REFERENCE = re.compile(r"\{env:([A-Za-z_]\w*)\}")


class NotSet(LookupError):
    """A variable is named whose value is not there; the text says which, and who names it."""


def names(texts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each key of ``texts`` with each variable that its value names."""
    for key, value in texts.items():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, str):
                yield from ((key, name) for name in _REFERENCE.findall(part))


def flags(given: Flags, variables: Mapping[str, str] = os.environ) -> Flags:
    """``given`` with the values of the variables that it names.

    Raises:
        NotSet: one is not set, or empty.
    """
    changed: dict[str, FlagChangeValue] = {
        name: tuple_or_text(f"--{name}", given[name], variables) for name, _ in names(given)
    }
    return given.merge(changed)


def tuple_or_text(key: str, value: object, variables: Mapping[str, str]) -> FlagChangeValue:
    """One value, or several, with what they name put in. Raises as :func:`flags`."""
    if isinstance(value, (list, tuple)):
        return [_filled(key, part, variables) if isinstance(part, str) else part for part in value]
    return _filled(key, str(value), variables)


def env(given: Mapping[str, str], variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """As :func:`flags`, of the variables that a server is started with."""
    return {name: _filled(name, value, variables) for name, value in given.items()}


def _filled(key: str, text: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = variables.get(match[1], "")
        if not found:
            raise NotSet(f"{key} takes the variable {match[1]} from here, which is not set")
        if redact.is_secret(key) or redact.is_secret(match[1]):
            redact.learn(found)
        return found

    return _REFERENCE.sub(value, text)
