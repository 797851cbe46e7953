"""What was played, as the gate keeps it: one sample a round, and a launch as the join of its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import msgspec

from suite import metrics
from suite.gate import Counts, Invalid, Launch, Tail
from suite.gate.tails import JUDGED_WITH, tail_of
from suite.load import Round
from suite.session import answered

STORED = tuple(metric.name for metric in metrics.METRICS.values() if metric.stored)
"""The metrics that are kept of each round."""

TAILS = tuple(JUDGED_WITH)
"""Those of which the largest values of each round are kept too."""

Facts = dict[str, Any]


@dataclass(slots=True)
class WorkloadResult:
    """The rounds of one workload in one launch, with what makes them comparable and fit to be judged.

    ``invalid`` are the reasons that concern all rounds; those of one round are in its sample.
    """

    rounds: list[Round] = field(default_factory=list)
    values: list[Mapping[str, metrics.Value]] = field(default_factory=list)
    samples: list[Launch] = field(default_factory=list)
    invalid: list[Invalid] = field(default_factory=list)
    identity: Facts = field(default_factory=dict)
    subject: Facts = field(default_factory=dict)
    clocks: dict[str, float] = field(default_factory=dict)

    def add(
        self, round_: Round, values: Mapping[str, metrics.Value], invalid: Sequence[Invalid] = ()
    ) -> Launch:
        """Take in a round with its metrics; its sample."""
        sample = sample_of(round_, values, invalid)
        self.rounds.append(round_)
        self.values.append(values)
        self.samples.append(sample)
        return sample

    def median(self, metric: str) -> float | None:
        """The median over the rounds; ``None`` if no round has it."""
        known = [value for value in self.told(metric) if value is not None]
        return median(known) if known else None

    def reason(self, metric: str) -> str | None:
        """Why a metric is missing, where it is."""
        return next((v[metric].reason for v in self.values if metric in v and v[metric].reason), None)

    def told(self, metric: str) -> list[float | None]:
        """The value of each round; ``None`` where it has none."""
        return [values[metric].value if metric in values else None for values in self.values]

    def launch(self) -> Launch:
        """As the gate keeps it."""
        return joined(self.samples, self.invalid, self.clocks)


def sample_of(round_: Round, values: Mapping[str, metrics.Value], invalid: Sequence[Invalid] = ()) -> Launch:
    """One round as the gate keeps it: a launch of that round alone."""
    specs = [record.spec for record in round_.ok if record.spec is not None]
    counts = Counts([spec.correct_drafts for spec in specs], [spec.verify_steps for spec in specs])
    return Launch(
        rounds={name: [values[name].value] for name in STORED if name in values},
        counts={"acceptance_length": [counts]} if specs else {},
        missing={name: reason for name in STORED if name in values and (reason := values[name].reason)},
        invalid=[msgspec.structs.replace(reason, round=0) for reason in invalid],
        answers=answered.answers_of(round_),
        tails={name: [tail_of(values[name].values)] for name in TAILS if name in values},
    )


def joined(
    samples: Sequence[Launch], invalid: Sequence[Invalid] = (), clocks: Mapping[str, float] | None = None
) -> Launch:
    """Rounds in the order in which they were played, as one launch; ``invalid`` and ``clocks`` concern all of them."""
    names = dict.fromkeys(name for sample in samples for name in sample.rounds)
    counted = dict.fromkeys(name for sample in samples for name in sample.counts)
    tailed = dict.fromkeys(name for sample in samples for name in sample.tails)
    none, none_seen = Counts([], []), Tail(0, [])
    return Launch(
        rounds={name: [_only(sample.rounds.get(name)) for sample in samples] for name in names},
        counts={name: [(sample.counts.get(name) or [none])[0] for sample in samples] for name in counted},
        missing={name: reason for sample in reversed(samples) for name, reason in sample.missing.items()},
        invalid=[
            *invalid,
            *(
                msgspec.structs.replace(reason, round=place)
                for place, sample in enumerate(samples)
                for reason in sample.invalid
            ),
        ],
        answers=answered.joined([sample.answers for sample in samples]),
        tails={name: [(sample.tails.get(name) or [none_seen])[0] for sample in samples] for name in tailed},
        clocks=dict(clocks or {}),
    )


def _only(values: Sequence[float | None] | None) -> float | None:
    return values[0] if values else None
