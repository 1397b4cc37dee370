"""Warm Pythons: a stage in a fork of the server is the stage that `python -m` runs, and ends with those that asked for it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from conftest import until

from rarefeat.run import workers

SOURCE = str(Path(workers.__file__).parents[2])
WAIT = 120
"""Seconds that anything may take."""
OWNER = """
import sys
from rarefeat.run.workers import start
print(start(), flush=True)
sys.stdin.read()
"""
# Says where it runs: in a fork, the process that imported torch is not its own.
WHERE = "import os, sys\nwarm = 'RAREFEAT_CLIENT' in os.environ\n"


def environment(**variables: str) -> dict[str, str]:
    """What a job of one thread has."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAREFEAT_")}
    return kept | workers.ONE_THREAD | {"PYTHONPATH": SOURCE} | variables


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that has been asked once, which it refuses."""
    with started() as path:
        run(tmp_path_factory.mktemp("first"), "", path=path)
        yield path


@contextlib.contextmanager
def started():
    """The socket's name of a server of a process of its own, which ends with its standard input."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Started(owner.stdout.readline().strip(), owner)
    finally:
        owner.stdin.close()
        owner.wait(WAIT)
        owner.stdout.close()


class Started(str):
    """The name of a socket, with the process that started its server."""

    owner: subprocess.Popen

    def __new__(cls, name: str, owner: subprocess.Popen):
        made = super().__new__(cls, name)
        made.owner = owner
        return made

    @property
    def process(self) -> psutil.Process:
        (process,) = psutil.Process(self.owner.pid).children()
        return process


def command(folder: Path, code: str, *arguments: str, options=()) -> list[str]:
    """The command line of a stage with this code."""
    (folder / "job.py").write_text(WHERE + code)
    return [sys.executable, "-m", "rarefeat.run.stage", *options, "job", *arguments]


def run(folder: Path, code: str, *arguments: str, path: str = "", options=(), **variables: str):
    """Run a stage, in a fork of a server where `path` is its socket."""
    place = {"RAREFEAT_WORKERS": str(path)} if path else {}
    return subprocess.run(
        command(folder, code, *arguments, options=options), cwd=folder, env=environment(**place, **variables),
        capture_output=True, text=True, check=False, timeout=WAIT,
    )  # fmt: skip


def begin(folder: Path, code: str, path: str, **options) -> subprocess.Popen:
    """A stage that has begun: it has said its process, and whether it is warm."""
    process = subprocess.Popen(
        command(folder, "print(os.getpid(), warm, flush=True)\n" + code), cwd=folder,
        env=environment(RAREFEAT_WORKERS=path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    fork, warm = process.stdout.readline().split()
    assert warm == "True"
    process.fork = int(fork)
    assert process.fork != process.pid
    return process


def gone(process: int) -> bool:
    return not psutil.pid_exists(process)


ENDINGS = {
    "succeeds": "print('out'); print('err', file=sys.stderr)",
    "status": "sys.exit(7)",
    "message": "sys.exit('error: so it is')",
    "exit 0": "sys.exit(0)",
    "traceback": "def fail():\n    raise ValueError('wrong')\nfail()",
    "import of nothing": "import no_such_module",
    "arguments": "print(sys.argv)",
    "input": "print(sys.stdin.read())",
    "not closed": "kept = open('kept.txt', 'w'); kept.write('all of it')",
    "at exit": "import atexit; atexit.register(print, 'last'); print('first')",
    "thread": "import threading, time; threading.Thread(target=lambda: (time.sleep(.2), print('late'))).start()",
    "path": "print(sys.path, os.getcwd(), sys.executable)",
    "random": "import torch\ntorch.manual_seed(3)\nprint(torch.rand(3), torch.get_num_threads())",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_fork_ends_and_says_what_a_new_python_does(server, tmp_path, ending):
    there = "" if ending == "import of nothing" else "print('warm', warm)\n"
    warm = run(tmp_path, there + ENDINGS[ending], "a b", "", "é", path=server)
    written = {file.name: file.read_text() for file in tmp_path.glob("*.txt")}
    direct = run(tmp_path, there + ENDINGS[ending], "a b", "", "é")
    if there:
        assert "warm True" in warm.stdout
    assert warm.stdout.replace("warm True", "warm False") == direct.stdout
    assert (warm.returncode, warm.stderr) == (direct.returncode, direct.stderr)
    assert written == {file.name: file.read_text() for file in tmp_path.glob("*.txt")}


def test_a_traceback_begins_with_the_stage(server, tmp_path):
    done = run(tmp_path, ENDINGS["traceback"], path=server)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1].startswith(f'  File "{tmp_path}/job.py"')
    assert done.stderr.endswith("ValueError: wrong\n")


def test_a_stage_killed_by_a_signal_is_128_and_its_number(server, tmp_path):
    assert run(tmp_path, "os.kill(os.getpid(), 9)", path=server).returncode == 128 + signal.SIGKILL
    assert run(tmp_path, "os.abort()", path=server).returncode == 128 + signal.SIGABRT


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()", "torch.rand(1)"])
def test_two_forks_without_a_seed_draw_different_numbers(server, tmp_path, draw):
    draws = {run(tmp_path, f"import random, numpy, torch\nprint(warm, {draw})", path=server).stdout for _ in range(2)}
    assert len(draws) == 2
    assert all(draw.startswith("True ") for draw in draws)


TRAIN = """
import torch, pandas as pd, pyarrow as pa, pyarrow.parquet as pq, matplotlib.pyplot as plt
from safetensors.torch import save_file
from scipy.stats import linregress
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))
data, optimizer, losses = torch.randn(2048, 64), torch.optim.SGD(model.parameters(), lr=0.1), []
for step in range(30):
    optimizer.zero_grad()
    loss = (model(data) ** 2).sum(1).logsumexp(0) + (data[:, :8] - model(data)).pow(2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
save_file(model.state_dict(), sys.argv[1] + ".safetensors")
table = pd.DataFrame({"loss": losses, "slope": linregress(range(30), losses).slope})
pq.write_table(pa.Table.from_pandas(table), sys.argv[1] + ".parquet")
table.plot()
plt.savefig(sys.argv[1] + ".png")
print(warm, torch.get_num_threads(), torch.__config__.parallel_info())
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_training_has_the_same_bytes(server, tmp_path, threads):
    """With more than one thread it is not left to chance: such a stage runs directly."""
    many = dict.fromkeys(workers.ONE_THREAD, threads)
    warm = run(tmp_path, TRAIN, "warm", path=server, **many)
    direct = run(tmp_path, TRAIN, "direct", **many)
    assert warm.stdout.startswith("True 1 " if threads == "1" else "False 2 "), warm.stderr
    assert warm.stdout.split(maxsplit=1)[1] == direct.stdout.split(maxsplit=1)[1]
    for suffix in (".safetensors", ".parquet", ".png"):
        assert (tmp_path / f"warm{suffix}").read_bytes() == (tmp_path / f"direct{suffix}").read_bytes()


@pytest.mark.parametrize(
    "variables",
    [{"OMP_NUM_THREADS": "2"}, {"MALLOC_TRIM_THRESHOLD_": "1000"}, {"PYTHONHASHSEED": "3"}, {"MKL_CBWR": "COMPATIBLE"}],
    ids=lambda variables: next(iter(variables)),
)
def test_what_is_read_once_is_not_taken_from_the_server(server, tmp_path, variables):
    assert run(tmp_path, "print(warm)", path=server, **variables).stdout == "False\n"
    assert run(tmp_path, "print(warm)", path=server).stdout == "True\n"


def test_the_code_that_runs_is_the_one_on_the_disk(server, tmp_path):
    for version in ("first", "second, longer"):
        assert run(tmp_path, f"print({version!r}, warm)", path=server).stdout == f"{version} True\n"


def test_the_server_holds_no_module_of_ours():
    script = (
        f"import sys, runpy\nrunpy.run_path({workers.__file__!r})\nprint([name for name in sys.modules if 'rarefeat' in name])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_client_imports_nothing_slow():
    slow = ["torch", "numpy", "pandas", "pyarrow", "pydantic", "subprocess"]
    script = f"import sys, rarefeat.run.stage\nprint({{*{slow}}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout == "set()\n"


LONG = """
import signal, time, pathlib
def leave(number, frame):
    pathlib.Path("signal").write_text(str(number))
    sys.exit("ended by a signal")
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, leave)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_for_the_client_is_for_the_stage(server, tmp_path, number):
    client = begin(tmp_path, LONG, server)
    client.stdout.readline()
    client.send_signal(number)
    _, errors = client.communicate(timeout=WAIT)
    assert (client.returncode, errors) == (1, "ended by a signal\n")
    assert (tmp_path / "signal").read_text() == str(int(number))
    assert gone(client.fork)


def test_a_killed_client_takes_its_stage_along_in_order(server, tmp_path):
    client = begin(tmp_path, LONG, server)
    client.stdout.readline()
    client.kill()
    until(lambda: gone(client.fork))
    assert (tmp_path / "signal").read_text() == str(int(signal.SIGTERM))
    client.communicate()


def test_a_stage_that_does_not_end_is_killed(server, tmp_path):
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint(1, flush=True)\ntime.sleep(1000)"
    client = begin(tmp_path, code, server)
    client.stdout.readline()
    client.kill()
    begun = time.monotonic()
    until(lambda: gone(client.fork))
    assert time.monotonic() - begun > workers.GRACE / 2
    client.communicate()


WRITE = """
import time, pyarrow
from rarefeat.run import guard
from rarefeat.storage import files
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
files.write_table("table.parquet", pyarrow.table({"a": [1]}))
"""


@pytest.mark.parametrize("lost", ["nothing", "shell", "run"])
def test_a_stage_whose_shell_or_run_is_gone_writes_nothing(server, tmp_path, lost):
    lock = tmp_path / "lock"
    lock.write_text("run 1")
    shell = subprocess.Popen(
        ["bash", "-c", '"$@"; true', "bash", *command(tmp_path, WRITE)], cwd=tmp_path, text=True,
        env=environment(RAREFEAT_WORKERS=server, RAREFEAT_LOCK=str(lock), RAREFEAT_RUN="run 1"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert shell.stdout.readline() == "ready\n"
    if lost == "shell":
        shell.kill()
        shell.wait()
    if lost == "run":
        lock.write_text("run 2")
    (tmp_path / "go").touch()
    _, errors = shell.communicate(timeout=WAIT)
    assert (tmp_path / "table.parquet").exists() == (lost == "nothing")
    assert ("the snakemake that asked for it is gone" in errors) == (lost != "nothing")


def test_stages_at_once_and_no_zombies(server, tmp_path):
    folders = [tmp_path / str(i) for i in range(8)]
    results = {}

    def one(folder: Path) -> None:
        folder.mkdir()
        results[folder] = run(folder, f"print(warm, {folder.name})\nsys.exit({folder.name})", path=server)

    threads = [threading.Thread(target=one, args=[folder]) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {done.returncode for done in results.values()} == set(range(8))
    assert all(done.stdout == f"True {folder.name}\n" for folder, done in results.items())
    until(lambda: not server.process.children())


def test_one_stage_that_is_closed_in_its_output_leaves_the_others(server, tmp_path):
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -1', "bash", *command(tmp_path, "for i in range(10**5): print(i)")], cwd=tmp_path,
        env=environment(RAREFEAT_WORKERS=server), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "0\n"
    assert run(tmp_path, "print(warm)", path=server).stdout == "True\n"


def test_nonsense_does_not_end_the_server(server, tmp_path):
    for sent in (b"", b"\1", (8).to_bytes(8, "little") + b"nonsense", (3).to_bytes(8, "little") + b"(\0\0"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"\0{server}")
            connection.sendall(sent)
    assert run(tmp_path, "print(warm)", path=server).stdout == "True\n"


def test_a_client_that_has_gone_leaves_nothing_open_in_the_server_or_in_other_stages(server, tmp_path):
    before = server.process.num_fds()
    waiting = begin(tmp_path, "import time\ntime.sleep(1000)", server)
    links = "{os.path.realpath(f'/proc/self/fd/{name}') for name in os.listdir('/proc/self/fd')}"
    code = f"print([link for link in {links} if 'socket:' in link or 'pidfd' in link])"
    assert run(tmp_path, code, path=server).stdout == "[]\n"
    assert "False" in run(tmp_path, "print(warm)", path=server, OMP_NUM_THREADS="2").stdout
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"\0{server}")
        socket.send_fds(connection, [(8).to_bytes(8, "little") + b"nonsense"], [0, 1, 2])
    waiting.kill()
    waiting.communicate()
    until(lambda: server.process.num_fds() == before)


def test_without_a_server_a_stage_runs_all_the_same(tmp_path):
    done = run(tmp_path, "print(warm)", path="rarefeat-none")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_the_first_stage_of_a_run_does_not_wait_for_imports(tmp_path):
    with started() as path:
        assert run(tmp_path, "print(warm)", path=path).stdout == "False\n"
        assert run(tmp_path, "print(warm)", path=path).stdout == "True\n"


def test_a_server_that_dies_before_a_stage_began_is_not_missed(tmp_path):
    with started() as path:
        path.process.suspend()
        client = subprocess.Popen(
            command(tmp_path, "print(warm)"), cwd=tmp_path, env=environment(RAREFEAT_WORKERS=path), text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        time.sleep(0.5)
        assert client.poll() is None
        path.process.kill()
        assert client.communicate(timeout=WAIT)[0] == "False\n"
        assert client.returncode == 0


def test_a_server_that_dies_takes_its_stages_along(tmp_path):
    with started() as path:
        run(tmp_path, "", path=path)
        client = begin(tmp_path, LONG, path)
        client.stdout.readline()
        path.process.kill()
        _, errors = client.communicate(timeout=WAIT)
        assert client.returncode == 1
        said = "error: the process that ran this stage is gone with its server; run snakemake again"
        # Two processes write, and a line of one may end after that of the other.
        assert errors.replace(said, "").replace("ended by a signal", "") == "\n\n"
        until(lambda: gone(client.fork))
        assert run(tmp_path, "print(warm)", path=path).stdout == "False\n"


@pytest.mark.parametrize("how", ["it ends", "SIGKILL", "SIGKILL to its group"])
def test_the_server_ends_with_the_process_that_started_it(tmp_path, how):
    with started() as path:
        run(tmp_path, "", path=path)
        client = begin(tmp_path, LONG, path)
        client.stdout.readline()
        server = path.process.pid
        if how == "it ends":
            path.owner.stdin.close()
        else:
            path.owner.kill()
        if how == "SIGKILL to its group":
            client.kill()
        path.owner.wait(WAIT)
        client.communicate(timeout=WAIT)
        assert client.returncode == (1 if how != "SIGKILL to its group" else -signal.SIGKILL)
        until(lambda: gone(server) and gone(client.fork))
    assert (tmp_path / "signal").read_text() == str(int(signal.SIGTERM))


@pytest.mark.parametrize("warm", [True, False])
def test_times_are_those_of_the_stage(server, tmp_path, warm):
    times = tmp_path / "new" / "times.tsv"
    work = (
        "import time, numpy\n"
        "begun = time.process_time()\n"
        "held = numpy.ones(768 * 2**20 // 8)\n"
        "while time.process_time() < begun + 1: pass\n"
    )
    path = server if warm else ""
    done = run(tmp_path, work + "sys.exit(3)", path=path, options=["--times", str(times)])
    assert (done.returncode, times.exists()) == (3, False)
    begun = time.monotonic()
    work += "time.sleep(1); print(warm)"
    done = run(tmp_path, work, path=path, options=["--times", str(times)])
    elapsed = time.monotonic() - begun
    assert done.stdout == f"{warm}\n", done.stderr
    head, line = (row.split("\t") for row in times.read_text().splitlines())
    found = dict(zip(head, map(float, line), strict=True))
    assert list(found) == ["s", "max_rss", "cpu_time"]
    assert 2 <= found["s"] <= elapsed
    assert 1 <= found["cpu_time"] <= found["s"] - 0.9
    assert 768 <= found["max_rss"] <= 2500
    assert list(times.parent.iterdir()) == [times]


def test_times_that_cannot_be_written_are_one_line(server, tmp_path):
    done = run(tmp_path, "", path=server, options=["--times", "/proc/times.tsv"])
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot write /proc/times.tsv: ")
    assert len(done.stderr.splitlines()) == 1


def test_usage():
    command = [sys.executable, "-m", "rarefeat.run.stage"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: ")
