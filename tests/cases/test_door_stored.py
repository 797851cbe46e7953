"""Baselines that no measurement gives, and a proxy that is set: told by name."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite import config
from suite.doctor.software import proxies
from suite.gate import BaselineStore
from suite.gate.records import Launch, Plan, Series, Session

IDENTITY = {"model": "m"}


def session(run_id: str, value: float, started_at: str = "2026-01-02T03:04:05+00:00") -> Session:
    launch = Launch(rounds={"tpot_s": [value, value], "output_tok_s": [100.0, 101.0]})
    series = Series(
        question="decode[c1]",
        arm="mtp-on",
        identity=IDENTITY,
        subject={"sglang": "0.5.23"},
        launches=[launch],
    )
    return Session(
        run_id=run_id, target="t", started_at=started_at, plan=Plan("quick", 1, 2, [1]), series=[series]
    )


@pytest.fixture
def stored(tmp_path: Path) -> tuple[BaselineStore, Path]:
    store = BaselineStore(tmp_path, "t")
    store.record(session("r1", 0.01))
    (path,) = (tmp_path / "t").glob("*.json")
    return store, path


@pytest.mark.parametrize("value", [0, -0.01, -1e300, 1e300])
def test_a_level_of_nothing_or_less_is_named(stored: tuple[BaselineStore, Path], value: float) -> None:
    store, path = stored
    path.write_text(path.read_text().replace("0.01", json.dumps(value)))
    problems = store.sessions_for(session("r2", 0.01)).problems
    (said,) = problems.values()
    assert "run r1: tpot_s of launch 1 is" in said
    assert str(path) in said


def test_a_run_at_two_times_is_named(stored: tuple[BaselineStore, Path]) -> None:
    store, path = stored
    store.record(session("r3", 0.011, "2026-02-02T03:04:05+00:00"))
    path.write_text(path.read_text().replace('"r3"', '"r1"'))
    (said,) = store.sessions_for(session("r2", 0.01)).problems.values()
    assert "run r1 is there at 2026-01-02" in said


def test_good_baselines_are_no_problem(stored: tuple[BaselineStore, Path]) -> None:
    store, _ = stored
    found = store.sessions_for(session("r2", 0.01))
    assert found.problems == {}
    assert len(found.baselines) == 1


def test_the_doctor_tells_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def looked(url: str) -> list[tuple[str, str]]:
        target = SimpleNamespace(launch=config.AttachLaunch(kind="attach", url=url))
        runtime = SimpleNamespace(target=target, host=SimpleNamespace(is_local=True))
        return [(line.status, line.said) for line in proxies(runtime)]  # type: ignore[arg-type]

    assert looked("http://box:30000") == []
    monkeypatch.setenv("HTTP_PROXY", "http://robot:hunter22@proxy.example:3128")
    ((status, text),) = looked("http://box:30000")
    assert status == "warning"
    assert "reached through it" in text
    assert "hunter22" not in text
    ((status, text),) = looked("http://127.0.0.1:30000")
    assert status == "ok"
    monkeypatch.setenv("NO_PROXY", "box")
    assert looked("http://box:30000")[0][0] == "ok"
