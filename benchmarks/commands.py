"""Read the times of a command of the README off Snakemake's logs: a row of docs/tables/times.csv.

    python benchmarks/commands.py . "paper=make paper" .snakemake/log/2026-*.log

Minutes are of the clock, from the first line of each log to its last finished job, summed over the
logs; core-minutes are those of the jobs' own benchmarks that were written meanwhile. They are the
command's own if it ran alone on the machine.

    python benchmarks/commands.py . "photographs_screen=make photographs UNTIL=screen" \\
        --studies cifar10_screen cifar10_widths

Of a command that ran in several runs, on several machines, there are the core-minutes alone: those
of all benchmarks of its studies.
"""

import argparse
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from rarefeat.workflow.files.published import PublishedTables

BEGUN = re.compile(r"^  Date: (.+)$", re.MULTILINE)
STAMP = re.compile(r"^\[(\w{3} \w{3} +\d+ [\d:]+ \d{4})\]$", re.MULTILINE)
DONE = re.compile(r"^(\d+) of \d+ steps .*done$", re.MULTILINE)


class Run(NamedTuple):
    """A call of Snakemake: its start, its end, and the number of jobs that it finished."""

    begun: datetime
    ended: datetime
    jobs: int


def read_log(path: Path) -> Run:
    """Read the run that a log of Snakemake tells of."""
    text = path.read_text(encoding="utf-8")
    first = BEGUN.search(text)
    if first is None:
        raise SystemExit(
            f"{path} is no log of Snakemake, which says its date; they lie in .snakemake/log"
        )
    begun = datetime.fromisoformat(first[1])
    stamps = [datetime.strptime(stamp, "%a %b %d %H:%M:%S %Y") for stamp in STAMP.findall(text)]
    return Run(begun, max(stamps, default=begun), max(map(int, DONE.findall(text)), default=0))


def during(results: Path, runs: list[Run]) -> list[Path]:
    """List the benchmarks that were written during one of the runs."""
    written = {
        path: datetime.fromtimestamp(path.stat().st_mtime) for path in results.rglob("*.log")
    }
    return [
        path
        for path, time in written.items()
        if any(run.begun <= time <= run.ended for run in runs)
    ]


def core_minutes(logs: list[Path]) -> float:
    """Return the core-minutes of some jobs, from the last lines of their logs."""
    used = (re.findall(r"([\d.]+) CPU s, \d+ MB$", path.read_text()) for path in logs)
    return round(sum(float(seconds) for found in used for seconds in found) / 60, 1)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path, help="the clone in which the command ran")
    parser.add_argument("command", help="NAME=COMMAND, as in paper='make paper'")
    parser.add_argument(
        "--commit", help="that the command ran at; what the clone has checked out now if not given"
    )
    parser.add_argument(
        "--results", type=Path, help="its folder of results; that of the clone if not given"
    )
    parser.add_argument("--studies", nargs="+", default=[], help="what it made, instead of logs")
    parser.add_argument("logs", nargs="*", type=Path, help="the logs of its calls of Snakemake")
    args = parser.parse_intermixed_args()
    name, _, command = args.command.partition("=")
    if not command:
        parser.error(f"{args.command!r} is not NAME=COMMAND")
    if bool(args.logs) == bool(args.studies):
        parser.error("give logs, or --studies")
    runs = [read_log(path) for path in args.logs]
    results = args.results or args.project / "results"
    names = [f"{study}{each}.log" for study in args.studies for each in ("", "/**/seeds=*")]
    of_studies = [path for name in names for path in results.glob(f"logs/*/{name}")]
    if args.studies and not of_studies:
        parser.error(f"{results}/logs has no log of {', '.join(args.studies)}")
    row = {
        "what": name,
        "minutes": round(sum((run.ended - run.begun).total_seconds() for run in runs) / 60, 1)
        if runs
        else float("nan"),
        "core_minutes": core_minutes(during(results, runs) if runs else of_studies),
        "jobs": sum(run.jobs for run in runs) if runs else len(of_studies),
        "command": command,
    }
    head = ["git", "-C", str(args.project), "rev-parse", "--short", "HEAD"]
    row["commit"] = (
        args.commit
        or subprocess.run(head, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    )
    published = PublishedTables()
    earlier = published["times"]
    table = pd.concat([earlier[earlier["what"] != name], pd.DataFrame([row])], ignore_index=True)
    commits = ", ".join(table["commit"].dropna().unique())
    run = "read off the logs of runs on two cores (benchmarks/commands.py), set-up aside"
    published.put("times", table, {"commit": commits, "run": run})
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
