"""What a secret is, by its name and by its value, and how it stays out of whatever people see.

Nothing of the suite's is imported here: the parts that run on a target's host take this file along.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

MASK = "***"

_ANYWHERE = re.compile(r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|AUTHORIZATION|BEARER|COOKIE")
_AS_WORD = frozenset({"KEY", "TOKEN", "PASS", "PWD", "AUTH", "JWT", "DSN", "PAT"})
_PLACE = frozenset(
    {"FILE", "PATH", "DIR", "DIRECTORY", "SOCK", "ENV", "NAME", "TYPE", "MODE", "HELPER", "METHOD"}
)
_COUNTED = frozenset(
    {"MAP", "USAGE", "CAPACITY", "LEN", "LENGTH", "LIMIT", "BUDGET", "COUNT", "SIZE", "NUM", "POOL"}
)
_OTHERWISE = frozenset({"KEY", "PWD", "OLDPWD", "FORWARD_PASS", "SORT_KEY"})
"""What bears such a name and is none: where a shell is, and the words of a trade."""

_LEAST_CHARS = 4  # masking shorter texts would garble everything else


class Secret:
    """A key or a password that never prints itself; :meth:`reveal` where it is sent, and nowhere else.

    Whatever is made a secret is from then on also cut out of foreign texts, see :func:`scrub`.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        learn(value)

    def reveal(self) -> str:
        """The secret itself."""
        return self._value

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._value,)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __str__(self) -> str:
        return MASK

    __repr__ = __str__


def reveal(secret: Secret | str) -> str:
    """The text itself, of a secret or of what was never made one."""
    return secret.reveal() if isinstance(secret, Secret) else secret


_known: set[str] = set()


def learn(*values: str) -> None:
    """Take note of secrets, so that :func:`scrub` finds them wherever they turn up, as they are or escaped."""
    for value in values:
        if len(value) >= _LEAST_CHARS and value != MASK:
            written = {value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, safe="")}
            _known.update(written)


def learn_from(variables: Mapping[str, str]) -> None:
    """Take note of the secrets among variables. Short ones are left out: half of a log could go with them."""
    for name, value in variables.items():
        if is_secret(name) and len(value) >= 8:
            learn(value)
        for match in _CREDENTIALS.finditer(value):
            learn_credentials(match[2])


def learn_credentials(text: str) -> None:
    """Take note of ``user:password`` as it stands in a URL, and as a header writes it."""
    learn(base64.b64encode(text.encode()).decode())
    password = text.partition(":")[2]
    if len(password) >= 6:
        learn(password)


def is_secret(name: str) -> bool:
    """Does a variable, a flag, a setting or a header of this name hold something that must not be shown?"""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name.strip("-")).replace("-", "_").replace(".", "_")
    upper = words.upper()
    parts = [re.sub(r"\d+$", "", part) for part in upper.split("_") if part]
    if (
        not parts
        or upper in _OTHERWISE
        or any(upper.endswith(f"_{other}") for other in ("FORWARD_PASS", "SORT_KEY"))
    ):
        return False
    last = next((part for part in reversed(parts) if part), "")
    if last in _PLACE:
        return False
    if _ANYWHERE.search(upper):
        return True
    if last in _COUNTED:
        return False
    return any(part in _AS_WORD for part in parts) or (
        last.endswith("PASS") and last not in ("BYPASS", "COMPASS")
    )


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """``variables`` with the value of every secret replaced by ``***``, and secrets within the others too."""
    return {name: MASK if is_secret(name) else scrub(value) for name, value in variables.items()}


_CREDENTIALS = re.compile(r"(?<=[A-Za-z0-9])(://)([^\s/@'\"<>]{1,500})@")
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization[\"']?\s*[:=,]\s*(?:b(?=[\"']))?[\"']?(?:(?:bearer|basic|token|digest)\s+)?)([^\s\"',;)\]}]+)"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)([A-Za-z0-9._~+/=-]{6,})")
_FLAG = re.compile(r"(?<![\w-])(--?)([A-Za-z][\w-]*)([= ]\s*)([\"']?)([^\s\"']+)")
_NAMED = re.compile(r"(?<![\w-])([\"']?)([A-Za-z][\w-]*)\1(\s*[:=]\s*)([\"'])((?:(?!\4)[^\\]|\\.){1,4000})\4")
_ASSIGNED = re.compile(r"(?<![\w-])([A-Za-z]\w*)=([^\s\"',;&)\]}]+)")
_LINE = re.compile(
    r"(?m)(^[ \t]*(?:- +)?|[\"'])([A-Za-z][\w-]*)(:[ \t]+)(?!(?i:bearer|basic|token|digest)\b)([^\s\"',;)\]}]+)"
)
"""A line of YAML, or a header as curl is given it. A plain word before the colon is prose: "pass: TPOT +1 %"."""
_PLAIN = re.compile(r"-?[\d.]+|none|null|true|false|\*+", re.IGNORECASE)
"""Values that are no secret under any name."""


def cut(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without the secrets given, those ever made a :class:`Secret`, and what only a key can be.

    That is a URL's ``user:password@`` and an Authorization header. For texts that have a form of their own, such as
    JSON; nothing is told there from its name.
    """
    for secret in sorted({*secrets, *_known}, key=len, reverse=True):
        if len(secret) >= _LEAST_CHARS:
            text = text.replace(secret, MASK)
    if "://" in text and "@" in text:
        text = _CREDENTIALS.sub(rf"\1{MASK}@", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    return _BEARER.sub(rf"\1{MASK}", text)


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without secrets: as :func:`cut`, and without the value of any flag, variable or key named like one.

    Given texts of fewer than four characters are left alone: masking them would garble everything else.
    """
    text = cut(text, secrets)
    if "-" in text:
        text = _FLAG.sub(_flag, text)
    if "=" in text or ":" in text:
        text = _NAMED.sub(_named, text)
        text = _ASSIGNED.sub(_assigned, text)
        text = _LINE.sub(_line, text)
    return text


def _flag(match: re.Match[str]) -> str:
    hidden = is_secret(match[2]) and not _PLAIN.fullmatch(match[5])
    return f"{match[1]}{match[2]}{match[3]}{match[4]}{MASK}" if hidden else match[0]


def _named(match: re.Match[str]) -> str:
    hidden = is_secret(match[2]) and not _PLAIN.fullmatch(match[5])
    return f"{match[1]}{match[2]}{match[1]}{match[3]}{match[4]}{MASK}{match[4]}" if hidden else match[0]


def _assigned(match: re.Match[str]) -> str:
    hidden = is_secret(match[1]) and not _PLAIN.fullmatch(match[2])
    return f"{match[1]}={MASK}" if hidden else match[0]


def _line(match: re.Match[str]) -> str:
    name = match[2]
    a_name = not (name.isalpha() and (name.islower() or name.istitle())) or _ANYWHERE.search(name.upper())
    hidden = a_name and is_secret(name) and not _PLAIN.fullmatch(match[4])
    return f"{match[1]}{name}{match[3]}{MASK}" if hidden else match[0]


def masked(value: Any, name: str = "") -> Any:
    """A value of nested tables and lists with every secret in it replaced by ``***``.

    Numbers, switches and what is absent are no secrets under any name.
    """
    if isinstance(value, dict):
        return {
            scrub(key) if isinstance(key, str) else key: masked(item, str(key)) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked(item, name) for item in value]
    if isinstance(value, Secret):
        return MASK
    if not isinstance(value, str) or not value:
        return value
    return MASK if is_secret(name) and not _PLAIN.fullmatch(value) else scrub(value)
