"""The suite's own options of pytest, and the plugin by which pytest knows them before it looks for its root directory.

An option that pytest does not know yet and that is followed by a path that exists (``--suite-config ../x.toml``, or
``--alluredir`` and yesterday's folder) looks to it like a path of tests: the root directory is then looked for there.
pytest finds this module by its entry point: of the installed package, or of ``sglang_perf_gate_checkout.dist-info``
where ``python -m pytest`` is run in a checkout that is not installed.
"""

from __future__ import annotations

import argparse
import copy
import inspect
from pathlib import Path
from typing import Any

import pytest

from suite.foreign import one_line

_ADDED = "_sglang_perf_gate_options"
_ROOT = Path(__file__).resolve().parents[1]

OPTIONS: dict[str, tuple[str, object]] = {}
"""The suite's own options, name and default, by where pytest keeps their values."""


def add_options(parser: pytest.Parser) -> None:
    """The suite's own options, in a group of their own in ``pytest --help``; harmless when they are there already."""
    if getattr(parser, _ADDED, False):
        return
    setattr(parser, _ADDED, True)
    group = parser.getgroup("perf", "SGLang performance gate")

    def add(name: str, **how: Any) -> None:
        group.addoption(name, **how)
        OPTIONS[name.lstrip("-").replace("-", "_")] = (name, how.get("default"))

    add(
        "--target",
        metavar="NAME",
        help="target of suite.toml to measure (default: default_target of suite.toml)",
    )
    add(
        "--suite-config",
        metavar="FILE",
        help="configuration file (default: suite.toml of the root directory)",
    )
    add("--server-url", metavar="URL", help="measure a server that is already running; nothing is launched")
    add(
        "--api-key-env", metavar="NAME", help="with --server-url: environment variable that holds its API key"
    )
    add("--budget", metavar="NAME", help="how much to measure: a table of [budgets] (default: the target's)")
    add("--launches", metavar="N", type=_whole, help="launches per arm, instead of the budget's")
    add("--rounds", metavar="N", type=_whole, help="rounds per launch, instead of the budget's")
    add("--concurrency", metavar="N,N,...", help="concurrent clients, instead of the budget's: 1,4,8")
    add("--contexts", metavar="N,N,...", help="prompt lengths in tokens, instead of the budget's: 1024,10240")
    add(
        "--flag",
        metavar="NAME[=VALUE]",
        action="append",
        default=[],
        help="change a flag of the target for this run (no:NAME removes it); may be given more than once",
    )
    add("--record-baseline", action="store_true", help="add this run to the target's baselines")
    add(
        "--accept-regression",
        metavar="REASON",
        default="",
        help="with --record-baseline: also record figures that regressed, for this reason",
    )
    add("--require-baseline", action="store_true", help="a missing baseline is an error, not a skip (for CI)")
    add(
        "--results",
        metavar="DIR",
        default="results",
        help="folder in which each run gets a folder (default: results)",
    )
    add("--baselines", metavar="DIR", default="baselines", help="folder of baselines (default: baselines)")
    add(
        "--resume",
        metavar="RUN",
        help="continue a run that was stopped or killed: its path, or its id under --results",
    )
    add(
        "--minutes",
        metavar="N",
        type=_minutes,
        help="hard limit in minutes: the plan is cut to fit, and the verdict is written in time",
    )
    add(
        "--reference",
        metavar="BUILD",
        help="compare two builds, launched in turn: the present one (sglang==0.5.20, an image, an interpreter, a checkout, "
        "a name of [builds], known-good, or own: what the target launches)",
    )
    add("--candidate", metavar="BUILD", help="with --reference: the build that is to replace it")
    add(
        "--duet",
        action="store_true",
        help="with --reference: run both builds at once and send each request to both in turn (both must fit in memory)",
    )
    add(
        "--promote-on-pass",
        action="store_true",
        help="with --reference: record the candidate as the new baseline if everything passes",
    )
    add(
        "--why",
        action="store_true",
        help="with --reference: if decode steps got slower, profile both builds and report which part and which kernels",
    )
    add(
        "--plan",
        action="store_true",
        help="print what would be launched and how long it takes; launch nothing",
    )
    add(
        "--format",
        metavar="NAME",
        choices=("github", "gitlab", "json"),
        help="with --plan: print its shards as a matrix of CI jobs (github, gitlab or json)",
    )
    add(
        "--shards",
        metavar="N",
        type=_whole,
        help="with --format: number of shards (default: as many as save time)",
    )
    add(
        "--shard",
        metavar="I/N",
        help="measure one of N parts of the plan; `python -m suite merge` joins them",
    )
    add(
        "--aa",
        action="store_true",
        help="A/A test: print the noise floor and the minimum detectable effects of the budget",
    )


def _whole(text: str) -> int:
    """A number on the command line; its size is the budget's matter."""
    if not text.strip().isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {one_line(text, 60)!r}")
    return int(text)


def _minutes(text: str) -> float:
    """A number on the command line; whether it is enough is the plan's matter."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a number of minutes, got {one_line(text, 60)!r}"
        ) from None


def _in_checkout(directory: Path) -> bool:
    """Is pytest run in this suite's own checkout? An installed suite is no matter of other projects' runs."""
    return (_ROOT / "suite.toml").is_file() and (directory == _ROOT or _ROOT in directory.parents)


def pytest_addoption(parser: pytest.Parser) -> None:
    if _in_checkout(Path.cwd().resolve()):
        add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Look for the root directory again, now that it is known which words are paths of tests."""
    directory = early_config.invocation_params.dir
    if not _in_checkout(directory.resolve()) or early_config.inipath is not None:
        return
    try:
        _find_root_again(early_config, parser, args)
    except (
        ImportError,
        AttributeError,
        TypeError,
        ValueError,
    ):  # pytest's inside is another: as it would be without
        return


def _find_root_again(config: Any, parser: Any, args: list[str]) -> None:
    from _pytest.config.findpaths import determine_setup

    known = config.known_args_namespace
    given = {
        "inifile": known.inifilename,
        "override_ini": known.override_ini,
        "args": known.file_or_dir,
        "rootdir_cmd_arg": known.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    wanted = inspect.signature(determine_setup).parameters
    root, ini, values, *_ = determine_setup(
        **{name: value for name, value in given.items() if name in wanted}
    )
    if ini is None or root != _ROOT:
        return
    config._rootpath, config._inipath, config._inicfg = root, ini, values
    config._inicache.clear()
    parser.extra_info.update(rootdir=str(root), inifile=str(ini))
    args[:] = [*config.getini("addopts"), *args]
    config.known_args_namespace = parser.parse_known_args(args, namespace=copy.copy(config.option))
    config.known_args_namespace.confcutdir = str(root)
