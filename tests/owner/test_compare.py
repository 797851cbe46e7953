"""Two runs beside each other: changed first, then what is comparable, and the rest by name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from suite import __main__ as command_line
from suite.gate import BaselineStore, Rules, Series, Session, judge, save_run
from suite.gate.baselines import Found
from tests.gate.sessions import session


def kept(results: Path, made: Session) -> None:
    (results / made.run_id).mkdir(parents=True)
    save_run(results / made.run_id, made, judge(made, Found(), Rules()))


def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], a: str, b: str) -> str:
    options = [f"--results={tmp_path / 'results'}", f"--baselines={tmp_path / 'baselines'}"]
    assert command_line.main(["compare", a, b, *options]) == 0
    return capsys.readouterr().out


def changed(made: Session, arm: str, **identity: object) -> Session:
    series = [
        msgspec.structs.replace(s, identity={**s.identity, **identity}) if s.arm == arm else s
        for s in made.series
    ]
    return msgspec.structs.replace(made, series=series)


def test_what_changed_is_on_top_and_a_loss_is_called_by_the_gates_own_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "results", session("old"))
    kept(tmp_path / "results", session("new", slow={"mtp-off": 0.2}, version="0.5.24"))
    lines = told(tmp_path, capsys, "old", "new").splitlines()
    assert lines[0] == "A (baseline): old"
    assert lines[3] == "changed from A to B in mtp-off, mtp-on: sglang 0.5.23 -> 0.5.24"
    (row,) = [line for line in lines if line.startswith("  decode_throughput[c1]  mtp-off  output")]
    assert lines.index("regression") < lines.index(row) < lines.index("pass")


def test_what_is_measured_otherwise_is_named_and_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "results", session("old"))
    kept(tmp_path / "results", changed(session("new"), "mtp-off", max_tokens=64, gpus=4))
    out = told(tmp_path, capsys, "old", "new")
    assert "not compared, decode_throughput[c1] mtp-off:" in out
    assert "max_tokens" in out
    assert "gpus" in out
    assert "decode_throughput[c1]  mtp-on " in out
    assert "decode_throughput[c1]  mtp-off" not in out


def test_what_only_one_of_them_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def without(made: Session, arm: str) -> Session:
        left: list[Series] = [s for s in made.series if s.arm != arm]
        return msgspec.structs.replace(made, series=left)

    kept(tmp_path / "results", without(session("old"), "mtp-off"))
    kept(tmp_path / "results", without(session("new"), "mtp-on"))
    out = told(tmp_path, capsys, "old", "new")
    assert "nothing can be compared" in out
    assert "only in A: decode_throughput[c1] mtp-on, mtp_speedup[c1] mtp-on" in out
    assert "only in B: decode_throughput[c1] mtp-off" in out


def test_a_run_beside_its_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    BaselineStore(tmp_path / "baselines", "simulator").record(session("recorded"))
    kept(tmp_path / "results", session("new"))
    assert "decode_throughput[c1]" in told(tmp_path, capsys, "baseline", "new")


def test_a_run_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path / "results", session("new"))
    assert command_line.main(["compare", "typo", "new", f"--results={tmp_path / 'results'}"]) == 2
    assert "typo" in capsys.readouterr().err
