"""The ways to launch a server, one a file: each turns an arm into the commands that the supervisor runs."""

from __future__ import annotations

from suite.servers.runtimes.base import LaunchPlan, LaunchRequest, Way
from suite.servers.runtimes.docker import DockerWay
from suite.servers.runtimes.process import ProcessWay
from suite.servers.runtimes.runtime import Runtime, runtime_of
from suite.servers.runtimes.systemd import SystemdWay
