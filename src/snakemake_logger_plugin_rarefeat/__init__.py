"""The terminal output of `snakemake --logger rarefeat`.

One live bar on a terminal, one line for each finished job elsewhere, and the errors of failed jobs.
A dry run prints each job with its reason. A workflow may set RESULTS, its folder of results, and
TARGETS, the names that it can make.
"""

import difflib
import logging
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from tqdm import tqdm

CHATTER = ("Assuming", "Building DAG", "Config file ", "At least one job", "Exiting because")
CHANGED = re.compile(
    r"Union of exclusive params before and now across all output: before: (.*) now: (.*)", re.DOTALL
)
SEPARATOR = "; "
"""What stands between the texts of one param."""
RESULTS, TARGETS = "", []
RESUME = "run the same command again: finished jobs are kept"


def count_jobs(number: int) -> str:
    """Return `1 job`, `2 jobs`."""
    return f"{number} job{'s' * (number != 1)}"


def format_job(rule: str, wildcards: dict[str, str]) -> str:
    """Return the rule and wildcards of a job, as `pretrain paper eps_min=0.2`."""
    values = (v if v.isidentifier() or "=" in v else f"{k}={v}" for k, v in wildcards.items())
    return " ".join([rule, *values])


def name_changes(match: re.Match) -> str:
    """Return which texts of params were there before, and which are there now."""
    parts = [re.split(r"; |[\"'],[\"']", part.strip("\"' ")) for part in match.groups()]
    both = set(parts[0]) & set(parts[1])
    old, new = (sorted({*part} - both) for part in parts)
    return f"before: {', '.join(map(repr, old))} now: {', '.join(map(repr, new))}"


def summarise_error(text: str, kind: str) -> str:
    """Return the one line of a user's error; any other keeps its traceback."""
    message = text.strip()
    if " in args_to_api\n" in text:  # of the command line or of a file after --configfile
        return f"error: {message.splitlines()[-1]}"
    if missing := re.search(r"No rule to produce (\S+)", text):
        near = " or ".join(difflib.get_close_matches(missing[1], TARGETS))
        hint = f"did you mean {near}? " if near else ""
        return f"error: no rule makes {missing[1]}; {hint}snakemake --lt lists the names"
    if nested := re.search(r"^ +WorkflowError:\s+(.+)", text, re.MULTILINE):
        return f"error: {nested[1]}"  # of an input function
    if kind == "WorkflowError":
        place = re.compile(r'\s*File ".*", line \d+|WorkflowError( in .*)?:$')
        lines = [line for line in message.splitlines() if not place.match(line)]
        return f"error: {' '.join(lines)}" if len(lines) == 1 else "\n".join(["error:", *lines])
    return message


def read_log(paths: Sequence[str]) -> str:
    """Return the text of a job's first log that is not empty."""
    files = (Path(path) for path in paths if Path(path).is_file())
    texts = (file.read_text(encoding="utf-8", errors="replace").strip() for file in files)
    return next(filter(None, texts), "")


def is_older(path: str, time: float) -> bool:
    """Return whether a file was last written before a time (s), or is not there."""
    return not os.path.exists(path) or os.path.getmtime(path) < time - 1


class LogHandler(LogHandlerBase):
    """Snakemake's log records in few words."""

    writes_to_stream = has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False

    def __post_init__(self) -> None:
        ask = self.common_settings
        self.stream = sys.stdout if ask.stdout else sys.stderr
        self.bar = None
        self.jobs: dict[int, tuple[str, float, list[str]]] = {}  # running: name, start, logs
        self.failed: set[int] = set()
        self.done = self.touched = self.total = 0
        self.started = self.stopped = self.broken = False

    def emit(self, record: logging.LogRecord) -> None:
        """Print the text of a record; an error in here does not end the run."""
        event = getattr(record, "event", None)
        try:
            if event is None:
                self.on_text(str(record.msg), record.levelno)
            elif react := getattr(self, f"on_{event}", None):
                react(record)
            self.started |= str(event) == "workflow_started"
        except Exception:
            self.handleError(record)

    @property
    def is_silent(self) -> bool:
        """Whether `--quiet all` asks for errors alone."""
        return "ALL" in {getattr(item, "name", "") for item in self.common_settings.quiet or ()}

    def say(self, text: str) -> None:
        """Print lines above the bar."""
        tqdm.write(text, file=self.stream)

    def on_text(self, text: str, level: int) -> None:
        """Print a warning, or what a command other than a run says."""
        if text.startswith(("Terminating processes", "Will exit after")):
            self.stopped = True
        elif text.startswith("Nothing to be done"):
            self.say(f"nothing to be done: all files are up to date{self.list_products()}")
        elif text.startswith(CHATTER):
            return
        elif self.common_settings.verbose or level >= logging.WARNING or not self.started:
            self.say(text)

    def on_run_info(self, record) -> None:
        """Print the number of jobs and make the bar."""
        if self.bar is None and not self.is_silent:
            self.total = record.stats["total"]
            self.say(f"{count_jobs(self.total)} to run")
            if self.common_settings.dryrun:
                rows = [f"{rule:30} {count}" for rule, count in record.stats.items()]
                self.say("\n".join(["Job stats:", *rows]))
                return
            plain = not self.stream.isatty() or os.environ.get("TERM") == "dumb"
            style = {"bar_format": "[{n_fmt}/{total_fmt}] |{bar:16}| {desc}", "dynamic_ncols": True}
            self.bar = tqdm(file=self.stream, leave=False, delay=1e-9, disable=plain, **style)

    def on_job_info(self, record) -> None:
        """Note the start of a job."""
        name = format_job(record.rule_name, dict(record.wildcards))
        if self.common_settings.dryrun:
            reason = CHANGED.sub(name_changes, record.reason)
            self.say(f"{name}\n    reason: {textwrap.shorten(reason, 300, placeholder=' ...')}")
            return
        self.jobs[record.jobid] = name, record.created, list(record.log or [])
        self.on_progress()

    def on_shellcmd(self, record) -> None:
        """Print the command of a job, where that is asked for."""
        command = getattr(record, "shellcmd", "") or getattr(record, "cmd", "")
        if self.common_settings.printshellcmds and command:
            self.say(f"    {command}")

    def on_debug_dag(self, record) -> None:
        """Print how the graph of jobs grows, where that is asked for."""
        if self.common_settings.debug_dag:
            self.say(str(record.msg) or f"{record.status} job {record.job}")

    def on_job_finished(self, record) -> None:
        """Count a finished job and, where there is no bar, print its line."""
        job = self.jobs.pop(record.job_id, (f"job {record.job_id}", record.created, []))
        name, start, logs = job
        self.failed.discard(record.job_id)
        # `snakemake --touch` runs no command, and leaves the logs as they were.
        touched = any(is_older(path, start) for path in logs)
        self.done, self.touched = self.done + 1, self.touched + touched
        if self.bar is not None and self.bar.disable:
            time = "touched" if touched else f"{record.created - start:.1f} s"
            self.say(f"[{self.done:{len(str(self.total))}}/{self.total}] {name}, {time}")

    def on_progress(self, record=None) -> None:
        """Redraw the bar; the total grows after a checkpoint."""
        self.total = record.total if record else self.total
        if self.bar is not None:
            self.bar.n, self.bar.total = self.done, self.total
            self.bar.set_description_str(", ".join(name for name, *_ in self.jobs.values()))

    def on_job_error(self, record) -> None:
        """Print the name of a failed job, its logs and the error in them."""
        name = self.jobs.pop(record.jobid, (record.rule_name,))[0]
        self.failed.add(record.jobid)
        text = read_log(logs := list(record.log or [])) or "its log is empty"
        error = re.search(r"^([\w./-]+: )*error\b|^Traceback ", text, re.MULTILINE | re.IGNORECASE)
        if not self.stopped:
            message = text[error.start() :] if error else text
            self.say(f"failed: {name}; log: {', '.join(logs) or 'none'}\n{message}")

    def on_error(self, record) -> None:
        """Print an error of the workflow; that of a failed command is printed with its job."""
        text, kind = str(record.msg), getattr(record, "exception", "")
        self.stopped |= kind == "KeyboardInterrupt"
        if not self.stopped and "CalledProcessError" not in text and CHATTER[3] not in text:
            self.broken = True
            self.say(summarise_error(text, kind))

    def list_products(self) -> str:
        """Return the folders of results that exist, as the end of a line."""
        root = Path(RESULTS or os.devnull)
        folders = {name: root / name for name in ("tables", "figures", "pages")}
        return "".join(f"; {name}: {path}" for name, path in folders.items() if path.is_dir())

    def close(self) -> None:
        """Print how the run ended and how to go on; Snakemake and logging both call this."""
        bar, self.bar = self.bar, None
        if bar is not None:
            bar.close()
            count = f"{self.done} of {count_jobs(self.total)} done"
            if self.stopped:
                self.say(f"stopped: {count}; {RESUME}")
            elif self.failed or self.broken:
                failed = f"{len(self.failed)} failed, " if self.failed else ""
                self.say(f"{failed}{count}; mend the cause and {RESUME}")
            else:
                done = "touched, not run" if self.touched else "done"
                self.say(f"{done}: {count_jobs(self.done)}{self.list_products()}")
        super().close()
