"""What can be told of options, folders and prompts before anything is launched, in ``--plan`` too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from suite.config import AttachLaunch, ConfigError, Sizes, SystemdLaunch, Target
from suite.config.errors import nearest
from suite.foreign import one_line
from suite.load import LoadError, workloads
from suite.sglang.flags import FlagChangeValue, Flags


def not_empty(config: pytest.Config, options: Mapping[str, tuple[str, object]]) -> None:
    """An option that was given without a value is an unset variable of somebody's script, and no default.

    Args:
        options: names and defaults of options by where pytest keeps their values.

    Raises:
        ConfigError: it names the option.
    """
    written = {word.partition("=")[0] for word in config.invocation_params.args if isinstance(word, str)}
    for place, (name, default) in options.items():
        given = config.getoption(place, default=None)
        blank = [value for value in (given if isinstance(given, list) else [given]) if _is_blank(value)]
        if blank and (given != default or name in written):
            raise ConfigError(
                f"{name} was given an empty value: leave the option out, or say what it is to be"
            )


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def attached(target: Target, url: str | None, api_key_env: str | None = None) -> Target:
    """``target`` with the running server at ``url`` in place of what it launches; keys that it names stay.

    Args:
        url: ``None``: the target's own.
        api_key_env: the variable that holds its key, in place of the target's.

    Raises:
        ConfigError: ``url`` is no server's address, or there is none for the key.
    """
    known = target.launch if isinstance(target.launch, AttachLaunch) else None
    if url is None:
        if api_key_env is None:
            return target
        if known is None:
            raise ConfigError(
                "--api-key-env needs --server-url: it names the environment variable with that server's key"
            )
        url = known.url
    keys = {"api_key_env": known.api_key_env, "admin_api_key_env": known.admin_api_key_env} if known else {}
    if api_key_env is not None:
        if not os.environ.get(api_key_env):
            raise ConfigError(
                f"--api-key-env {api_key_env}: that variable is not set here, or is empty; export the server's key in it"
            )
        keys["api_key_env"] = api_key_env
    try:
        launch = AttachLaunch(kind="attach", url=url, **keys)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"--server-url: {said}") from None
    return target.model_copy(update={"launch": launch})


def sized(sizes: Sizes, changes: Mapping[str, object], options: Mapping[str, str]) -> Sizes:
    """``sizes`` with some figures changed, each held to what its table holds it to.

    Raises:
        ConfigError: it names the option, by the figure's name in ``options``.
    """
    for name, value in changes.items():
        field = Sizes.model_fields[name]
        try:
            TypeAdapter(field.rebuild_annotation()).validate_python(value, strict=True)
        except ValidationError as error:
            fault = error.errors()[0]
            message = fault["msg"][0].lower() + fault["msg"][1:]
            raise ConfigError(f"{options[name]} {one_line(str(fault['input']), 60)}: {message}") from None
    return sizes.model_copy(update=dict(changes))


def writable(folder: Path, option: str) -> None:
    """Raises ConfigError if nothing can be written into ``folder``, or where it is to be made."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        if not there.is_dir():
            raise NotADirectoryError(20, "is no directory")
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as error:
        place = "" if there == folder else f" ({there})"
        raise ConfigError(
            f"{option} {folder}: cannot be written{place}: {error.strerror or error}; choose another folder"
        ) from None


def prompts(kinds: Iterable[str]) -> None:
    """Raises ConfigError if a kind of content of the budget is none that is shipped, and no file of prompts."""
    for kind in kinds:
        try:
            workloads.load(kind)
        except LoadError as error:
            raise ConfigError(f"kinds of the budget: {error}") from None


def removable(target: Target, changes: Mapping[str, FlagChangeValue]) -> None:
    """Raises ConfigError if ``--flag no:NAME`` removes what nothing gives.

    A unit's own flags are in its file, on its host: what it gives is not known here.
    """
    if isinstance(target.launch, SystemdLaunch):
        return
    given = {name for arm in target.arms.values() for name in target.arm_flags(arm)} | set(
        target.base_flags()
    )
    for name in Flags({name: True for name, value in changes.items() if value is False or value is None}):
        if name not in given:
            raise ConfigError(
                f"--flag no:{one_line(name, 60)}: target {target.name!r} gives no such flag to remove"
                f"{nearest(name, given)}; it gives: {', '.join(sorted(given))}"
            )
