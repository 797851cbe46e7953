"""The registry of metrics is the only list there is: the documentation, the gate and the markers are held to it."""

import re
from pathlib import Path

import pytest

from suite.gate import GateError, Rules
from suite.metrics import METRICS
from suite.metrics.registry import near

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[1] / "docs" / "metrics.md"

CONFIG = """
default_target = "toy"
builtin = false
[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[budgets.quick]
scenarios = ["decode"]
[targets.toy]
model = "nowhere"
"""

SCENARIO = """
import pytest
@pytest.mark.perf
@pytest.mark.decode
@pytest.mark.arms("mtp-off", "mtp-on")
{markers}
def test_decode(arm, launch): pass
"""


def test_the_documentation_lists_what_the_registry_holds() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \| (\S+) \| (.+?) \|$", DOCS.read_text(), re.MULTILINE)
    told = {name: (unit, formula, better, judged) for name, unit, formula, better, judged in rows}
    held = {
        m.name: (
            m.unit,
            m.formula,
            "-" if m.better == "neutral" else m.better,
            f"beyond {100 * m.margin:g} %" if m.gated else "-",
        )
        for m in METRICS.values()
    }
    assert told == held


def test_what_is_judged_is_kept_of_each_round_and_tails_have_the_margin_that_the_gates_page_states() -> None:
    assert all(metric.stored for metric in METRICS.values() if metric.gated)
    told = re.search(r"their margin is (\d+) %", (DOCS.parent / "gate.md").read_text())
    assert told is not None
    assert {metric.margin for metric in METRICS.values() if metric.kind == "tail"} == {int(told[1]) / 100}


def test_an_unknown_name_is_answered_with_the_three_nearest_or_with_all() -> None:
    assert near("TOKENS").count("'") == 6
    assert near("tpot") == "did you mean 'tpot_s'?"
    assert near("tptt_s").count("'") == 6
    for far in ("zzz", ""):
        assert near(far) == f"known: {', '.join(METRICS)}"


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ({"tpot": {"margin": 0.05}}, r"\[gate.metrics.tpot\]: no metric 'tpot'; did you mean 'tpot_s'"),
        ({"speedup": {"margin": 0.05}}, r"did you mean 'mtp_speedup'"),
        ({"zzz": {"margin": 0.05}}, r"known: output_tokens_per_s, "),
        ({"tokens_per_chunk": {"gated": True}}, "neither good nor bad"),
    ],
)
def test_the_gate_refuses_what_is_no_metric(metrics: dict[str, dict[str, object]], says: str) -> None:
    with pytest.raises(GateError, match=says):
        Rules(metrics=metrics)
    with pytest.raises(GateError, match=says.replace("gate.metrics", "gate.arms.mtp-on")):
        Rules(arms={"mtp-on": metrics})


@pytest.mark.parametrize(
    ("markers", "says"),
    [
        ('@pytest.mark.judges("tpot")', "*test_decode: @pytest.mark.judges: no metric 'tpot'; *'tpot_s'*"),
        ('@pytest.mark.judges("ttft_s", "TPOT_S")', "*@pytest.mark.judges: no metric 'TPOT_S'*"),
        ('@pytest.mark.judges("tokens_per_chunk")', "*'tokens_per_chunk' is never judged*"),
        ("@pytest.mark.judges()", "*@pytest.mark.judges: it names no metric*"),
        (
            '@pytest.mark.judges("mtp_speedup")\n@pytest.mark.ratio("tokens_per_s", "mtp-on", "mtp-off")',
            "*@pytest.mark.ratio: no metric 'tokens_per_s'; *'output_tokens_per_s'*",
        ),
        (
            '@pytest.mark.judges("tpot_s")\n'
            '@pytest.mark.claims(metric="acceptance", floor="acceptance_floor", otherwise="dead")',
            "*@pytest.mark.claims: no metric 'acceptance'; *'acceptance_length'*",
        ),
        (
            '@pytest.mark.judges("tpot_s")\n'
            '@pytest.mark.claims(metric="acceptance_length", floor="acceptance_floor", otherwise="dead")',
            "*@pytest.mark.claims: 'acceptance_length' is not judged here*",
        ),
        (
            '@pytest.mark.judges("tpot_s")\n'
            '@pytest.mark.claims(metric="tpot_s", floor="tpot_floor", otherwise="slow")',
            "*@pytest.mark.claims: a target has no floor 'tpot_floor'*",
        ),
    ],
)
def test_a_marker_that_would_judge_nothing_ends_the_collection(
    pytester: pytest.Pytester, markers: str, says: str
) -> None:
    pytester.makefile(".toml", suite=CONFIG)
    pytester.makepyfile(SCENARIO.format(markers=markers))
    result = pytester.runpytest("-p", "suite.plugin", "-m", "perf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])


def test_a_table_of_the_gate_is_checked_before_anything_is_launched(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", suite=CONFIG + "gate.metrics.tpot = { margin = 0.05 }\n")
    pytester.makepyfile(SCENARIO.format(markers='@pytest.mark.judges("tpot_s")'))
    result = pytester.runpytest("-p", "suite.plugin", "--collect-only")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no metric 'tpot'; did you mean 'tpot_s'*"])
