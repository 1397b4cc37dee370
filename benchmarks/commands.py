"""What a command of the README takes, read off the logs that Snakemake has left: a row of docs/tables/times.csv each.

    python benchmarks/commands.py . "paper=make paper" .snakemake/log/2026-*.log

Minutes are of the clock, from the first line of each log to its last finished job, summed over the logs; core-minutes are those
of the jobs' own benchmarks that were written meanwhile. Where the command ran alone on the machine, these are its times.
"""

import argparse
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from rarefeat.report.published import Published

BEGUN = re.compile(r"^  Date: (.+)$", re.MULTILINE)
STAMP = re.compile(r"^\[(\w{3} \w{3} +\d+ [\d:]+ \d{4})\]$", re.MULTILINE)
DONE = re.compile(r"^(\d+) of \d+ steps .*done$", re.MULTILINE)


class Run(NamedTuple):
    """One call of Snakemake: when it began and ended, and the jobs that it finished."""

    begun: datetime
    ended: datetime
    jobs: int


def read_log(path: Path) -> Run:
    """What a log of Snakemake tells of its run."""
    text = path.read_text(encoding="utf-8")
    first = BEGUN.search(text)
    if first is None:
        raise SystemExit(f"{path} is no log of Snakemake, which says its date; they lie in .snakemake/log")
    begun = datetime.fromisoformat(first[1])
    stamps = [datetime.strptime(stamp, "%a %b %d %H:%M:%S %Y") for stamp in STAMP.findall(text)]
    return Run(begun, max(stamps, default=begun), max(map(int, DONE.findall(text)), default=0))


def core_seconds(results: Path, runs: list[Run]) -> float:
    """Seconds of a core of the jobs whose benchmark was written during one of the runs."""
    total = 0.0
    for path in results.rglob("*.log.tsv"):
        written = datetime.fromtimestamp(path.stat().st_mtime)
        if any(run.begun <= written <= run.ended for run in runs):
            total += pd.to_numeric(pd.read_csv(path, sep="\t")["cpu_time"], errors="coerce").sum()
    return total


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", type=Path, help="the clone in which the command ran")
    parser.add_argument("command", help="NAME=COMMAND, as in paper='make paper'")
    parser.add_argument("--commit", help="that the command ran at; what the clone has checked out now if not given")
    parser.add_argument("logs", nargs="+", type=Path, help="the logs of its calls of Snakemake")
    args = parser.parse_args()
    name, _, command = args.command.partition("=")
    if not command:
        parser.error(f"{args.command!r} is not NAME=COMMAND")
    runs = [read_log(path) for path in args.logs]
    row = {
        "what": name,
        "minutes": round(sum((run.ended - run.begun).total_seconds() for run in runs) / 60, 1),
        "core_minutes": round(core_seconds(args.project / "results", runs) / 60, 1),
        "jobs": sum(run.jobs for run in runs),
        "command": command,
    }
    head = ["git", "-C", str(args.project), "rev-parse", "--short", "HEAD"]
    row["commit"] = args.commit or subprocess.run(head, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    published = Published()
    earlier = published["times"]
    table = pd.concat([earlier[earlier["what"] != name], pd.DataFrame([row])], ignore_index=True)
    commits = ", ".join(table["commit"].dropna().unique())
    run = "read off the logs of runs on two cores (benchmarks/commands.py), set-up aside"
    published.put("times", table, {"commit": commits, "run": run})
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
