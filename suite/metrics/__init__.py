"""Timelines to numbers: what every metric is, how it is computed, and whether a round may be believed. Pure functions."""

from suite.metrics.acceptance import NOT_REPORTED, REPLICAS, acceptance, yield_of
from suite.metrics.energy import NAME as ENERGY
from suite.metrics.energy import energy
from suite.metrics.registry import METRICS, UnknownMetric, require_known
from suite.metrics.requests import (
    SLO,
    chunk_gaps_s,
    e2e_s,
    meets,
    token_gaps_s,
    tpot_s,
    ttft_s,
)
from suite.metrics.rounds import Value, speedup, summarize
from suite.metrics.validity import InvalidRound, validity
