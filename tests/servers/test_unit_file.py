"""Unit files are read as systemd reads them: examples of its manual pages, and any words there and back."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.servers import unit_file

any_text = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # systemd.syntax(7), systemd.service(5)
        ("/bin/echo one two", ["/bin/echo", "one", "two"]),
        ('"/bin/echo" \'a b\' "c d"', ["/bin/echo", "a b", "c d"]),
        (r'"a \"b\" c" d\x20e \101', ['a "b" c', "d e", "A"]),
        (r"a\sb \u00e9 tab\tend", ["a b", "é", "tab\tend"]),
        ('--flag="two words" x', ["--flag=two words", "x"]),
        (r"\q stays", [r"\q", "stays"]),
        ('""', [""]),
        ("", []),
    ],
)
def test_words_quotes_and_escapes(text: str, words: list[str]) -> None:
    assert unit_file.split(text) == words


@pytest.mark.parametrize("text", ['"open', "a 'b", "'"])
def test_an_open_quote_is_refused(text: str) -> None:
    with pytest.raises(unit_file.UnitSyntaxError):
        unit_file.split(text)


def quote(word: str) -> str:
    """A word for an ``ExecStart`` line, such that systemd reads it back unchanged."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    escaped = escaped.replace("\t", "\\t").replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


@given(st.lists(any_text.filter(lambda text: text.isprintable() or text in ("\n", "\t")), max_size=6))
def test_what_is_quoted_is_read_back(words: list[str]) -> None:
    line = " ".join(map(quote, words))
    assert "\n" not in line
    read = unit_file.split(line)
    read = [unit_file.specifiers(word, lambda letter: f"<{letter}>") for word in read]
    assert unit_file.expand(read, {}) == words


@given(any_text)
def test_any_text_is_read_or_refused(text: str) -> None:
    unit_file.assignments(text, "Service")
    unit_file.environment_file(text)
    with contextlib.suppress(unit_file.UnitSyntaxError):
        unit_file.split(text)


def test_a_unit_with_drop_ins_continuations_and_comments() -> None:
    text = """
# /etc/systemd/system/sglang.service
[Unit]
ExecStart=not this one
[Service]
ExecStart=/usr/bin/python3 -m sglang.launch_server \\
  # a comment between the lines is skipped
  --model-path /old \\
; so is this
  --port 1
Environment=A=1
Environment="B=two words" C=3

# /etc/systemd/system/sglang.service.d/override.conf
[Service]
ExecStart=
ExecStart=/opt/python -m sglang.launch_server --model-path /new
Environment=A=9
"""
    found = unit_file.assignments(text, "Service")
    assert found["ExecStart"] == ["/opt/python -m sglang.launch_server --model-path /new"]
    assert found["Environment"] == ["A=1", '"B=two words" C=3', "A=9"]
    first = unit_file.assignments(text.partition("# /etc/systemd/system/sglang.service.d")[0], "Service")
    assert unit_file.split(first["ExecStart"][0])[3:] == ["--model-path", "/old", "--port", "1"]


def test_variables_of_commands() -> None:
    variables = {"ONE": "one", "TWO": "two 'three four'", "EMPTY": ""}
    words = ["${ONE}x", "$TWO", "${TWO}", "$EMPTY", "${EMPTY}", "$$ONE", "a$ONE", "${NONE}"]
    assert unit_file.expand(words, variables) == [
        "onex", "two", "three four", "two 'three four'", "", "$ONE", "a$ONE", "",
    ]  # fmt: skip


def test_environment_files() -> None:
    text = "# no\n; no\nA=1\nB=\"two \\\"words\\\"\"\nC='$raw \\n'\n D = spaced out \nE=a\\\nb\nnot an assignment\nF=x'y'z\n"
    assert unit_file.environment_file(text) == {
        "A": "1", "B": 'two "words"', "C": "$raw \\n", "D": "spaced out", "E": "ab", "F": "x'y'z",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_itself_accepts_what_is_quoted(tmp_path: Path) -> None:
    words = ["/bin/echo", "a b", "it's", '"quoted"', "$(x)", "100%", "back\\slash", "é", "two\nlines", ""]
    unit = tmp_path / "quoted.service"
    unit.write_text(f"[Service]\nExecStart={' '.join(map(quote, words))}\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    if "bus" in done.stderr.lower() and done.returncode:
        pytest.skip("systemd-analyze needs a running systemd here")
    assert (done.returncode, done.stderr) == (0, "")
