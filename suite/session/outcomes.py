"""How an item can end other than well: what is a failure, and what only calls for another try.

An ``AssertionError`` shows as *failed* in pytest and in Allure: a promise of the server is broken.
Any other exception shows as *broken*: nothing was proven. ``retry`` says that running again may help;
a run whose only faults are of that kind ends with exit status 8 instead of 1.
"""

from __future__ import annotations

EXIT_RETRY = 8
"""Exit status when nothing regressed, but something was inconclusive or invalid."""

EXIT_INFRASTRUCTURE = 9
"""Exit status when what is around the server failed: disk, host, lock."""


class BrokenPromise(AssertionError):
    """The server does not do what it must; the text's first line says what, and by how much."""


class Regression(BrokenPromise):
    """A gated metric is worse than its baseline, beyond margin and doubt."""


class ArmNotInEffect(BrokenPromise):
    """The server runs, but not as the arm asks: to measure it would answer another question."""


class Unproven(Exception):
    """Nothing was proven either way; running again may settle it."""

    retry = True


class Inconclusive(Unproven):
    """The data do not decide between a regression and none."""


class InvalidMeasurement(Unproven):
    """Something made the measurement unfit to be judged: a throttled GPU, early stops, a late client."""


class ArmUnavailable(Exception):
    """An arm that did not come up earlier in this run is not launched again."""


class AnotherBuild(Exception):
    """A run that is taken up again finds another build than it began with."""


class BaselineMissing(Exception):
    """There is no baseline, and ``--require-baseline`` asks for one."""
