"""Slurm on this machine: a controller and one node with a fake GPU, started by hand and stopped by their ids.

They are stopped, and their files deleted, when the block ends, also by SIGINT or SIGTERM. A run that is killed leaves the ids
that it wrote down, and the next one clears them.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

NAME = "rarefeat"
"""Of the cluster: a configuration that says so is of these tests."""
CONFIG = Path("/etc/slurm/slurm.conf")  # srun inside a job looks nowhere else
GRES = Path("/etc/slurm/gres.conf")
STARTED = Path("/etc/slurm/rarefeat.started")
"""Who started what, by id and date: this process first, then the daemons."""
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")
MEMORY = 100000  # MB that the node says it has, whatever it has: reserved and not enforced


class NoSlurm(Exception):
    """Why Slurm cannot be had here."""


def install() -> None:
    """Debian's packages; NoSlurm where they cannot be had."""
    if os.geteuid() != 0:
        raise NoSlurm("not root")
    clear_left()
    if shutil.which("slurmctld") and shutil.which("munged"):
        return
    if not shutil.which("apt-get"):
        raise NoSlurm("no apt-get")
    apt = ["apt-get", "-q", "-y", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"]
    quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    try:
        subprocess.run([*apt, "update"], timeout=120, check=True, **quiet)
        subprocess.run([*apt, "install", "--no-install-recommends", "slurm-wlm", "munge"], timeout=300, check=True, **quiet)
    except subprocess.SubprocessError as error:
        raise NoSlurm(f"the packages slurm-wlm and munge do not install: {error}") from error


def clear_left() -> None:
    """End the daemons and delete the files of a killed run of these tests; NoSlurm where they are in use or another's."""
    if not CONFIG.exists():
        return
    if f"ClusterName={NAME}\n" not in CONFIG.read_text(encoding="utf-8"):
        raise NoSlurm(f"{CONFIG} belongs to another Slurm")
    owner, *daemons = json.loads(STARTED.read_text(encoding="utf-8")) if STARTED.exists() else [None]
    if owner and alive(owner):
        raise NoSlurm(f"another run of these tests, process {owner[0]}, has it")
    for process in filter(None, map(alive, daemons)):
        stop(process)
    for path in (CONFIG, GRES, STARTED):
        path.unlink(missing_ok=True)


def alive(known: list) -> psutil.Process | None:
    """The process of an id, if it is still the one that was started then."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(known[0])
        if process.create_time() == known[1] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


@contextlib.contextmanager
def daemons() -> Iterator[Callable[..., None]]:
    """A function that starts a daemon, whose output goes to a file; all end with the block, latest first, as do their files.

    SIGTERM ends the block as Ctrl-C does, which pytest takes as the end of the session.
    """
    started = [identity(psutil.Process())]
    with contextlib.ExitStack() as stack:
        for path in (STARTED, CONFIG, GRES):
            stack.callback(path.unlink, missing_ok=True)
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, interrupted)
            stack.callback(signal.signal, signal.SIGTERM, before)

        def start(output: Path, *command: str) -> None:
            file = stack.enter_context(open(output, "w", encoding="utf-8"))
            process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
            stack.callback(stop, process)
            started.append(identity(psutil.Process(process.pid)))
            STARTED.parent.mkdir(parents=True, exist_ok=True)
            STARTED.write_text(json.dumps(started), encoding="utf-8")

        yield start


def identity(process: psutil.Process) -> list:
    """By which it is known later."""
    return [process.pid, process.create_time()]


def interrupted(number: int, frame: object) -> None:
    """A handler that raises KeyboardInterrupt."""
    raise KeyboardInterrupt


def configuration(state: Path) -> str:
    """slurm.conf of one node without systemd, cgroups or accounting; new jobs start at once."""
    name, cores = socket.gethostname().partition(".")[0], os.cpu_count()
    return f"""\
ClusterName={NAME}
SlurmctldHost={name}(127.0.0.1)
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
NodeName={name} NodeAddr=127.0.0.1 CPUs={cores} CoresPerSocket={cores} RealMemory={MEMORY} Gres=gpu:1 State=UNKNOWN
PartitionName=debug Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Until the condition is true; TimeoutError, which says what was waited for, after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.2)


def answer(*command: str) -> str:
    """Standard output of a command; empty where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@contextlib.contextmanager
def one_node(state: Path) -> Iterator[None]:
    """Run the node while the block runs. `state` is a folder for what the daemons write.

    NoSlurm where it cannot be had; nothing is left running or configured then or afterwards.
    """
    install()
    node = socket.gethostname().partition(".")[0]
    for folder in ("state", "spool"):
        (state / folder).mkdir(parents=True)
    with daemons() as start:
        try:
            if not answer("munge", "-n"):
                MUNGE_SOCKET.parent.mkdir(exist_ok=True)
                shutil.chown(MUNGE_SOCKET.parent, "munge", "munge")
                MUNGE_SOCKET.parent.chmod(0o755)
                start(state / "munged.out", "runuser", "-u", "munge", "--", "munged", "--foreground")
                wait_for(lambda: answer("munge", "-n"), 20, "munged")
            CONFIG.write_text(configuration(state), encoding="utf-8")
            GRES.write_text(f"AutoDetect=off\nNodeName={node} Name=gpu Count=1 File=/dev/null\n", encoding="utf-8")
            start(state / "slurmctld.out", "slurmctld", "-D")
            start(state / "slurmd.out", "slurmd", "-D")
            wait_for(lambda: answer("sinfo", "-h", "-o", "%T") == "idle", 60, "an idle node")
            # The executor starts its jobs by srun inside of sbatch.
            first = ["sbatch", "--wait", "--output", str(state / "first.out"), "--wrap", "srun true"]
            subprocess.run(first, timeout=60, check=True, capture_output=True)
        except (OSError, LookupError, TimeoutError, subprocess.SubprocessError) as error:
            raise NoSlurm(str(error)) from error
        yield
        subprocess.run(["scancel", "--user", "root"], timeout=30, check=False)
        wait_for(lambda: not answer("squeue", "-h"), 60, "the end of cancelled jobs")


def stop(process: subprocess.Popen | psutil.Process) -> None:
    """End a process that was started here, or by a run that was killed, with those below it, as runuser has one."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        try:
            process.wait(20)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            process.kill()
            process.wait(20)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
