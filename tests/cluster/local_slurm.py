"""A Slurm of its own on this machine: munged, slurmctld and some slurmd, each a pretend node with eight pretend GPUs.

``python -m tests.cluster.local_slurm COMMAND...`` runs a command while it is up. Debian: ``apt-get install slurm-wlm munge``.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
GPUS = 8
READY_S = 60.0

CONF = """
ClusterName=pretend
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=5,sched_interval=2,sched_min_interval=200000
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=8
InactiveLimit=0
KillWait=20
MinJobAge=600
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PrologFlags=NoHold
{nodes}
PartitionName=perf Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=UNLIMITED State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> list[str]:
    """The programs of Slurm that are not installed."""
    return [name for name in NEEDED if _program(name) is None]


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@dataclass
class LocalSlurm:
    """A running cluster. folder: its files; daemons: its processes, by name."""

    folder: Path
    env: Mapping[str, str]
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self, *command: str, check: bool = True) -> str:
        """What a command of Slurm says."""
        done = subprocess.run(
            command, env=dict(self.env), capture_output=True, text=True, timeout=60, check=False
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def nodes(self) -> dict[str, str]:
        """The state of every node."""
        lines = self.run("sinfo", "--Node", "--noheader", "--format=%N %T", "--partition=perf").splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def start_node(self, name: str) -> None:
        """Bring a node up, again if it was lost."""
        self._start(f"slurmd.{name}", "slurmd", "-D", "-N", name, "-f", str(self.folder / "slurm.conf"))

    def kill_node(self, name: str) -> None:
        """Kill the node's daemon, its steps, and the jobs that they run; servers of a job must see to their own end."""
        daemon = self.daemons.pop(f"slurmd.{name}")
        doomed = _family(psutil.Process(daemon.pid))
        doomed += [process for step in self._steps_of(name) for process in _family(step)]
        for process in doomed:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        daemon.wait()

    def _steps_of(self, name: str) -> list[psutil.Process]:
        """The daemons of a node's steps, which outlive the node's own: those above what its jobs run."""
        found: dict[int, psutil.Process] = {}
        wanted = {"SLURMD_NODENAME": name, "SLURM_CONF": self.env["SLURM_CONF"]}
        for process in psutil.process_iter(["environ"]):
            if wanted.items() <= (process.info["environ"] or {}).items():
                with contextlib.suppress(psutil.NoSuchProcess):
                    found |= {p.pid: p for p in process.parents() if p.name() == "slurmstepd"}
        return list(found.values())

    def _start(self, name: str, program: str, *arguments: str) -> None:
        path = _program(program)
        assert path is not None
        out = (self.folder / f"{name}.out").open("ab")
        self.daemons[name] = subprocess.Popen(
            [path, *arguments], env=dict(self.env), stdout=out, stderr=out, start_new_session=True
        )
        out.close()

    def stop(self) -> None:
        """End everything that it started."""
        for name in list(self.nodes_up()):
            self.kill_node(name)
        for daemon in reversed(list(self.daemons.values())):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def nodes_up(self) -> list[str]:
        """The nodes whose daemon was started here and not killed."""
        return [name.partition(".")[2] for name in self.daemons if name.startswith("slurmd.")]


def _family(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


@contextlib.contextmanager
def up(nodes: Sequence[str] = ("n1", "n2")) -> Iterator[LocalSlurm]:
    """A cluster of these nodes, for as long as the body runs."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    try:
        cluster = LocalSlurm(folder, _write(folder, nodes))
        try:
            _bring_up(cluster, nodes)
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _bring_up(cluster: LocalSlurm, nodes: Sequence[str]) -> None:
    munge = cluster.folder / "munge"
    cluster._start(
        "munged",
        "munged",
        "--foreground",
        "--force",
        f"--key-file={munge}/key",
        f"--socket={munge}/socket",
        f"--pid-file={munge}/pid",
        f"--log-file={munge}/log",
        f"--seed-file={munge}/seed",
    )
    _wait(lambda: (munge / "socket").exists(), "munged opens no socket")
    cluster._start("slurmctld", "slurmctld", "-D", "-c", "-f", str(cluster.folder / "slurm.conf"))
    for name in nodes:
        cluster.start_node(name)
    _wait(lambda: _all_idle(cluster, nodes), "the nodes do not come up")


def _all_idle(cluster: LocalSlurm, nodes: Sequence[str]) -> bool:
    try:
        return all(cluster.nodes().get(name) == "idle" for name in nodes)
    except RuntimeError:
        return False


def _wait(until: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + READY_S
    while not until():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.2)


def _write(folder: Path, nodes: Sequence[str]) -> dict[str, str]:
    """Configuration, key and pretend devices; the environment in which Slurm's commands find them."""
    folder.chmod(0o755)
    for name in ("munge", "state", *(f"spool.{node}" for node in nodes)):
        (folder / name).mkdir(mode=0o755)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    ports = _free_ports(len(nodes) + 1)
    host = socket.gethostname()
    lines = []
    for node, port in zip(nodes, ports[1:], strict=True):
        lines.append(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={os.cpu_count()} "
            f"Gres=gpu:{GPUS} State=UNKNOWN"
        )
    (folder / "slurm.conf").write_text(
        CONF.format(host=host, port=ports[0], user=getpass.getuser(), folder=folder, nodes="\n".join(lines))
    )
    devices = []
    for number in range(GPUS):
        (folder / f"gpu{number}").touch()
        devices.append(f"{folder}/gpu{number}")
    (folder / "gres.conf").write_text(
        "".join(f"NodeName={node} Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n" for node in nodes)
    )
    return {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    if gone := missing():
        print(f"not installed: {', '.join(gone)}; Debian: apt-get install slurm-wlm munge", file=sys.stderr)
        return 9
    with up() as cluster:
        return subprocess.run(sys.argv[1:], env=dict(cluster.env), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
