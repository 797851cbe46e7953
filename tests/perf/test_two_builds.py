"""`--reference` and `--candidate` from the command line to the answer: killed and taken up again, and as a duet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.session import journal
from suite.session.entries import Complete, Launching, Note, Ready, RoundDone
from suite.session.fold import told
from suite.session.plan import BUILDS, LaunchId
from tests.perf.running import Ran, config, perf, start
from tests.perf.test_killed import await_rounds, folder_of, judge, kill, must_be_gone

TWICE_AS_SLOW = 'builds = { same = {}, slower = { flags = { fault = "slow-decode=0.5" } } }'
"""So slow that no neighbour on this machine hides it."""
ASKED = ("--budget=quick", "--rounds=2", "-k", "decode")


def words_of(ran: Ran) -> str:
    (path,) = ran.results.glob("*/verdicts.json")
    sentence: str = json.loads(path.read_text())["sentence"]
    return sentence


def test_a_killed_comparison_goes_on_and_is_judged_alike_from_its_files(tmp_path: Path) -> None:
    options = ("--reference=same", "--candidate=slower", "--launches=2", *ASKED)
    running = start(tmp_path, config(tmp_path, more=TWICE_AS_SLOW), *options)
    await_rounds(tmp_path, running, 3)
    kill(running)
    must_be_gone(tmp_path)
    run = folder_of(tmp_path)
    before = journal.read(run / journal.NAME)
    done = told(before.entries).complete

    ran = perf(tmp_path, "-m", "perf", f"--resume={run}")
    assert ran.code == 1, ran.out
    assert words_of(ran).startswith("NO-GO for slower in place of same: ")
    after = journal.read(run / journal.NAME)
    anew = after.entries[len(before.entries) :]
    assert not {LaunchId(e.arm, e.number, e.build) for e in anew if isinstance(e, Launching)} & done
    complete = {LaunchId(e.arm, e.number, e.build) for e in after.entries if isinstance(e, Complete)}
    assert {LaunchId(arm, 1, build) for arm in ("mtp-off", "mtp-on") for build in BUILDS} <= complete
    launched = [e for e in after.entries if isinstance(e, Launching) and e.number == 1]
    assert [e.build for e in launched if e.arm == "mtp-on"][-2:] == list(BUILDS)
    # once a no-go is certain nothing more is launched: a second pair would tell nothing new
    assert not [e for e in after.entries if isinstance(e, Launching) and e.number == 2]

    offline = judge(tmp_path, run)
    assert offline.returncode == 1, offline.stdout
    assert words_of(ran) in offline.stdout


def test_a_duet_sends_each_round_to_both_in_turn_and_needs_one_launch_of_each(tmp_path: Path) -> None:
    options = ("--reference=same", "--candidate=slower", "--launches=1", "--duet", *ASKED, "--rounds=3")
    options += ("--concurrency=1,2",)
    ran = perf(tmp_path, config(tmp_path, more=TWICE_AS_SLOW), *options)
    assert ran.code == 1, ran.out
    assert "NO-GO for slower in place of same" in words_of(ran)
    entries = journal.read(folder_of(tmp_path) / journal.NAME).entries
    builds = {e.launch: e.build for e in entries if isinstance(e, Launching)}
    for arm in ("mtp-off", "mtp-on"):
        rounds = [builds[e.launch] for e in entries if isinstance(e, RoundDone) and e.arm == arm]
        # the order is reversed in every round, and the next workload begins with the other build
        assert "".join(build[0] for build in rounds) == "rccrrc" + "crrccr"


@pytest.mark.parametrize("duet", [(), ("--duet",)])
def test_an_arm_that_one_build_refuses_is_found_before_the_first_launch_and_stops_nothing_else(
    tmp_path: Path, duet: tuple[str, ...]
) -> None:
    refusing = 'builds = { same = {}, old = { flags = { fault = "removed-flag=--speculative-algorithm" } } }'
    options = ("--reference=same", "--candidate=old", "--launches=1", *ASKED, *duet)
    ran = perf(tmp_path, config(tmp_path, more=refusing), *options)
    assert ran.code == 1, ran.out
    assert "mtp-on does not start" in words_of(ran)
    entries = journal.read(folder_of(tmp_path) / journal.NAME).entries
    found = next(i for i, e in enumerate(entries) if isinstance(e, Note) and e.kind == "build")
    assert str(entries[found].text).startswith("candidate: arm mtp-on: ")  # type: ignore[union-attr]
    assert found < next(i for i, e in enumerate(entries) if isinstance(e, Launching))
    ready = {e.launch for e in entries if isinstance(e, Ready)}
    launched = {(e.build, e.arm) for e in entries if isinstance(e, Launching) and e.launch in ready}
    assert {("reference", "mtp-off"), ("candidate", "mtp-off"), ("reference", "mtp-on")} <= launched
    assert ("candidate", "mtp-on") not in launched


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--reference=same",), "name the other with --candidate"),
        (("--reference=same", "--candidate=nobody"), "no build"),
        (("--reference=same", "--candidate=slowr"), "did you mean 'slower'"),
        (("--duet",), "--duet needs --reference"),
        (("--reference=same", "--candidate=slower", "--record-baseline"), "--record-baseline does not go"),
    ],
)
def test_what_is_no_comparison_is_said_before_anything_is_launched(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    ran = perf(tmp_path, config(tmp_path, more=TWICE_AS_SLOW), "--budget=quick", *options)
    assert ran.code == 4, ran.out
    assert said in ran.out
    assert not list(ran.results.glob("*/journal.jsonl"))
