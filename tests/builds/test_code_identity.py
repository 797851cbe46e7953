"""A build is its code: what changes the files is another build, what does not is not, whatever the version says."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import config
from suite.hosts import LocalHost
from suite.probes import image, installation
from suite.probes.on_host import code_identity, listening
from suite.servers.runtimes.docker import in_container
from suite.sglang.errors import ProbeHostError
from tests.builds import making

TREES = st.dictionaries(
    st.text("abc/", min_size=1, max_size=6).map(lambda text: text.strip("/") or "x"),
    st.binary(max_size=8),
    min_size=1,
    max_size=4,
)


def write(folder: Path, tree: dict[str, bytes]) -> None:
    for name, content in tree.items():
        path = folder.joinpath(*(f"d{part}" for part in name.split("/")[:-1])) / name.replace("/", "_")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@given(tree=TREES, other=TREES)
def test_a_hash_is_of_paths_and_contents_and_of_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes], other: dict[str, bytes]
) -> None:
    folders = [tmp_path_factory.mktemp("tree") for _ in range(3)]
    write(folders[0], tree)
    write(folders[1], dict(reversed(tree.items())))
    write(folders[2], other)
    first, again, another = (code_identity.files_hash(str(folder)) for folder in folders)
    assert first == again
    assert (first[0] == another[0]) is (tree == other)


def test_caches_and_the_version_file_are_no_code(tmp_path: Path) -> None:
    root = making.package(tmp_path)
    before = code_identity.files_hash(str(root))
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "x.pyc").write_bytes(b"1")
    (root / "_version.py").write_text("__version__ = '0.5.99'\n")
    assert code_identity.files_hash(str(root)) == before
    (root / "srt" / "tuned.json").write_text("{}")
    assert code_identity.files_hash(str(root)) != before


def look(tmp_path: Path, root: Path, **env: str) -> dict[str, str]:
    python = making.interpreter(tmp_path, root.parent)
    return installation.look(LocalHost(), str(python), env=env).subject()


def test_a_pull_without_reinstalling_is_another_build(tmp_path: Path) -> None:
    root = making.checkout(tmp_path)
    old = look(tmp_path, root)
    (root / "srt" / "server_args.py").write_text("speculative_algorithm: str = 'NEXTN'\n")
    making.git(tmp_path, "commit", "--all", "--quiet", "--message", "second")
    new = look(tmp_path, root)
    assert old["sglang"] == new["sglang"] == "0.5.20"  # of the last installation: says nothing
    assert new["commit"] == making.git(tmp_path, "rev-parse", "HEAD") != old["commit"]
    assert old["described"] == "v0.5.23"
    assert new["described"].startswith("v0.5.23-1-g")
    assert old["code"] != new["code"]
    assert new["changed_files"] == "none"


def test_an_edited_file_of_a_checkout_is_named(tmp_path: Path) -> None:
    root = making.checkout(tmp_path)
    old = look(tmp_path, root)
    (root / "srt" / "server_args.py").write_text("x = 1\n")
    (root / "srt" / "added.py").write_text("x = 1\n")
    (root / "__pycache__").mkdir(exist_ok=True)  # what importing leaves where git is not told to ignore it
    (root / "__pycache__" / "version.cpython-311.pyc").write_bytes(b"x")
    new = look(tmp_path, root)
    assert new["commit"] == old["commit"]
    assert new["code"] != old["code"]
    assert new["changed_files"] == "python/sglang/srt/server_args.py, python/sglang/srt/added.py"


def wheel_installed(folder: Path) -> Path:
    """The package as pip leaves it: with the hash of each file in RECORD."""
    root = making.package(folder)
    info = folder / "sglang-0.5.20.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.20\n")
    rows = []
    for path in sorted(root.rglob("*.py")):
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
        rows.append(f"{path.relative_to(folder)},sha256={digest},{path.stat().st_size}")
    (info / "RECORD").write_text("\n".join([*rows, "sglang-0.5.20.dist-info/RECORD,,"]) + "\n")
    return root


def test_a_patched_file_of_a_wheel_is_named_and_a_file_that_is_gone(tmp_path: Path) -> None:
    root = wheel_installed(tmp_path)
    old = look(tmp_path, root)
    assert old["changed_files"] == "none"
    (root / "srt" / "server_args.py").write_text("# patched\n")
    (root / "launch_server.py").unlink()
    new = look(tmp_path, root)
    assert new["changed_files"] == "sglang/launch_server.py, sglang/srt/server_args.py"
    assert new["code"] != old["code"]


def test_an_environment_inside_somebodys_repository_is_not_its_code(tmp_path: Path) -> None:
    making.checkout(tmp_path)
    (tmp_path / ".gitignore").write_text(".venv\n")
    root = making.package(tmp_path / ".venv" / "site-packages")
    found = look(tmp_path, root)
    assert "changed_files" not in found
    assert found["commit"] == "0123456789"


def test_without_git_the_files_still_tell(tmp_path: Path) -> None:
    root = making.checkout(tmp_path)
    path = os.pathsep.join(
        place for place in os.environ["PATH"].split(os.pathsep) if not Path(place, "git").exists()
    )
    found = look(tmp_path, root, PATH=path)
    assert "described" not in found
    assert found["code"] == code_identity.files_hash(str(root))[0][:16]


def test_what_sglang_itself_requires_is_told_whatever_it_is(tmp_path: Path) -> None:
    root = making.package(tmp_path)
    info = tmp_path / "sglang-0.5.20.dist-info"
    info.mkdir()
    lines = [
        "Name: sglang",
        "Version: 0.5.20",
        "Requires-Dist: pytest>=8",
        "Requires-Dist: Typing_Extensions",
    ]
    lines += ["Requires-Dist: hypothesis ; extra == 'dev'"]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines]) + "\n")
    found = look(tmp_path, root)
    assert found["pytest"] == pytest.__version__
    assert "typing-extensions" in found
    assert "hypothesis" not in found


def test_the_variables_that_decide_speed_are_told_and_secrets_are_not(tmp_path: Path) -> None:
    root = making.package(tmp_path)
    python = making.interpreter(tmp_path, root.parent)
    env = {
        "NCCL_P2P_LEVEL": "SYS",
        "FLASHINFER_CUDA_ARCH_LIST": "12.0f",
        "SGLANG_HF_TOKEN": "hf_x",
        "OTHER": "1",
    }
    found = installation.look(LocalHost(), str(python), env=env).environment
    assert found["NCCL_P2P_LEVEL"] == "SYS"
    assert found["FLASHINFER_CUDA_ARCH_LIST"] == "12.0f"
    assert found["SGLANG_HF_TOKEN"] == "***"
    assert "OTHER" not in found


# ------------------------------------------------------------------------------------------ images
INSPECTED = {
    "Id": "sha256:4f5e0c1d2b3a49586776655443322110ffeeddccbbaa99887766554433221100",
    "RepoDigests": ["example/sglang@sha256:aa00bb11"],
    "Config": {
        "Labels": {"SGLANG_BUILD_COMMIT": "5e2cda61", "maintainer": "x", "SGLANG_IMAGE_TAG": "nightly"}
    },
}


def engine(folder: Path, answer: str, code: int = 0) -> str:
    path = folder / "engine"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


def test_an_image_is_its_digest_and_what_its_maker_wrote_on_it(tmp_path: Path) -> None:
    found = image.inspect(LocalHost(), engine(tmp_path, json.dumps([INSPECTED])), "example/sglang:nightly")
    assert found == {
        "image": "example/sglang:nightly",
        "image_id": "sha256:4f5e0c1d2b3a4958",
        "image_digest": "sha256:aa00bb11",
        "label.SGLANG_BUILD_COMMIT": "5e2cda61",
        "label.SGLANG_IMAGE_TAG": "nightly",
    }


def test_podman_writes_labels_elsewhere_and_a_local_image_has_no_digest(tmp_path: Path) -> None:
    answer = {"Id": "4f5e", "RepoDigests": None, "Labels": {"org.opencontainers.image.revision": "abc"}}
    found = image.inspect(LocalHost(), engine(tmp_path, json.dumps([answer])), "mine")
    assert found == {"image": "mine", "image_id": "4f5e", "label.org.opencontainers.image.revision": "abc"}


@pytest.mark.parametrize(
    "answer", ["", "[]", "[3]", "<html>", '[{"Config": {}}]', '[{"Id": "x", "Config": 3}]']
)
def test_an_engine_that_answers_nonsense_is_named(tmp_path: Path, answer: str) -> None:
    with pytest.raises(ProbeHostError, match=r"engine.*example"):
        image.inspect(LocalHost(), engine(tmp_path, answer), "example")


def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProbeHostError, match=r"no image gone:1"):
        image.inspect(LocalHost(), engine(tmp_path, "Error: no such image", code=1), "gone:1")


def test_files_mounted_over_an_image_are_seen_by_who_looks_into_it() -> None:
    launch = config.DockerLaunch(
        kind="docker",
        image="i",
        options=[
            "--shm-size=8g",
            "-v",
            "/p/a.py:/sglang/a.py",
            "--mount=type=bind,source=/p,target=/q",
            "-e",
            "A=1",
        ],
    )
    words = in_container(launch, {})
    assert words[6:-3] == ["-v", "/p/a.py:/sglang/a.py", "--mount=type=bind,source=/p,target=/q", "-e", "A=1"]


# ------------------------------------------------------------------------------------------ who listens
SERVER = (
    "import http.server, sys; http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), None).serve_forever()"
)


@contextlib.contextmanager
def server(**env: str) -> Iterator[tuple[int, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], env={**os.environ, **env})
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def test_who_listens_is_found_with_its_interpreter_and_variables() -> None:
    with server(NCCL_P2P_DISABLE="1", HOMEWORK="secret") as (port, pid):
        found = installation.listening(LocalHost(), port, sys.executable)
    assert found is not None
    assert found.pid == pid
    assert found.interpreter == sys.executable
    assert found.environment["NCCL_P2P_DISABLE"] == "1"
    assert "HOMEWORK" not in found.environment
    assert not found.container
    assert installation.listening(LocalHost(), port, sys.executable) is None


def test_the_interpreter_is_the_one_that_was_called_not_the_one_beneath_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.symlink_to(sys.executable)
    called = listening.interpreter(["bin/python", "-m", "x"], "/usr/bin/python3.11", str(tmp_path), {})
    assert called == str(python)
    by_path = listening.interpreter(["python"], "/b", "/", {"PATH": str(tmp_path / "bin")})
    assert by_path == str(python)
    titled = listening.interpreter(["sglang::launch"], "/b", "/", {"VIRTUAL_ENV": str(tmp_path)})
    assert titled == str(python)
    assert listening.interpreter(["sglang::launch"], "/b", "/", {}) == "/b"
