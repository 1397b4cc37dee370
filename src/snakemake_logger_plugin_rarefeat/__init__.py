"""`snakemake --logger rarefeat`: one live line on a terminal, one line for each finished job elsewhere, errors in full.

Snakemake finds the package by its name, asks it for `LogHandler`, and hands it every record that it logs, in a thread of its
own. Snakemake's complete log still goes to `.snakemake/log`. Who asks for details (`--verbose`, `--printshellcmds`,
`--debug-dag`) gets Snakemake's own output.

A workflow may set two variables of the environment for it: `RAREFEAT_RESULTS`, the folder of its results, and
`RAREFEAT_CHECKPOINTS`, the names of its checkpoints with blanks between them.
"""

import logging
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

from snakemake_logger_plugin_rarefeat.run import Run, StartedJob, earlier_runs
from snakemake_logger_plugin_rarefeat.screen import Screen
from snakemake_logger_plugin_rarefeat.words import (
    clock,
    complaint,
    grouped_reasons,
    label,
    left,
    number_of,
    one_line,
    refused_config,
)

# What Snakemake says of itself in every run; the file has it.
CHATTER = (
    "Assuming unrestricted shared filesystem usage", "Building DAG of jobs", "Config file ", "DAG of jobs will be updated",
    "Reasons:", "Select jobs to execute", "Some jobs were triggered by provenance information",
    "The run involves checkpoint jobs", "This was a dry-run", "Updating checkpoint dependencies",
)  # fmt: skip
NOTHING = "Nothing to be done"
RETRY = "Trying to restart job"
STOPPING = ("Terminating processes on user request", "Will exit after finishing currently running jobs")
# Said again at the end, in other words.
SUMMARIES = ("At least one job did not complete successfully", "Exiting because a job execution failed")
GO_ON = "run the same command again: what is finished is kept"
DETAILS = "--printshellcmds shows each job with its files, command and reason"


def refuse_home() -> None:
    """End with one line where Snakemake has no place for its cache, of which it shows a traceback."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"error: cannot make {folder}: {error.strerror}; Snakemake keeps a cache there, set HOME or XDG_CACHE_HOME")


def refuse_full() -> None:
    """End with one line where TMPDIR is full: what plans jobs writes there, and would show a traceback."""
    folder = os.environ.get("TMPDIR", "")
    try:
        if os.path.isdir(folder):
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(2**16))
    except OSError as error:
        sys.exit(f"error: cannot write into {folder}: {error.strerror}; Snakemake does so, set TMPDIR")


class LogHandler(LogHandlerBase):
    """Snakemake's records in few words."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        refuse_home()
        refuse_full()
        settings = self.common_settings
        self.quiet = {str(getattr(part, "name", part)).lower() for part in settings.quiet or ()}
        stream = sys.stdout if settings.stdout else sys.stderr
        self.screen = Screen(stream, live=not settings.dryrun and not self.quiet & {"all", "progress"})
        self.run: Run | None = None
        self.planned: list[tuple[str, str]] = []  # the rule and reason of each job of a dry run
        self.unexplained: list[str] = []  # of commands that failed, until Snakemake says of which job
        self.cut_off: list[str] = []  # failures that look as if a signal had ended the job
        self.finished: list[int] = []
        self.failed_group: list[int] = []  # the jobs of the group that failed last
        self.other_errors = self.stopping = self.up_to_date = self.closed = False
        self.started_in = os.getcwd()
        self.native = self.snakemakes_own(stream) if settings.verbose or settings.debug_dag or settings.printshellcmds else None
        self.ended = threading.Event()

    def snakemakes_own(self, stream: Any) -> logging.Handler:
        """The handler that Snakemake has without a plugin."""
        from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter

        told = self.common_settings
        return ColorizingTextHandler(
            nocolor=told.nocolor,
            stream=stream,
            formatter=DefaultFormatter(told.quiet, told.show_failed_logs),
            filter=DefaultFilter(told.quiet, told.debug_dag, told.verbose, told.dryrun, told.printshellcmds),
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Say what of this record is to be said."""
        if self.native:
            try:
                if self.native.filter(record):
                    self.native.emit(record)
            except OSError:
                self.native = logging.NullHandler()
                self.screen.abandon()
            return
        try:
            event = getattr(record, "event", None)
            if event is None:
                self.message(record)
            elif (react := getattr(self, f"on_{event}", None)) is not None:
                react(record)
        except Exception:
            self.handleError(record)  # as in every handler of logging: the run is not to end for it

    def message(self, record: logging.LogRecord) -> None:
        """Text without an event: warnings, errors, and what Snakemake says of itself."""
        text = str(record.msg)
        if record.levelno >= logging.WARNING:
            if not text.startswith(SUMMARIES):
                self.other_errors |= record.levelno >= logging.ERROR
                self.screen.say(text)
        elif text.startswith(STOPPING):
            self.stopping = True
            self.refresh()
        elif text.startswith(RETRY) and self.run:
            number = int(re.sub(r"\D", "", text))
            # A group has a number of its own, which no other record tells.
            again = [number] if number in self.run.jobs else self.failed_group or [number]
            self.run.failed -= set(again)
            self.screen.say(f"tried again: {', '.join(map(self.name_of, again))}")
        elif text.startswith(NOTHING):
            self.up_to_date = True
            self.screen.say(text)
        elif (
            record.levelno >= logging.INFO
            and not text.startswith(CHATTER)
            and (self.run is None or self.common_settings.dryrun)
        ):
            self.screen.say(text)

    def on_workflow_started(self, record: Any) -> None:
        """A run, or the plan of one, and no report, list or the like."""
        self.run = Run(checkpoints=set(os.environ.get("RAREFEAT_CHECKPOINTS", "").split()))

    def on_run_info(self, record: Any) -> None:
        """The number of jobs of each rule."""
        if self.run is None or self.run.counts:  # a dry run says its table twice
            return
        counts = {rule: number for rule, number in record.stats.items() if rule != "total"}
        if self.common_settings.dryrun:
            self.run.plan(counts, {})
            self.screen.say(str(record.msg).rstrip("\n"))
            return
        self.run.plan(counts, earlier_runs(Path(".snakemake/metadata"), self.results()))
        if not self.quiet:
            self.screen.say(f"{number_of(self.run.total)} to run{self.more()}")
        if self.screen.live:
            threading.Thread(target=self.tick, daemon=True).start()

    def on_job_info(self, record: Any) -> None:
        """A job starts, or is planned."""
        if self.run is None:
            return
        if record.is_checkpoint:
            self.run.checkpoints.add(record.rule_name)
        if self.common_settings.dryrun:
            self.planned.append((record.rule_name, record.reason))
            return
        self.run.start(StartedJob(record.jobid, record.rule_name, dict(record.wildcards), record.created))
        self.refresh()

    def on_group_info(self, record: Any) -> None:
        """Jobs are submitted as one; their own records follow."""
        if self.run is not None:
            self.run.group([job.jobid for job in record.jobs])

    def on_job_finished(self, record: Any) -> None:
        """A job has finished; the progress that follows says how many there are."""
        if self.run is not None:
            self.run.finish(record.job_id, record.created)
            self.finished.append(record.job_id)

    def on_progress(self, record: Any) -> None:
        """Comes after the jobs of a group, or one job, have finished."""
        if self.run is None:
            return
        grown = record.total - self.run.total
        self.run.done, self.run.total = record.done, record.total
        if not self.screen.live and not self.quiet:
            width, plus = len(str(record.total)), "+" * bool(self.run.pending())
            news = f"; {number_of(abs(grown), 'more' if grown > 0 else 'fewer')} to run" if grown else ""
            for number, finished in enumerate(self.finished, start=record.done - len(self.finished) + 1):
                took = clock(self.run.took(finished))
                last = f"{news}; {self.time_left(record.created)}" if number == record.done else ""
                self.screen.say(f"[{number:{width}}/{record.total}{plus}] {self.name_of(finished)}, {took}{last}".rstrip("; "))
        elif grown > 0 and self.screen.live:
            self.screen.say(f"{number_of(grown, 'more')} to run: {record.total} in all{self.more()}")
        self.finished.clear()
        self.refresh()

    def on_error(self, record: Any) -> None:
        """An exception: of a command that failed, of the workflow, or one that nobody expected."""
        text = str(record.msg)
        kind = getattr(record, "exception", "")
        if kind == "KeyboardInterrupt":
            self.stopping = True
        elif "CalledProcessError" in text.partition("\nCommand")[0]:
            self.unexplained.append(text)
        elif not self.other_errors and self.run is None and (line := refused_config(sys.argv[1:])):
            self.other_errors = True
            self.screen.say(f"error: {line}")
        elif kind not in ("WorkflowError", "MissingRuleException", "InputFunctionException"):
            self.other_errors = True
            self.screen.say(text)
        elif not (line := one_line(text)).startswith(SUMMARIES):
            self.other_errors = True
            self.screen.say(f"error: {line}")

    def on_job_error(self, record: Any) -> None:
        """A job failed: its rule and wildcards, how it ended, its log and what that says."""
        status = self.status_of(record.shellcmd)
        if self.run is not None:
            self.run.failed.add(record.jobid)
        said, cut_off = complaint(record.log, record.shellcmd)
        logs = f"; log: {', '.join(map(self.shown, record.log))}" if record.log else ""
        reason = f", {record.rule_msg}" if record.rule_msg else ""
        aux = "".join(f", {name}: {value}" for name, value in record.aux.items())
        failure = f"failed: {self.name_of(record.jobid, record.rule_name)}{status}{reason}{aux}{logs}\n{said}".rstrip("\n")
        if cut_off or re.search(r"SIGINT|SIGTERM|status 1(30|43)\b", status):
            self.cut_off.append(failure)
        else:
            self.screen.say(failure)

    def on_group_error(self, record: Any) -> None:
        """Comes before an error for every job of a group that was submitted as one."""
        self.failed_group = [job["jobid"] for job in record.job_error_info]
        rules = ", ".join(sorted({job["rule_name"] for job in record.job_error_info}))
        logs = f"; log: {', '.join(map(self.shown, record.aux_logs))}" if record.aux_logs else ""
        self.screen.say(f"failed: one of a group of jobs ({rules}){logs}")

    def status_of(self, command: str | None) -> str:
        """How the command of a job ended, which Snakemake says before it says whose it was."""
        for text in self.unexplained:
            if command and command in text:
                self.unexplained.remove(text)
                found = re.search(r"(exit status \d+|<Signals\.\w+: \d+>)\W*$", text.partition("\n  File")[0])
                if found:
                    return f" ({found[1].replace('<Signals.', 'ended by ').rstrip('>')})"
        return ""

    def name_of(self, number: int, rule: str = "") -> str:
        """The rule and wildcards of a job."""
        job = self.run.jobs.get(number) if self.run else None
        return label(job.rule, job.wildcards) if job else rule or f"job {number}"

    def shown(self, path: str | Path) -> str:
        """A path as seen from where the user is."""
        return os.path.relpath(path, self.started_in)

    def results(self) -> Path | None:
        """The folder of results, where the workflow says it."""
        folder = os.environ.get("RAREFEAT_RESULTS")
        return Path(folder) if folder else None

    def more(self) -> str:
        """What is to be said of checkpoints."""
        pending = self.run.pending() if self.run else []
        return f", and more after {' and '.join(pending)}" if pending else ""

    def time_left(self, now: float) -> str:
        """The estimate, in words."""
        return left(*self.run.seconds_left(now)) if self.run else ""

    def tick(self) -> None:
        """Draw the live line each second, until the end."""
        while not self.ended.wait(1.0):
            with self.lock:
                self.refresh()

    def refresh(self) -> None:
        """Draw the live line: jobs, time left, what runs."""
        if not self.screen.live or self.run is None or not self.run.counts:
            return
        running = [label(job.rule, job.wildcards) for job in self.run.running()]
        words = ["stopping" if self.stopping else self.time_left(time.time()), ", ".join(running)]
        self.screen.draw(self.run.done, self.run.total, "+" * bool(self.run.pending()), "; ".join(filter(None, words)))

    def close(self) -> None:
        """Say how it ended. Snakemake closes its handlers when it is done, and logging does once more."""
        if not self.closed:
            self.closed = True
            self.ended.set()
            with self.lock:
                self.screen.close()
                if self.native is None:
                    self.say_end()
        super().close()

    def say_end(self) -> None:
        """How it ended, and how to go on or where the results are."""
        for text in [] if self.stopping else self.unexplained + self.cut_off:
            self.screen.say(text)
        if self.common_settings.dryrun:
            self.say_dry_run()
        elif self.stopping:
            of = f" after {self.run.done} of {self.run.total} jobs" if self.run and self.run.counts else ""
            self.screen.say(f"Stopped{of}; {GO_ON}.{self.full_log()}")
        elif self.up_to_date:
            self.say_products()
        elif self.run and self.run.jobs:
            took = clock(self.run.elapsed())
            if self.run.failed or self.other_errors:
                failed = f"{number_of(len(self.run.failed))} failed, " if self.run.failed else ""
                of = f"{failed}{self.run.done} of {self.run.total} done in {took}"
                self.screen.say(f"{of}. Once it is mended, {GO_ON}.{self.full_log()}")
            elif not self.quiet:
                self.screen.say(f"{number_of(self.run.done)} done in {took}.{self.full_log()}")
                self.say_products()

    def say_dry_run(self) -> None:
        """Why the planned jobs are to run."""
        if not self.planned:
            return
        if more := self.more():
            self.screen.say(more.removeprefix(", "))
        if "reason" not in self.quiet:
            self.screen.say("\nWhy:\n" + "\n".join(f"  {line}" for line in grouped_reasons(self.planned)))
        self.screen.say(f"\nA dry run: nothing was made. {DETAILS}.")

    def say_products(self) -> None:
        """Where the tables and figures are, of those that are there."""
        folder = self.results()
        there = [kind for kind in ("tables", "figures", "pages") if folder and (folder / kind).is_dir()]
        if there:
            said = [f"{kind}: {self.shown(folder / kind)}" for kind in there]
            page = folder / "pages/play.html"
            self.screen.say("; ".join([*said, *([f"to play with: {self.shown(page)}"] if page.exists() else [])]))

    def full_log(self) -> str:
        """Where Snakemake has written all that it said."""
        files = [handler.baseFilename for handler in logging.getLogger("snakemake.logging").handlers
                 if isinstance(handler, logging.FileHandler)]  # fmt: skip
        return f" Snakemake's full log: {', '.join(map(self.shown, files))}" if files else ""
