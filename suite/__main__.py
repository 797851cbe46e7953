"""``python -m suite``: the commands beside ``pytest -m perf``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from suite import redact
from suite.cli import perf
from suite.foreign import printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 2 for bad input, otherwise the command's own."""
    redact.learn_from(os.environ)
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [perf.NAME]:
        perf.run(words[1:])
    try:
        from suite.cli import commands  # more than a second of imports, which perf becomes pytest without
    except KeyboardInterrupt:
        return 130
    known = commands.parser()
    if not words:
        known.print_help(sys.stderr)
        return 2
    arguments = known.parse_args(words)
    command: Callable[[argparse.Namespace], int] = arguments.func
    try:
        return command(arguments)
    except commands.EXPECTED as error:
        print(f"error: {printable(redact.scrub(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
