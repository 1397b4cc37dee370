"""Slurm on this machine: a controller and one node with a fake GPU, which end with the block."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

CONFIG = Path("/etc/slurm/slurm.conf")  # srun inside a job looks nowhere else
GRES = Path("/etc/slurm/gres.conf")
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")


class NoSlurmError(Exception):
    """A reason why Slurm cannot run here."""


def install() -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NoSlurmError("it takes root and apt-get")
    if CONFIG.exists():
        raise NoSlurmError(f"{CONFIG} belongs to another Slurm; stop that and delete the file")
    if shutil.which("slurmctld") and shutil.which("munged"):
        return
    packages = ["install", "-y", "--no-install-recommends", "slurm-wlm", "munge"]
    for words in (["update"], packages):
        variables = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "-q", "-o", "Acquire::http::Timeout=20", *words]
        if subprocess.run(command, timeout=300, env=variables, capture_output=True).returncode:
            raise NoSlurmError("the packages slurm-wlm and munge do not install")


def configuration(state: Path, node: str) -> str:
    """Return slurm.conf of one node without systemd, cgroups or accounting."""
    cores = os.cpu_count()
    return f"""\
ClusterName=rarefeat
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
StateSaveLocation={state}/state
SlurmdSpoolDir={state}/spool
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.pid
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
MinJobAge=3600
KillWait=5
GresTypes=gpu
NodeName={node} NodeAddr=127.0.0.1 CPUs={cores} CoresPerSocket={cores} RealMemory=100000 Gres=gpu:1
PartitionName=debug Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(condition: Callable[[], object], seconds: float, name: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name}: not within {seconds:g} s")
        time.sleep(0.2)


def output(*command: str) -> str:
    process = subprocess.run(command, capture_output=True, text=True, timeout=30)
    return process.stdout.strip() if process.returncode == 0 else ""


def stop(process: subprocess.Popen) -> None:
    for member in [*psutil.Process(process.pid).children(recursive=True), process]:
        with contextlib.suppress(psutil.Error):
            member.kill()
    process.wait()


@contextlib.contextmanager
def one_node(state: Path) -> Iterator[None]:
    """Run the node, whose daemons write into the folder `state`."""
    install()
    node = socket.gethostname().partition(".")[0]
    for folder in ("state", "spool"):
        (state / folder).mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        stack.callback(CONFIG.unlink, missing_ok=True)
        stack.callback(GRES.unlink, missing_ok=True)

        def start(*command: str) -> None:
            log = stack.enter_context(open(state / f"{command[-2]}.out", "w", encoding="utf-8"))
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            stack.callback(stop, process)

        try:
            if not output("munge", "-n"):
                MUNGE_SOCKET.parent.mkdir(exist_ok=True)
                shutil.chown(MUNGE_SOCKET.parent, "munge", "munge")
                MUNGE_SOCKET.parent.chmod(0o755)
                start("runuser", "-u", "munge", "--", "munged", "--foreground")
                wait_for(lambda: output("munge", "-n"), 20, "munged")
            CONFIG.write_text(configuration(state, node), encoding="utf-8")
            gpu = f"AutoDetect=off\nNodeName={node} Name=gpu Count=1 File=/dev/null\n"
            GRES.write_text(gpu, encoding="utf-8")
            start("slurmctld", "-D")
            start("slurmd", "-D")
            wait_for(lambda: output("sinfo", "-h", "-o", "%T") == "idle", 60, "an idle node")
            # The executor starts its jobs by srun inside of sbatch.
            words = ["--output", str(state / "first.out"), "--wrap", "srun true"]
            command = ["sbatch", "--wait", *words]
            subprocess.run(command, timeout=60, check=True, capture_output=True)
        except (OSError, LookupError, TimeoutError, subprocess.SubprocessError) as error:
            raise NoSlurmError(str(error)) from error
        yield
        subprocess.run(["scancel", "--user", "root"], timeout=30)
        wait_for(lambda: not output("squeue", "-h"), 60, "the end of cancelled jobs")
