"""``python -m suite tune``: how many tokens to draft, by clients and content, as flags to paste."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite import config
from suite.cli import shared
from suite.cli.grid import whole_numbers
from suite.load import Endpoint, LoadError
from suite.load.workloads import KINDS
from suite.servers import AttachLauncher, Launcher, LaunchFailed, launcher_for
from suite.session.plan import LaunchId, alternate
from suite.session.times import Expected, known, path_of
from suite.sglang.flags import FlagChangeValue, Flags
from suite.sglang.server import read as read_server
from suite.terminal.figures import times
from suite.tuning import advice, cells, table

ADAPTIVE = "mtp-adaptive"

Arms = Mapping[str, config.Arm]


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``tune`` to the suite's commands."""
    text = "how many tokens to draft: compare depths and adaptive with MTP off, by clients and content; prints flags to paste"
    parser = subparsers.add_parser("tune", help=text, description=text)
    add = parser.add_argument
    add(
        "--target",
        metavar="NAME",
        help="launch the arms of this target (default: default_target of suite.toml)",
    )
    add(
        "--off",
        default="mtp-off",
        metavar="ARM",
        help="the arm that gains are relative to (default: mtp-off)",
    )
    add(
        "--depths",
        type=whole_numbers,
        default=[1, 2, 3, 4, 5],
        metavar="1,2,3",
        help="draft steps to try (default: 1,2,3,4,5)",
    )
    add("--no-adaptive", action="store_true", help=f"leave {ADAPTIVE} out")
    add(
        "--concurrency",
        type=whole_numbers,
        default=[1, 4, 8, 16, 32],
        metavar="1,8",
        help="concurrent clients (default: 1,4,8,16,32)",
    )
    add(
        "--kinds",
        type=_kinds,
        default=["code", "prose"],
        metavar="A,B",
        help="kinds of content (default: code,prose)",
    )
    add("--max-tokens", type=int, default=256, metavar="N", help="output tokens per answer (default: 256)")
    add("--temperature", type=float, default=0.0, metavar="T", help="sampling temperature (default: 0)")
    add(
        "--requests",
        type=int,
        default=4,
        metavar="N",
        help="requests per round, at least one per client (default: 4)",
    )
    add(
        "--rounds",
        type=int,
        default=4,
        metavar="N",
        help="rounds per cell, each with other prompts (default: 4)",
    )
    add("--launches", type=int, default=1, metavar="N", help="launches per arm (default: 1)")
    add(
        "--plan",
        action="store_true",
        help="print what would be launched and how long it takes; launch nothing",
    )
    add(
        "--out",
        type=Path,
        default=Path("results/tune"),
        metavar="DIR",
        help="folder of the table; cells that are in it are not measured again (default: results/tune)",
    )
    shared.add_paths(parser, "--suite-config")
    parser.set_defaults(func=run)


def _kinds(text: str) -> list[str]:
    named = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not named:
        raise argparse.ArgumentTypeError(
            f"{text!r}: name kinds of content ({', '.join(KINDS)}) or JSONL files"
        )
    return named


def run(arguments: argparse.Namespace) -> int:
    """Measure what is not measured yet, then advise. 9 if an arm did not come up, 1 if a cell has no figures."""
    if arguments.rounds < 2 or arguments.launches < 1 or arguments.max_tokens < 16 or arguments.requests < 1:
        raise config.ConfigError(
            "--rounds must be at least 2 (their scatter is the noise), --launches and --requests 1, --max-tokens 16"
        )
    suite = config.load(arguments.suite_config)
    target = suite.target(arguments.target)
    if target.launch.kind == "attach":
        raise config.ConfigError(
            f"target {target.name!r} is a server that runs: its depth cannot be changed from here. python -m suite grid "
            "--server-url measures it as it is"
        )
    arms = _arms(target, arguments)
    print(_price(target, arms, arguments))
    if arguments.plan:
        return 0
    asked = cells.TuningPlan(
        target.name, arguments.max_tokens, arguments.temperature, arguments.rounds, arguments.requests
    )
    try:
        kept = cells.KeptTuning(arguments.out, asked)
    except ValueError as error:
        raise config.ConfigError(str(error)) from None
    unmeasured = _launched(suite, target, arms, kept, asked, arguments)
    _tell(target, kept, arms, arguments)
    for said in unmeasured:
        print(said, file=sys.stderr)
    if unmeasured:
        return 9
    return int(any(not kept.has(place) for place in _places(arms, arguments)))


def _arms(target: config.Target, arguments: argparse.Namespace) -> dict[str, config.Arm]:
    """What is tuned: the target's own arms of these names, made up where it has none; off first."""
    made = [_depth(steps) for steps in arguments.depths]
    if not arguments.no_adaptive:
        made.append(
            config.Arm(name=ADAPTIVE, flags={"speculative-algorithm": "NEXTN", "speculative-adaptive": True})
        )
    return {
        arguments.off: target.arm(arguments.off),
        **{arm.name: target.arms.get(arm.name, arm) for arm in made},
    }


def _depth(steps: int) -> config.Arm:
    flags: dict[str, FlagChangeValue] = {
        "speculative-algorithm": "NEXTN",
        "speculative-num-steps": steps,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": steps + 1,
    }
    return config.Arm(name=f"mtp-depth-{steps}", flags=flags)


def _places(arms: Arms, arguments: argparse.Namespace) -> list[cells.Place]:
    return [
        (arm, kind, clients, launch)
        for launch in range(1, arguments.launches + 1)
        for arm in arms
        for kind in arguments.kinds
        for clients in arguments.concurrency
    ]


def _price(target: config.Target, arms: Arms, arguments: argparse.Namespace) -> str:
    """What it takes, by former runs of this target where there are any."""
    expected = Expected(
        known(path_of(Path("results"), target.name)), target, target.sizes(target.default_budget)
    )
    launches = len(arms) * arguments.launches
    starts = sum(expected.start_s(arm) + expected.end_s for arm in arms) * arguments.launches
    rounds = len(_places(arms, arguments)) * arguments.rounds
    playing = rounds * (1 + 1 / arguments.rounds) * target.sizes(target.default_budget).round_estimate_s
    minutes = (starts + playing) / 60
    told = f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"
    return f"{times(launches, 'launch', 'launches')}, {rounds} rounds: about {told}; fewer with --depths, --concurrency, --kinds"


def _launched(
    suite: config.Suite,
    target: config.Target,
    arms: Arms,
    kept: cells.KeptTuning,
    asked: cells.TuningPlan,
    arguments: argparse.Namespace,
) -> list[str]:
    """Launch each arm that has cells to be measured; what did not come up, in sentences."""
    due: dict[LaunchId, list[cells.Place]] = {}
    for place in _places(arms, arguments):
        if not kept.has(place):
            due.setdefault(LaunchId(place[0], place[3]), []).append(place)
    said: dict[str, str] = {}
    if not due:
        return []
    target = target.in_run(arguments.out.resolve())
    with launcher_for(suite, target, log_dir=arguments.out / "logs") as launcher:
        for launch in alternate(due):
            if launch.arm in said:
                continue
            try:
                _one(launcher, arms[launch.arm], launch, due[launch], kept, asked)
            except LaunchFailed as error:
                said[launch.arm] = f"{launch.arm} did not come up: {error}"
    return list(said.values())


def _one(
    launcher: Launcher | AttachLauncher,
    to_launch: config.Arm,
    launch: LaunchId,
    due: Sequence[cells.Place],
    kept: cells.KeptTuning,
    asked: cells.TuningPlan,
) -> None:
    print(f"launching {launch}", flush=True)
    server = launcher.start(to_launch)
    try:
        endpoint = Endpoint(server.base_url, api_key=server.api_key, admin_api_key=server.admin_api_key)
        version = read_server(server.base_url, api_key=server.api_key).version or ""
        for place in due:
            _, kind, clients, _ = place
            print(f"{launch.arm}, {kind}, {times(clients, 'client', 'clients')}: ", end="", flush=True)
            try:
                cell = cells.measure(endpoint, place, asked, version)
            except LoadError as error:
                cell = cells.failed(place, error)
            kept.add(cell)
            told = [f"{value:.1f}" for value in cell.tokens_per_s if value is not None]
            print(f"{', '.join(told)} tokens/s" if told else cell.note, flush=True)
    finally:
        server.stop()


def _tell(target: config.Target, kept: cells.KeptTuning, arms: Arms, arguments: argparse.Namespace) -> None:
    told = _advice(target, kept, arms, arguments)
    title = (
        f"{target.name}: answers of {arguments.max_tokens} tokens, temperature {arguments.temperature:g}, "
        f"{arguments.rounds} rounds, {times(arguments.launches, 'launch', 'launches')} of each arm"
    )
    rows = table.rows(kept.cells, list(arms), arguments.off, arguments.kinds)
    text = table.markdown(title, told, rows, table.notes(kept.cells))
    (arguments.out / "tune.md").write_text(text, encoding="utf-8")
    (arguments.out / "tune.csv").write_text(table.csv_text(kept.cells, arguments.off), encoding="utf-8")
    print("\n" + text)
    print(f"in {arguments.out}: tune.md, tune.csv")


def _advice(
    target: config.Target, kept: cells.KeptTuning, arms: Arms, arguments: argparse.Namespace
) -> list[str]:
    """The recommendation over all content, its flags, adaptive beside it, and each kind of content by itself."""
    words = {name: _word(target, arm, arguments.off) for name, arm in arms.items()}
    fixed = [arm for arm in arms if arm != ADAPTIVE]
    found = advice.choices(kept.cells, arguments.off, fixed, arguments.kinds)
    parts = advice.ranges(found)
    if not parts:
        return ["nothing to recommend: MTP off and at least one depth must both be measured"]
    told = list(advice.sentences(parts, words))
    told += [f"{words[arm]}: `{_flags(arms[arm])}`" for arm in dict.fromkeys(part.arm for part in parts)]
    if ADAPTIVE in arms:
        said = advice.of_adaptive(kept.cells, ADAPTIVE, parts, arguments.kinds)
        told.append(f"{said}: `{_flags(arms[ADAPTIVE])}`")
    if len(arguments.kinds) > 1:
        for kind in arguments.kinds:
            alone = advice.ranges(advice.choices(kept.cells, arguments.off, fixed, [kind]))
            told.append(f"{kind} alone: {'; '.join(advice.sentences(alone, words))}")
    return told


def _word(target: config.Target, arm: config.Arm, off: str) -> str:
    if arm.name == off:
        return "off"
    steps = target.arm_flags(arm).get("speculative-num-steps")
    return f"{steps} step{'' if steps == 1 else 's'}" if steps is not None else arm.name


def _flags(arm: config.Arm) -> str:
    """The flags that make this arm of the target's base flags."""
    return " ".join(Flags(arm.flags).shown()) if arm.flags else "no speculative flags"
