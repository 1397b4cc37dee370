"""What is known of a run: its jobs, how long they took, and how long the rest may take."""

import base64
import binascii
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LOCK = ".lock"  # in the folder of every run's results


@dataclass
class StartedJob:
    """A job that was started, `at` seconds of the system's clock.

    `share` is its part of a group that is submitted as one; `seconds` is that part of the time the group took.
    """

    number: int
    rule: str
    wildcards: dict[str, str]
    at: float
    share: float = 1.0
    seconds: float | None = None


@dataclass
class Run:
    """The jobs that Snakemake announced and those it has started."""

    checkpoints: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    earlier: dict[str, float] = field(default_factory=dict)
    jobs: dict[int, StartedJob] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    total: int = 0
    done: int = 0
    began: float = field(default_factory=time.time)

    def plan(self, counts: dict[str, int], earlier: dict[str, float]) -> None:
        """Take the number of jobs of each rule, and the mean seconds that one took in earlier runs."""
        self.counts, self.earlier, self.total = counts, earlier, sum(counts.values())

    def group(self, numbers: list[int]) -> None:
        """These jobs are submitted together and run one after the other."""
        self.shares.update(dict.fromkeys(numbers, 1 / len(numbers)))

    def start(self, job: StartedJob) -> None:
        """A job starts, perhaps not for the first time."""
        job.share = self.shares.get(job.number, 1.0)
        self.failed.discard(job.number)
        self.jobs[job.number] = job

    def finish(self, number: int, now: float) -> None:
        """A job has finished."""
        if number in self.jobs:
            self.jobs[number].seconds = (now - self.jobs[number].at) * self.jobs[number].share

    def running(self) -> list[StartedJob]:
        """The jobs that run."""
        return [job for job in self.jobs.values() if job.seconds is None and job.number not in self.failed]

    def took(self, number: int) -> float | None:
        """Seconds that a job took."""
        return self.jobs[number].seconds if number in self.jobs else None

    def pending(self) -> list[str]:
        """Checkpoints still to run or running: after them more jobs may come."""
        finished = {job.rule for job in self.jobs.values() if job.seconds is not None}
        return sorted((self.checkpoints & self.counts.keys()) - finished)

    def elapsed(self) -> float:
        """Seconds since the workflow started."""
        return time.time() - self.began

    def means(self) -> dict[str, float]:
        """Seconds of a job of each rule: the mean of this run, or else of earlier ones."""
        took = defaultdict(list)
        for job in self.jobs.values():
            if job.seconds is not None:
                took[job.rule].append(job.seconds)
        return self.earlier | {rule: sum(seconds) / len(seconds) for rule, seconds in took.items()}

    def seconds_left(self, now: float) -> tuple[float | None, bool]:
        """An estimate of the time that the rest takes, and whether it counts every job of it.

        The jobs left of each rule times the mean of one, over the number of jobs that have run at once so far, on average. Jobs
        of a checkpoint that have yet to say their rule count as the mean of all that have finished. Nothing is known of a rule
        of which no job was ever finished: its jobs are left out, and the estimate is a lower bound.

        Returns:
            Seconds, or None where nothing is known yet, and False for a lower bound.
        """
        means, running = self.means(), self.running()
        started = Counter(job.rule for job in self.jobs.values())
        waiting = {rule: max(count - started[rule], 0) for rule, count in self.counts.items()}
        unnamed = max(self.total - self.done - len(running) - len(self.failed) - sum(waiting.values()), 0)
        finished = [job.seconds for job in self.jobs.values() if job.seconds is not None]
        work = sum(number * means.get(rule, 0.0) for rule, number in waiting.items())
        work += sum(max(means.get(job.rule, 0.0) - (now - job.at) * job.share, 0.0) for job in running)
        if finished:
            work += unnamed * sum(finished) / len(finished)
        missing = [rule for rule, number in waiting.items() if number and rule not in means]
        missing += [job.rule for job in running if job.rule not in means]
        busy = sum(finished) + sum((now - job.at) * job.share for job in running)
        wall = now - min((job.at for job in self.jobs.values()), default=now)
        if not work or busy <= 0 or wall <= 0:
            return (None if missing else 0.0), not missing
        return work * wall / busy, not missing and not self.pending()


def earlier_runs(metadata: Path, results: Path | None) -> dict[str, float]:
    """Mean seconds of a job of each rule, from what Snakemake noted of the files in a folder of results.

    Only of files of this folder, and of no other folder of results below it, as results/quick is below results: a rule takes
    longer at full size.
    """
    took = defaultdict(list)
    for output, record in records(metadata):
        try:
            seconds = float(record["endtime"]) - float(record["starttime"])
            # A file that was only touched took no time.
            if seconds > 0 and not record["incomplete"] and (results is None or belongs(Path(output), results)):
                took[str(record["rule"])].append(seconds)
        except (KeyError, TypeError, ValueError):
            continue
    return {rule: sum(seconds) / len(seconds) for rule, seconds in took.items()}


def records(metadata: Path) -> Iterator[tuple[str, dict]]:
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


def belongs(output: Path, results: Path) -> bool:
    """Whether a file lies in a folder of results, and in none below that has a lock of its own."""
    if not output.is_relative_to(results):
        return False
    below = output.relative_to(results).parents
    return not any((results / folder / LOCK).exists() for folder in below if folder != Path("."))
