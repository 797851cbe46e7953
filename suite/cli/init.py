"""``python -m suite init``: a server that runs, or the command that starts one, as a target of ``suite.toml``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from suite import config, packaged, redact
from suite.cli import probe, shared
from suite.config import ConfigError
from suite.describe import Draft, describe, table
from suite.describe.table import slug
from suite.foreign import MIB, read_file
from suite.hosts import Host, LocalHost, open_host
from suite.whole import write_whole

FROM = (
    "a URL, a container, a systemd unit, a compose file, a start script, or the command in quotes "
    "(docker run ..., sglang serve ..., python -m sglang.launch_server ...); - reads one from the input"
)


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``init`` to the suite's commands."""
    text = "write a target into suite.toml from a server that runs, or from the command that starts it"
    parser = subparsers.add_parser("init", help=text, description=text)
    parser.add_argument("--from", dest="source", required=True, metavar="WHAT", help=FROM)
    parser.add_argument("--name", metavar="NAME", help="the target's name (default: after the model)")
    parser.add_argument(
        "--host",
        default="local",
        metavar="NAME",
        help="where it runs: a host of suite.toml, or [user@]address (default: here)",
    )
    parser.add_argument(
        "--service", metavar="NAME", help="with a compose file that has several SGLang services: which one"
    )
    parser.add_argument(
        "--api-key-env",
        metavar="NAME",
        help="with a URL: environment variable that holds the server's API key",
    )
    shared.add_paths(parser, "--suite-config", "--baselines")
    parser.add_argument("--dry-run", action="store_true", help="print the table; write nothing")
    parser.add_argument("--no-doctor", action="store_true", help="do not run the doctor on the new target")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the target and run the doctor on it; 0 once it is written, whatever the doctor finds."""
    path: Path = arguments.suite_config
    before = _text_of(path)
    there = config.load(path) if before.strip() else None
    given = sys.stdin.read() if arguments.source == "-" else arguments.source
    with _host(arguments.host, there) as host:
        draft = describe(
            given, host, service=arguments.service, api_key_env=arguments.api_key_env, cwd=_directory(host)
        )
    hosts = _place(draft, arguments.host, there, path)
    name = _free_name(arguments.name, slug(draft.model), there, path)
    added = hosts + table(draft, name)
    after = _joined(before, added, name)
    suite = config.parse(tomllib.loads(after), path)  # what is written can be read
    print(f"read from {draft.source}:\n\n{added}")
    if arguments.dry_run:
        print(f"nothing was written: this would be added to {path}")
        return 0
    path.resolve().parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, after)
    print(f"written to {path} as target {name}; look at the lines that say unsure")
    if not arguments.no_doctor:
        print()
        _see(suite.target(name).name, arguments)
    print(f"\nnext: {_next(name, path, draft)}")
    return 0


def _text_of(path: Path) -> str:
    try:
        return read_file(path, 4 * MIB).decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _host(name: str, there: config.Suite | None) -> Host:
    if name == "local":
        return LocalHost()
    if there is not None and name in there.hosts:
        return open_host(there.host(name))
    return open_host(config.HostTable(name=name, ssh=name))


def _directory(host: Host) -> str | None:
    return os.getcwd() if host.is_local else None


def _place(draft: Draft, host: str, there: config.Suite | None, path: Path) -> str:
    """Say where it runs; the text of the host's table, if it has none yet."""
    if draft.launch.get("cwd") == str(path.resolve().parent):
        del draft.launch["cwd"]  # where a process starts anyway
    if host == "local":
        return ""
    known = there is not None and host in there.hosts
    draft.host = host if known else "".join(c if c.isalnum() else "-" for c in host.lower()).strip("-")
    if known or (there is not None and draft.host in there.hosts):
        return ""
    return f'[hosts.{draft.host}]\nssh = "{host}"\n\n'


def _free_name(wanted: str | None, own: str, there: config.Suite | None, path: Path) -> str:
    """The name that was asked for, or the model's, with a number if that is taken.

    Raises:
        ConfigError: the name asked for is taken: nothing is ever overwritten.
    """
    taken: Mapping[str, object] = there.targets if there is not None else {}
    if wanted is not None:
        if wanted in taken:
            raise ConfigError(
                f"{path} has a target {wanted!r} already, and it stays as it is: give another --name, or delete its tables"
            )
        return wanted
    number, name = 1, own
    while name in taken:
        number += 1
        name = f"{own}-{number}"
    return name


def _joined(before: str, added: str, name: str) -> str:
    if before.strip():
        return f"{before.rstrip()}\n\n{added}"
    return f'# Every key: docs/servers.md; arms and budgets are built in and can be overridden here.\ndefault_target = "{name}"\n\n{added}'


def _see(name: str, arguments: argparse.Namespace) -> None:
    """The doctor's lines; what it cannot look at is a line too."""
    parser = argparse.ArgumentParser()
    probe.add_doctor(parser.add_subparsers())
    config_and_store = [f"--suite-config={arguments.suite_config}", f"--baselines={arguments.baselines}"]
    asked = parser.parse_args(["doctor", f"--target={name}", *config_and_store])
    try:
        probe.run_doctor(asked)
    except (ConfigError, OSError) as error:
        print(redact.scrub(str(error)))


def _next(name: str, path: Path, draft: Draft) -> str:
    options = f" --target {name}" + (
        "" if path == Path("suite.toml") else f" --suite-config {shlex.quote(str(path))}"
    )
    run = f"pytest -m perf{options}" if packaged.checkout() else f"{packaged.DISTRIBUTION} perf --{options}"
    return run if draft.kind == "attach" else f"{run} --plan, then {run}"
