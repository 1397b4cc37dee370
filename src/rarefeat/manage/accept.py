"""Accept code that was changed without changing a byte of what it makes, so that nothing is made again.

    python -m rarefeat.manage.accept results

A sample of the files of every stage that runs what was changed is made anew, elsewhere: all that took less than a second, and
of the others three of every study. Where each comes out the same to the last byte, the new digests are recorded as standing for
those of before, with the sample; `verify` and the report say so. Where one differs it is named, and nothing is accepted.
"""

import argparse
import base64
import binascii
import datetime
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rarefeat.core.errors import RarefeatError
from rarefeat.run.cli_helpers import progress, run
from rarefeat.run.digests import ACCEPTED, code, is_entry, read_accepted, runs_entries
from rarefeat.run.fork_server import ONE_THREAD
from rarefeat.run.write_guard import ACCEPTING
from rarefeat.storage.files import BLANK, SEAL, write_file

RECORDS = Path(".snakemake/metadata")
QUICK = 1.0
"""Seconds: what took less is made anew always."""
LEAST = 3
"""Files, or all that there are, of every stage and study."""


class Made(NamedTuple):
    """A job that Snakemake has run, and what it wrote."""

    command: str
    job: dict[str, Any]
    outputs: list[str]
    seconds: float


def notes_on_files(metadata: Path) -> Iterator[tuple[str, dict]]:
    """The names of files and Snakemake's notes on them; what cannot be read is left out."""
    for path in metadata.rglob("*") if metadata.is_dir() else ():
        try:
            # A long name goes over several folders, each marked by an @.
            name = "".join(part.removeprefix("@") for part in path.relative_to(metadata).parts)
            record = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(record, dict):
                yield base64.urlsafe_b64decode(name).decode(), record
        except (OSError, ValueError, binascii.Error):
            continue


def made(results: Path, records: Path = RECORDS) -> list[Made]:
    """The jobs of which something lies below a folder of results, as Snakemake remembers them."""
    found: dict[str, Made] = {}
    for name, about in sorted(dict(notes_on_files(records)).items()):
        try:
            words = shlex.split(about["shellcmd"])
            job = json.loads(Path(words[words.index("--job") + 1]).read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if not Path(name).is_relative_to(results) or not Path(name).is_file() or about.get("incomplete"):
            continue
        times = Path(words[words.index("--times") + 1])
        seconds = float(pd.read_csv(times, sep="\t")["s"].iloc[0]) if times.exists() else about["endtime"] - about["starttime"]
        found.setdefault(about["shellcmd"], Made(about["shellcmd"], job, [], seconds)).outputs.append(name)
    return list(found.values())


def changed(jobs: list[Made]) -> dict[str, tuple[str, str]]:
    """What of the code that jobs came through is another by now, with the digest of before and that of now.

    Raises:
        RarefeatError: where some came through other code of it than others, or no job that runs it is there to be made anew.
    """
    before: dict[str, tuple[str, str]] = {}
    for one in jobs:
        for name, told in one.job["code"].items():
            if before.setdefault(name, (told, one.outputs[0]))[0] != told:
                raise RarefeatError(
                    f"{one.outputs[0]} is of other code of {name} than {before[name][1]}; run snakemake first, or delete one"
                )
    found = {name: (told, now) for name, (told, _) in before.items() if (now := by_now(name)) not in ("", told)}
    for name in found.keys() - {name for one in jobs for name in own(one)}:
        raise RarefeatError(
            f"nothing is accepted: {name} was changed, and no file of a job that runs it is there to be made anew, as"
            f" {before[name][1]} came through it; run snakemake"
        )
    return found


def gone(jobs: list[Made]) -> list[str]:
    """The stages of jobs that there are no more, under this name: snakemake makes anew what is needed of their files."""
    return sorted({stage for one in jobs if not by_now(stage := one.job["stage"])})


def by_now(name: str) -> str:
    """The digest of a stage; empty where there is none of this name any more."""
    try:
        return code(name)
    except LookupError:
        return ""


def own(one: Made) -> Iterator[str]:
    """The code that a job runs: its stage, what runs that, the schema that it is told, and the rules that it calls."""
    stage, told = one.job["stage"], one.job["code"]
    yield from {stage, one.job.get("runs"), one.job.get("config", {}).get("schema")} & told.keys()
    yield from (name for name in told if is_entry(name) and runs_entries(stage))


def sample(jobs: list[Made], names: Collection[str]) -> list[Made]:
    """What is made anew: of jobs that run what was changed the quick ones, and LEAST of each stage and study that runs it."""
    chosen: list[Made] = []
    taken: Counter[tuple] = Counter()
    for one in sorted(jobs, key=lambda one: (one.seconds, one.outputs)):
        keys = [(name, one.job["stage"], one.job.get("study")) for name in own(one) if name in names]
        if keys and (one.seconds < QUICK or min(taken[key] for key in keys) < LEAST):
            taken.update(keys)
            chosen.append(one)
    return chosen


def differing(one: Made, results: Path) -> str:
    """What of a job's outputs comes out otherwise by the code of now: the first path, with why; empty where none does."""
    with tempfile.TemporaryDirectory(prefix="rarefeat-") as folder:

        def elsewhere(word: str) -> str:
            written = word in one.outputs or word.startswith((f"{results}/logs/", f"{results}/checkpoints/"))
            return str(Path(folder, os.path.relpath(word, results))) if written else word

        _, *words = shlex.split(one.command.partition(" > ")[0])
        words = [sys.executable, *map(elsewhere, words)]
        threads = str(one.job.get("config", {}).get("training", {}).get("threads", 1))
        free = {name: value for name, value in os.environ.items() if not name.startswith("RAREFEAT_")}
        environment = free | dict.fromkeys(ONE_THREAD, threads) | {ACCEPTING: "1"}
        done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=False)
        if done.returncode:
            return f"{one.outputs[0]}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'its stage failed'}"
        for path in one.outputs:
            if Path(elsewhere(path)).read_bytes() != Path(path).read_bytes():
                return f"{path}: it has other bytes"
    return ""


def accept(results: Path, records: Path = RECORDS, cores: int = 1) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Record that changed code makes the same, after a look at a sample.

    Returns:
        The stages that were accepted, with the digest of before and that of now; and those that there are no more.

    Raises:
        RarefeatError: naming the first file of the sample that came out otherwise, or what none could be made of; nothing is
            accepted then.
    """
    jobs = made(results, records)
    if not jobs:
        raise RarefeatError(
            f"nothing is accepted: {records} knows no job of files below {results}; name the folder as the config"
            " does, and start this where snakemake ran"
        )
    stages = changed(jobs)
    chosen = sample(jobs, stages)
    with ThreadPoolExecutor(cores) as pool:
        for why in progress(pool.map(lambda one: differing(one, results), chosen), len(chosen), "files made anew"):
            if why:
                pool.shutdown(cancel_futures=True)
                raise RarefeatError(f"nothing is accepted: {why}")
    if stages:
        paths = {stage: sorted(path for one in chosen if stage in own(one) for path in one.outputs) for stage in stages}
        today = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        entries = read_accepted(results) + [
            {"stage": stage, "before": before, "now": now, "date": today, "sample": paths[stage]}
            for stage, (before, now) in stages.items()
        ]
        write_file(results / ACCEPTED, json.dumps({SEAL: BLANK, "accepted": entries}, indent=1) + "\n", sealed=True)
    return stages, gone(jobs)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of results")
    parser.add_argument("--cores", type=int, choices=range(1, 257), default=2, metavar="N", help="files made anew at once")
    args = parser.parse_args()
    if not args.results.is_dir():
        raise RarefeatError(f"{args.results} is no folder")
    accepted, left = accept(args.results, cores=args.cores)
    for stage, (before, now) in accepted.items():
        print(f"accepted: {stage}, {now} for {before}")
    for stage in left:
        print(f"not accepted: there is no stage {stage} any more; snakemake makes its files anew where they are needed")
    if not accepted and not left:
        print("nothing to accept: all files are of the code of now")


if __name__ == "__main__":
    run(main)
