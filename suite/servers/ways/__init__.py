"""The ways to launch a server, one a file: each turns an arm into the commands that the keeper runs."""

from __future__ import annotations

from suite.servers.ways.base import Asked, Plan, Way
from suite.servers.ways.process import ProcessWay

__all__ = ["Asked", "Plan", "ProcessWay", "Way"]
