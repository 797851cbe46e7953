"""A release's own environment: what of its requirements is installed, and what is left out. No index is asked here."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from suite.builds import environments
from suite.builds.environments import _share, _wanted, cache, interpreter
from suite.builds.errors import ReleaseError
from suite.builds.spec import is_release


@pytest.mark.parametrize("text", ["0.5.20", "sglang==0.5.20", "0.5.9.post1", "0.5.2rc1", "0.6"])
def test_a_number_is_a_release(text: str) -> None:
    assert is_release(text)


@pytest.mark.parametrize(
    "text", ["python3", "/opt/sglang/bin/python", "./0.5.20", "sglang", "sglang>=0.5", "5", ""]
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_release(text)


def _package(environment: Path, name: str, version: str, *requires: str) -> None:
    folder = environment / f"lib/python3.{sys.version_info[1]}/site-packages/{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {need}" for need in requires),
    ]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")


def test_what_is_required_and_not_there_is_wanted_but_nothing_that_needs_a_gpu(tmp_path: Path) -> None:
    _package(
        tmp_path,
        "sglang",
        "0.5.99",
        "transformers==5.0",
        "msgspec",
        "torch==2.14.1",
        "flashinfer_python[cu13]==0.7.2",
        "sglang-kernel==1",
        "nvidia-cutlass-dsl",
        "cuda-python>=13",
        'ray; extra == "ray"',
        'av; sys_platform == "plan9"',
    )
    _package(tmp_path, "msgspec", "0.19")
    assert _wanted(tmp_path) == ["transformers==5.0"]


def test_two_that_want_the_same_are_asked_together_and_extras_are_followed(tmp_path: Path) -> None:
    _package(tmp_path, "sglang", "0.5.99", "Tokenizers>=0.20", "pydantic-extra[country]")
    _package(tmp_path, "transformers", "5.0", "tokenizers<0.24,!=0.21")
    _package(tmp_path, "pydantic_extra", "1.0", 'pycountry>=23; extra == "country"', 'other; extra == "else"')
    assert _wanted(tmp_path) == ["pycountry>=23", "tokenizers!=0.21,<0.24,>=0.20"]


def test_one_that_is_there_in_a_version_that_does_not_do_is_wanted_again(tmp_path: Path) -> None:
    _package(tmp_path, "sglang", "0.5.99", "openai==2.8.0")
    _package(tmp_path, "openai", "3.0")
    assert _wanted(tmp_path) == ["openai==2.8.0"]


def test_files_that_two_environments_have_alike_lie_there_once(tmp_path: Path) -> None:
    for name, last in (("a", b"same"), ("b", b"same")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "torch.so").write_bytes(bytes(1 << 17) + last)
        (tmp_path / name / "other.so").write_bytes(bytes(1 << 17) + name.encode())
    _share(tmp_path / "b")
    inode = {name: os.stat(tmp_path / name / "torch.so").st_ino for name in "ab"}
    assert inode["a"] == inode["b"]
    assert (tmp_path / "b/other.so").read_bytes()[-1:] == b"b"


def test_an_installer_that_fails_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(environments.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # uv, which has settings of its own, is not there
    said: list[str] = []
    with pytest.raises(ReleaseError, match=r"could not install .*torch"):
        interpreter("0.5.20", said.append)
    assert "0.5.20" in said[0]
    assert list((cache() / "releases").iterdir()) == []


@pytest.mark.parametrize(("status", "by"), [(0, ["uv"]), (1, ["uv", "pip"])])
def test_uv_installs_where_it_is_there_and_pip_where_it_fails(
    status: int, by: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    for path, name, code in (("bin/uv", "uv", status), ("bin/python", "pip", 0)):
        (tmp_path / path).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\nexit {code}\n')
        (tmp_path / path).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    environments._install(tmp_path, ["openai==2.8.0"])
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == by
    assert all("--no-deps" in call and call.endswith("openai==2.8.0") for call in calls)


def test_a_cache_that_cannot_be_made_is_told_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(environments.CACHE_VARIABLE, str(tmp_path / "file/below"))
    with pytest.raises(ReleaseError, match=environments.CACHE_VARIABLE):
        interpreter("0.5.20", lambda text: None)


def _wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    """A package with one module and nothing else, as pip installs it."""
    info = f"{name}-{version}.dist-info"
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"__version__ = {version!r}\n")
        file.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_a_version_is_installed_whole_once_with_a_lock_and_one_package_swapped_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    _wheel(shelf, "sglang", "0.5.99", "kernels==1.0")
    _wheel(shelf, "kernels", "1.0")
    _wheel(shelf, "kernels", "1.1")
    monkeypatch.setenv(environments.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    said: list[str] = []
    made = environments.whole("0.5.99", say=said.append)
    assert {"sglang==0.5.99", "kernels==1.0"} <= set(made.lock)
    assert environments.whole("0.5.99", say=said.append) == made
    assert len(said) == 1
    swapped = environments.whole("0.5.99", ["kernels==1.1"], said.append)
    assert {"sglang==0.5.99", "kernels==1.1"} <= set(swapped.lock)
    asked = "import kernels, sglang; print(sglang.__version__, kernels.__version__)"
    seen = [subprocess.check_output([one.python, "-c", asked], text=True).split() for one in (made, swapped)]
    assert seen == [["0.5.99", "1.0"], ["0.5.99", "1.1"]]
