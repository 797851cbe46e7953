"""Options, configuration, prompts and stored files: whatever they hold is told by name, before anything is launched."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite import config
from suite.__main__ import main
from suite.config import ConfigError
from suite.gate import GateError
from suite.gate.files import read
from suite.gate.imports.formats import read_results
from suite.load import LoadError, workloads
from tests.perf.running import ROOT, command
from tests.perf.running import config as small

OPTIONS = "options of pytest -m perf"
FILES = "files: suite.toml, prompts, baselines, run.json"
MANY = "9" * 5000


def planned(tmp_path: Path, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """What ``pytest -m perf --plan`` says of some options: its exit status and its words."""
    argv = [*command(tmp_path, small(tmp_path), "--plan"), *arguments]
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


REFUSED: dict[str, tuple[list[str], str]] = {
    "--target=": (["--target="], "--target was given an empty value"),
    "--server-url=": (["--server-url="], "--server-url was given an empty value"),
    "--budget=": (["--budget="], "--budget was given an empty value"),
    "--target= --server-url= --budget=": (
        ["--target=", "--server-url=", "--budget="],
        "--target was given an empty",
    ),
    "--suite-config=": (["--suite-config="], "--suite-config was given an empty value"),
    "--results=": (["--results="], "--results was given an empty value"),
    "--baselines with a blank": (["--baselines", " "], "--baselines was given an empty value"),
    "--launches=": (["--launches="], "--launches: expected a whole number"),
    "--concurrency=": (["--concurrency="], "--concurrency was given an empty value"),
    "--flag=": (["--flag="], "--flag was given an empty value"),
    "--launches of 5,000 digits": ([f"--launches={MANY}"], "--launches: expected a whole number"),
    "--concurrency of 5,000 digits": ([f"--concurrency=1,{MANY}"], "--concurrency 1,999"),
    "--launches=20000": (["--launches=20000"], "--launches 20000: input should be less than or equal to 100"),
    "--launches=0": (["--launches=0"], "--launches 0: input should be greater than or equal to 1"),
    "--rounds=-1": (["--rounds=-1"], "--rounds: expected a whole number"),
    "--concurrency=0": (["--concurrency=0"], "--concurrency 0: expected numbers of clients"),
    "--contexts=-1": (["--contexts=-1"], "--contexts -1: expected numbers of tokens"),
    "--contexts beyond any": (["--contexts=999999999"], "--contexts 999999999: input should be less than"),
    "--concurrency=100000": (["--concurrency=100000"], "--concurrency 100000: input should be less than"),
    "--flag=no:TYPO": (["--flag=no:enable-metricz"], "did you mean 'enable-metrics'"),
    "--server-url that is none": (
        ["--server-url=127.0.0.1:30000"],
        "--server-url: must read http://HOST:PORT",
    ),
    "--server-url of another scheme": (
        ["--server-url=ftp://box:1"],
        "--server-url: must read http://HOST:PORT",
    ),
    "--server-url with escapes": (
        ["--server-url=http://a\x1b[2J:1"],
        "--server-url: must read http://HOST:PORT",
    ),
    "--results in a file": (
        ["--results=/dev/null/x"],
        "--results /dev/null/x: cannot be written (/dev/null)",
    ),
    "--results where nobody may write": (
        ["--results=/proc/results"],
        "--results /proc/results: cannot be written",
    ),
    "--suite-config that is a device": (
        ["--suite-config=/dev/zero"],
        "/dev/zero: cannot be read: is not a regular file",
    ),
    "--suite-config that is a folder": (["--suite-config=/proc"], "/proc: cannot be read: Is a directory"),
    "--target with escapes": (["--target=\x1b]0;owned\x07"], "is not among [targets]"),
}


@pytest.mark.parametrize("tried", REFUSED)
def test_an_option_that_cannot_be_is_named(
    tried: str, tmp_path: Path, ends_as: Callable[[str, str, str], None]
) -> None:
    arguments, says = REFUSED[tried]
    code, out = planned(tmp_path, *arguments)
    assert code == 4, out
    assert says in out
    assert "Traceback" not in out
    assert "\x1b" not in out
    assert len(out) < 5000
    assert not (tmp_path / "results").exists()
    ends_as(OPTIONS, f"`{tried}`", "exit 4, naming the option")


def test_what_is_right_is_planned(tmp_path: Path) -> None:
    code, out = planned(tmp_path, "--flag=no:enable-metrics", "--launches=3", "--concurrency=1,4")
    assert code == 0, out
    assert "launch" in out
    assert not (tmp_path / "results").exists()


TOML = """
default_target = "t"
[arms.a]
[budgets.quick]
{budget}
[targets.t]
model = "m"
{target}
"""

BAD_TABLES: dict[str, tuple[dict[str, str], str]] = {
    "`concurrencies = [0]`": ({"budget": "concurrencies = [0]"}, "[budgets.quick.concurrencies] key '0'"),
    "`concurrencies = [-4]`": ({"budget": "concurrencies = [-4]"}, "greater than or equal to 1"),
    "`launches = 20000`": ({"budget": "launches = 20000"}, "key 'launches': input should be less than"),
    "`temperatures = [nan]`": ({"budget": "temperatures = [nan]"}, "finite number"),
    "`timeouts.ready_s = inf`": ({"target": "timeouts = { ready_s = inf }"}, "finite number"),
    "a number of 5,000 digits": ({"budget": f"rounds = {MANY}"}, "not valid TOML"),
    "lists nested 5,000 deep": (
        {"budget": "x = " + "[" * 5000 + "]" * 5000},
        "not valid TOML: it nests too deep",
    ),
    "lists nested 100 deep": ({"budget": "x = " + "[" * 100 + "]" * 100}, "nest deeper than"),
    "a URL that is none": (
        {"target": 'launch = { kind = "attach", url = "box:30000" }'},
        "key 'url': must read http",
    ),
    "a URL with a password": (
        {"target": 'launch = { kind = "attach", url = "http://a:hunter22@box:1" }'},
        "holds a user or a password",
    ),
}


@pytest.mark.parametrize("tried", BAD_TABLES)
def test_a_table_that_cannot_be_is_named(
    tried: str, tmp_path: Path, ends_as: Callable[[str, str, str], None]
) -> None:
    parts, says = BAD_TABLES[tried]
    path = tmp_path / "suite.toml"
    path.write_text(TOML.format(**{"budget": "", "target": "", **parts}))
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    text = str(caught.value)
    assert says in text
    assert str(path) in text
    assert "hunter22" not in text
    assert len(text) < 1000
    ends_as(FILES, f"suite.toml: {tried}", "`ConfigError` with file, table and key")


toml_values = st.recursive(
    st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["default_target", "targets", "arms", "budgets", "hosts", "gate", "default_budget", "path", "x"]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), toml_values))
def test_fuzz_any_tables_are_a_suite_or_a_config_error(data: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        config.parse(data, Path("suite.toml"))


TARGET_KEYS = [
    "model",
    "launch",
    "flags",
    "env",
    "arms",
    "budgets",
    "timeouts",
    "gate",
    "backends",
    "like",
    "gpus",
]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(TARGET_KEYS), toml_values))
def test_fuzz_any_target_is_one_or_a_config_error(table: dict[str, Any]) -> None:
    with contextlib.suppress(ConfigError):
        config.parse({"default_target": "t", "targets": {"t": table}}, Path("suite.toml"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_fuzz_any_file_is_read_or_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(ConfigError):
        config.load(path)
    with contextlib.suppress(LoadError):
        workloads.load(path)
    with contextlib.suppress(GateError):
        read_results([path], target="t", arm="a")
    from suite.gate.records import Session

    with contextlib.suppress(GateError):
        read(path, "sglang-perf-gate session", 1, Session)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
messages = st.lists(st.fixed_dictionaries({"role": st.text(max_size=5), "content": json_values}), max_size=3)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.fixed_dictionaries({"messages": messages | json_values}) | json_values, max_size=4))
def test_fuzz_any_prompts_can_be_sent_or_are_refused_by_line(tmp_path: Path, rows: list[Any]) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    try:
        workload = workloads.load(path)
    except LoadError as error:
        assert "prompts" in str(error)  # noqa: PT017
        return
    for index, prompt in enumerate(workload.prompts):
        assert prompt.size_bytes > 0
        assert workload.sized(unique_prefix="x", prompt_chars_max=10).prompt(index) is not None
        json.dumps(list(prompt.messages), ensure_ascii=False).encode()


PROMPTS = {
    "JSON of 10,000 levels": '{"messages": ' + "[" * 10_000 + "]" * 10_000 + "}",
    "a number of 5,000 digits": f'{{"messages": {MANY}}}',
    "half of a surrogate pair": '{"messages": [{"role": "user", "content": "\\ud800"}]}',
    "HTML": "<html>",
    "no messages": "{}",
    "bytes that are no text": "\udcff",
}


@pytest.mark.parametrize("tried", PROMPTS)
def test_prompts_that_cannot_be_are_named(
    tried: str, tmp_path: Path, ends_as: Callable[[str, str, str], None]
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(PROMPTS[tried].encode("utf-8", "surrogateescape"))
    with pytest.raises(LoadError, match=r"mine\.jsonl") as caught:
        workloads.load(path)
    assert len(str(caught.value)) < 500
    budget = {"budget": f"kinds = ['{path}']"}
    suite = tmp_path / "suite.toml"
    suite.write_text(TOML.format(target="", **budget))
    argv = [*command(tmp_path, f"--suite-config={suite}", "--plan")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "mine.jsonl" in done.stdout + done.stderr
    ends_as(FILES, f"prompts: {tried}", "`LoadError` with file and line; exit 4 before anything is launched")


@pytest.mark.parametrize(
    ("tried", "content"),
    [
        ("JSON of 10,000 levels", b"[" * 10_000 + b"]" * 10_000),
        (
            "a known format nested 10,000 levels",
            b'{"format": "x", "version": 1, "a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        ),
        ("a version of 5,000 digits", b'{"format": "x", "version": ' + MANY.encode() + b"}"),
        ("HTML", b"<html>"),
        ("cut off", b'{"format": "x", "ver'),
        ("nothing", b""),
        ("bytes that are no text", b"\xff\xfe\x00"),
    ],
)
def test_stored_files_that_cannot_be_are_named(
    tried: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], ends_as: Any
) -> None:
    run = tmp_path / "results" / "20260101-000000-t"
    run.mkdir(parents=True)
    (run / "run.json").write_bytes(content)
    (tmp_path / "baselines").mkdir()
    code = main(["judge", str(run), "--baselines", str(tmp_path / "baselines")])
    said = capsys.readouterr()
    assert code == 2
    assert "run.json" in said.err
    assert len(said.err) < 600
    ends_as(FILES, f"run.json: {tried}", "exit 2, naming the file")
