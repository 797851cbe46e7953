"""Workloads, and the client that plays them against a server and writes timelines."""

from suite.load import cache, contexts, workloads
from suite.load.endpoint import Endpoint, Sampling
from suite.load.health import ClientLimits
from suite.load.play import WarmUp, play
from suite.load.player import Progress
from suite.load.records import (
    ClientHealth,
    Fault,
    FaultKind,
    LoadError,
    RequestRecord,
    Round,
    SpecDetails,
    Timeline,
)
from suite.load.shapes import ClosedLoop, LoadShape, OpenLoop, Schedule
from suite.load.workloads import Prompt, Workload
