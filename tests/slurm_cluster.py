"""A real Slurm on this machine: its daemons are children of the test, in the foreground, on loopback, no systemd."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = next((name for name in ("slurmctld", "slurmd", "sbatch", "srun") if shutil.which(name) is None), None)

# A requeued job waits for its old credential to expire: by default two minutes.
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
KillWait=10
InactiveLimit=0
MinJobAge=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=high Nodes={host} MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF State=UP
"""


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[None]:
    """Two processors in the partition low, whose jobs are preempted by those of high."""
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    config = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    config.write_text(CONFIG.format(host=host, ports=_free_ports(2), folder=folder))
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(config)
    daemons = []
    try:
        with (folder / "output").open("w") as output:
            for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", host]):
                daemons.append(subprocess.Popen(command, stdout=output, stderr=output))
            _wait_for_node(folder)
        yield
    finally:
        subprocess.run(["scancel", "--user", "root"], check=False, capture_output=True)
        for daemon in reversed(daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before


def _wait_for_node(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = subprocess.run(["sinfo", "--noheader", "--format", "%T"], check=False, capture_output=True, text=True)
        if "idle" in found.stdout:
            return
        time.sleep(0.2)
    logs = [path.read_text()[-3000:] for path in (folder / "output", folder / "slurmctld.log", folder / "slurmd.log")]
    raise RuntimeError("Slurm does not start:\n" + "\n".join(logs))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
