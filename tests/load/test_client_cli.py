"""`python -m suite load` as a person uses it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from suite.__main__ import main
from suite.cli.load_shown import LiveLine
from suite.load import Progress
from tests.load.scripted import Asked, ScriptedServer, Step, answer, plain


def script(asked: Asked) -> list[Step]:
    if asked.path.endswith("/models"):
        return plain("200 OK", b'{"object":"list","data":[{"id":"tiny","object":"model"}]}')
    return answer(int(asked.body["max_tokens"]), gap_s=0.002)


def test_a_table_and_a_json_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "round.json"
    with ScriptedServer(script) as server:
        status = main(
            ["load", "--server-url", server.url, "--workload", "code", "--concurrency", "2", "--max-tokens", "8",
             "--slo", "ttft=5", "--json", str(out)]
        )  # fmt: skip
    text = capsys.readouterr().out
    assert status in (0, 8)  # 8: this machine was too busy to be believed, and it says so
    assert "8 of 8 requests good" in text
    assert "acceptance_length       tokens/step            -  not reported in these answers" in text
    document = json.loads(out.read_text())
    (round_,) = document["rounds"]
    assert round_["metrics"]["output_tokens_per_s"]["value"] > 0
    assert round_["metrics"]["acceptance_length"]["value"] is None
    assert len(round_["requests"]) == 8
    assert round_["requests"][0]["tokens"] == list(range(1, 9))
    assert [p.name for p in tmp_path.iterdir()] == ["round.json"]


def test_a_sweep_is_one_row_a_load(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(script) as server:
        main(["load", "--server-url", server.url, "--sweep", "1,2", "--max-tokens", "4", "--requests", "4"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("closed loop, 1 client ") and "4/4" in line for line in lines)
    assert any(line.startswith("closed loop, 2 clients ") and "4/4" in line for line in lines)


def test_an_open_loop(capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(script) as server:
        main(["load", "--server-url", server.url, "--rate", "50", "--requests", "5", "--max-tokens", "4"])
    assert "open loop, 50 requests/s, poisson: 5 of 5" in capsys.readouterr().out


def test_failures_are_shown_and_set_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    def half(asked: Asked) -> list[Step]:
        return script(asked) if asked.number % 2 else plain("500 Oops", b'{"message":"kernel fault"}')

    with ScriptedServer(half) as server:
        status = main(
            [
                "load",
                "--server-url",
                server.url,
                "--model",
                "m",
                "--requests",
                "4",
                "--warm-up",
                "0",
                "--max-tokens",
                "4",
            ]
        )
    text = capsys.readouterr().out
    assert status == 1
    assert "2 of 4 requests server_error; the first: kernel fault" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "mathss"], "Did you mean 'maths'"),
        (["--rate", "2", "--concurrency", "2"], "not both"),
        (
            ["--api-key-env", "NO_SUCH_KEY"],
            "--api-key-env NO_SUCH_KEY: there is no such environment variable",
        ),
        (["--warm-up", "soon"], "--warm-up expects a whole number"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["load", "--server-url", "http://127.0.0.1:9", *arguments])
    captured = capsys.readouterr()
    assert status == 2
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_no_server_and_bad_addresses_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["load", "--server-url", "http://127.0.0.1:9"]) == 2
    assert "no server answers at http://127.0.0.1:9/v1/models" in capsys.readouterr().err
    assert main(["load", "--server-url", "localhost:9"]) == 2
    assert "not a server's address" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["load", "--server-url", "http://127.0.0.1:9", "--slo", "speed=3"])
    assert "an SLO has ttft, tpot, itl and e2e" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("every_s", [0.01, 0.1, 3.0])
def test_the_live_rate_is_steady_however_often_progress_is_told(every_s: float) -> None:
    """Also where two reports come at nearly one moment, as from two processes."""
    terminal = Terminal()
    line = LiveLine(terminal, "closed loop")
    for phase in ("warming up", "running"):
        for step in range(1, 400):
            for t in (step * every_s, step * every_s + 1e-6):
                line.show(Progress(phase, t, 0, 8, 2, 0, int(1000 * step * every_s)))
    rates = [int(rate) for rate in re.findall(r" (\d+) tokens/s", terminal.getvalue())]
    assert len(rates) > 1000
    assert min(rates) > 800
    assert max(rates) < 1200
