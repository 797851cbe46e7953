"""A server that runs already is measured as what it is: one arm, one sentence, judged against that arm's baselines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.perf.running import MODEL, ROOT, TARGET, config, perf
from tests.simulator.process import serving

ON = ("--speculative-algorithm", "NEXTN")
MORE = "gate = { metrics = { output_tokens_per_s = { margin = 0.5 }, tpot_s = { margin = 0.5 }, acceptance_length = { margin = 0.5 } } }"


def test_what_runs_is_one_arm_judged_against_its_own_baselines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sesame-open")
    options = ["--model-path", MODEL, "--enable-metrics", "--api-key", "sesame-open", *ON]
    with serving(tmp_path / "log", *options) as server:
        url = f"http://127.0.0.1:{server.port}"
        given = [config(tmp_path, more=MORE), f"--server-url={url}", "--rounds=2", "-k", "decode"]
        refused = perf(tmp_path / "refused", *given)
        assert refused.code == 9, refused.out
        assert "another API key" in refused.out
        first = perf(tmp_path, *given, "--api-key-env=THE_KEY", "--record-baseline")
        assert first.code in (0, 8), first.out
    assert "sesame-open" not in first.out
    told = " ".join(first.out.split())
    assert f"{url}: SGLang" in told
    assert "EAGLE, 3 steps, topk 1, 4 draft tokens: measured as arm mtp-on of target here" in told
    assert {series["arm"] for series in first.run["session"]["series"]} == {"mtp-on"}


def test_what_cannot_be_asked_is_one_sentence_and_no_skips(tmp_path: Path) -> None:
    with serving(tmp_path / "log", "--model-path", MODEL) as server:
        url = f"http://127.0.0.1:{server.port}"
        ran = perf(tmp_path, f"--server-url={url}", "-k", "activation or speedup or lossless")
    assert ran.code == 0, ran.out
    told = " ".join(ran.out.split())
    assert (
        "speculation off: measured as arm mtp-off of target simulator; not possible on one running server:"
        in told
    )
    assert re.search(r"lossless, speedup \(needs both arms\)", told)
    assert "skipped" not in ran.out


def test_a_server_of_another_model_has_a_target_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(TARGET.format(model="/models/Another-1B", ready_s=30.0, more="", root=ROOT))
    with serving(tmp_path / "log", "--model-path", MODEL) as server:
        url = f"http://127.0.0.1:{server.port}"
        plan = perf(tmp_path, f"--suite-config={path}", f"--server-url={url}", "--plan")
        named = perf(tmp_path, f"--suite-config={path}", f"--server-url={url}", "--plan", "--target=here")
    assert plan.code == 0, plan.out
    assert "measured as arm mtp-off of target qwen3-5-397b-a17b-nvfp4" in " ".join(plan.out.split())
    assert "of target here" in " ".join(named.out.split())


def test_an_arm_that_was_not_asked_for_and_is_on_breaks_the_promise_of_being_off(tmp_path: Path) -> None:
    with serving(tmp_path / "log", "--model-path", MODEL, "--fault", "mtp-auto-on") as server:
        url = f"http://127.0.0.1:{server.port}"
        ran = perf(tmp_path, f"--server-url={url}", "-k", "activation")
    assert ran.code == 1, ran.out
    assert "measured as arm mtp-off" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--api-key-env=KEY"], "--api-key-env needs --server-url"),
        (["--api-key-env="], "--api-key-env was given an empty value"),
    ],
)
def test_a_key_without_a_server(tmp_path: Path, options: list[str], said: str) -> None:
    ran = perf(tmp_path, config(tmp_path), *options)
    assert ran.code == 4, ran.out
    assert said in ran.out
