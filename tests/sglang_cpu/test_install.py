"""The installer: pins by version, parts made once and put in place whole, errors that say what to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from . import install


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGLANG_CPU_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_every_version_has_the_same_packages_and_its_own_sglang() -> None:
    assert install.known_versions() == ["0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"]
    for version in install.known_versions():
        pins = install.pins(version)
        assert pins["sglang"] == version
        assert pins.keys() == install.pins(install.DEFAULT_VERSION).keys()
        assert all(pins.values())


def test_an_unknown_version_names_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["--versions", "0.5.23,9.9"]) == 1
    message = capsys.readouterr().err
    assert "no pins for SGLang 9.9" in message
    assert "0.5.19" in message


def test_another_python_without_the_right_one_on_path_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(install.InstallError, match=r"pins are for Python 3\.11"):
        install.find_python()


def test_a_python_on_path_that_does_not_work_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(install.InstallError):
        install.find_python()


def make(part: Path) -> None:
    part.mkdir()
    (part / "whole").touch()


def fail(part: Path) -> None:
    part.mkdir()
    raise install.InstallError("the index did not answer")


def test_a_part_is_made_once(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install.put_in_place("part", "a", "whole", make)
    assert (own_home / "part/whole").exists()
    install.put_in_place("part", "a", "whole", fail)  # up to date: not called
    assert "is up to date" in capsys.readouterr().out


def test_a_part_from_other_sources_replaces_the_old_one_and_its_neighbour_stays(own_home: Path) -> None:
    for name in ("part", "part-0.5"):
        install.put_in_place(name, "a", "whole", make)
    install.put_in_place("part", "b", "whole", make)
    assert sorted(os.listdir(own_home / "made")) == ["part-0.5-a", "part-b"]


def test_a_failure_leaves_the_old_part_in_place_and_the_next_run_makes_it(own_home: Path) -> None:
    install.put_in_place("part", "a", "whole", make)
    with pytest.raises(install.InstallError):
        install.put_in_place("part", "b", "whole", fail)
    assert (own_home / "part/whole").exists()
    install.put_in_place("part", "b", "whole", make)
    assert (own_home / "part").resolve().name == "part-b"


def test_a_part_whose_python_is_gone_is_made_again(own_home: Path) -> None:
    install.put_in_place("part", "a", "whole", make)
    (own_home / "part/whole").unlink()
    install.put_in_place("part", "a", "whole", make)
    assert (own_home / "part/whole").exists()


def test_another_home_is_found_under_the_default_path(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "ROOT", tmp_path)
    own_home.mkdir()
    for _ in range(2):
        install.link_default_home()
        assert (tmp_path / ".sglang-cpu").resolve() == own_home


def test_a_default_home_that_is_in_use_stays(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "ROOT", tmp_path)
    (tmp_path / ".sglang-cpu").mkdir()
    install.link_default_home()
    assert not (tmp_path / ".sglang-cpu").is_symlink()


def test_all_checkpoints_are_made(tmp_path: Path) -> None:
    install.make_checkpoints(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(install.CHECKPOINTS)
    assert (tmp_path / install.DEFAULT_CHECKPOINT / "model.safetensors").is_file()


def test_a_failing_step_shows_its_last_lines_and_the_hint(tmp_path: Path) -> None:
    with pytest.raises(install.InstallError) as error:
        install.logged_step(
            "import torch", [sys.executable, "-c", "raise OSError('libcudart')"], tmp_path / "log", "hint"
        )
    assert "could not import torch (exit 1)" in str(error.value)
    assert "OSError: libcudart" in str(error.value)
    assert str(error.value).endswith("hint")
