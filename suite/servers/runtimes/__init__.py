"""What a server is launched as, a kind a file: each turns an arm into the commands that the supervisor runs."""

from __future__ import annotations

from suite.servers.runtimes.base import LaunchPlan, LaunchRequest, Runtime
from suite.servers.runtimes.kinds import runtime_of
