"""Faults: nothing wrong is trusted, nothing finished is lost. docs/operations/faults.md says what a user sees and does."""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64decode
from collections import Counter
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import yaml
from conftest import job_at, tiny_data, tiny_training, until
from whole_project import RESULTS, copy_of_the_project, environment, planned, python, run, snakemake, succeeded

from rarefeat.config.cells import cell
from rarefeat.config.model import Arm
from rarefeat.core.errors import RarefeatError
from rarefeat.kind import PRETRAIN, SYNTHESISE
from rarefeat.manage.archive import pack, unpack
from rarefeat.run.cli_helpers import run as run_stage
from rarefeat.run.results_folder import handle_in_a_thread, leave_at_once, take_over
from rarefeat.run.workers import GRACE
from rarefeat.storage.files import read_table, verify, write_table

# One point, two blocks of seeds: two jobs of each of three stages, and two that gather them.
TINY = {
    "seeds": 2,
    "seeds_per_block": 1,
    "data": {"d1": 60, "N": 512, "probe_pairs": 100, "test_pairs": 200},
    "training": {"T": 300},
    "imbalance": {"studies": {"neighbour": {"seeds": 2, "grid": {"arms": {"eps_min": [1.0]}}}}},
}
CONFIGS = ("config/quick.yaml", "tiny.yaml")
TABLES = [f"{RESULTS}/tables/neighbour_{name}.parquet" for name in ("grid", "summary", "trends", "trajectories")]
WAIT = 300
"""Seconds that anything may take."""


def tiny(folder: Path) -> Path:
    copy_of_the_project(folder)
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return folder


def make(folder: Path, *arguments: str, configs=CONFIGS) -> subprocess.CompletedProcess:
    return run(folder, *arguments, "--rerun-incomplete", "--", *TABLES, configs=configs)


def start(folder: Path, *arguments: str, configs=CONFIGS, script: str | None = None, **options) -> subprocess.Popen:
    """Snakemake in a session of its own, or a script that takes its arguments."""
    command = snakemake(folder, *arguments, "--rerun-incomplete", "--", *TABLES, configs=configs)
    if script:
        command[1:3] = ["-c", script]
    log = open(folder / "snakemake.log", "a")  # noqa: SIM115
    return subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=log, stderr=log, start_new_session=True, **options
    )


def finished_tables(folder: Path) -> list[bytes]:
    return [(folder / table).read_bytes() for table in TABLES]


def outputs(folder: Path) -> list[Path]:
    found = (folder / RESULTS).rglob("[!.]*")
    return [path for path in found if path.suffix in (".parquet", ".safetensors") and ".store" not in path.parts]


def python_processes(process: subprocess.Popen) -> list[tuple[psutil.Process, list[str]]]:
    """Python processes below a Snakemake, with their arguments."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name().startswith("python"):
                    found.append((child, child.cmdline()))
    return found


def stages(process: subprocess.Popen, module: str = "") -> list[psutil.Process]:
    """The processes that Snakemake started for stages of the chain: they work, or wait for a fork that does."""
    said = f'"stage": "chain.{module}'
    return [
        child for child, words in python_processes(process)
        if words[1:3] == ["-m", "rarefeat.run.stage"] and any(said in word for word in words)
    ]  # fmt: skip


def warm(process: subprocess.Popen) -> list[psutil.Process]:
    """The server of warm Pythons, then its forks, each of which works on a stage."""
    found = [child for child, words in python_processes(process) if any(word.endswith("run/workers.py") for word in words)]
    server, *others = sorted(found, key=lambda child: child.pid) or [None]
    # A fork at work has the standard input of its client; a program that the server starts has that of the server.
    return [server, *(child for child in others if standard_input(child) not in ("", standard_input(server)))] if server else []


def standard_input(process: psutil.Process) -> str:
    """Where a process reads from; nothing where it has ended."""
    try:
        return os.readlink(f"/proc/{process.pid}/fd/0")
    except OSError:
        return ""


def running(process: subprocess.Popen, module: str) -> psutil.Process:
    """A process of a stage, once there is one."""
    return until(lambda: process.poll() is not None or stages(process, module))[0]


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """A folder with the tiny grid computed, undisturbed."""
    folder = tiny(tmp_path_factory.mktemp("reference"))
    succeeded(make(folder))
    return folder


@pytest.fixture
def project(reference, tmp_path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(reference, tmp_path / "project"))


def killed(folder: Path, draw: random.Random, kind: str) -> bool:
    """Start Snakemake and kill at a random moment; whether something was killed, or all was done before."""
    process = start(folder)
    seen, wanted = set(), draw.randint(1, 4)
    while len(seen) < wanted and process.poll() is None:
        seen |= {stage.pid for stage in stages(process)}
        time.sleep(0.02)
    time.sleep(draw.uniform(0, 2))
    while process.poll() is None and not victims(process, kind):
        time.sleep(0.02)
    if not (found := victims(process, kind)):
        assert process.wait(WAIT) == 0
        return False
    match kind:
        case "all":
            os.killpg(process.pid, signal.SIGKILL)
        case _:
            draw.choice(found).kill()
    assert process.wait(WAIT) != 0
    if kind in ("all", "snakemake"):
        assert run(folder, "--unlock", configs=CONFIGS).returncode == 0
    return True


def victims(process: subprocess.Popen, kind: str) -> list[psutil.Process]:
    """What may be killed while a stage is at work."""
    with contextlib.suppress(psutil.NoSuchProcess):
        server, *forks = warm(process) or [None]
        if kind == "stage":
            return stages(process)
        if kind in ("fork", "server"):
            return (forks if kind == "fork" else [server]) if forks else []
        return [psutil.Process(process.pid)] if stages(process) else []
    return []


def in_flight(folder: Path) -> set[Path]:
    """Outputs that Snakemake has marked as begun."""
    markers = folder / ".snakemake" / "incomplete"
    names = [
        "".join(part.lstrip("@") for part in path.relative_to(markers).parts) for path in markers.rglob("*") if path.is_file()
    ]
    return {folder / urlsafe_b64decode(name).decode() for name in names}


@pytest.mark.faults
def test_twenty_kills_at_random_moments_lose_nothing_and_change_nothing(reference, tmp_path):
    seed = int(os.environ.get("FAULTS_SEED", random.randrange(2**32)))
    print(f"FAULTS_SEED={seed}")
    draw, folder = random.Random(seed), tiny(tmp_path)
    kinds = ["stage"] * 4 + ["fork"] * 6 + ["server"] * 2 + ["all"] * 5 + ["snakemake"] * 3
    draw.shuffle(kinds)
    kills, kept, whole = Counter(), {}, 0
    while kinds:
        killed_it = killed(folder, draw, kinds[-1])
        for path, identity in kept.items():
            assert identity == (path.stat().st_ino, path.stat().st_mtime_ns), f"{path} was finished and is made again"
        if killed_it:
            kills[kinds.pop()] += 1
            done = set(outputs(folder)) - in_flight(folder)
            kept = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in done}
            for path in done:
                verify(path)
        else:
            whole += 1
            assert finished_tables(folder) == finished_tables(reference)
            shutil.rmtree(folder / "results")
            shutil.rmtree(folder / ".snakemake")
            kept = {}
    print(f"{whole} runs completed between the kills: {dict(kills)}")
    done = succeeded(make(folder))
    assert finished_tables(folder) == finished_tables(reference)
    assert all(identity == (path.stat().st_ino, path.stat().st_mtime_ns) for path, identity in kept.items())
    # What killed writers leave is gone with the next run.
    assert not list((folder / RESULTS).rglob(".*.tmp*"))


@pytest.mark.faults
@pytest.mark.parametrize("forked", [False, True])
def test_a_job_that_outlives_its_snakemake_writes_nothing(project, reference, forked):
    """kill -9 of Snakemake alone, another parameter, a run to its end; then the old job, halted before, goes on to its own.

    Of two trainings at once the first has no warm Python; a fork does not outlive its server by more than the time of grace.
    """
    (project / "eta.yaml").write_text("training: {eta: 0.2}\n")
    cores = "2" if forked else "1"
    process = start(project, "--cores", cores, configs=(*CONFIGS, "eta.yaml"))
    orphan = until(lambda: warm(process)[1:])[0] if forked else running(process, "pretrain")
    orphan.suspend()
    process.kill()
    process.wait(WAIT)
    if forked:
        until(lambda: not orphan.is_running(), 3 * GRACE)
    assert run(project, "--unlock", configs=CONFIGS).returncode == 0
    succeeded(make(project))
    trained = {path: path.read_bytes() for path in outputs(project)}
    if not forked:
        orphan.resume()
        orphan.wait(WAIT)
    assert trained == {path: path.read_bytes() for path in outputs(project)}, sorted(set(outputs(project)) - set(trained))
    for path, content in trained.items():
        assert content == (reference / path.relative_to(project)).read_bytes()


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "rule"), [("encoders", "probe"), ("probes", "aggregate_grid")])
def test_a_flipped_bit_stops_the_run_and_deleting_the_file_mends_it(project, reference, kind, rule):
    damaged = next(path for path in outputs(project) if path.parts[len(project.parts) + 2] == kind)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(content)
    done = make(project, "--forcerun", rule)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error")]
    assert done.returncode != 0
    assert said
    assert all(f"error: cannot read {damaged.relative_to(project)}: it is damaged" in line for line in said)
    assert "Traceback" not in done.stdout + done.stderr
    # A table is gone, or is that of before.
    left = [table for table in TABLES if (project / table).exists()]
    assert all((project / table).read_bytes() == (reference / table).read_bytes() for table in left)
    damaged.unlink()
    assert make(project).returncode == 0
    assert finished_tables(project) == finished_tables(reference)


@contextlib.contextmanager
def mounted(folder: Path, size: str):
    """A small disk; skips where it cannot be had."""
    folder.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here; the test with a limit on the size of files stands in")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fails_for_want_of_space(project: Path, process: subprocess.Popen, words: str) -> None:
    assert process.wait(WAIT) != 0
    said = (project / "snakemake.log").read_text()
    assert any("cannot write results/" in line and line.endswith(words) for line in said.splitlines())
    assert not any((project / table).exists() for table in TABLES)
    for path in outputs(project):
        verify(path)


@pytest.mark.faults
@pytest.mark.parametrize("left", [0, 100_000])
def test_a_full_disk_stops_the_run_and_space_mends_it(reference, tmp_path, left):
    project = tiny(tmp_path)
    with mounted(project / "results", "600k"):
        ballast = project / "results" / "ballast"
        ballast.write_bytes(bytes(600 * 1024 - left // 4096 * 4096))
        fails_for_want_of_space(project, start(project), "No space left on device")
        ballast.unlink()
        succeeded(make(project))
        assert finished_tables(project) == finished_tables(reference)


@pytest.mark.faults
def test_a_limit_on_the_size_of_files_stops_the_run_and_lifting_it_mends_it(reference, tmp_path):
    project = tiny(tmp_path)
    process = start(project, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)))
    fails_for_want_of_space(project, process, "File too large")
    assert make(project).returncode == 0
    assert finished_tables(project) == finished_tables(reference)


OF_ANOTHER = {"eta": "training: {eta: 0.2}\n", "N": "data: {N: 300}\n"}


def of_another(folder: Path, key: str, *arguments: str) -> dict[str, int]:
    """The jobs that a changed config would make again."""
    (folder / f"{key}.yaml").write_text(OF_ANOTHER[key])
    return planned(folder, *arguments, *TABLES, configs=(*CONFIGS, f"{key}.yaml"))


@pytest.mark.faults
def test_files_made_while_the_disk_of_snakemake_was_full_are_not_trusted(reference, tmp_path):
    project = tiny(tmp_path)
    with mounted(project / ".snakemake", "16k"):
        assert start(project).wait(WAIT) != 0
    (project / ".snakemake").rmdir()
    left = outputs(project)
    assert left, "something was to be finished"
    assert of_another(project, "N")["synthesise"] == 2
    assert outputs(project) == left
    # Under the config that they were made of they are, as each of them says.
    succeeded(make(project))
    assert finished_tables(project) == finished_tables(reference)


@pytest.mark.faults
def test_a_run_goes_on_from_what_another_machine_has_kept(reference, tmp_path):
    project, archive = tiny(tmp_path / "project"), tmp_path / "kept.tar.xz"
    pack(reference / RESULTS, archive)
    unpack(archive, project / RESULTS, "neighbour")
    assert not {"synthesise", "pretrain", "probe"} & set(planned(project, *TABLES, configs=CONFIGS))
    assert of_another(project, "eta")["pretrain"] == 2
    succeeded(make(project))
    assert finished_tables(project) == finished_tables(reference)
    assert not list((project / RESULTS).rglob("*.safetensors"))


@pytest.mark.faults
def test_without_its_records_a_run_builds_on_what_says_that_it_is_of_this_config(project, reference):
    shutil.rmtree(project / ".snakemake")
    (project / TABLES[0]).unlink()
    encoders = {path: path.stat().st_ino for path in outputs(project) if path.suffix == ".safetensors"}
    assert planned(project, *TABLES, configs=CONFIGS) == {"aggregate_grid": 1}
    assert of_another(project, "eta")["pretrain"] == 2
    assert make(project).returncode == 0
    assert finished_tables(project) == finished_tables(reference)
    assert encoders == {path: path.stat().st_ino for path in encoders}


@pytest.mark.faults
@pytest.mark.parametrize(
    "spelling", ["results/quick/", "./results//quick", "results/x/../quick", "{folder}/results/quick", "linked"]
)
def test_another_spelling_of_the_folder_hides_no_changed_config(project, spelling):
    (project / "linked").symlink_to("results/quick")
    tables = [path.replace(str(RESULTS), "linked") if spelling == "linked" else path for path in TABLES]
    said = ("--config", f"results={spelling.replace('{folder}', str(project))}", "--", *tables)
    assert planned(project, *said, configs=CONFIGS) == {}
    (project / "eta.yaml").write_text(OF_ANOTHER["eta"])
    assert planned(project, *said, configs=(*CONFIGS, "eta.yaml"))["pretrain"] == 2


@pytest.mark.faults
def test_two_clones_with_one_folder_of_results_see_each_other_s_configs(project, reference, tmp_path):
    """The records of either are of its own runs alone."""
    other, shared = tiny(tmp_path / "other"), ("--config", f"results={project / RESULTS}", "--")
    tables = [str(project / path) for path in TABLES]
    assert planned(other, *shared, *tables, configs=CONFIGS) == {}
    (other / "eta.yaml").write_text(OF_ANOTHER["eta"])
    succeeded(run(other, *shared, *tables, configs=(*CONFIGS, "eta.yaml")))
    assert finished_tables(project) != finished_tables(reference)
    assert planned(project, *TABLES, configs=CONFIGS)["pretrain"] == 2
    assert make(project).returncode == 0
    assert finished_tables(project) == finished_tables(reference)


def unprivileged(command: list[str]) -> list[str]:
    """The command as a user who may read everything, since the interpreter may lie in root's folder, and write nothing."""
    if os.geteuid():
        return command
    if not shutil.which("setpriv"):
        pytest.skip("root without setpriv may write everywhere")
    rights = [f"--{kind}=-all,+dac_read_search" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *rights, *command]


@pytest.mark.faults
@pytest.mark.parametrize("finished", [False, True])
def test_a_read_only_folder_of_results_is_one_line(project, finished):
    if not finished:
        shutil.rmtree(project / "results")
    results = project / RESULTS
    results.mkdir(parents=True, exist_ok=True)
    paths = [project, *project.rglob("*")]
    before = set(results.rglob("*"))
    for path in paths:
        if results in (path, *path.parents):
            path.chmod(0o555 if path.is_dir() else 0o444)
        elif not os.geteuid():
            os.chown(path, 65534, 65534)
    command = unprivileged(snakemake(project, "--forcerun", "probe", "--", *TABLES, configs=CONFIGS))
    done = subprocess.run(
        command, cwd=project, env=environment(project) | {"HOME": str(project)}, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in said
    assert ("Write-protected output files" if finished else f"cannot write {RESULTS}/.lock: Permission denied") in said
    assert set(results.rglob("*")) == before
    for path in [results, *before]:
        path.chmod(0o755)


@pytest.mark.faults
def test_two_runs_on_the_same_results(reference, tmp_path):
    first, second = tiny(tmp_path / "first"), tiny(tmp_path / "second")
    process = start(first)
    stage = running(process, "synthesise")
    # The first is under way for as long as the others take.
    stage.suspend()
    here = make(first)
    there = run(
        second, "--config", f"results={first / RESULTS}", "--", str(first / TABLES[0]), configs=CONFIGS
    )  # fmt: skip
    assert process.poll() is None
    stage.resume()
    assert here.returncode != 0
    assert "Directory cannot be locked" in here.stdout + here.stderr
    assert there.returncode != 0
    assert f"{first / RESULTS} is in use by another snakemake, process {process.pid} on " in there.stdout + there.stderr
    assert process.wait(WAIT) == 0
    assert finished_tables(first) == finished_tables(reference)


def shift(paths: list[Path], seconds: int) -> None:
    for path in paths:
        date = path.stat().st_mtime_ns + seconds * 10**9
        os.utime(path, ns=(date, date))


@pytest.mark.faults
@pytest.mark.parametrize("days", [2, -400])
def test_a_clock_that_jumps_loses_nothing_and_hides_nothing(project, reference, days):
    # Everything is dated anew, as if made before the jump: nothing is made again.
    shift(outputs(project), days * 86400)
    assert planned(project, *TABLES, configs=CONFIGS) == {}
    # A changed parameter is seen.
    (project / "eta.yaml").write_text("training: {eta: 0.2}\n")
    changed = planned(project, *TABLES, configs=(*CONFIGS, "eta.yaml"))
    assert changed == {"pretrain": 2, "probe": 2, "aggregate_grid": 1, "aggregate_trajectories": 1}
    # Something between is lost: it is made from inputs of the other time, to the same bytes, and trainings are kept.
    encoders = {path: path.stat().st_ino for path in outputs(project) if path.suffix == ".safetensors"}
    for path in (project / RESULTS / "probes").rglob("*.parquet"):
        path.unlink()
    (project / TABLES[0]).unlink()
    succeeded(make(project))
    assert finished_tables(project) == finished_tables(reference)
    assert encoders == {path: path.stat().st_ino for path in encoders}
    assert all(path.stat().st_mtime <= time.time() for path in outputs(project))
    assert planned(project, *TABLES, configs=CONFIGS) == {}


# Snakemake, which gets a SIGTERM while it holds the lock of its scheduler.
SELECTING = """
import os, signal, sys
from snakemake.cli import main
from snakemake.scheduling.job_scheduler import JobScheduler
update = JobScheduler.update_available_resources
def interrupted(scheduler, jobs):
    assert scheduler._lock.locked()
    os.kill(os.getpid(), signal.SIGTERM)
    update(scheduler, jobs)
JobScheduler.update_available_resources = interrupted
main(sys.argv[1:])
"""


@pytest.mark.faults
@pytest.mark.parametrize("whom", ["snakemake", "snakemake as it selects jobs", "all"])
def test_sigterm_ends_a_run_in_order(reference, tmp_path, whom):
    folder = tiny(tmp_path)
    process = start(folder, script=SELECTING if "selects" in whom else None)
    if "selects" not in whom:
        running(process, "pretrain")
    begun = time.monotonic()
    if whom == "all":
        os.killpg(process.pid, signal.SIGTERM)
    elif whom == "snakemake":
        process.terminate()
    assert process.wait(120) != 0
    print(f"SIGTERM to {whom}: {time.monotonic() - begun:.1f} s")
    for path in outputs(folder):
        verify(path)
    assert not any((folder / table).exists() for table in TABLES)
    before = {path: path.stat().st_ino for path in outputs(folder)}
    # In order: no lock is left, and nothing is incomplete.
    succeeded(run(folder, "--", *TABLES, configs=CONFIGS))
    assert before == {path: path.stat().st_ino for path in before}
    assert finished_tables(folder) == finished_tables(reference)


def test_a_handler_that_needs_what_the_interrupted_thread_holds_gets_it_in_the_end():
    lock, handled = threading.Lock(), threading.Event()

    def handler(number, frame):
        with lock:
            handled.set()

    before = signal.signal(signal.SIGTERM, handler)
    try:
        handle_in_a_thread(signal.SIGTERM)
        with lock:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not handled.wait(0.1)
        assert handled.wait(10)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_does_not_wait_for_the_timers_of_its_jobs():
    ran = threading.Event()
    timer = threading.Timer(60, ran.set)
    timer.start()
    leave_at_once()
    timer.join(30)
    assert not timer.is_alive()
    assert not ran.is_set()


@pytest.mark.parametrize(("asked", "timers"), [([], 0), (["--max-jobs-per-timespan", "50/1s"], 1)])
def test_a_local_run_starts_no_timer_for_its_jobs_unless_it_is_asked_to(tmp_path, asked, timers):
    """With a limit of submissions there is one for each finished job, again and again: a quarter of a core after 600 jobs."""
    script = """
import sys, threading
started = []
threading.Timer.start = lambda timer: started.append(timer)
from snakemake.cli import main
try:
    main(sys.argv[1:])
finally:
    print("timers:", len(started))
"""
    folder = copy_of_the_project(tmp_path)
    done = python(folder, "-c", script, *snakemake(folder, *asked, "--", "lucky_sets")[3:])
    assert (folder / RESULTS / "tables/lucky_sets.parquet").is_file(), done.stderr
    assert min(int(done.stdout.rpartition("timers: ")[2]), 1) == timers


AT = cell(eps_min=1.0, sigma=0.1)


def synthesise_command(output: Path, **data) -> list[str]:
    job = job_at(SYNTHESISE, {"draws": "s", "data": tiny_data(**data)}, "s", SYNTHESISE.shared(AT), "1-2").text
    return [sys.executable, "-m", "rarefeat.run.make", "--job", job, "--output", str(output)]


def test_a_stage_without_enough_memory_is_one_line(tmp_path):
    done = subprocess.run(
        synthesise_command(tmp_path / "latents.safetensors", N=10**9),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: out of memory: ")
    assert line.endswith("; give the job more, run fewer jobs at once, or lower seeds_per_block (of images, training.batch)")
    assert not list(tmp_path.iterdir())


def test_other_errors_are_not_taken_for_want_of_memory():
    def fail():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        run_stage(fail)


def test_sigterm_ends_a_long_training_at_once_and_leaves_nothing(tmp_path):
    subprocess.run(synthesise_command(tmp_path / SYNTHESISE.path("latents", "s", AT, "1-2")), check=True, capture_output=True)
    training = tiny_training(T=10**8, eta=1e-3)
    config = {"draws": "s", "simulator": "reduced", "data": tiny_data(), "training": training, "arms": [Arm(arm="dense")]}
    process = subprocess.Popen(
        [sys.executable, "-m", "rarefeat.run.make", "--job", job_at(PRETRAIN, config, "s", AT, "1-2").text,
         "--results", str(tmp_path), "--output", str(tmp_path / "e.safetensors"), str(tmp_path / "t.parquet")],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "0%" in process.stderr.readline()  # training has begun
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "error: ended by SIGTERM; run snakemake again"
    assert list(tmp_path.iterdir()) == [tmp_path / "latents"]


def test_a_job_whose_run_was_superseded_or_whose_shell_is_gone_writes_nothing(tmp_path):
    lock, output = tmp_path / "lock", tmp_path / "latents.safetensors"
    command = synthesise_command(output)
    as_job = os.environ | {"RAREFEAT_LOCK": str(lock), "RAREFEAT_RUN": "run 1"}
    lock.write_text("run 2")
    done = subprocess.run(command, env=as_job, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"error: {output} is not written: the snakemake that asked for it is gone\n"
    assert list(tmp_path.iterdir()) == [lock]
    lock.write_text("run 1")
    subprocess.run(command, env=as_job, check=True)
    output.unlink()
    # A shell that is killed once the stage has begun, and before it writes.
    script = f"""
import os, signal
import pyarrow
from rarefeat.run import guard
from rarefeat.storage import files
os.kill(guard.PARENT, signal.SIGKILL)
while os.getppid() == guard.PARENT:
    pass
files.write_table({str(output)!r}, pyarrow.table({{"a": [1]}}))
"""
    shell = subprocess.run(
        ["bash", "-c", '"$0" -c "$1"; true', sys.executable, script], env=as_job, capture_output=True, text=True, check=False
    )
    assert shell.returncode == -signal.SIGKILL
    assert "the snakemake that asked for it is gone" in shell.stderr
    assert not output.exists()


def test_a_folder_is_taken_once_and_cleared_of_what_killed_writers_left(tmp_path):
    folder = tmp_path / "results"
    take_over(folder)
    write_table(folder / "tables" / "t.parquet", pa.table({"a": [1]}))
    left = folder / "tables" / f".t.parquet.{os.getpid()}.tmp.parquet"
    left.write_bytes(b"half")
    # Another folder of results below this one, with a writer at work.
    take_over(folder / "quick")
    written = folder / "quick" / left.name
    written.write_bytes(b"half")
    with pytest.raises(RarefeatError, match=f"results is in use by another snakemake, process {os.getpid()} on "):
        in_another_process(folder)
    assert left.exists()
    take_over(folder)
    assert not left.exists()
    assert written.exists()
    assert read_table(folder / "tables" / "t.parquet").num_rows == 1


def in_another_process(folder: Path) -> None:
    imports = "from rarefeat.run.cli_helpers import run\nfrom rarefeat.run.results_folder import take_over\n"
    script = f"{imports}run(lambda: take_over({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RarefeatError(done.stderr)


def test_files_from_the_future_are_dated_before_now_in_their_order(tmp_path):
    now = time.time_ns()
    dates = {"old": now - 10**12, "late": now + 9 * 10**12, "later": now + 10**13, "as late": now + 9 * 10**12}
    for name, date in dates.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(date, date))
    take_over(tmp_path)
    after = {name: (tmp_path / name).stat().st_mtime for name in dates}
    assert after["old"] < after["late"] == after["as late"] < after["later"] <= time.time()
    assert abs(after["old"] - dates["old"] / 1e9) < 1e-3
    assert after["late"] > now / 1e9 - 1
