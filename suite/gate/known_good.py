"""The last build that passed on a target: a file that a script reads, and how to get back to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from suite import config
from suite.gate.baselines import slug
from suite.gate.errors import GateError, MissingFile
from suite.gate.files import read, render, write_together
from suite.gate.records import Facts, Session
from suite.gate.verdicts import Judgement

FORMAT, VERSION = "sglang-perf-known-good", 1
FOLDER = "known-good"


class KnownGood(msgspec.Struct, frozen=True, omit_defaults=True):
    """A build that passed.

    build: what it is, by name (``sglang``, ``commit``, ``image_digest``, ``code`` ...); lock: what was installed beside
    it, as pip pins; place: the interpreter, checkout or image that it was run from; arms: each arm's flags as given;
    figures: how many figures were judged and passed.
    """

    target: str
    run_id: str
    started_at: str
    sentence: str
    build: Facts
    lock: list[str]
    place: dict[str, str]
    arms: dict[str, str]
    figures: int


class _KnownGoodFile(msgspec.Struct, frozen=True):
    format: str
    version: int
    known_good: KnownGood


def qualifies(judgement: Judgement) -> bool:
    """Did the whole run pass? Each figure judged, none worse, no promise broken: a pass by halves is no way back."""
    words = {verdict.word for verdict in judgement.verdicts.values()}
    return judgement.status == 0 and "pass" in words and words <= {"pass", "improvement"}


def of_run(
    session: Session, judgement: Judgement, build: Mapping[str, str], lock: list[str], place: dict[str, str]
) -> KnownGood:
    """What is to be kept of a run that qualifies."""
    arms = {
        series.arm: str(series.subject.get("flags", ""))
        for series in session.series
        if not series.derived_from
    }
    sglang = next((s.subject["sglang"] for s in session.series if s.subject.get("sglang")), "unknown")
    return KnownGood(
        target=session.target,
        run_id=session.run_id,
        started_at=session.started_at,
        sentence=judgement.sentence,
        build=dict(sorted({"sglang": sglang, **build}.items())),
        lock=sorted(lock),
        place=place,
        arms=dict(sorted(arms.items())),
        figures=len(judgement.verdicts),
    )


def path_of(results: Path, target: str) -> Path:
    """Where a target's last good build is kept."""
    return results / FOLDER / f"{slug(target)}.json"


def save(results: Path, known: KnownGood) -> Path:
    """Keep it in place of the one before. Raises WriteFailed."""
    path = path_of(results, known.target)
    write_together({path: render(_KnownGoodFile(FORMAT, VERSION, known))})
    return path


def load(results: Path, target: str) -> KnownGood:
    """The last good build of a target.

    Raises:
        MissingFile: no run of it has passed as a whole yet.
        CorruptFile, ForeignFile, FutureVersion: the file cannot be used.
    """
    path = path_of(results, target)
    if not path.exists():
        raise MissingFile(
            path,
            f"no run of {target} has passed yet with every figure judged; make one: pytest -m perf --target {target}",
        )
    return read(path, FORMAT, VERSION, _KnownGoodFile).known_good


def last_named(results: Path, target: str) -> str:
    """The last good build of a target in a few words; empty where there is none that can be read."""
    try:
        return name_of(load(results, target))
    except GateError:
        return ""


def name_of(known: KnownGood) -> str:
    """The build in a few words: ``sglang 0.5.23, commit 5e2cda61``."""
    build = known.build
    parts = [f"sglang {build['sglang']}"]
    parts += [f"image {build['image']}"] if build.get("image") else []
    parts += [f"commit {str(build['commit'])[:10]}"] if build.get("commit") else []
    changed = build.get("changed_files")
    parts += [f"with changed files ({changed})"] if changed not in (None, "none") else []
    return ", ".join(parts)


def way_back(known: KnownGood) -> list[str]:
    """What to do, as commands, to run this build again; a sentence where it cannot be had by a command."""
    build, place = known.build, known.place
    patched = build.get("changed_files") not in (None, "none")
    warning = ["# its changed files are in no commit and no wheel: restore them yourself"] if patched else []
    if build.get("image"):
        image, digest = str(build["image"]), build.get("image_digest")
        if not digest:
            return [
                f"# image {image} was never pushed or pulled: only its id is known, {build.get('image_id')}"
            ]
        name = image.partition("@")[0]
        name = name[: name.rindex(":")] if ":" in name.rpartition("/")[2] else name
        pinned = f"{name}@{digest}"
        return [
            f"{place.get('engine', 'docker')} pull {pinned}",
            f'# in [targets.{known.target}.launch]: image = "{pinned}"',
            *warning,
        ]
    python = place.get("python", "python")
    if build.get("described") and build.get("commit"):
        return [
            f"git -C {place.get('checkout', 'CHECKOUT')} checkout {build['commit']}",
            *_pins(known, python),
            *warning,
        ]
    if known.lock:
        return [f"{python} -m pip install sglang=={build['sglang']}", *_pins(known, python), *warning]
    return [f"# known by its answers alone: sglang {build['sglang']}"]


def build_of(known: KnownGood) -> config.BuildTable:
    """The same as a table by which the build can be launched again.

    A version is installed with what it requires today, or had as the target has it; what was beside it then is in
    ``lock``.

    Raises:
        GateError: it cannot be had: changed by hand, an image of this machine alone, or no version.
    """
    build, place, name = known.build, known.place, f"known-good ({name_of(known)})"
    if build.get("changed_files") not in (None, "none"):
        raise GateError(
            f"{name}: its changed files are in no commit and no wheel; name a build that has them"
        )
    if build.get("image"):
        pulled = way_back(known)[0].split()
        if not build.get("image_digest"):
            raise GateError(f"{name}: its image was never pushed or pulled; name it by its tag")
        return config.BuildTable(name=name, image=pulled[-1])
    if build.get("described") and build.get("commit") and place.get("checkout"):
        return config.BuildTable(name=name, checkout=place["checkout"], commit=str(build["commit"]))
    if build["sglang"] == "unknown":
        raise GateError(f"{name}: known by its answers alone; name the build")
    return config.BuildTable(name=name, version=str(build["sglang"]))


def _pins(known: KnownGood, python: str) -> list[str]:
    return [f"{python} -m pip install --no-deps {' '.join(known.lock)}"] if known.lock else []
