"""What must hold where the new build's answers part from the old ones': the cells that are measured, and their lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from proofs.calibrate.cells import NAMED
from proofs.calibrate.claims import Claim
from proofs.calibrate.noise import Noise
from proofs.calibrate.plan import quiet
from proofs.calibrate.trajectories import BuildFigures, Trajectories

Measured = Mapping[str, tuple[Trajectories, BuildFigures]]

SPREADS = (0.03, 0.06, 0.10)
RECORDED = ((1, False), (3, False), (5, False), (5, True))
"""Sessions, and whether each is of another build."""
NIGHTS = (5, 7, 10)


def cells(n: int, quick: bool) -> list[Trajectories]:
    """All cells; `n`: campaigns each."""
    a = NAMED["A"]
    same = [
        Trajectories(a, spread, within, sessions, nightly, n=n)
        for spread in ((0.06,) if quick else SPREADS)
        for within in (0.0, spread)
        for sessions, nightly in RECORDED
    ]
    still = [Trajectories(noise, n=n) for noise in (quiet()[::7] if quick else quiet())]
    nights = [
        Trajectories(noise, sessions=sessions, nightly=True, n=n, step=step)
        for sessions in ((5, 10) if quick else NIGHTS)
        for noise, step in (
            (a, 0.0),
            (Noise(0.003, 0.0, 0.003), 0.0),
            (NAMED["B"], 0.0),
            (NAMED["C"], 0.0),
            (a, 0.05),
        )
    ]
    odd = [Trajectories(a, tails="t4", n=n), Trajectories(a, same=0.5, n=n)]
    small = [Trajectories(a, sessions=sessions, quick=True, n=n) for sessions in (1, 3, 5)]
    return list(dict.fromkeys([*same, *still, *nights, *odd, *small]))


def build_claims(measured: Measured, quick: bool) -> list[Claim]:
    """The lines. With few campaigns the tolerances are wider."""
    slack, wide = (1.5, 5.0) if quick else (0.0, 0.0)
    lines = _Lines(measured)
    gate = lines.where(lambda c: not c.quick)
    of_a = gate.where(lambda c: c.noise == NAMED["A"] and not c.step)
    usual = of_a.where(lambda c: c.spread == 0.06)
    once, wild = usual.where(lambda c: not c.within), of_a.where(lambda c: c.spread == 0.10)
    five = gate.where(lambda c: c.sessions == 5 and not c.nightly and c.noise in quiet())
    nights = gate.where(lambda c: c.nightly and c.noise in (NAMED["A"], Noise(0.003, 0.0, 0.003)))
    learned = lines.where(lambda c: c.sessions > 1)
    # with a step among five nightlies the spread is swollen (docs/gate.md): too wide is allowed there, too narrow never
    sharp = learned.where(lambda c: not (c.step and c.sessions == 5))
    claims = [
        lines.at_most(
            "another build as good as the last: regression (1 % meant)", lambda f: f.false_alarm, 1.5 + slack
        ),
        lines.at_most("the same: improvement (1 % meant)", lambda f: f.false_improvement, 1.5 + slack),
        once.where(lambda c: c.sessions > 1).at_least(
            "the same, s_t 6 %, 256 prompts: all pass", lambda f: f.all_pass, 90 - wide
        ),
        usual.where(lambda c: c.sessions > 1).at_least(
            "the same, launches as far apart as builds: all pass", lambda f: f.all_pass, 87 - wide
        ),
        usual.where(lambda c: c.sessions == 1).at_least(
            "the same, one session", lambda f: f.all_pass, 80 - wide
        ),
        once.at_least("s_t 6 %: acceptance 3 % lower found", lambda f: f.accepted_less[0.03], 90 - wide),
        once.at_least("s_t 6 %: acceptance 5 % lower found", lambda f: f.accepted_less[0.05], 99 - wide),
        usual.at_least(
            "the same, launches as far apart as builds: 3 %", lambda f: f.accepted_less[0.03], 85 - wide
        ),
        usual.at_least(
            "the same, launches as far apart as builds: 5 %", lambda f: f.accepted_less[0.05], 99 - wide
        ),
        five.at_least(
            "five sessions, quiet machine, any s_t: steps 3 % longer found",
            lambda f: f.steps_longer[0.03],
            90 - wide,
        ),
    ]
    if not quick:
        calm = wild.where(lambda c: not c.within)
        claims.append(
            calm.at_least("s_t 10 %: acceptance 5 % lower found", lambda f: f.accepted_less[0.05], 95)
        )
        claims.append(
            wild.at_least("the same, launches as far apart as builds", lambda f: f.accepted_less[0.05], 90)
        )
        claims.append(
            nights.where(lambda c: not c.step or c.sessions > 5).at_least(
                "five to ten nightlies, quiet machine: steps 5 % longer found",
                lambda f: f.steps_longer[0.05],
                95,
            )
        )
        claims.append(
            nights.where(lambda c: c.step > 0 and c.sessions == 5).at_least(
                "five nightlies with a step of 5 % among them: steps 5 % longer found",
                lambda f: f.steps_longer[0.05],
                80,
            )
        )
    claims += [
        *lines.between(
            "95 % intervals of acceptance that hold the truth",
            lambda f: f.held["acceptance"],
            93,
            97,
            wide,
        ),
        *(
            line
            for text, key in (
                ("95 % intervals of steps x acceptance, more than one session", "steps x acceptance"),
                ("the same with steps 3 and 5 % longer", "longer steps x acceptance"),
                ("95 % intervals of speed without MTP, more than one session", "speed"),
            )
            for line in (
                learned.at_least(text, partial(_held, key), 93 - wide),
                sharp.at_most(f"{text}, and not too wide", partial(_held, key), 98 + wide),
            )
        ),
        lines.at_least(
            "95 % intervals of speed on the stated prior of one session",
            lambda f: f.held["speed"],
            93 - wide,
        ),
        *lines.between("printed SDC of acceptance found", lambda f: f.sdc_found["acceptance"], 85, 97, wide),
        *learned.between(
            "printed SDC of steps found, more than one session",
            lambda f: f.sdc_found["steps"],
            85,
            98.5,
            wide,
        ),
        lines.at_least("printed SDC of steps found, one session", lambda f: f.sdc_found["steps"], 85 - wide),
    ]
    return claims


def _held(what: str, figures: BuildFigures) -> float:
    return figures.held[what]


class _Lines:
    """Cells, and lines about the worst of them."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured

    def where(self, keep: Callable[[Trajectories], bool]) -> _Lines:
        """Of these cells only."""
        return _Lines({name: pair for name, pair in self._measured.items() if keep(pair[0])})

    def _sorted(self, value: Callable[[BuildFigures], float]) -> list[tuple[float, str]]:
        return sorted((value(figures), name) for name, (_, figures) in self._measured.items())

    def at_most(self, text: str, value: Callable[[BuildFigures], float], bound: float) -> Claim:
        """The highest figure must not pass the bound."""
        worst, where = self._sorted(value)[-1]
        return Claim(f"{text}: <= {bound:g} %", f"highest {worst:.2f} % ({where})", worst <= bound)

    def at_least(self, text: str, value: Callable[[BuildFigures], float], bound: float) -> Claim:
        """The lowest figure must reach the bound."""
        worst, where = self._sorted(value)[0]
        return Claim(f"{text}: >= {bound:g} %", f"lowest {worst:.1f} % ({where})", worst >= bound)

    def between(
        self, text: str, value: Callable[[BuildFigures], float], low: float, high: float, slack: float
    ) -> list[Claim]:
        """Neither less nor more often than that."""
        return [self.at_least(text, value, low - slack), self.at_most(text, value, high + slack)]
