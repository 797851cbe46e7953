"""What the gate must hold, each as a line with the figure that was measured, its bound, and whether it held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from proofs.calibrate.histories import HistoryFigures
from proofs.calibrate.measure import Figures, Task

F = TypeVar("F")
Results = Mapping[str, tuple[Task, Mapping[str, Figures]]]


@dataclass(frozen=True)
class Claim:
    """`text`: what must hold; `measured`: the figures in words; `held`: whether they do."""

    text: str
    measured: str
    held: bool


def _ours(results: Results, prefix: str) -> dict[str, Figures]:
    return {name: figures["ours"] for name, (_, figures) in results.items() if name.startswith(prefix)}


def _extreme(
    found: Mapping[str, Figures], value: Callable[[Figures], float], *, low: bool
) -> tuple[float, str]:
    """The worst figure and where: the lowest if `low`, else the highest."""
    pick = min if low else max
    name = pick(found, key=lambda n: value(found[n]))
    return value(found[name]), name


def at_least(
    text: str, found: Mapping[str, Figures], value: Callable[[Figures], float], bound: float
) -> Claim:
    """The lowest figure must reach the bound."""
    worst, where = _extreme(found, value, low=True)
    return Claim(f"{text}: >= {bound:g} %", f"lowest {worst:.1f} % ({where})", worst >= bound)


def at_most(
    text: str, found: Mapping[str, Figures], value: Callable[[Figures], float], bound: float
) -> Claim:
    """The highest figure must not pass the bound."""
    worst, where = _extreme(found, value, low=False)
    return Claim(f"{text}: <= {bound:g} %", f"highest {worst:.2f} % ({where})", worst <= bound)


def _found(effect: float) -> Callable[[Figures], float]:
    return lambda f: f.found[effect]


def gate_claims(results: Results, quick: bool) -> list[Claim]:
    """All lines about a run against its baseline. With few campaigns the tolerances are wider."""
    slack = 1.5 if quick else 0.0
    return [
        *_false_alarms(results, slack),
        *_detection(results, 4.0 * slack / 1.5),
        *_one_session(results, 4.0 * slack / 1.5),
        *_printed(results, 4.0 * slack / 1.5),
        *_passing(results, 4.0 * slack / 1.5),
        *_other_shapes(results, slack),
    ]


def _false_alarms(results: Results, slack: float) -> list[Claim]:
    claims = []
    for sessions, launches in ((5, 3), (3, 3), (1, 3), (5, 1), (1, 1)):
        found = _ours(results, f"grid S{sessions} L{launches}")
        budget = f"{_many(sessions, 'session')}, {_many(launches, 'launch', 'launches')}"
        text = f"unchanged runs that say regression, {budget}, every model (1 % meant)"
        claims.append(at_most(text, found, lambda f: f.false_alarm, 1.5 + slack))
    quick = _ours(results, "on quick")
    text = "the same against five sessions of one launch (1 % meant)"
    claims.append(at_most(text, quick, lambda f: f.false_alarm, 1.5 + slack))
    again = _ours(results, "again")
    if again:
        claims.append(
            at_most("the same, the ten worst of these again with 10,000", again, lambda f: f.false_alarm, 1.3)
        )
    unequal = _ours(results, "unequal")
    claims.append(
        at_most("fourfold unequal noise and sessions of 3 %", unequal, lambda f: f.false_alarm, 2 + slack)
    )
    noisier = _ours(results, "noisier")
    text = "a run three to ten times as noisy as its baseline"
    claims.append(at_most(text, noisier, lambda f: f.false_alarm, 2 + slack))
    looks = {k: v for k, v in _ours(results, "").items() if k.endswith("looks")}
    claims.append(at_most("with looks at 3, 6 and 9 launches", looks, lambda f: f.false_alarm, 1.5 + slack))
    return claims


def _many(n: int, one: str, more: str = "") -> str:
    return f"{n} {one if n == 1 else more or one + 's'}"


def _detection(results: Results, slack: float) -> list[Claim]:
    quiet5, quiet3 = _ours(results, "quiet S5"), _ours(results, "quiet S3")
    ar1, ar1_looks = (
        _ours(results, "A, autocorrelated rounds S5"),
        _ours(results, "A, autocorrelated rounds looks"),
    )
    drift = _ours(results, "A, random drift S5")
    moving = _ours(results, "moving S5")
    one = {k: v for k, v in moving.items() if "session 1" in k}
    three = {k: v for k, v in moving.items() if "session 3" in k}
    a, b = _ours(results, "A S5"), _ours(results, "B S5")
    return [
        at_least("five sessions, quiet machine: 3 % found", quiet5, _found(0.03), 90 - slack),
        at_least("five sessions, quiet machine: 5 % found", quiet5, _found(0.05), 99 - slack),
        at_least("three sessions, quiet machine: 3 % found", quiet3, _found(0.03), 75 - slack),
        at_least("three sessions, quiet machine: 5 % found", quiet3, _found(0.05), 97 - slack),
        at_least("autocorrelated rounds, one look: 3 % found", ar1, _found(0.03), 75 - slack),
        at_least("autocorrelated rounds, looks: 3 % found", ar1_looks, _found(0.03), 85 - slack),
        at_least("random drift: 3 % found", drift, _found(0.03), 70 - slack),
        at_least("random drift: 5 % found", drift, _found(0.05), 98 - slack),
        at_least("sessions of 1 %: 5 % found", one, _found(0.05), 97 - slack),
        at_least("sessions of 1 %: 3 % found", one, _found(0.03), 50 - slack),
        at_least("sessions of 3 %: 10 % found", three, _found(0.10), 90 - slack),
        at_least(
            "5 % common to all metrics, sessions of 0.3 %: found",
            a,
            lambda f: f.common_found[0.05],
            99 - slack,
        ),
        at_least(
            "5 % common to all metrics, sessions of 1 %: found (about 40 %)",
            b,
            lambda f: f.common_found[0.05],
            30,
        ),
    ]


def _one_session(results: Results, slack: float) -> list[Claim]:
    a, b, c = (_ours(results, f"{cell} S1") for cell in "ABC")
    shared = a | b
    return [
        at_least("one session, A: 5 % found", a, _found(0.05), 70 - slack),
        at_least("one session, A: 7 % found", a, _found(0.07), 95 - slack),
        at_least("one session, sessions of 1 %: 10 % found", b, _found(0.10), 95 - slack),
        at_least("one session, sessions of 3 %: 17 % found (about 90 %)", c, _found(0.17), 85 - slack),
        at_most(
            "one session, 5 % common to all arms: says regression",
            shared,
            lambda f: f.common_found[0.05],
            1 + slack,
        ),
        at_most(
            "one session, 5 % common to all arms: all pass",
            shared,
            lambda f: f.common_passed[0.05],
            1 + slack,
        ),
    ]


def _printed(results: Results, slack: float) -> list[Claim]:
    many = _ours(results, "grid S5 L3") | _ours(results, "grid S3 L3")
    one = _ours(results, "grid S1 L3")
    every = many | one
    return [
        at_least(
            "the printed smallest detectable change is found, three and five sessions", many, _sdc, 85 - slack
        ),
        at_most("and not more often than it says, three and five sessions", many, _sdc, 97 + slack),
        at_least("the printed smallest detectable change is found, one session", one, _sdc, 85 - slack),
        at_most("twice that passes", every, lambda f: f.twice_sdc_passed, 1),
    ]


def _sdc(figures: Figures) -> float:
    return figures.sdc_found


def _passing(results: Results, slack: float) -> list[Claim]:
    quiet = _ours(results, "A S5") | _ours(results, "CV 0.3")
    quiet = {k: v for k, v in quiet.items() if k.endswith("S5")}
    moving = _ours(results, "B S5")
    return [
        at_least("unchanged runs all pass, quiet machine", quiet, lambda f: f.all_pass, 95 - slack),
        at_least("unchanged runs all pass, sessions of 1 %", moving, lambda f: f.all_pass, 90 - slack),
    ]


def _other_shapes(results: Results, slack: float) -> list[Claim]:
    texts = {
        "suite": "the suite's own metrics (copies, ratio of counts, speed-up)",
        "3 metrics, 3 arms": "three metrics in three arms",
        "3 metrics, 1 arm": "three metrics in one arm",
        "30 metrics": "thirty metrics",
        "A, bimodal": "a bimodal server",
    }
    claims = [
        at_most(f"false alarms with {text}", _ours(results, prefix), lambda f: f.false_alarm, 1.5 + slack)
        for prefix, text in texts.items()
    ]
    suite = {k: v for k, v in _ours(results, "suite A").items() if k.endswith("S5")}
    claims.append(
        at_least("the suite's own metrics, A, five sessions: 5 % found", suite, _found(0.05), 90 - 3 * slack)
    )
    return claims


def history_claims(results: Mapping[float, HistoryFigures]) -> list[Claim]:
    """Lines about rows of runs."""
    found = min(f.drift_found for f in results.values())
    false = max(f.false_step for f in results.values())
    where = ", ".join(f"{100 * sd:g}: {f.drift_found:.0f}" for sd, f in results.items())
    return [
        Claim(
            "six losses of 1 % in a row are found, sessions of 0.3 to 1.1 %: >= 95 %",
            f"by sd in %: {where}",
            found >= 95,
        ),
        Claim(
            "histories without a change that show a loss beyond 2 %: <= 2 %",
            f"highest {false:.1f} %",
            false <= 2,
        ),
    ]


class Lines(Generic[F]):
    """Cells, and lines about the worst of those whose name begins as said, or that are named."""

    def __init__(self, figures: Mapping[str, F], prefix: str = "upgrade, ") -> None:
        self._figures, self._prefix = figures, prefix

    def _sorted(self, where: str | Sequence[str], value: Callable[[F], float]) -> list[tuple[float, str]]:
        chosen = [
            name
            for name in self._figures
            if (name.startswith(where) if isinstance(where, str) else name in where)
        ]
        return sorted((value(self._figures[name]), name) for name in chosen)

    def at_most(
        self, text: str, where: str | Sequence[str], value: Callable[[F], float], bound: float
    ) -> Claim:
        """The highest figure must not pass the bound."""
        worst, name = self._sorted(where, value)[-1]
        return Claim(
            f"{self._prefix}{text}: <= {bound:g} %", f"highest {worst:.2f} % ({name})", worst <= bound
        )

    def at_least(
        self, text: str, where: str | Sequence[str], value: Callable[[F], float], bound: float
    ) -> Claim:
        """The lowest figure must reach the bound."""
        worst, name = self._sorted(where, value)[0]
        return Claim(
            f"{self._prefix}{text}: >= {bound:g} %", f"lowest {worst:.1f} % ({name})", worst >= bound
        )


def summary(claims: Iterable[Claim]) -> list[str]:
    """One line a claim: held or NOT HELD, the text, what was measured."""
    return [f"{'held    ' if c.held else 'NOT HELD'}  {c.text}; {c.measured}" for c in claims]
