"""``--help`` of every command and of pytest's group: each option says what it takes, what it does, and its default."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from suite.__main__ import main
from suite.cli.commands import parser


def every(whole: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """A parser with its subcommands, and theirs."""
    yield name, whole
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, one in action.choices.items():
                yield from every(one, f"{name} {word}".strip())


COMMANDS = {name: one for name, one in every(parser()) if name not in ("", "perf")}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does_and_what_it_takes(name: str) -> None:
    command = COMMANDS[name]
    assert command.description
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction) or action.help is argparse.SUPPRESS:
            continue
        assert action.help, action.dest
        assert not action.help.endswith("."), action.dest
        placeholder = action.metavar or action.choices or action.nargs == 0
        assert placeholder, f"{action.dest} shows the name of a variable"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_default_is_told(name: str) -> None:
    silent = [
        action.option_strings[0]
        for action in COMMANDS[name]._actions
        if action.option_strings and action.nargs != 0 and action.help is not argparse.SUPPRESS
        if action.default not in (None, [], {}, "") and "default:" not in str(action.help)
    ]
    assert silent == []


def test_the_suites_options_of_pytest_say_what_they_take(pytestconfig: pytest.Config) -> None:
    (group,) = [g for g in pytestconfig._parser._groups if g.name == "perf"]
    assert len(group.options) > 20
    for option in group.options:
        attributes = option.attrs()
        assert attributes.get("help"), option.names()
        assert attributes.get("metavar") or attributes.get("nargs") == 0, option.names()


def test_a_misspelt_command_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["docter"])
    assert ended.value.code == 2
    assert "no command 'docter'; did you mean 'doctor'?" in capsys.readouterr().err


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "find the build that brought a regression" in " ".join(capsys.readouterr().err.split())
