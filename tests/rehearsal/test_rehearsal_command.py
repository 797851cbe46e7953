"""``python -m suite rehearse`` and the doctor, as a person runs them, on a small SGLang."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from suite import __main__ as command_line
from suite import config, doctor
from suite.builds import environments
from suite.doctor import Line
from suite.hosts import LocalHost
from suite.rehearsal import recorded
from suite.rehearsal.checkpoints import stand_in
from tests.rehearsal.small import BOX, install, rehearsed, suite_of

REFUSES = 'assert not self.speculative_algorithm, "speculation is not supported on SM120"'
NO_ACCELERATOR = """
    if not torch.cuda.is_available():
        raise RuntimeError("No accelerator is available")
    return torch.cuda.get_device_capability()[0]
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Done]


def write_suite(folder: Path, **target: object) -> Path:
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/config.json").write_text("{}")
    file = folder / "suite.toml"
    keys = {"model": str(folder / "model"), "gpus": 8, "cards": "rtx-pro-6000x8", **target}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    file.write_text(
        f'default_target = "small"\nbuiltin = false\n[budgets.quick]\n[targets.small]\n{text}\n'
        f"env = {{ PYTHONPATH = {json.dumps(str(folder))} }}\n"
        f'launch = {{ kind = "process", python = {json.dumps(sys.executable)} }}\n'
        '[targets.small.arms]\noff = {}\non = { flags = { speculative-algorithm = "NEXTN" } }\n'
    )
    return file


@pytest.fixture
def suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in a folder's suite; its status, what it printed and what it complained of."""

    def run(*words: str) -> Done:
        code = command_line.main([*words, "--suite-config", str(tmp_path / "suite.toml")])
        return Done(code, *capsys.readouterr())

    return run


def test_the_command_says_what_is_pretended_and_ends_well(tmp_path: Path, suite: Command) -> None:
    install(tmp_path, "return 1")
    write_suite(tmp_path)
    done = suite("rehearse")
    assert done.code == 0, done.out + done.err
    assert "pretended: 8 x NVIDIA RTX PRO 6000 Blackwell Server Edition" in done.out
    assert "resolution only" in done.out
    assert "ok       speculation off: off" in done.out


def test_an_arm_that_would_be_refused_ends_it_with_1_and_the_last_words(
    tmp_path: Path, suite: Command
) -> None:
    install(tmp_path, REFUSES)
    write_suite(tmp_path)
    done = suite("rehearse", "--build", sys.executable, "--cards", "h200x2")
    assert done.code == 1
    assert "problem  would be refused: AssertionError: speculation is not supported on SM120: on" in done.out
    assert "2 x NVIDIA H200" in done.out


def test_what_is_not_decided_ends_it_with_8(tmp_path: Path, suite: Command) -> None:
    install(tmp_path, "import flashinfer\nreturn float(flashinfer.speed)")
    write_suite(tmp_path)
    done = suite("rehearse", "--arm", "off")
    assert done.code == 8
    assert "not decided here" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cards", "a100x8"], "cards 'a100x8' are not known"),
        (["--build", "no-such-python"], "neither a release of SGLang"),
        (["--arm", "none"], "has no arm 'none'"),
        (["--target", "none"], "--target 'none'"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], said: str, tmp_path: Path, suite: Command) -> None:
    install(tmp_path, "return 1")
    write_suite(tmp_path)
    done = suite("rehearse", *words)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_model_that_is_not_here_needs_config_files(tmp_path: Path, suite: Command) -> None:
    install(tmp_path, "return self.model_path")
    write_suite(tmp_path, model="/models/Nowhere-1B")
    done = suite("rehearse")
    assert done.code == 2
    assert "checkpoint_config" in done.err
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/config.json").write_text("{}")
    write_suite(tmp_path, model="/models/Nowhere-1B", checkpoint_config="configs")
    done = suite("rehearse", "--json")
    (found,) = json.loads(done.out)["rehearsals"]
    assert found["arms"]["off"]["settings"]["found"] == "/models/Nowhere-1B"
    assert found["checkpoint"] == "configs for /models/Nowhere-1B"


def test_a_model_of_the_same_name_that_is_shipped_stands_in(tmp_path: Path, suite: Command) -> None:
    install(tmp_path, "return 1")
    shipped = tmp_path / "simulator/checkpoints/some-model-7b"
    shipped.mkdir(parents=True)
    (shipped / "config.json").write_text("{}")
    write_suite(tmp_path, model="/models/Some-Model-7B")
    done = suite("rehearse")
    assert done.code == 0
    assert "simulator/checkpoints/some-model-7b for /models/Some-Model-7B" in done.out


def test_json_holds_rehearsals_and_previews(tmp_path: Path, suite: Command) -> None:
    install(tmp_path, "return 1")
    write_suite(tmp_path)
    done = suite("rehearse", "--build", sys.executable, "--build", sys.executable, "--json")
    data = json.loads(done.out)
    assert [len(data[key]) for key in ("rehearsals", "previews")] == [2, 1]
    assert data["previews"][0]["flips"] == []


def test_an_answer_is_recorded_and_read_as_it_was(tmp_path: Path) -> None:
    found = rehearsed(
        tmp_path, 'logger.info("x")\nreturn {"bs": list(range(40)), "names": ["a b", "c"], "none": []}'
    )
    path = recorded.place(tmp_path, "small", "0.5.99")
    recorded.write(found, path)
    again = recorded.read(path)
    assert again.arms.keys() == found.arms.keys()
    assert all(recorded.same(found.arms[arm], again.arms[arm]) for arm in found.arms)
    assert (again.flags, again.cards, again.versions) == (found.flags, BOX, found.versions)
    assert again.unasked is not None
    assert again.unasked[0] == "on"
    assert any("[0, 1, 2, 3," in line for line in path.read_text().splitlines())


# ---------------------------------------------------------------------------------------------- the doctor
def arms_of(lines: list[Line]) -> list[Line]:
    return [
        line
        for line in lines
        if line.what in ("arms", "rehearsal", "arms rehearsed") or line.what.startswith("arm ")
    ]


def examine(folder: Path, body: str, **target: object) -> list[Line]:
    install(folder, body)
    made = suite_of(folder, **target)
    return arms_of(list(doctor.examine(made, made.target())))


def test_the_doctor_rehearses_what_its_machine_cannot_resolve_one_line_for_each_answer(
    tmp_path: Path,
) -> None:
    on = {"flags": {"speculative-algorithm": "NEXTN"}}
    arms = {"off": {}, "still-off": {"flags": {"tp-size": 2}}, "on": on, "too": {**on, "env": {"A": "1"}}}
    lines = examine(tmp_path, NO_ACCELERATOR, arms=arms)
    assert [line.what for line in lines] == ["rehearsal", "arms rehearsed", "arms rehearsed"]
    said = lines[0].said
    assert said.count("No accelerator is available") == 1
    assert "pretended 8 x NVIDIA RTX PRO 6000" in said
    assert "resolution only" in said
    assert lines[1].said == "speculation off: off, still-off"
    assert lines[2].said.startswith("EAGLE")
    assert lines[2].said.endswith(": on, too")
    assert {line.status for line in lines} == {"ok"}


def test_the_doctor_names_an_arm_that_would_be_refused_on_the_box(tmp_path: Path) -> None:
    lines = examine(tmp_path, f"{NO_ACCELERATOR.split('return')[0].strip()}\n{REFUSES}")
    (problem,) = [line for line in lines if line.status == "problem"]
    assert "not supported on SM120: on" in problem.said
    assert problem.todo


def test_the_doctor_without_cards_says_how_to_name_them(tmp_path: Path) -> None:
    lines = examine(tmp_path, NO_ACCELERATOR, cards="", nvidia_smi="./none")
    (line,) = lines
    assert line.status == "warning"
    assert "No accelerator is available" in line.said
    assert "--cards" in line.said


def test_the_doctor_rehearses_a_named_build_where_the_host_cannot_be_reached(tmp_path: Path) -> None:
    install(tmp_path, NO_ACCELERATOR)
    local = suite_of(tmp_path).model_copy(
        update={"hosts": {"far": config.HostTable(name="far", ssh="nobody@127.0.0.1:1")}}
    )
    target = local.target().model_copy(update={"host": "far"})
    alone = list(doctor.examine(local, target))
    assert [line.what for line in alone] == ["host"]
    assert "python -m suite rehearse" in alone[0].todo
    lines = list(doctor.examine(local, target, [sys.executable]))
    assert [line.what for line in lines] == ["host", "rehearsal", "arms rehearsed", "arms rehearsed"]


def test_config_files_of_this_machine_do_not_stand_in_on_another(tmp_path: Path) -> None:
    class Far(LocalHost):
        is_local = False

    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/config.json").write_text("{}")
    target = suite_of(tmp_path, model="/models/Nowhere-1B", checkpoint_config="configs").target()
    assert stand_in(tmp_path, target, LocalHost(), target.model, None) == str(tmp_path / "configs")
    assert stand_in(tmp_path, target, Far(), target.model, None) == target.model


def test_a_release_is_recorded_once_and_anew_when_it_answers_otherwise(
    tmp_path: Path, suite: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "interpreter", lambda *_: sys.executable)
    install(tmp_path, "return 1")
    write_suite(tmp_path)
    path = recorded.place(tmp_path / recorded.FOLDER, "small", "0.5.99")
    assert suite("rehearse", "--build", "0.5.99", "--record").code == 0
    first = path.stat().st_mtime_ns, path.read_text()
    again = suite("rehearse", "--build", "0.5.99", "--record")
    assert "0.5.99.json: as recorded, 2 arms" in again.err
    assert (path.stat().st_mtime_ns, path.read_text()) == first
    install(tmp_path, "return 2")
    other = suite("rehearse", "--build", "0.5.99", "--record")
    assert "recorded again; other answers for off, on" in other.err
    assert recorded.read(path).arms["off"].settings["found"] == 2
    later = suite("rehearse", "--build", "0.5.100", "--record")
    assert "From SGLang 0.5.99 to 0.5.100" in later.out
