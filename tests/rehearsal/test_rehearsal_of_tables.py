"""The tables of flags and settings by version, against what genuine releases answered: recorded, not remembered."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from packaging.version import Version

from suite import config
from suite.rehearsal import recorded
from suite.rehearsal.answers import Rehearsal
from suite.sglang import speculation_sources
from suite.sglang.flags import ALIASES, HISTORY, canonical, history_of
from suite.sglang.names import SETTING_OF_FLAG, SETTING_RENAMES, other_names, setting_of

ROOT = Path(__file__).resolve().parents[2]
RELEASES: dict[Version, Rehearsal] = {
    version: recorded.read(path)
    for version, path in recorded.of_target(ROOT / recorded.FOLDER, "blackwell").items()
}
NEWEST = RELEASES[max(RELEASES)]
SETTINGS = {
    version: {name.partition(".")[0] for answer in rehearsal.arms.values() for name in answer.settings}
    for version, rehearsal in RELEASES.items()
}
NO_SYNONYMS = {
    "enable-amd-monokernel",  # a switch, beside a choice
    "grpc-http-sidecar-port",  # the only name in 0.5.12
    "hierarchical-sparse-attention-extra-config",  # the only name in 0.5.9
}
"""Flags that set what another sets, and still cannot be written for each other."""


def test_the_releases_of_the_issue_are_recorded() -> None:
    wanted = {Version(f"0.5.{number}") for number in range(16, 24)}
    assert wanted <= set(RELEASES)
    assert {rehearsal.build for rehearsal in RELEASES.values()} == set(map(str, RELEASES))


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_a_recorded_release_was_rehearsed_whole_for_the_arms_there_are(version: Version) -> None:
    found = RELEASES[version]
    target = config.load(ROOT / "suite.toml").target("blackwell")
    assert set(found.arms) == set(target.arms), "arms changed: tox run -e rehearse -- --build RELEASE"
    assert [arm for arm, answer in found.arms.items() if answer.word not in ("resolved", "refused")] == []
    assert [
        arm for arm, answer in found.arms.items() if answer.word == "resolved" and not answer.as_meant
    ] == []
    assert found.cards is not None
    assert str(found.cards).startswith("8 x NVIDIA RTX PRO 6000 Blackwell Server Edition, sm 12.0, 97887 MiB")


@pytest.mark.parametrize(("before", "after"), list(pairwise(RELEASES)), ids=str)
def test_every_flag_that_a_release_lost_is_told(before: Version, after: Version) -> None:
    gone = set(RELEASES[before].flags) - set(RELEASES[after].flags)
    assert [flag for flag in sorted(gone) if history_of(flag, str(after)) is None] == []


@pytest.mark.parametrize("entry", HISTORY, ids=lambda entry: f"{entry.name}-{entry.since}")
def test_what_is_told_of_a_flag_is_so(entry: object) -> None:
    assert entry in HISTORY
    name, since, what, now = (getattr(entry, part) for part in ("name", "since", "what", "now"))
    earlier = [version for version in RELEASES if version < Version(since)]
    later = [version for version in RELEASES if version >= Version(since)]
    has = {version: name in RELEASES[version].flags for version in RELEASES}
    if what == "removed":
        assert not any(has[version] for version in later)
        assert not earlier or has[earlier[-1]]
    elif what.startswith("new"):
        assert all(has[version] for version in later)
        assert not any(has[version] for version in earlier)
    if now and later:
        assert now.partition("=")[0] in RELEASES[later[0]].flags


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_a_second_name_of_a_flag_sets_the_same_and_the_first_is_there_too(version: Version) -> None:
    flags = RELEASES[version].flags
    for alias, first in ALIASES.items():
        if alias in flags:
            assert flags.get(first) == flags[alias], alias


def test_flags_that_set_the_same_wherever_there_are_both_are_one_flag_to_this_suite() -> None:
    by_setting: dict[str, set[str]] = {}
    for flag, setting in NEWEST.flags.items():
        if not flag.startswith("no-"):
            by_setting.setdefault(setting, set()).add(flag)
    for flags in by_setting.values():
        always = {
            flag
            for flag in flags - NO_SYNONYMS
            if all(
                (flag in found.flags) == any(other in found.flags for other in flags)
                for found in RELEASES.values()
            )
        }
        assert len({canonical(flag) for flag in always}) <= 1, always


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_the_setting_of_a_flag_is_the_parsers_own(version: Version) -> None:
    found = RELEASES[version]
    for flag, setting in found.flags.items():
        if setting not in SETTINGS[version]:
            continue  # the parser's own word, which no server reports
        if flag.startswith("no-") or history_of(flag, str(max(RELEASES))):
            continue
        told = setting_of(canonical(flag))
        assert setting in (told, *other_names(told)), flag


def test_flags_whose_setting_is_told_apart_do_set_it() -> None:
    for flag, setting in SETTING_OF_FLAG.items():
        known = [found.flags[flag] for found in RELEASES.values() if flag in found.flags]
        assert known, f"no recorded release has --{flag}"
        assert set(known) <= {setting, *other_names(setting)}


@pytest.mark.parametrize(("old", "new"), SETTING_RENAMES.items())
def test_a_renamed_setting_is_where_it_is_said_to_be(old: str, new: str) -> None:
    assert any(new.partition(".")[0] in settings for settings in SETTINGS.values())
    assert new.partition(".")[0] in SETTINGS[max(RELEASES)]


@pytest.mark.parametrize("version", RELEASES, ids=str)
def test_the_shortest_beginning_that_asks_for_speculation_is_no_other_flags(version: Version) -> None:
    """As argparse has it: a beginning is taken while just one flag begins so."""
    switch = speculation_sources.SWITCH
    for length in range(1, len(switch) + 1):
        begin = switch[:length]
        only = [flag for flag in RELEASES[version].flags if flag.startswith(begin)] == [switch]
        from suite.sglang.flags import Flags

        asks = speculation_sources.asked_by(Flags({begin: "NEXTN"})) is not None
        assert only or not asks or version < Version("0.5.23"), begin
        assert not only or asks, begin


def test_a_refused_arm_of_the_box_is_refused_by_name() -> None:
    """What the page on rehearsals says of the arms that some release refuses."""
    refused = {
        arm: [str(version) for version, found in RELEASES.items() if found.arms[arm].word == "refused"]
        for arm in NEWEST.arms
    }
    refused = {arm: releases for arm, releases in refused.items() if releases}
    page = (ROOT / "docs/rehearsal.md").read_text("utf-8")
    for arm, releases in refused.items():
        for release in releases:
            reason = (
                RELEASES[Version(release)].arms[arm].reason.partition(": ")[2]
                or RELEASES[Version(release)].arms[arm].reason
            )
            rows = [
                line
                for line in page.splitlines()
                if f"`{arm}`" in line and reason[:60].replace("|", "/") in line
            ]
            assert rows, f"docs/rehearsal.md does not tell that {release} refuses {arm}: {reason}"
