"""How jobs, times, errors and reasons are put into words."""

import difflib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

import yaml

CAUSED = "Input files updated by another job"
UNION = "Union of exclusive params before and now across all output: "
# A job before and now, as the workflow tells it to a rule.
JOBS = re.compile(r"before: '(\{.*\})' now: '(\{.*\})'")
# Of these the details are worth a line; those of the others are the job's own files.
TOLD = ("Updated input files", "Params have changed since last execution")


def label(rule: str, wildcards: Mapping[str, str]) -> str:
    """A job by its rule and wildcards, as `pretrain paper eps_min=0.2`; a value that is a name says itself what it is."""
    return " ".join([rule, *(value if value.isidentifier() else f"{name}={value}" for name, value in wildcards.items())])


def number_of(jobs: int, kind: str = "") -> str:
    """1 job, 2 jobs, 3 more jobs."""
    return f"{jobs} {kind} job{'s' * (jobs != 1)}".replace("  ", " ")


def clock(seconds: float | None) -> str:
    """A span of time, as 3.2 s, 48 s, 2 min 5 s, 3 h 20 min."""
    if seconds is None:
        return "?"
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + f" {whole % 60} s" * bool(whole % 60)
    minutes = round(seconds / 60)
    return f"{minutes // 60} h" + f" {minutes % 60} min" * bool(minutes % 60)


def left(seconds: float | None, complete: bool) -> str:
    """An estimate of the time left, no more exact than it is; nothing where nothing worth a word is known."""
    if seconds is None or (seconds < 10 and not complete):
        return ""
    if seconds >= 5400:
        text = clock(600 * round(seconds / 600))
    elif seconds >= 90:
        text = f"{round(seconds / 60)} min"
    elif seconds >= 10:
        text = f"{10 * round(seconds / 10)} s"
    elif seconds > 0:
        text = f"{max(round(seconds), 1)} s"
    else:
        return ""
    return f"{'about' if complete else 'at least'} {text} left"


def one_line(text: str) -> str:
    """The message of an error of the workflow without its place in the Snakefile; those of several lines keep them.

    Of an input function that fails, what it said; of a target that no rule makes, which one.
    """
    if text.startswith("InputFunctionException") and (found := re.search(r"WorkflowError:\s+(.+)", text)):
        return found[1]
    if text.startswith("MissingRuleException"):
        target = re.search(r"No rule to produce (.+?)(?: \(if you use|$)", text, re.MULTILINE)
        if not target:
            return text
        near = difflib.get_close_matches(target[1], os.environ.get("RAREFEAT_TARGETS", "").split())
        meant = f"; near it: {', '.join(near)}" if near else ""
        return f"no rule makes {target[1]}{meant}; snakemake --list-target-rules names what can be asked for"
    lines = [line for line in text.splitlines() if not re.match(r'\s+File ".*", line \d+', line)]
    if lines and re.match(r"\w+(Error|Exception)( in .*)?[:.]$", lines[0]):
        lines = lines[1:] or lines
    return "\n".join(lines).strip()


def refused_config(arguments: Sequence[str]) -> str:
    """The first file after --configfile that is no config, and why; empty where every one is.

    Snakemake reads them before anything else, and says which one it was for few of its errors.
    """
    for path in config_files(arguments):
        try:
            found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            reason = error.strerror
        except RecursionError:
            reason = "it is nested too deeply"
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            reason = f"it is no YAML, {' '.join(str(error).split())}"
        except ValueError:
            reason = "a number of too many digits is in it"
        else:
            if isinstance(found, dict):
                continue
            reason = "it is no mapping of keys to values"
        return f"--configfile {path}: {reason}; after --configfile stand files of YAML, and targets before it or after --"
    return ""


def config_files(arguments: Sequence[str]) -> list[str]:
    """What follows --configfile or --configfiles on a command line, up to the next option; after `=` one file alone."""
    found, reading = [], False
    for word in arguments:
        if word.startswith("-"):
            option, _, first = word.partition("=")
            named = option in ("--configfile", "--configfiles")
            found += [first] if named and first else []
            reading = named and not first
        elif reading:
            found.append(word)
    return found


def complaint(logs: Sequence[str], command: str | None) -> tuple[str, bool]:
    """What the log files of a failed job say, and whether a signal ended it.

    A log may begin with many lines of progress: what counts begins with `error` or a traceback. A log without either is told as
    a whole. Only the first log that says something is told, because those of a cluster repeat it.
    """
    read = []
    for path in logs:
        try:
            read.append(Path(path).read_text(encoding="utf-8", errors="replace").strip())
        except OSError:
            continue
    written = [text for text in read if text]
    for text in written:
        if found := re.search(r"^([\w./-]+: )*error\b|^Traceback ", text, re.MULTILINE | re.IGNORECASE):
            said = text[found.start() :]
            last = said.splitlines()[-1]
            return said, last.startswith("KeyboardInterrupt") or "ended by SIGTERM" in last
    if written:
        return written[0], False
    for path in logs:
        # Where the disk is full, the job could not say so.
        if full(path):
            return f"error: cannot write {path}: No space left on device", False
    return (f"it left no log; its command was\n{command.strip()}" if command else ""), False


def full(path: str) -> bool:
    """Whether no more can be written to the file system of a file."""
    try:
        return os.statvfs(path).f_bavail == 0
    except OSError:
        return False


def grouped_reasons(planned: Sequence[tuple[str, str]]) -> list[str]:
    """Why jobs run: each kind of reason and below it the jobs of each rule, from Snakemake's reasons of the single jobs.

    That an input is made anew by another job of the run is left out where there is a reason of the job's own.
    """
    jobs: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for rule, reason in planned:
        parts = [part.partition(": ")[::2] for part in re.split(r"; (?=[A-Z])", reason)]
        own = [part for part in parts if part[0] != CAUSED] or parts
        told = (
            f"{kind}: {several(differing(' '.join(what.split()).removeprefix(UNION)))}" if kind in TOLD and what else kind
            for kind, what in own
        )
        jobs[tuple(text[:1].lower() + text[1:].rstrip(".") for text in told)][rule] += 1
    return [
        line for reasons, rules in jobs.items() for line in ("; ".join(reasons), *(f"    {part}" for part in listed(rules)))
    ]


def differing(change: str) -> str:
    """Of a job before and now, both as JSON, the keys that differ with their values; any other text stays."""
    found = JOBS.fullmatch(change)
    try:
        before, now = (json.loads(text) for text in found.groups()) if found else ({}, {})
    except ValueError:
        return change
    code = [f"the code of {stage}" for stage, _ in differences(before.pop("code", {}), now.pop("code", {}))]
    values = [f"{key.removeprefix('config.')}{how}" for key, how in differences(before, now)]
    return ", ".join([*values, *code]) or change


def differences(before: object, now: object, at: str = "") -> Iterator[tuple[str, str]]:
    """Of nested mappings and lists the dotted paths at which they differ, and how; the entries of lists by their values."""
    kind = next((kind for kind in (dict, list) if isinstance(before, kind) or isinstance(now, kind)), None)
    before, now = (kind() if kind and value is None else value for value in (before, now))
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from differences(before.get(key), now.get(key), f"{at}.{key}" if at else key)
    elif isinstance(before, list) and isinstance(now, list):
        gone, new = [value for value in before if value not in now], [value for value in now if value not in before]
        if len(gone) == len(new) and before != now:
            for one, other in zip(gone, new, strict=True):
                yield from differences(one, other, at)
            if not gone:
                yield at, ": in another order"
        else:
            yield from ((at, f": {said(value)} removed") for value in gone)
            yield from ((at, f": {said(value)} added") for value in new)
    elif before != now:
        yield at, f" {said(before)} is now {said(now)}"


def said(value: object) -> str:
    """A value as YAML has it; a mapping without its commas, at which reasons are cut."""
    if isinstance(value, dict):
        return " ".join(f"{key} {said(part)}" for key, part in value.items())
    return "not there" if value is None else json.dumps(value)


def several(files: str) -> str:
    """The first three of a list of files; what is no such list stays."""
    names = files.split(", ")
    return f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 3 and "{" not in files else files


def listed(rules: Mapping[str, int]) -> list[str]:
    """The number of jobs of each rule, in lines that keep each number with its rule."""
    text = ", ".join(f"{number}\xa0{rule}" for rule, number in rules.items())
    return [line.replace("\xa0", " ") for line in wrap(text, 110)]
