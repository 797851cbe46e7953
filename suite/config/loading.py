"""From the file to checked tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from suite.config.errors import ConfigError
from suite.config.sentences import sentences
from suite.config.tables import Suite
from suite.foreign import MIB, NESTING, NotJSON, check_nesting, one_line, read_file


def load(path: Path) -> Suite:
    """Read and check ``suite.toml``.

    Raises:
        ConfigError: missing, unreadable, not TOML, or not as the tables must be; all faults at once.
    """
    try:
        text = read_file(path, 4 * MIB).decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file. Run it from the repository's root, or name the file with --suite-config; "
            "`python -m suite init --from ...` writes one"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read: {said}") from None
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: it nests too deep") from None
    except ValueError as error:  # also a number of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {one_line(str(error))}") from None
    try:
        check_nesting(data)
    except NotJSON:
        raise ConfigError(f"{path}: its tables nest deeper than {NESTING} levels") from None
    return parse(data, path)


def parse(data: Mapping[str, Any], path: Path) -> Suite:
    """Check what was read from ``path``.

    Raises:
        ConfigError: as for :func:`load`.
    """
    if "path" in data:
        raise ConfigError(f"{path}: unknown key 'path'")
    try:
        suite = Suite.model_validate({**data, "path": path})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(sentences(error, path))) from None
    suite.target()
    for name, target in suite.targets.items():
        try:
            target.sizes(target.default_budget)
        except ConfigError as error:
            raise ConfigError(f"{path}: [targets.{name}] key 'default_budget': {error}") from None
        for host in (target.host, *target.nodes):
            try:
                suite.host(host)
            except ConfigError as error:
                raise ConfigError(f"{error} (asked for by [targets.{name}])") from None
    return suite
