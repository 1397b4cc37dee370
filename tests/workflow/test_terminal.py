"""Terminal output: a small workflow through the real Snakemake with this logger."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from whole_project import ROOT

COMMAND = [sys.executable, "-m", "snakemake", "--logger", "rarefeat", "--cores", "2"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"}
LIST_NAMES = "snakemake --lt lists the names"
RESUME = "run the same command again: finished jobs are kept"
WORKFLOW = """
import snakemake_logger_plugin_rarefeat as terminal
terminal.RESULTS, terminal.TARGETS = "results", ["gather", "figure_2"]
rule gather:
    input: expand("results/paper_eps={eps}.txt", eps=[1, 2])
    output: "results/tables/total.txt"
    shell: "touch {output}"
rule train:
    output: "results/{study}_eps={eps}.txt"
    log: "logs/{study}_{eps}.log"
    shell: "bash job.sh {wildcards.eps} > {log} 2>&1 && touch {output}"
"""
FAIL = "echo ' 50%'; [ $1 = 1 ] || exit 0; "


def write_workflow(script: str, workflow: str = WORKFLOW) -> None:
    Path("Snakefile").write_text(workflow)
    Path("job.sh").write_text(script)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run():
    def run(script: str, *arguments: str, workflow: str = WORKFLOW) -> tuple[int, list[str]]:
        write_workflow(script, workflow)
        done = subprocess.run(
            [*COMMAND, *arguments], env=ENVIRONMENT, capture_output=True, text=True
        )
        text = re.sub(r"\d+\.\d s", "T", done.stdout + done.stderr)
        return done.returncode, re.sub(r"eps=\d, T", "eps=N, T", text).splitlines()

    return run


def run_on_terminal(interrupt_at: str) -> str:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(COMMAND[0], COMMAND, ENVIRONMENT)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    received = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            received += os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if interrupt_at and interrupt_at.encode() in received:
            os.write(terminal, b"\x03")
            interrupt_at = ""
    os.waitpid(pid, 0)
    return received.decode()


def test_finished_jobs_have_a_line_each(run):
    train = "train paper eps=N, T"
    end = "done: 3 jobs; tables: results/tables"
    lines = ["3 jobs to run", f"[1/3] {train}", f"[2/3] {train}", "[3/3] gather, T", end]
    assert run("sleep 0.1") == (0, lines)
    idle = "nothing to be done: all files are up to date; tables: results/tables"
    assert run("sleep 0.1") == (0, [idle])
    assert run("sleep 0.1", "-F", "--quiet", "all") == (0, [])


def test_touched_job_is_called_so(run):
    run("sleep 0.1")
    _, lines = run("sleep 0.1", "-F", "--touch")
    assert lines[1].endswith(", touched")
    assert lines[-1] == "touched, not run: 3 jobs; tables: results/tables"


@pytest.mark.parametrize(
    "error", ["error: N is 0; at least 1", "Traceback (most\n  File x\nKeyError: 1"]
)
def test_failed_job_shows_its_log(run, error):
    status, lines = run(f"{FAIL} echo '{error}'; exit 3", "-k")
    start = lines.index("failed: train paper eps=1; log: logs/paper_1.log") + 1
    assert status == 1
    assert lines[start : start + error.count("\n") + 1] == error.splitlines()
    assert lines[-1] == f"1 failed, 1 of 3 jobs done; mend the cause and {RESUME}"
    assert not re.search("RuleException|CalledProcessError|50%", "".join(lines))


def test_retried_job_has_not_failed(run):
    status, lines = run("[ -e tried ] || { touch tried; exit 1; }", "--retries", "1", "-j1")
    assert (status, lines[-1]) == (0, "done: 3 jobs; tables: results/tables")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["figre_2"], "", f"no rule makes figre_2; did you mean figure_2? {LIST_NAMES}"),
        ([], "raise WorkflowError('config: d is 0')", "config: d is 0"),
        ([], "rule z:\n input: lambda w: {}[1]", None),
        (["--configfile", "a"], "", "FileNotFoundError: [Errno 2] No such file or directory: 'a'"),
    ],
)  # fmt: skip
def test_user_error_is_one_line(run, arguments, code, message):
    workflow = f"from snakemake.exceptions import WorkflowError\n{code}\n{WORKFLOW}"
    status, lines = run("", *arguments, workflow=workflow)
    assert status == 1
    if message:
        assert lines == [f"error: {message}"]
    else:
        assert "KeyError" in "".join(lines)  # a defect of the code keeps its traceback


def test_plan_has_each_job_with_its_reason(run):
    _, lines = run("", "-n", "-p")
    assert "gather" in lines
    assert any(line.startswith("    reason: Missing output files: ") for line in lines)
    assert any("bash job.sh 1 > logs/paper_1.log" in line for line in lines)
    assert "3 jobs to run" in lines


def test_terminal_shows_one_bar():
    write_workflow("sleep 0.3")
    lines = run_on_terminal("").replace("\r\n", "\n").split("\n")
    assert lines[0] == "3 jobs to run"
    assert re.search(r"\r\[1/3\] \|█{5}.{11}\| train paper eps=\d\b", lines[1])
    assert lines[-2].endswith("done: 3 jobs; tables: results/tables")


def test_interrupted_run_says_how_to_go_on():
    write_workflow("sleep 30")
    text = run_on_terminal("train paper")
    assert f"stopped: 0 of 3 jobs done; {RESUME}" in text
    assert not re.search("RuleException|CalledProcessError|failed:", text)
