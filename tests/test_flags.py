"""SGLang command lines as data."""

import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.sglang.flags import HISTORY, Flags, canonical, history_of, parse_argv, parse_change, translated

names = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).map(canonical)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
values = st.one_of(
    st.just(True), texts, st.lists(texts.filter(lambda t: not t.startswith("-")), min_size=2).map(tuple)
)
command_lines = st.dictionaries(names, values, max_size=6).map(Flags)


@given(command_lines)
def test_a_command_line_is_read_back_as_it_was_written(flags):
    again = parse_argv(flags.argv())
    assert again == flags
    assert list(again) == list(flags)


@given(command_lines, command_lines)
def test_merging_keeps_what_is_not_changed_and_takes_what_is(base, changes):
    merged = base.merge(changes)
    assert set(merged) == set(base) | set(changes)
    for name in merged:
        assert merged[name] == (changes[name] if name in changes else base[name])
    assert merged.merge(changes) == merged


@given(command_lines, names)
def test_false_removes_a_flag_whatever_way_it_is_written(base, name):
    underscored = base.merge({name: "x"}).merge({f"--{name.replace('-', '_')}": False})
    assert name not in underscored
    assert underscored == base.merge({name: None})


@settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(command_lines, command_lines, command_lines)
def test_merging_is_associative(a, b, c):
    assert a.merge(b).merge(c) == a.merge(b.merge(c))


def test_second_names_of_a_flag_are_one_flag():
    flags = Flags({"tensor-parallel-size": 4}).merge({"tp": 8})
    assert flags.argv() == ["--tp-size", "8"]
    assert flags["tp_size"] == 8


def test_a_value_that_starts_with_a_dash_stays_a_value():
    words = Flags({"chat-template": "--surprise"}).argv()
    assert words == ["--chat-template=--surprise"]


def test_secrets_are_masked_where_people_look_and_whole_where_the_server_looks():
    flags = Flags({"api-key": "sk-very-secret", "tp-size": 2})
    assert "sk-very-secret" in flags.argv()
    assert "sk-very-secret" not in " ".join(flags.shown())
    assert "sk-very-secret" not in repr(flags)
    assert flags.secrets() == ("sk-very-secret",)


def test_words_before_the_first_flag_are_refused_by_name():
    with pytest.raises(ValueError, match=r"'serve' stands before"):
        parse_argv(["serve", "--tp", "2"])


@given(names)
def test_every_word_stands_alone_without_a_shell(name):
    flags = Flags({name: "a b; rm -rf $(x) 'q'"})
    assert shlex.split(shlex.join(flags.argv())) == flags.argv()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fault=slow-decode=0.2", ("fault", "slow-decode=0.2")),
        ("--disable-radix-cache", ("disable-radix-cache", True)),
        ("no:disable_radix_cache", ("disable-radix-cache", False)),
        ("tp=4", ("tp-size", "4")),
    ],
)
def test_changes_on_this_suites_command_line(text, expected):
    assert parse_change(text) == expected


def test_a_change_without_a_name_is_refused():
    with pytest.raises(ValueError, match="names no flag"):
        parse_change("=3")


def test_the_history_of_a_removed_flag_names_what_to_write_instead():
    assert "mamba-radix-cache-strategy" in (history_of("--mamba-scheduler-strategy", "0.5.23") or "")
    assert history_of("--mamba-scheduler-strategy", "0.5.9") is None
    assert "0.5.14" in (history_of("--mamba-radix-cache-strategy", "0.5.9") or "")
    assert history_of("--tp-size") is None


def test_of_a_build_without_a_release_no_history_is_told():
    assert history_of("--mamba-radix-cache-strategy", "0.0.0.dev1+gd91c3682b") is None
    assert history_of("--mamba-scheduler-strategy", "unknown") is None


def test_a_renamed_flag_is_written_as_the_release_calls_it_and_the_rest_is_left():
    given = {"mamba_scheduler_strategy": "extra_buffer", "tp": 8, "cuda-graph-max-bs": 16}
    old, said = translated(given, "0.5.9")
    assert (old, said) == (given, [])
    new, said = translated(given, "0.5.23")
    assert new == {"mamba-radix-cache-strategy": "extra_buffer", "tp": 8, "cuda-graph-max-bs-decode": 16}
    assert said == [
        "--mamba-scheduler-strategy is --mamba-radix-cache-strategy in SGLang 0.5.23",
        "--cuda-graph-max-bs is --cuda-graph-max-bs-decode in SGLang 0.5.23",
    ]


def test_a_flag_that_is_too_new_is_written_as_the_older_release_calls_it():
    assert translated({"cuda-graph-max-bs-decode": 16}, "0.5.12")[0] == {"cuda-graph-max-bs": 16}


def test_a_switch_that_became_a_value_is_written_with_it_and_a_removal_stays_one():
    assert translated({"enable-breakable-cuda-graph": True}, "0.5.23")[0] == {
        "cuda-graph-backend-prefill": "breakable"
    }
    assert translated({"enable-breakable-cuda-graph": False}, "0.5.23")[0] == {
        "cuda-graph-backend-prefill": False
    }


def test_what_is_simply_gone_or_of_an_unknown_build_stays_as_it_is():
    gone = {"torchao-config": "int4", "stream-output": True}
    assert translated(gone, "0.5.23")[0] == {"torchao-config": "int4", "incremental-streaming-output": True}
    assert translated(gone, "unknown") == (gone, [])


@given(
    st.sampled_from([e.name for e in HISTORY]),
    st.sampled_from(["0.5.9", "0.5.14", "0.5.19", "0.5.20", "0.5.23"]),
)
def test_what_is_translated_is_known_to_that_release(name, version):
    now, _ = translated({name: True}, version)
    assert translated(now, version)[0] == now
