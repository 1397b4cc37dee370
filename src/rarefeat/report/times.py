"""The page of the report that says what every rule took, from the times that jobs write beside their logs."""

import argparse
import json
import re
from pathlib import Path

import pandas as pd

from rarefeat.core.errors import RarefeatError
from rarefeat.report.browse import document, library, section
from rarefeat.run.command import run
from rarefeat.storage.files import replacing


def run_times(folder: Path, patterns: dict[str, str]) -> pd.DataFrame:
    """A row for each rule: its jobs, their median and summed seconds, their largest memory, from Snakemake's benchmarks."""
    paths = sorted(folder.rglob("*.tsv"))
    rules = [next((rule for rule, pattern in patterns.items() if re.fullmatch(pattern, str(path))), None) for path in paths]
    parts = [pd.read_csv(path, sep="\t").assign(rule=rule) for path, rule in zip(paths, rules, strict=True) if rule]
    if not parts:
        raise RarefeatError(f"no times of a rule in {folder}")
    table = pd.concat(parts, ignore_index=True)
    measured = ["s", "max_rss", "cpu_time"]
    # A job shorter than the first measurement has no memory.
    table[measured] = table[measured].apply(pd.to_numeric, errors="coerce")
    grouped = table.groupby("rule")
    found = pd.DataFrame(
        {
            "jobs": grouped.size(),
            "median_s": grouped["s"].median(),
            "total_s": grouped["s"].sum(),
            "total_cpu_s": grouped["cpu_time"].sum(),
            "max_memory_mb": grouped["max_rss"].max(),
        }
    )
    return found.sort_values("total_s", ascending=False).reset_index()


def run_times_page(folder: Path, patterns: dict[str, str]) -> str:
    """The run times of every rule."""
    table = run_times(folder, patterns)
    about = (
        f"{table['total_s'].sum() / 3600:.2f} hours of jobs in all. Seconds are of the clock, longer where jobs shared cores; "
        "cpu seconds and memory are empty or 0 where a job was shorter than a measurement."
    )
    return document("Run times by rule", library() + section("run_times", about, table))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=Path, required=True, help="folder of the logs, beside which jobs write their times")
    parser.add_argument("--patterns", type=json.loads, required=True, help="regular expression of each rule's times, as JSON")
    parser.add_argument("--output", type=Path, required=True, help="HTML file to write")
    args = parser.parse_args()
    with replacing(args.output) as temporary:
        temporary.write_text(run_times_page(args.times, args.patterns), encoding="utf-8")


if __name__ == "__main__":
    run(main)
