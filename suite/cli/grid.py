"""``python -m suite grid``: tokens/s, TTFT and acceptance by clients and context, with MTP off and on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from suite import config
from suite.cli import shared
from suite.cli.load_arguments import key_of
from suite.grid import cells as grid
from suite.grid import table
from suite.load import Endpoint, LoadError
from suite.servers import LaunchFailed, launcher_for
from suite.sglang import server as server_probe

DEFAULT_ARMS = "mtp-off,mtp-on"


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``grid`` to the suite's commands."""
    text = "a table of speeds by clients and context, MTP off and on, or of one running server; no gate, no baseline"
    parser = subparsers.add_parser("grid", help=text, description=text)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--target",
        metavar="NAME",
        help="launch the arms of this target (default: default_target of suite.toml)",
    )
    which.add_argument("--server-url", metavar="URL", help="measure this running server as it is")
    parser.add_argument(
        "--api-key-env", metavar="NAME", help="with --server-url: environment variable that holds its API key"
    )
    parser.add_argument(
        "--arms",
        default=DEFAULT_ARMS,
        metavar="A,B",
        help=f"arms; speed-up is relative to the first (default: {DEFAULT_ARMS})",
    )
    parser.add_argument(
        "--concurrency",
        type=whole_numbers,
        default=[1, 2, 4, 8, 16],
        metavar="1,4,8",
        help="concurrent clients (default: 1,2,4,8,16)",
    )
    parser.add_argument(
        "--contexts",
        type=_contexts,
        default=[0],
        metavar="0,1024",
        help="prompt lengths in tokens; 0: natural prompts (default: 0)",
    )
    parser.add_argument(
        "--max-tokens", type=int, default=256, metavar="N", help="output tokens per answer (default: 256)"
    )
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)"
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="answers per client (default: 3)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results/grid"),
        metavar="DIR",
        help="folder of the table; cells that are in it are not measured again (default: results/grid)",
    )
    shared.add_paths(parser, "--suite-config")
    parser.set_defaults(func=run)


def whole_numbers(text: str, least: int = 1) -> list[int]:
    """``1,4,8`` in order, each once; for argparse."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 9 and int(part) >= least for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r}: expected whole numbers from {least} on, such as 1,4,8")
    return sorted({int(part) for part in parts})


def _contexts(text: str) -> list[int]:
    return whole_numbers(text, least=0)


def run(arguments: argparse.Namespace) -> int:
    """Measure what is not measured yet; write the table after each cell. 1 if a cell has no figures, 9 without a server."""
    if arguments.max_tokens < 2 or arguments.rounds < 1:
        raise config.ConfigError("--max-tokens must be at least 2, and --rounds at least 1")
    suite = config.load(arguments.suite_config) if arguments.server_url is None else None
    target = suite.target(arguments.target) if suite is not None else None
    name = target.name if target is not None else arguments.server_url
    asked = grid.GridPlan(name, arguments.max_tokens, arguments.temperature, arguments.rounds)
    try:
        kept = grid.KeptGrid(arguments.out, asked)
    except ValueError as error:
        raise config.ConfigError(str(error)) from None
    if suite is not None and target is not None:
        arms = _arms(target, arguments.arms)
        unmeasured = _launched(suite, target, arms, kept, asked, arguments)
    else:
        arms = [_running(arguments)]
        _fill(
            Endpoint(arguments.server_url, api_key=key_of(arguments.api_key_env)),
            arms[0],
            kept,
            asked,
            arguments,
        )
        unmeasured = []
    _write(kept, arms, name, arguments.out, last=True)
    for said in unmeasured:
        print(said, file=sys.stderr)
    bad = any(cell.tokens_per_s is None for cell in kept.cells.values())
    return 9 if unmeasured else int(bad)


def _arms(target: config.Target, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in target.arms]
    if unknown or not names:
        raise config.ConfigError(
            f"--arms {text}: target {target.name!r} has no arm {', '.join(unknown) or 'without a name'}; "
            f"there are {', '.join(target.arms)}"
        )
    return names


def _launched(
    suite: config.Suite,
    target: config.Target,
    arms: Sequence[str],
    kept: grid.KeptGrid,
    asked: grid.GridPlan,
    arguments: argparse.Namespace,
) -> list[str]:
    """Launch each arm that has cells to be measured, once; what did not come up, in sentences."""
    said: list[str] = []
    wanted = [(context, clients) for context in arguments.contexts for clients in arguments.concurrency]
    due = [arm for arm in arms if not all(kept.has(arm, *place) for place in wanted)]
    if not due:
        return said
    target = target.in_run(arguments.out.resolve())
    with launcher_for(suite, target, log_dir=arguments.out / "logs") as launcher:
        for arm in due:
            print(f"launching {arm}", flush=True)
            try:
                server = launcher.start(target.arm(arm))
            except LaunchFailed as error:
                said.append(f"{arm} did not come up: {error}")
                continue
            try:
                endpoint = Endpoint(
                    server.base_url, api_key=server.api_key, admin_api_key=server.admin_api_key
                )
                _fill(endpoint, arm, kept, asked, arguments)
            finally:
                server.stop()
            _write(kept, arms, target.name, arguments.out)
    return said


def _running(arguments: argparse.Namespace) -> str:
    """The name of a server that runs: what it is."""
    info = server_probe.read(arguments.server_url, api_key=key_of(arguments.api_key_env))
    print(f"{arguments.server_url}: SGLang {info.version}, {info.speculation}")
    return str(info.speculation)


def _fill(
    endpoint: Endpoint, arm: str, kept: grid.KeptGrid, asked: grid.GridPlan, arguments: argparse.Namespace
) -> None:
    """Measure the cells of one server that are not there yet."""
    version = server_probe.read(endpoint.root_url, api_key=endpoint.api_key).version or ""
    for context in arguments.contexts:
        due = [clients for clients in arguments.concurrency if not kept.has(arm, context, clients)]
        if not due:
            continue
        try:
            workload = grid.workload_of(endpoint, context, prompts=min(max(due), 8))
        except LoadError as error:
            for clients in due:
                kept.add(grid.failed(arm, context, clients, error))
            print(f"{arm}, context {context}: {error}", file=sys.stderr)
            continue
        for clients in due:
            print(f"{table.cell_name(arm, context, clients)}: ", end="", flush=True)
            try:
                cell = grid.measure(endpoint, arm, context, workload, clients, asked, version)
            except LoadError as error:
                cell = grid.failed(arm, context, clients, error)
            kept.add(cell)
            figure = f"{cell.tokens_per_s:.1f} tokens/s" if cell.tokens_per_s is not None else cell.note
            print(figure, flush=True)


def _write(kept: grid.KeptGrid, arms: Sequence[str], name: str, out: Path, last: bool = False) -> None:
    title = f"{name}: {kept.asked_in_words}"
    text = table.markdown(kept.cells, arms, title)
    (out / "grid.md").write_text(text, encoding="utf-8")
    (out / "grid.csv").write_text(table.csv_text(kept.cells, arms), encoding="utf-8")
    if not last:
        return
    drawn = table.picture(kept.cells, arms, title, out / "grid.png")
    print("\n" + text)
    files = "grid.md, grid.csv" + (", grid.png" if drawn else "; for grid.png: pip install matplotlib")
    print(f"in {out}: {files}")
