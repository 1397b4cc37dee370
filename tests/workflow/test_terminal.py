"""What a run says on a terminal and elsewhere: small workflows through the real Snakemake with the logger of this project."""

import base64
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
import yaml
from conftest import until
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase
from whole_project import ROOT, succeeded

from snakemake_logger_plugin_rarefeat import LogHandler, words
from snakemake_logger_plugin_rarefeat.run import Run, StartedJob, earlier_runs
from snakemake_logger_plugin_rarefeat.words import clock, complaint, grouped_reasons, label, left

COMMAND = [sys.executable, "-m", "snakemake", "--logger", "rarefeat"]
GO_ON = "run the same command again: what is finished is kept"
WORKFLOW = """
import os
os.environ["RAREFEAT_RESULTS"] = "results"
os.environ["RAREFEAT_CHECKPOINTS"] = "count"

rule all:
    input: "results/tables/total.txt"

checkpoint count:
    output: "results/count.txt"
    shell: "echo 3 > {output}"

rule part:
    input: "source.txt"
    output: "results/part_{kind}_{number}.txt"
    log: "logs/{kind}_{number}.log"
    params: scale=config.get("scale", 1)
    shell: "bash job.sh {wildcards.number} > {log} 2>&1 && touch {output}"

def parts(wildcards):
    number = int(open(checkpoints.count.get().output[0]).read())
    return expand("results/part_some_{number}.txt", number=range(number))

rule gather:
    input: parts
    output: "results/tables/total.txt"
    shell: "touch {output}"
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A workflow of a checkpoint after which three jobs are known, and of a job that gathers them."""
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    (tmp_path / "source.txt").write_text("1")
    (tmp_path / "job.sh").write_text("sleep 0.2\n")
    return tmp_path


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [*COMMAND, "--cores", "2", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def on_a_terminal(folder: Path, *arguments: str, interrupt_at: str = "") -> tuple[str, int]:
    """What a pseudo-terminal receives, and the exit status; Ctrl-C is typed once a text appears."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(COMMAND[0], [*COMMAND, "--cores", "2", *arguments], environment())
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
    return received.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def full_log(folder: Path) -> str:
    return max((folder / ".snakemake/log").iterdir()).read_text()


def test_a_line_for_each_finished_job(folder):
    done = succeeded(run(folder))
    assert done.stdout == ""
    first, *jobs, last, products = done.stderr.splitlines()
    assert first == "3 jobs to run, and more after count"
    assert [re.sub(r"[\d.]+ s", "T s", re.sub(r"number=\d", "number=N", job)) for job in jobs] == [
        "[1/3] count, T s",
        "[2/6] part some number=N, T s; 3 more jobs to run",
        *[f"[{done}/6] part some number=N, T s" for done in (3, 4)],
        "[5/6] gather, T s",
        "[6/6] all, T s",
    ]
    path = max((folder / ".snakemake/log").iterdir()).relative_to(folder)
    assert re.fullmatch(rf"6 jobs done in [\d.]+ s\. Snakemake's full log: {re.escape(str(path))}", last)
    assert products == "tables: results/tables"
    # Snakemake's own log is as without a logger.
    for part in ("rule part:", "wildcards: kind=some, number=1", "Finished jobid", "Job stats:", "6 of 6 steps (100%) done"):
        assert part in full_log(folder)

    again = run(folder)
    assert again.stderr.splitlines() == [
        "Nothing to be done (all requested files are present and up to date).", "tables: results/tables"
    ]  # fmt: skip


def test_a_failed_job_is_told_in_full_and_nothing_else(folder):
    (folder / "job.sh").write_text(
        "echo ' 50% of it'; sleep 0.2\nif [ $1 = 1 ]; then echo 'error: N is 0; at least 1' >&2; exit 3; fi"
    )
    done = run(folder, "--keep-going")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    at = lines.index("failed: part some number=1 (exit status 3); log: logs/some_1.log")
    assert lines[at + 1] == "error: N is 0; at least 1"
    assert re.match(rf"1 job failed, 3 of 6 done in [\d.]+ s\. Once it is mended, {GO_ON}\. Snakemake's full log: ", lines[-1])
    assert not [line for line in lines if re.search("RuleException|CalledProcessError|Traceback|50%", line)]
    assert "RuleException" in full_log(folder)


def test_a_traceback_is_told_whole_and_a_job_without_log_by_its_command(folder):
    (folder / "job.sh").write_text(f"{sys.executable} -c 'def f(): {{}}[1]\nf()'")
    lines = run(folder, "--", "results/part_some_1.txt").stderr.splitlines()
    at = lines.index("Traceback (most recent call last):")
    assert lines[at - 1] == "failed: part some number=1 (exit status 1); log: logs/some_1.log"
    assert "KeyError: 1" in lines[at:]
    assert any('File "<string>", line 2' in line for line in lines)

    (folder / "job.sh").write_text("kill -KILL $$")
    told = run(folder, "--", "results/part_some_1.txt").stderr
    assert "failed: part some number=1 (exit status 137); log: logs/some_1.log" in told
    assert "Killed" in told  # bash's word, in the log


def test_a_job_that_alone_gets_a_signal_has_failed(folder):
    """Failures of that kind are held back only where the whole run is stopped."""
    (folder / "job.sh").write_text("echo 'error: ended by SIGTERM; run snakemake again'; exit 1")
    lines = run(folder, "--", "results/part_some_1.txt").stderr.splitlines()
    assert "failed: part some number=1 (exit status 1); log: logs/some_1.log" in lines
    assert lines[-1].startswith("1 job failed, 0 of 1 done")


def test_a_job_tried_again(folder):
    (folder / "job.sh").write_text("if [ ! -e tried ]; then touch tried; echo error: once; exit 1; fi")
    done = run(folder, "--retries", "1", "--", "results/part_some_1.txt")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines[1:4] == [
        "failed: part some number=1 (exit status 1); log: logs/some_1.log", "error: once", "tried again: part some number=1"
    ]  # fmt: skip
    assert lines[-1].startswith("1 job done")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal(folder, number):
    (folder / "job.sh").write_text("touch started; sleep 30")
    process = subprocess.Popen(
        [*COMMAND, "--cores", "2"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until((folder / "started").exists, 60)
    time.sleep(0.3)
    os.killpg(process.pid, number)
    lines = process.communicate(timeout=60)[1].splitlines()
    assert process.returncode == 1
    assert lines[1].startswith("[1/3] count, ")
    assert len(lines) == 3
    assert lines[2].startswith(f"Stopped after 1 of 3 jobs; {GO_ON}. Snakemake's full log: ")


def test_one_live_line_on_a_terminal(folder):
    (folder / "job.sh").write_text("sleep 1.3")
    received, status = on_a_terminal(folder)
    assert status == 0
    kept = [line.split("\r")[-1].strip() for line in received.replace("\r\n", "\n").split("\n")]
    assert kept[0] == "3 jobs to run, and more after count"
    assert kept[1] == "3 more jobs to run: 6 in all"
    assert kept[2].startswith("6 jobs done in ")
    assert kept[3:] == ["tables: results/tables", ""]
    drawn = [part.strip() for part in received.split("\r") if part.startswith("[")]
    assert any(re.match(r"\[1/3\] \|.{16}\| part some number=\d, part some number=\d$", part) for part in drawn)
    assert any(re.match(r"\[3/6\] \|.{16}\| .*part some number=\d$", part) for part in drawn)


def test_ctrl_c_on_a_terminal(folder):
    (folder / "job.sh").write_text("sleep 30")
    received, status = on_a_terminal(folder, interrupt_at="part some")
    assert status == 1
    assert received.endswith("\n")
    # A bar that is cleared late leaves an empty line after what is said.
    *_, last = [line for line in received.replace("\r\n", "\n").split("\n") if line.split("\r")[-1].strip()]
    assert f"jobs; {GO_ON}." in last
    assert not re.search("RuleException|CalledProcessError|failed", received)


def test_a_dry_run_says_what_and_why(folder):
    done = run(folder, "--dry-run")
    assert done.returncode == 0
    table = done.stdout.partition("Job stats:")[2].partition("total")[0]
    assert dict(re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)) == {"all": "1", "count": "1", "gather": "1"}
    assert "and more after count" in done.stdout
    assert "  missing output files\n      1 count, 1 gather\n" in done.stdout
    assert not (folder / "results").exists()

    assert run(folder).returncode == 0
    changed = run(folder, "--dry-run", "--config", "scale=2").stdout
    assert "  params have changed since last execution: before: 1 now: 2\n      3 part\n" in changed
    time.sleep(0.01)
    (folder / "source.txt").write_text("2")
    planned = run(folder, "--dry-run").stdout
    assert "  updated input files: source.txt\n      3 part\n" in planned
    assert "  input files updated by another job\n      1 gather, 1 all\n" in planned
    commands = run(folder, "--dry-run", "--printshellcmds").stdout
    assert "bash job.sh 2 > logs/some_2.log" in commands
    assert "reason: Updated input files" in commands


def test_an_error_of_the_workflow_is_one_line(folder):
    error = "from snakemake.exceptions import WorkflowError\nraise WorkflowError('config: d is 0; at least 1 is allowed')"
    (folder / "Snakefile").write_text(error)
    done = run(folder)
    assert (done.returncode, done.stderr) == (1, "error: config: d is 0; at least 1 is allowed\n")
    (folder / "Snakefile").write_text(f"onstart:\n    {error.replace(chr(10), chr(10) + '    ')}\n{WORKFLOW}")
    done = run(folder)
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == ["error: config: d is 0; at least 1 is allowed"]
    (folder / "Snakefile").write_text("def f():\n    return {}[1]\nf()")
    done = run(folder)
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    assert "line 2, in f" in done.stderr


def test_who_asks_for_details_gets_snakemakes_own_output(folder):
    done = run(folder, "--verbose", "--printshellcmds", "--debug-dag")
    assert done.returncode == 0
    assert "rule part:" in done.stderr
    assert "6 of 6 steps (100%) done" in done.stderr


def test_quiet_says_errors_alone(folder):
    quiet = ["--quiet", "all"]
    done = run(folder, *quiet)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    (folder / "job.sh").write_text("echo error: no; exit 1")
    failing = run(folder, *quiet, "--forcerun", "part")
    assert failing.returncode == 1
    assert "error: no" in failing.stderr


def test_other_commands_and_modules(folder):
    assert run(folder).returncode == 0
    assert run(folder, "--report", "report.html").returncode == 0
    assert (folder / "report.html").exists()
    assert run(folder, "--touch", "--forceall").returncode == 0
    assert "Unlocked working directory." in run(folder, "--unlock").stderr
    assert "Lints for rule count" in run(folder, "--lint").stderr
    assert "part" in run(folder, "--list-rules").stdout
    (folder / "toy.smk").write_text(WORKFLOW)
    (folder / "Snakefile").write_text('module toy:\n    snakefile: "toy.smk"\n\nuse rule * from toy as toy_*\n')
    done = succeeded(run(folder, "--forceall", "toy_all"))
    assert "toy_part some number=" in done.stderr


def test_closed_streams(folder):
    """A reader that goes away ends the output; the run goes on."""
    command = " ".join(COMMAND)
    for line in (
        f"{command} -n | head -1",
        f"{command} -n -p | head -1",
        f"{command} --cores 1 2>&1 | head -1",
        f"{command} --forceall --cores 1 >&- 2>&-",
    ):
        done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr
    assert (folder / "results/tables/total.txt").exists()


@pytest.mark.parametrize("profile", ["default", "slurm"])
def test_the_profiles_switch_it_on(profile):
    told = yaml.safe_load((ROOT / "workflow/profiles" / profile / "profile.yaml").read_text())
    assert told["logger"] == "rarefeat"


def test_time_left_is_jobs_left_times_their_mean_over_jobs_at_once():
    run = Run(began=0.0)
    run.plan({"pretrain": 6, "probe": 2, "plot": 3}, {"probe": 5.0, "plot": 1.0})
    assert run.seconds_left(0.0) == (None, False)  # nothing is known of pretrain
    for number in range(2):
        run.start(StartedJob(number, "pretrain", {}, 0.0))
        run.finish(number, 10.0)
    run.done = 2
    # Two at once for ten seconds: 4 trainings of 10 s, 2 probes of 5 s and 3 plots of 1 s over two.
    assert run.seconds_left(10.0) == (pytest.approx((40 + 10 + 3) / 2), True)
    run.start(StartedJob(2, "pretrain", {}, 10.0))
    run.start(StartedJob(3, "probe", {}, 10.0))
    # Of what runs, what is left of its mean; a job that takes longer than its mean is about to end.
    assert run.seconds_left(18.0) == (pytest.approx((30 + 2 + 5 + 0 + 3) / 2), True)
    run.failed.add(3)
    assert [job.number for job in run.running()] == [2]


def test_time_left_is_a_lower_bound_where_more_may_come():
    run = Run(checkpoints={"count"}, began=0.0)
    run.plan({"count": 1, "part": 2}, {"part": 4.0, "count": 2.0})
    run.start(StartedJob(0, "count", {}, 0.0))
    assert run.pending() == ["count"]
    assert run.seconds_left(1.0) == (pytest.approx(1 + 8), False)
    run.finish(0, 2.0)
    run.done, run.total = 1, 5
    assert run.pending() == []
    assert run.seconds_left(2.0) == (pytest.approx(8 + 2 * 2.0), True)  # two of the four have yet to say their rule


def test_jobs_of_a_group_share_its_time():
    run = Run(began=0.0)
    run.plan({"part": 8}, {})
    run.group([0, 1, 2, 3])
    for number in range(4):
        run.start(StartedJob(number, "part", {}, 0.0))
    for number in range(4):
        run.finish(number, 8.0)
    run.done = 4
    assert run.took(0) == 2.0
    assert run.seconds_left(8.0) == (pytest.approx(8.0), True)


def test_earlier_runs_are_those_of_the_same_results(tmp_path):
    def note(output: str, rule: str, seconds: float, **more) -> None:
        path = tmp_path / "metadata" / base64.urlsafe_b64encode(output.encode()).decode()
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"rule": rule, "starttime": 100.0, "endtime": 100.0 + seconds, "incomplete": False} | more))

    results = tmp_path / "results"
    (results / "quick").mkdir(parents=True)
    (results / "quick/.lock").touch()
    note(f"{results}/encoders/a", "pretrain", 30.0)
    note(f"{results}/encoders/b", "pretrain", 50.0)
    note(f"{results}/encoders/touched", "pretrain", 0.0)
    note(f"{results}/encoders/cut off", "pretrain", 7.0, incomplete=True)
    note(f"{results}/quick/encoders/a", "pretrain", 1.0)
    note(f"{tmp_path}/elsewhere/a", "probe", 1.0)
    (tmp_path / "metadata/damaged").write_text("{")
    assert earlier_runs(tmp_path / "metadata", results) == {"pretrain": 40.0}
    assert earlier_runs(tmp_path / "metadata", results / "quick") == {"pretrain": 1.0}
    assert earlier_runs(tmp_path / "none", results) == {}


def test_words():
    assert label("pretrain", {"study": "paper", "eps_min": "0.2", "block": "0-19"}) == "pretrain paper eps_min=0.2 block=0-19"
    assert [clock(seconds) for seconds in (0.04, 3.21, 59.7, 125, 12000)] == [
        "0.0 s",
        "3.2 s",
        "1 min",
        "2 min 5 s",
        "3 h 20 min",
    ]
    estimates = [(None, True), (4.2, True), (4.2, False), (47, True), (130, False), (7000, True)]
    assert [left(*estimate) for estimate in estimates] == [
        "", "about 4 s left", "", "about 50 s left", "at least 2 min left", "about 2 h left"
    ]  # fmt: skip
    planned = [("part", "Missing output files: a, b; Input files updated by another job: c")] * 2
    assert grouped_reasons(planned) == ["missing output files", "    2 part"]


def test_of_a_changed_job_what_differs_is_said():
    def changed(before, now):
        told = [json.dumps(job) for job in (before, now)]
        what = f"Union of exclusive params before and now across all output: before: '{told[0]}' now: '{told[1]}'"
        return grouped_reasons([("pretrain", f"Params have changed since last execution: {what}")])[0]

    before = {
        "code": {"chain.probe:stage": "1"},
        "config": {"training": {"eta": 0.1, "T": 5}, "arms": [{"arm": "dense"}]},
        "seeds": "0-9",
    }
    eta = before | {"config": before["config"] | {"training": {"eta": 0.3, "T": 5}}}
    assert changed(before, eta) == "params have changed since last execution: training.eta 0.1 is now 0.3"
    code = before | {"code": {"chain.probe:stage": "2"}}
    assert changed(before, code) == "params have changed since last execution: the code of chain.probe:stage"
    arms = before | {"config": before["config"] | {"arms": [{"arm": "dense"}, {"arm": "ideal"}]}}
    assert changed(before, arms) == 'params have changed since last execution: arms: arm "ideal" added'
    few, many = ({"config": {"grid": {"eps_min": values}}} for values in ([0.2, 0.3, 1.0], [0.2, 0.25, 0.3, 1.0]))
    assert changed(few, many).endswith("grid.eps_min: 0.25 added")
    assert changed(many, few).endswith("grid.eps_min: 0.25 removed")
    assert changed({"config": {"grid": [0.2, 1.0]}}, {"config": {"grid": [0.3, 1.0]}}).endswith("grid 0.2 is now 0.3")
    assert changed({"config": {"grid": [1, 2]}}, {"config": {"grid": [2, 1]}}).endswith("grid: in another order")
    many = before | {"config": {"training": {}, "arms": []}, "seeds": "0-4"}
    assert changed(before, many).endswith("and 1 more")


def test_what_a_log_says(tmp_path, monkeypatch):
    log = tmp_path / "log"
    assert complaint([str(log)], "a command") == ("it left no log; its command was\na command", False)
    log.write_text("10%\n20%\n")
    assert complaint([str(log)], "a command") == ("10%\n20%", False)
    log.write_text("10%\nusage: x\nrarefeat.probe: error: argument --seeds: no\n")
    assert complaint([str(log)], "a command") == ("rarefeat.probe: error: argument --seeds: no", False)
    log.write_text("10%\nTraceback (most recent call last):\n  File x\nKeyboardInterrupt\n")
    assert complaint([str(log)], "a command")[1]
    log.write_text("")
    monkeypatch.setattr(words, "full", lambda path: path == str(log))
    assert complaint([str(log)], "a command") == (f"error: cannot write {log}: No space left on device", False)


class TestInterface(TestLogHandlerBase):
    """The tests that the interface has for every logger."""

    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return None


class TestInterfaceInFewWords(TestInterface):
    """Likewise without `--printshellcmds`, which the interface's settings ask for."""

    def _create_handler(self):
        settings = MockOutputSettings()
        settings.printshellcmds = False
        return LogHandler(common_settings=settings, settings=None)


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("all --cores 2", []),
        ("fig.png --configfile a.yaml b.yaml --cores 2", ["a.yaml", "b.yaml"]),
        ("--configfiles=a.yaml mine --configfile=b.yaml -- fig.png", ["a.yaml", "b.yaml"]),
        ("--configfile a.yaml --config seeds=2 x --configfile b.yaml", ["a.yaml", "b.yaml"]),
        ("--configfile a.yaml -- fig.png", ["a.yaml"]),
    ],
)
def test_the_config_files_of_a_command_line(line, files):
    assert words.config_files(line.split()) == files


def test_a_file_that_is_no_config_is_named_with_the_reason(tmp_path):
    for name, content in {"good.yaml": b"a: 1", "list.yaml": b"- a", "figure.png": b"\x89PNG", "open.yaml": b"a: [1"}.items():
        (tmp_path / name).write_bytes(content)
    assert words.refused_config(["--configfile", f"{tmp_path}/good.yaml"]) == ""
    for name, reason in {
        "list.yaml": "it is no mapping of keys to values", "figure.png": "it is no YAML", "open.yaml": "it is no YAML",
        "absent.yaml": "No such file or directory", "": "Is a directory",
    }.items():  # fmt: skip
        said = words.refused_config(["--configfile", f"{tmp_path}/good.yaml", f"{tmp_path}/{name}"])
        assert said.startswith(f"--configfile {tmp_path}/{name}: {reason}")
        assert "\n" not in said
