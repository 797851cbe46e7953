"""Which items a budget, a target's arms and its known failures make of a scenario."""

import pytest

pytest_plugins = ["pytester"]

CONFIG = """
default_target = "toy"
builtin = false

[arms.mtp-off]
[arms.mtp-on]
flags = { speculative-algorithm = "NEXTN" }
[arms.mtp-depth-1]
[arms.mtp-depth-2]

[budgets.quick]
scenarios = ["decode", "depth", "acceptance"]
concurrencies = [1, 4]
contexts = []
launches = 2

[budgets.small]
scenarios = ["decode"]

[targets.toy]
model = "nowhere"
backends = { moe-runner-backend = ["triton"] }
known = { broken_here = "SGLang 0.0 cannot" }
"""

SCENARIOS = """
import pytest
pytestmark = pytest.mark.perf

@pytest.mark.decode
@pytest.mark.arms("mtp-off", "mtp-on")
def test_decode(arm, launch, concurrency): pass

@pytest.mark.depth
@pytest.mark.once
@pytest.mark.arms("mtp-depth-*")
def test_depth(arm, launch): pass

@pytest.mark.backends
@pytest.mark.arms("*-backend.*")
def test_backend(arm, launch): pass

@pytest.mark.acceptance
@pytest.mark.arms("mtp-on")
def test_by_context(arm, launch, context): pass

@pytest.mark.decode
@pytest.mark.once
@pytest.mark.arms("mtp-elsewhere")
def test_elsewhere(arm, launch): pass

@pytest.mark.decode
@pytest.mark.once
@pytest.mark.arms("mtp-on")
def test_broken_here(arm, launch): assert False
"""


@pytest.fixture
def run(pytester):
    pytester.makefile(".toml", suite=CONFIG)
    pytester.makepyfile(test_it=SCENARIOS)

    def go(*options):
        return pytester.runpytest("-p", "suite.plugin", "-p", "no:cacheprovider", "-m", "perf", *options)

    return go


def _items(result) -> list[str]:
    lines = [line.strip() for line in result.outlines]
    return [
        line.removeprefix("<Function ").removesuffix(">") for line in lines if line.startswith("<Function ")
    ]


def test_items_of_a_budget(run):
    result = run("--collect-only")
    result.stdout.fnmatch_lines(
        ["budget quick leaves out scenarios: 1 backends, 1 acceptance (see --budget)"]
    )
    items = _items(result)
    # arms, sizes and launches, in launch order; what asserts once comes before what is repeated
    assert [item for item in items if item.startswith("test_decode")] == [
        "test_decode[mtp-off-c1-launch1]",
        "test_decode[mtp-off-c4-launch1]",
        "test_decode[mtp-on-c1-launch1]",
        "test_decode[mtp-on-c4-launch1]",
        "test_decode[mtp-on-c1-launch2]",
        "test_decode[mtp-on-c4-launch2]",
        "test_decode[mtp-off-c1-launch2]",
        "test_decode[mtp-off-c4-launch2]",
    ]
    # a star stands for every arm that fits
    depths = [item for item in items if item.startswith("test_depth")]
    assert depths == ["test_depth[mtp-depth-1-launch1]", "test_depth[mtp-depth-2-launch1]"]
    assert not any(item.startswith(("test_by_context", "test_backend")) for item in items)


def test_another_budget_holds_other_kinds(run):
    names = {item.split("[")[0] for item in _items(run("--collect-only", "--budget=small"))}
    assert names == {"test_decode", "test_elsewhere", "test_broken_here"}


def test_an_arm_that_the_target_lacks_is_skipped_with_where_to_write_it(run):
    result = run("-k", "elsewhere", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*target 'toy' has no arm 'mtp-elsewhere'; add ?targets.toy.arms.mtp-elsewhere?*"]
    )


def test_a_known_failure_is_expected_with_its_reason(run):
    result = run("-k", "broken_here", "-rx")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*known: SGLang 0.0 cannot*"])


def test_a_known_failure_that_passes_fails_the_run(run, pytester):
    pytester.makepyfile(test_it=SCENARIOS.replace("assert False", "pass"))
    result = run("-k", "broken_here")
    result.assert_outcomes(failed=1)


def test_a_backend_that_changes_nothing_is_answered_by_the_launch_of_mtp_on(run, pytester):
    flags = 'flags = { moe-runner-backend = "cutlass" }\nbackends = { moe-runner-backend = ["triton", "cutlass"] }'
    config = CONFIG.replace('backends = { moe-runner-backend = ["triton"] }', flags)
    pytester.makefile(".toml", suite=config.replace('["decode"]', '["decode", "backends"]'))
    result = run("--plan", "--budget=small", "--launches=1", "-k", "backend or (decode and on)")
    planned = {line.partition(",")[0].strip() for line in result.outlines if ", ready after" in line}
    assert planned == {"moe-runner-backend.triton", "mtp-on"}
    result.stdout.fnmatch_lines(["2 launches, *"])
