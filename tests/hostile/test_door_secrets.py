"""Eight planted secrets are looked for in whatever a run shows, writes and starts, whether it passes or fails."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hostile.door_servers import page, sending
from tests.perf.running import MODEL, ROOT, TARGET, command

PLANTED = {
    "DB_PASS": "planted-Zq81-dbpass",
    "SSH_PASSPHRASE": "planted-Zq82-phrase",
    "AUTHORIZATION": "Bearer planted-Zq83-bearer",
    "HF_TOKEN": "hf_plantedZq84token",
    "MIRROR": "https://robot:planted-Zq85-url@mirror.example/x",
    "SERVER_KEY": "planted-Zq86-apikey",
    "SERVER_ADMIN_KEY": "planted-Zq87-adminkey",
    "WEIRD_SECRET": 'planted"Zq88\\\\odd',
}
"""Six in the environment of the run and its servers, two as keys of the server; every value has a mark of its own."""

MARKS = [f"Zq8{number}" for number in range(1, 9)]

FAILING = """
import os
import pytest
from suite.redact import Secret

@pytest.fixture
def key():
    return Secret(os.environ["SERVER_KEY"])

@pytest.mark.perf
def test_shows_its_locals(key):
    env = dict(os.environ)
    header = {"Authorization": "Bearer " + key.reveal()}
    url = os.environ["MIRROR"]
    print(env["DB_PASS"], url)
    raise RuntimeError(f"{header} {url} {env['WEIRD_SECRET']!r}")

@pytest.fixture
def broken():
    raise ValueError("no " + os.environ["HF_TOKEN"])

@pytest.mark.perf
def test_cannot_be_set_up(broken):
    pass
"""


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """The marks that stand on any process's command line meanwhile."""
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    text = path.read_bytes().decode("utf-8", "replace")
                except OSError:
                    continue
                seen.update(mark for mark in MARKS if mark in text)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def found_in(folder: Path) -> list[str]:
    """Files under ``folder`` with a mark in their name or in them."""
    return [
        f"{path.relative_to(folder)}: {mark}"
        for path in folder.rglob("*")
        for mark in MARKS
        if mark in path.name or (path.is_file() and mark.encode() in path.read_bytes())
    ]


def run(tmp_path: Path, *arguments: str) -> tuple[int, str, set[str]]:
    out = tmp_path / "out"
    shown = ("--tb=long", "--showlocals", "-rA", "-p", "no:cacheprovider")
    written = (
        f"--alluredir={out / 'allure'}",
        f"--junitxml={out / 'junit.xml'}",
        f"--benchmark-json={out / 'benchmark.json'}",
        "-o",
        "junit_logging=all",
    )
    out.mkdir()
    with command_lines() as seen:
        done = subprocess.run(
            [*command(out, *arguments), *shown, *written],
            cwd=ROOT,
            env={**os.environ, **PLANTED, "TMPDIR": str(out)},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    return done.returncode, done.stdout + done.stderr, seen


def config(tmp_path: Path, launch: str, more: str = "") -> str:
    text = TARGET.format(model=MODEL, ready_s=30, more=more, root=ROOT)
    text = text.replace(f'launch = {{ kind = "process", module = "simulator", cwd = "{ROOT}" }}', launch)
    path = tmp_path / "suite.toml"
    path.write_text(
        text.replace('scenarios = ["activation", "decode", "acceptance"]', 'scenarios = ["activation"]')
    )
    return f"--suite-config={path}"


SIMULATOR = f'launch = {{ kind = "process", module = "simulator", cwd = "{ROOT}" }}'


def nothing_shows(tmp_path: Path, out: str, seen: set[str], ends_as, tried: str) -> None:
    assert [mark for mark in MARKS if mark in out] == []
    assert found_in(tmp_path / "out") == []
    assert seen == set()
    ends_as(
        "secrets, eight planted",
        tried,
        "none found: terminal, results, Allure, JUnit, benchmark, /proc/*/cmdline",
    )


def test_a_passing_run_shows_none(tmp_path: Path, ends_as) -> None:
    env = "env = { HF_TOKEN = 'hf_plantedZq84token', MIRROR = 'https://robot:planted-Zq85-url@mirror.example/x' }"
    code, out, seen = run(tmp_path, config(tmp_path, SIMULATOR, env), "--launches=1", "--rounds=2")
    assert code == 0, out
    nothing_shows(tmp_path, out, seen, ends_as, "a run that passes, with --showlocals")


def test_a_failing_run_shows_none(tmp_path: Path, ends_as) -> None:
    scenario = tmp_path / "test_failing.py"
    scenario.write_text(FAILING)
    code, out, seen = run(
        tmp_path,
        config(tmp_path, SIMULATOR),
        str(scenario),
        "scenarios/test_activation.py",
        f"--rootdir={ROOT}",
        "-c",
        str(ROOT / "pyproject.toml"),
    )
    assert code == 1, out
    assert "1 failed" in out, out
    assert "1 error" in out, out
    nothing_shows(tmp_path, out, seen, ends_as, "a run whose items fail with secrets among their locals")


def test_a_server_that_echoes_them_shows_none(tmp_path: Path, ends_as) -> None:
    echo = (
        "{"
        + ", ".join(f'"{n.lower()}": {v!r}' for n, v in (("hf_token", "t"),)).replace("'", '"')
        + ', "said": "'
    )
    echo += PLANTED["SERVER_KEY"] + " " + PLANTED["SERVER_ADMIN_KEY"] + ' planted-Zq81-dbpass"}'
    with sending(lambda _: page(echo.encode(), "500 Oops")) as url:
        launch = (
            f'launch = {{ kind = "attach", url = "{url}", api_key_env = "SERVER_KEY", '
            'admin_api_key_env = "SERVER_ADMIN_KEY" }'
        )
        code, out, seen = run(tmp_path, config(tmp_path, launch))
    assert code not in (0, 2), out
    assert "answers 500" in out or "HTTP 500" in out, out
    nothing_shows(tmp_path, out, seen, ends_as, "a server that echoes the keys it was sent")


@pytest.mark.parametrize("place", ["option", "file"])
def test_credentials_in_a_url_are_refused_unseen(tmp_path: Path, place: str, ends_as) -> None:
    url = "http://robot:planted-Zq85-url@127.0.0.1:9"
    launch = f'launch = {{ kind = "attach", url = "{url}" }}' if place == "file" else SIMULATOR
    options = [f"--server-url={url}"] if place == "option" else []
    code, out, seen = run(tmp_path, config(tmp_path, launch), *options)
    assert code == 4, out
    assert "api_key_env" in out
    nothing_shows(
        tmp_path, out, seen - {"Zq85"} if options else seen, ends_as, f"user:password@ in a URL ({place})"
    )
