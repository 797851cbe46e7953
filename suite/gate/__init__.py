"""Samples to verdicts: baselines, statistics, history. docs/gate.md says how a verdict is reached."""

from suite.gate.baselines import Baseline, BaselineSession, BaselineStore, Found, Recorded
from suite.gate.errors import (
    BadMeasurement,
    CorruptFile,
    ForeignFile,
    FutureVersion,
    GateError,
    IdentityMismatch,
    MissingFile,
    StoredFileError,
    WriteFailed,
)
from suite.gate.judge import judge
from suite.gate.records import (
    Answers,
    Asked,
    Claim,
    Counts,
    Facts,
    Invalid,
    Key,
    Launch,
    Outcome,
    OutcomeWord,
    Plan,
    Scalar,
    Series,
    Session,
)
from suite.gate.rules import DEFAULT_RULES, MetricRule, Rules
from suite.gate.runs import load_run, load_verdicts, save_run
from suite.gate.speedup import speedup
from suite.gate.verdicts import Cause, Estimate, Judgement, Verdict, Word

__all__ = [
    "DEFAULT_RULES",
    "Answers",
    "Asked",
    "BadMeasurement",
    "Baseline",
    "BaselineSession",
    "BaselineStore",
    "Cause",
    "Claim",
    "CorruptFile",
    "Counts",
    "Estimate",
    "Facts",
    "ForeignFile",
    "Found",
    "FutureVersion",
    "GateError",
    "IdentityMismatch",
    "Invalid",
    "Judgement",
    "Key",
    "Launch",
    "MetricRule",
    "MissingFile",
    "Outcome",
    "OutcomeWord",
    "Plan",
    "Recorded",
    "Rules",
    "Scalar",
    "Series",
    "Session",
    "StoredFileError",
    "Verdict",
    "Word",
    "WriteFailed",
    "judge",
    "load_run",
    "load_verdicts",
    "save_run",
    "speedup",
]
