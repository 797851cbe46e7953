"""The report of a run: a table by file, then every mutant that no test killed, with why where it is equivalent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from proofs.mutants.playing import End

MOST_SURVIVE = 0.15
"""Of the mutants of a place: equivalent ones count among those that survive."""

HEAD = """\
# Mutants of the verdict's core

Written by `tox run -e mutants`. A mutant is the code with one small change: a comparison turned round, a number one
larger, an `and` that was an `or`. It is killed if a test of its place fails; by time-out, if the tests no longer end. One
that no test can tell from the code is equivalent: `explained.toml` says why, and it counts as not killed all the same.

| file | mutants | killed | of these by time-out | equivalent | survived | not killed |
|---|---|---|---|---|---|---|
"""


class Result(NamedTuple):
    """What became of one mutant, and the test that killed it."""

    key: str
    line: int
    before: str
    after: str
    end: str
    by: str


Files = Mapping[str, Sequence[Result]]


def unkilled(results: Sequence[Result]) -> int:
    """How many no test killed."""
    return sum(result.end == End.SURVIVED for result in results)


def report(places: Mapping[str, Files], explained: Mapping[str, str]) -> str:
    """The whole report in Markdown; ``places`` are the results by place and file."""
    lines = [_row(name, results, explained) for name, results in _rows(places)]
    for path, results in ((path, results) for files in places.values() for path, results in files.items()):
        left = [result for result in results if result.end == End.SURVIVED]
        late = [result for result in results if result.end == End.SLOW]
        if left or late:
            lines += ["", f"## {path}", ""]
        lines += [f"- {_told(r)}: {explained.get(r.key, '**survived**')}" for r in left]
        lines += [f"- {_told(r)}: killed by time-out" for r in late]
    stale = sorted(set(explained) - {r.key for _, rs in _rows(places) for r in rs if r.end == End.SURVIVED})
    if stale:
        lines += ["", "## Explained, but killed or gone", "", *(f"- `{key}`" for key in stale)]
    return HEAD + "\n".join([*lines, ""])


def _rows(places: Mapping[str, Files]) -> Iterator[tuple[str, Sequence[Result]]]:
    """Each file, and each place of several files as a whole."""
    for name, files in places.items():
        yield from files.items()
        if len(files) > 1:
            yield f"**{name}**", [result for results in files.values() for result in results]


def _row(name: str, results: Sequence[Result], explained: Mapping[str, str]) -> str:
    left = unkilled(results)
    equivalent = sum(result.end == End.SURVIVED and result.key in explained for result in results)
    late = sum(result.end == End.SLOW for result in results)
    share = 100 * left / len(results) if results else 0.0
    cells = (name, len(results), len(results) - left, late, equivalent, left - equivalent, f"{share:.1f} %")
    return f"| {' | '.join(map(str, cells))} |"


def _told(result: Result) -> str:
    return f"line {result.line} `{result.before}` -> `{result.after}`"
