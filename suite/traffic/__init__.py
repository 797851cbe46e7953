"""The owner's own traffic: conversations or a trace, replayed at its pace or scaled, and the rate that keeps stated limits."""

from suite.traffic.formats import FORMATS, Trace, read
from suite.traffic.limits import Limits, PaceResult, highest, kept_share
from suite.traffic.replay import Replay, workload_of
