"""Timelines to numbers: what every metric is, how it is computed, and whether a round may be believed. Pure functions."""

from suite.metrics.acceptance import NOT_REPORTED, REPLICAS, Acceptance, acceptance, yield_of
from suite.metrics.energy import NAME as ENERGY
from suite.metrics.energy import energy
from suite.metrics.formulas import concurrency_achieved
from suite.metrics.registry import METRICS, Better, Kind, Metric, UnknownMetric, near, require_known
from suite.metrics.requests import (
    SLO,
    arrivals,
    chunk_gaps_s,
    e2e_s,
    meets,
    token_gaps_s,
    tpot_s,
    ttft_s,
)
from suite.metrics.rounds import Value, speedup, summarize
from suite.metrics.validity import InvalidRound, validity

__all__ = [
    "ENERGY",
    "METRICS",
    "NOT_REPORTED",
    "REPLICAS",
    "SLO",
    "Acceptance",
    "Better",
    "InvalidRound",
    "Kind",
    "Metric",
    "UnknownMetric",
    "Value",
    "acceptance",
    "arrivals",
    "chunk_gaps_s",
    "concurrency_achieved",
    "e2e_s",
    "energy",
    "meets",
    "near",
    "require_known",
    "speedup",
    "summarize",
    "token_gaps_s",
    "tpot_s",
    "ttft_s",
    "validity",
    "yield_of",
]
