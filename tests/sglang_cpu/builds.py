"""Builds of genuine SGLang against one another: which differences may be said, and which may not.

    python -m tests.sglang_cpu.builds

Two sessions of 0.5.23 are recorded on the CPU, and against them are judged: the second of them, 0.5.20, the same release
with float32 (which rounds otherwise, so that answers part; also the other way round), and the same release whose MTP
head is a little noisier (answers stay, fewer drafts are accepted). The checkpoint is one whose answers to different
prompts stay different. Some six minutes on two quiet cores; exit status 0 only if everything was said as it must be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from suite.gate import BaselineStore, Judgement, Verdict, judge, load_run
from tests.sglang_cpu.checkpoint import Options, write_checkpoint
from tests.sglang_cpu.install import DEFAULT_VERSION, ROOT, home

FAMILY = "qwen3_5_moe_vl"
BLOCK, NOISE, WORSE_NOISE = 0.12, 0.15, 0.16
"""The default checkpoint's, and the noise of a head that is a little worse."""
ECHO = "{{ messages[-1]['content'][20:60] }}"
"""What the chat template puts before the answer: a piece of the prompt. So small a model looks back a few tokens only, and
would else begin every answer with the same word."""
OTHER_VERSION = "0.5.20"
TARGET, BUDGET = "sglang-cpu", "builds"
RUN_TIMEOUT_S = 600.0
SAID_OF_ACCEPTANCE = ("regression", "improvement")


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of a run: its verdicts on acceptance, and its sentence."""

    name: str
    acceptance: tuple[Verdict, ...]
    sentence: str

    @property
    def lines(self) -> list[str]:
        return [
            f"{self.name}: {self.sentence}",
            *(f"  {v.question}: {v.headline}; {v.reason}" for v in self.acceptance),
        ]


def shortcomings(told: Sequence[Told]) -> list[str]:
    """Everything that is not as it must be, a sentence each."""
    by_name = {one.name: one for one in told}
    wrong = [f"{one.name}: there is no verdict on acceptance" for one in told if not one.acceptance]
    for name in ("again", OTHER_VERSION):
        for v in by_name[name].acceptance:
            if v.word != "pass" or not _holds_zero(v):
                wrong.append(
                    f"{name}, {v.question} must pass with an interval that holds 0: {v.headline}, {v.word}"
                )
    for name in ("float32", "from float32"):
        wrong += [
            f"{name}, {v.question} must be called neither worse nor better: {v.headline}"
            for v in by_name[name].acceptance
            if v.word in SAID_OF_ACCEPTANCE
        ]
    worse = by_name["noisier head"]
    if not any(v.word == "regression" for v in worse.acceptance):
        wrong.append("the noisier head must be called a regression of acceptance")
    if "fewer drafts are accepted" not in worse.sentence:
        wrong.append(f"the noisier head must be named as acceptance: {worse.sentence}")
    if "steps" in worse.sentence and not disturbed(told):
        wrong.append(f"the noisier head must not be named as steps: {worse.sentence}")
    return wrong


def disturbed(told: Sequence[Told]) -> bool:
    """Did steps move in the same build run again? Then the machine was not quiet, and steps say nothing of a build."""
    return any("steps" in one.sentence for one in told if one.name == "again")


def _holds_zero(verdict: Verdict) -> bool:
    low, high = verdict.estimate.ci_low, verdict.estimate.ci_high
    return low is not None and high is not None and low <= 0 <= high


def main(argv: Sequence[str] | None = None) -> int:
    """Make the checkpoints, play, judge, and print what was said and what is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.sglang_cpu.builds", description=__doc__)
    parser.add_argument("--keep", metavar="DIR", help="keep runs and baselines there")
    options = parser.parse_args(argv)
    sound, worse = _checkpoint("sound", NOISE), _checkpoint("noisier", WORSE_NOISE)
    with tempfile.TemporaryDirectory(prefix="builds-") as place:
        work = Path(options.keep or place)
        first = _play(work / "first", sound)
        store = BaselineStore(work / "baselines", TARGET)
        store.record(load_run(first))
        told = [_told("again", second := _play(work / "again", sound), store)]
        store.record(load_run(second))
        told.append(_told(OTHER_VERSION, _play(work / "other", sound, version=OTHER_VERSION), store))
        rounded = _play(work / "float32", sound, "--flag=dtype=float32")
        told.append(_told("float32", rounded, store))
        other_side = BaselineStore(work / "baselines-float32", TARGET)
        other_side.record(load_run(rounded))
        told.append(_told("from float32", second, other_side))
        told.append(_told("noisier head", _play(work / "noisier", worse), store))
    wrong = shortcomings(told)
    print(
        "\n".join(line for one in told for line in one.lines),
        "\n".join(wrong or ["all as it must be"]),
        *(["this machine was not quiet: steps were not looked at"] if disturbed(told) else []),
        sep="\n\n",
    )
    return 1 if wrong else 0


def _checkpoint(name: str, noise: float) -> Path:
    """A checkpoint, by a name of its folder's that is the same for both: it is the same model, differently drafted."""
    directory = home() / "builds" / name / FAMILY
    write_checkpoint(FAMILY, Options(block=BLOCK, mtp_noise=noise), directory)
    config = directory / "tokenizer_config.json"
    written = json.loads(config.read_text(encoding="utf-8"))
    written["chat_template"] = written["chat_template"].replace("assistant\n", f"assistant\n{ECHO}")
    assert ECHO in written["chat_template"]
    config.write_text(json.dumps(written), encoding="utf-8")
    return directory


def _play(folder: Path, model: Path, *options: str, version: str = DEFAULT_VERSION) -> Path:
    """One run of MTP on; the folder of what it left."""
    with _suite_config(version) as config:
        command = [
            *(sys.executable, "-m", "pytest", "-m", "perf and (acceptance or decode)", "-k", "mtp-on", "-q"),
            *(
                "-p",
                "no:cacheprovider",
                f"--suite-config={config}",
                f"--target={TARGET}",
                f"--budget={BUDGET}",
            ),
            *(
                f"--results={folder}",
                f"--baselines={folder / 'none'}",
                f"--flag=model-path={model}",
                *options,
            ),
        ]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
    runs = list(folder.glob("*/run.json"))
    if not runs:
        raise SystemExit(f"{folder.name}: nothing was measured\n{(done.stdout + done.stderr)[-3000:]}")
    print(f"{folder.name}: played", flush=True)
    return runs[0].parent


@contextmanager
def _suite_config(version: str) -> Iterator[Path]:
    """The suite's configuration with another release in the target; it lies beside the real one, to which paths refer."""
    text = (
        (ROOT / "suite.toml")
        .read_text(encoding="utf-8")
        .replace(f"venv-{DEFAULT_VERSION}/", f"venv-{version}/")
    )
    with tempfile.NamedTemporaryFile(
        "w", dir=ROOT, prefix=".suite-", suffix=".toml", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def _told(name: str, run: Path, store: BaselineStore) -> Told:
    session = load_run(run)
    judgement: Judgement = judge(session, store.sessions_for(session))
    acceptance = tuple(v for v in judgement.verdicts.values() if v.metric == "acceptance_length")
    return Told(name, acceptance, judgement.sentence)


if __name__ == "__main__":
    sys.exit(main())
