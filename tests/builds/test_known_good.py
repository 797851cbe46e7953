"""The last good build: kept only of a run that passed, with a way back that fits how it is installed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from suite import __main__ as command_line
from suite.gate import GateError, known_good
from suite.gate.known_good import KnownGood
from suite.gate.verdicts import Judgement, Verdict
from tests.gate.sessions import session

GOOD = KnownGood(
    target="box",
    run_id="20261201-070000-box",
    started_at="2026-12-01T07:00:00+00:00",
    sentence="GO: 24 figures within 2 %",
    build={"sglang": "0.5.23", "code": "1234"},
    lock=["flashinfer-python==0.6.1", "torch==2.13.0"],
    place={"python": "/opt/sglang/bin/python", "checkout": "/src/sglang"},
    arms={"mtp-on": "--tp-size 8"},
    figures=24,
)


def built(**facts: str) -> KnownGood:
    return msgspec.structs.replace(GOOD, build={**GOOD.build, **facts})


def test_a_wheel_is_installed_again_with_what_was_beside_it() -> None:
    assert known_good.way_back(GOOD) == [
        "/opt/sglang/bin/python -m pip install sglang==0.5.23",
        "/opt/sglang/bin/python -m pip install --no-deps flashinfer-python==0.6.1 torch==2.13.0",
    ]


def test_a_checkout_goes_back_to_its_commit() -> None:
    lines = known_good.way_back(
        built(commit="5e2cda61", described="v0.5.23-3-g5e2cda61", changed_files="none")
    )
    assert lines[0] == "git -C /src/sglang checkout 5e2cda61"
    assert not any("by hand" in line for line in lines)


def test_a_patched_build_is_told_to_be_in_no_commit() -> None:
    assert "restore them yourself" in known_good.way_back(built(changed_files="sglang/srt/x.py"))[-1]


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("lmsysorg/sglang:v0.5.23", "lmsysorg/sglang@sha256:aa"),
        ("registry.example:5000/sglang", "registry.example:5000/sglang@sha256:aa"),
        ("registry.example:5000/sglang:nightly", "registry.example:5000/sglang@sha256:aa"),
        ("sglang@sha256:aa", "sglang@sha256:aa"),
    ],
)
def test_an_image_goes_back_to_its_digest_because_tags_move(image: str, pinned: str) -> None:
    known = msgspec.structs.replace(built(image=image, image_digest="sha256:aa"), place={"engine": "podman"})
    lines = known_good.way_back(known)
    assert lines[0] == f"podman pull {pinned}"
    assert f'image = "{pinned}"' in lines[1]


def test_an_image_without_a_digest_is_said_to_have_no_way_back() -> None:
    assert known_good.way_back(built(image="mine", image_id="sha256:4f"))[0].startswith(
        "# image mine was never"
    )


def judged(*words: str, status: int = 0) -> Judgement:
    verdicts = {}
    for number, word in enumerate(words):
        verdict = msgspec.convert(
            {
                "question": f"q{number}",
                "arm": "a",
                "metric": "m",
                "word": word,
                "headline": "",
                "reason": "",
                "estimate": {"label": "", "unit": "", "value": 1.0},
                "margin": 0.02,
            },
            Verdict,
        )
        verdicts[verdict.key] = verdict
    return Judgement(verdicts, {}, {}, [], [], None, [], status=status)


@pytest.mark.parametrize(
    ("words", "status", "good"),
    [
        (["pass", "pass", "improvement"], 0, True),
        (["pass", "unjudged"], 0, False),
        (["pass", "invalid"], 8, False),
        (["pass", "inconclusive"], 0, False),
        (["pass"], 1, False),
        ([], 0, False),
        (["improvement"], 0, False),
    ],
)
def test_only_a_whole_pass_is_known_good(words: list[str], status: int, good: bool) -> None:
    assert known_good.qualifies(judged(*words, status=status)) is good


def test_what_is_kept_is_read_back_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = session()
    known = known_good.of_run(run, judged("pass"), {"commit": "5e2cda61"}, ["torch==2.13.0"], {})
    path = known_good.save(tmp_path, known)
    assert known_good.load(tmp_path, run.target) == known
    assert command_line.main(["known-good", f"--target={run.target}", f"--results={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "commit 5e2cda61" in said
    assert str(path) in said


def test_where_nothing_has_passed_yet_it_says_so_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["known-good", "--target=box", f"--results={tmp_path}"]) != 0
    said = capsys.readouterr().err
    assert "no run of box has passed" in said
    assert "pytest -m perf --target box" in said


@pytest.mark.parametrize(
    ("release", "told"), [("0.5.21", True), ("0.5.23", False), ("0.0.0.dev1+gabcdef0", False)]
)
def test_what_an_upgrade_from_it_would_change_is_told_where_it_was_rehearsed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], release: str, told: bool
) -> None:
    known = msgspec.structs.replace(GOOD, target="blackwell", build={"sglang": release})
    known_good.save(tmp_path, known)
    rehearsals = Path(__file__).parents[2] / "rehearsals"
    options = [f"--results={tmp_path}", f"--rehearsals={rehearsals}"]
    assert command_line.main(["known-good", "--target=blackwell", *options]) == 0
    said = capsys.readouterr().out
    assert ("would change" in said) is told
    if told:  # 0.5.22 caps decode graphs at --max-running-requests (docs/rehearsal.md)
        assert "cuda_graph_config.decode" in said


def test_what_passed_can_be_launched_again_by_its_name() -> None:
    assert known_good.build_of(GOOD).version == "0.5.23"
    table = known_good.build_of(
        built(commit="5e2cda61", described="v0.5.23-3-g5e2cda61", changed_files="none")
    )
    assert (table.checkout, table.commit) == ("/src/sglang", "5e2cda61")
    table = known_good.build_of(built(image="lmsysorg/sglang:v0.5.23", image_digest="sha256:aa"))
    assert table.image == "lmsysorg/sglang@sha256:aa"


@pytest.mark.parametrize(
    "facts", [{"changed_files": "sglang/srt/x.py"}, {"image": "sglang:local"}, {"sglang": "unknown"}]
)
def test_what_cannot_be_had_again_is_said(facts: dict[str, str]) -> None:
    with pytest.raises(GateError, match="known-good"):
        known_good.build_of(built(**facts))
