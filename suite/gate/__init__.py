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
    WriteFailed,
)
from suite.gate.judge import judge
from suite.gate.records import (
    Answers,
    Asked,
    Claim,
    Counts,
    Event,
    Facts,
    Invalid,
    Key,
    Launch,
    Outcome,
    OutcomeWord,
    Plan,
    Reference,
    Series,
    Session,
    Tail,
)
from suite.gate.rules import Rules
from suite.gate.runs import load_run, load_verdicts, save_run
from suite.gate.speedup import speedup
from suite.gate.verdicts import Estimate, Judgement, Verdict, Word
