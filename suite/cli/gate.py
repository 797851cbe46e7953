"""``python -m suite baseline|judge|history``: stored measurements on a terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from suite import config
from suite.cli import shared
from suite.gate import (
    Baseline,
    BaselineStore,
    GateError,
    Judgement,
    Rules,
    Session,
    judge,
    load_run,
    save_run,
)
from suite.gate.baselines import BaselineSession
from suite.gate.errors import MissingFile
from suite.gate.history import History, cumulative_drifts, steps
from suite.gate.imports import FORMATS, read_results
from suite.gate.recordable import recordable, refused
from suite.gate.recorded import told
from suite.gate.records import Launch
from suite.gate.values import launch_log
from suite.report import two_builds
from suite.report.history_page import TargetHistory, write
from suite.session import stored_runs
from suite.sglang import config_diff
from suite.terminal import table
from suite.terminal.figures import percent, times


def add_judge(subparsers: shared.Subparsers) -> None:
    """Add ``judge`` to the suite's commands."""
    one = _command(subparsers, "judge", run_judge, "judge a stored run again from its files")
    one.add_argument("run", metavar="RUN", help="a run's folder, its run.json, or its id under results/")
    one.add_argument("--save", action="store_true", help="write the verdicts into the run's folder")


def add_history(subparsers: shared.Subparsers) -> None:
    """Add ``history`` to the suite's commands."""
    text = "change points and slow losses over all runs of a target"
    one = _command(subparsers, "history", run_history, text)
    shared.add_paths(one, "--results")
    one.add_argument(
        "--history",
        type=Path,
        default=Path("results/history"),
        metavar="DIR",
        help="folder of histories, to which new runs of --results are added (default: %(default)s)",
    )
    one.add_argument(
        "--html", type=Path, metavar="FILE", help="also write every run and figure as one HTML page"
    )


def add_baseline(subparsers: shared.Subparsers) -> None:
    """Add ``baseline`` with its actions to the suite's commands."""
    text = "look at recorded baselines and change them"
    baseline = subparsers.add_parser("baseline", help=text, description=text)
    actions = baseline.add_subparsers(title="actions", required=True, metavar="ACTION")
    _command(actions, "list", run_list, "the baselines of a target")
    one = _command(actions, "show", run_show, "the recorded sessions of a scenario")
    one.add_argument("question", metavar="SCENARIO", help="as verdicts name it: decode_throughput[c1]")
    one.add_argument("arm", metavar="ARM", nargs="?", help="only this arm")
    one = _command(
        actions, "promote", run_promote, "make a run the baseline that later runs are compared with"
    )
    one.add_argument("run", metavar="RUN", help="a run's folder, its run.json, or its id under results/")
    one.add_argument(
        "--question", action="append", default=[], metavar="NAME", help="only this scenario (may be repeated)"
    )
    one.add_argument(
        "--add",
        action="store_true",
        help="add the run as one more session of the present baseline, if the build is the same",
    )
    one = _command(actions, "drop", run_drop, "remove the baselines of a scenario, or one session of them")
    one.add_argument("question", metavar="SCENARIO", help="as verdicts name it: decode_throughput[c1]")
    one.add_argument("arm", metavar="ARM", nargs="?", help="only this arm")
    one.add_argument("--run-id", metavar="ID", help="only the session of this run")
    _command(actions, "undo", run_undo, "take back the last change: a recording, a promotion, a drop")
    one = _command(actions, "diff", run_diff, "compare two recorded sessions or two runs")
    one.add_argument("a", metavar="A", help="the run id of a recorded session, or a run's folder")
    one.add_argument("b", metavar="B", help="the same, to compare with A")
    one = _command(actions, "import", run_import, f"make a run of result files of {', '.join(FORMATS)}")
    one.add_argument("files", type=Path, nargs="+", metavar="FILE", help="one file per launch")
    one.add_argument("--arm", metavar="ARM", required=True, help="the arm that was measured")
    one.add_argument("--run-id", metavar="ID", help="id of the run (default: made of the first file's name)")
    shared.add_paths(one, "--results")
    one.add_argument("--record", action="store_true", help="also record it as a baseline session")


def _command(subparsers: shared.Subparsers, name: str, func: object, text: str) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=text, description=text)
    shared.add_target(parser, *(["the run's own"] if func in (run_judge, run_promote) else []))
    shared.add_paths(parser, "--baselines", "--suite-config")
    parser.set_defaults(func=func)
    return parser


def _target(arguments: argparse.Namespace) -> str:
    """The target that was named, or the configuration's default."""
    named: str | None = arguments.target
    return named or config.load(arguments.suite_config).default_target


def _store(arguments: argparse.Namespace, target: str) -> BaselineStore:
    return BaselineStore(arguments.baselines, target)


def rules_of(suite_config: Path, target: str) -> Rules:
    """The rules of a target in suite.toml; the defaults where there is no such file or target."""
    if not suite_config.exists():
        return Rules()
    known = config.load(suite_config).targets.get(target)
    return Rules() if known is None else Rules.of_target(known)


def run_judge(arguments: argparse.Namespace) -> int:
    """Judge a stored run against the baselines as they are now: the words and the status that pytest ended with."""
    stored = stored_runs.load(arguments.run)
    session = stored.session
    target = arguments.target or session.target
    found = _store(arguments, target).sessions_for(session)
    judgement = judge(session, found, rules_of(arguments.suite_config, target))
    for note in stored.notes:
        print(f"note: {note}")
    print_judgement(judgement)
    if rows := two_builds.held(session):
        print("\n".join(table.lines(two_builds.HEADS, rows)))
    if arguments.save:
        save_run(stored.folder, session, judgement)
    return judgement.status


def print_judgement(judgement: Judgement) -> None:
    """The sentence, every verdict with its reason where it is not good, and notes."""
    print(judgement.sentence)
    for verdict in sorted(judgement.verdicts.values(), key=lambda v: (v.question, v.arm, v.metric)):
        print(f"{verdict.word:<12} {verdict.question}, {verdict.arm}: {verdict.headline}")
        if verdict.word not in ("pass", "unjudged"):
            print(f"{'':<12} {verdict.reason}" + (f"; {verdict.needs}" if verdict.needs else ""))
    for note in judgement.notes:
        print(f"note: {note}")
    print(f"{len(judgement.verdicts)} verdicts, worst: {judgement.worst}")


def run_list(arguments: argparse.Namespace) -> int:
    """One line a baseline; files that cannot be used are named and make the status 1."""
    target = _target(arguments)
    good, bad = _store(arguments, target).all()
    for baseline in good:
        current = [s for s in baseline.sessions if s.generation == baseline.generation]
        version = baseline.current.subject.get("sglang")
        print(
            f"{baseline.question}, {baseline.arm}: {len(current)} sessions"
            + (
                f" (+{len(baseline.sessions) - len(current)} earlier)"
                if len(current) < len(baseline.sessions)
                else ""
            )
            + f", newest {baseline.current.date}"
            + (f", sglang {version}" if version else "")
        )
    if not good and not bad:
        print(f"no baselines of {target}; record one: pytest -m perf --target {target} --record-baseline")
    return _print_problems(bad)


def _print_problems(bad: Sequence[GateError]) -> int:
    for error in bad:
        print(f"unusable: {error}")
    return 1 if bad else 0


def _baselines(arguments: argparse.Namespace) -> list[Baseline]:
    store = _store(arguments, _target(arguments))
    good, _ = store.all()
    found = [b for b in good if b.question == arguments.question and arguments.arm in (None, b.arm)]
    if not found:
        known = ", ".join(sorted({b.question for b in good})) or "none"
        raise GateError(f"no baseline of {arguments.question} in {store.folder}; there: {known}")
    return found


def run_show(arguments: argparse.Namespace) -> int:
    """Identity, subject and each session's values."""
    for baseline in _baselines(arguments):
        print(f"{baseline.question}, {baseline.arm}")
        print("  identity: " + ", ".join(f"{k}={v}" for k, v in baseline.identity.items()))
        for session in baseline.sessions:
            print(f"  generation {session.generation}, {session.started_at}, run {session.run_id}")
            for metric, value in _levels(session.launches).items():
                print(f"    {metric:<24} {value:.6g}")
    return 0


def _levels(launches: Sequence[Launch]) -> dict[str, float]:
    """The geometric mean over launches of each metric that has a value."""
    names = sorted({n for launch in launches for n in launch.rounds})
    logs = {n: np.array([launch_log(launch, n) for launch in launches]) for n in names}
    return {n: float(np.exp(np.nanmean(y))) for n, y in logs.items() if np.isfinite(y).any()}


def run_promote(arguments: argparse.Namespace) -> int:
    """Record a run as a new level (or, with --add, as one more session of the level there is)."""
    stored = stored_runs.load(arguments.run).session
    plan = msgspec.structs.replace(stored.plan, accepted="promoted on purpose")  # a loss may be the new level
    session = msgspec.structs.replace(stored, plan=plan)
    target = arguments.target or session.target
    store = _store(arguments, target)
    judgement = judge(session, store.sessions_for(session), rules_of(arguments.suite_config, target))
    kept_out = refused(session, judgement)
    for arm, why in kept_out.items():
        print(f"nothing of {arm} is recorded: {why}", file=sys.stderr)
    fit = recordable(session, judgement)
    if fit.series:
        done = store.record(fit, promote=not arguments.add, only=arguments.question)
        for one in done:
            print(f"{one.text} ({one.path})")
        print("\n".join(told(done)))
    return 1 if kept_out else 0


def run_drop(arguments: argparse.Namespace) -> int:
    """Remove baselines; nothing removed is an error, so that a typing mistake is seen."""
    store = _store(arguments, _target(arguments))
    dropped = store.drop(arguments.question, arguments.arm, arguments.run_id)
    if not dropped:
        raise GateError(f"nothing to drop: no such baseline in {store.folder}")
    for path in dropped:
        print(f"dropped {'session ' + arguments.run_id + ' of ' if arguments.run_id else ''}{path}")
    return 0


def run_undo(arguments: argparse.Namespace) -> int:
    """Put the files of the last change back as they were before it."""
    what, paths = _store(arguments, _target(arguments)).undo()
    print(f"took back the {what}")
    for path in paths:
        print(f"{path}: {'as before' if path.exists() else 'gone, as before'}")
    return 0


def run_diff(arguments: argparse.Namespace) -> int:
    """Subject and level of A and B for every series that both have. Levels only: a verdict needs `judge`."""
    left, right = (_found(arguments, name) for name in (arguments.a, arguments.b))
    common = sorted(set(left) & set(right))
    if not common:
        raise GateError(f"{arguments.a} and {arguments.b} have no series in common")
    for where in common:
        print(", ".join(where))
        for line in config_diff.drift(left[where].subject, right[where].subject):
            print(f"  {line}")
        before, after = _levels(left[where].launches), _levels(right[where].launches)
        for metric in sorted(set(before) & set(after)):
            old_value, new_value = before[metric], after[metric]
            print(
                f"  {metric:<24} {old_value:.6g} -> {new_value:.6g} ({percent(new_value / old_value - 1, 2)})"
            )
    return 0


def _found(arguments: argparse.Namespace, name: str) -> dict[tuple[str, str], BaselineSession]:
    """The series of a run's directory, or of the sessions that one run recorded."""
    with contextlib.suppress(MissingFile):
        run = stored_runs.load(name).session
        return {
            (s.question, s.arm): BaselineSession(run.run_id, run.started_at, s.subject, s.launches)
            for s in run.series
        }
    good, _ = _store(arguments, _target(arguments)).all()
    found = {(b.question, b.arm): s for b in good for s in b.sessions if s.run_id == name}
    if not found:
        known = ", ".join(sorted({s.run_id for b in good for s in b.sessions})) or "none"
        raise GateError(f"no run {name!r}: neither a directory nor a recorded session; recorded: {known}")
    return found


def run_import(arguments: argparse.Namespace) -> int:
    """Write a run from foreign result files, and record it if asked to."""
    target = _target(arguments)
    imported = read_results(arguments.files, target=target, arm=arguments.arm, run_id=arguments.run_id)
    session = imported.session
    store = _store(arguments, target)
    folder: Path = arguments.results / session.run_id
    save_run(
        folder, session, judge(session, store.sessions_for(session), rules_of(arguments.suite_config, target))
    )
    for note in imported.notes:
        print(note)
    print(
        f"run {session.run_id}: {len(session.series)} series, {times(len(arguments.files), 'launch', 'launches')}, in {folder}"
    )
    if arguments.record:
        done = store.record(session)
        for one in done:
            print(f"{one.text} ({one.path})")
        print("\n".join(told(done)))
    else:
        print(
            f"judge it: python -m suite judge {folder}; record it: python -m suite baseline promote {folder} --add"
        )
    return 0


def run_history(arguments: argparse.Namespace) -> int:
    """Add the runs under --results to the history, then tell steps and cumulative drift. Status 1 if anything got worse."""
    target = _target(arguments)
    history = History(arguments.history, target)
    latest = _append_runs(history, arguments.results, target)
    entries, rules = history.read(), rules_of(arguments.suite_config, target)
    if not entries:
        raise GateError(f"no runs of {target} in {arguments.results}, and no {history.path}")
    print(f"{times(len(entries), 'run', 'runs')} of {target} in {history.path}")
    found = steps(entries, rules)
    for step in found:
        print(
            f"{'worse' if step.worse else 'better'}: {', '.join(step.key)} {percent(step.change)} "
            f"({step.before:.5g} -> {step.after:.5g}) from run {step.run_id} of {step.started_at[:10]} on"
        )
    good, bad = _store(arguments, target).all()
    drifted = cumulative_drifts(latest, good, rules) if latest else []
    for drift in drifted:
        print(
            f"cumulative drift: {', '.join(drift.key)} {percent(drift.change)} since the best promoted level "
            f"({drift.best:.5g} of {drift.best_date} -> {drift.now:.5g})"
        )
    if arguments.html:
        folders = {e.run_id: f for e in entries if (f := arguments.results / e.run_id).is_dir()}
        _write_page(arguments.html, TargetHistory(target, entries, good, found, drifted, folders, rules))
    worse = bool(drifted) or any(step.worse for step in found)
    return 1 if worse or _print_problems(bad) else 0


def _write_page(path: Path, known: TargetHistory) -> None:
    try:
        write(path, known)
    except ImportError as error:
        raise GateError(str(error)) from None
    print(f"page: {path}")


def _append_runs(history: History, results: Path, target: str) -> Session | None:
    """Append every stored run of the target that is not yet there; the newest of them is returned."""
    runs: list[Session] = []
    for path in sorted(results.glob("*/run.json")):
        try:
            run = load_run(path)
        except GateError as error:
            print(f"skipped: {error}")
            continue
        if run.target == target:
            runs.append(run)
            history.append(run)
    return max(runs, key=lambda r: (r.started_at, r.run_id), default=None)
