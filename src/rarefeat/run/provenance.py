"""Where results come from: one record of all of them, and whether they are what the config and the code of now would make."""

import argparse
import datetime
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project, load
from rarefeat.run.command import run
from rarefeat.run.dependencies import PACKAGE, digest
from rarefeat.run.metadata import file_hash, machine, origin, packages, read_job, read_origin
from rarefeat.run.results_folder import within
from rarefeat.storage.files import replacing

RECORD = "provenance.json"
INTERMEDIATE = re.compile(r"seeds=\d+-\d+\.(safetensors|parquet)")
"""Name of a file of one cell and block; a checkpoint of an unfinished training has a longer one."""


def expected(project: Project, hashes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The origin that every table and figure has now, by path; `hashes` are those of the files that are there, by path."""
    origins: dict[str, dict[str, Any]] = {}

    def of(names: Iterable[str]) -> dict[str, tuple[str, dict[str, Any]]]:
        paths = {name: f"tables/{name}.parquet" for name in names}
        return {name: (hashes.get(path, ""), origins[path]) for name, path in paths.items()}

    for name, table in project.tables.items():
        origins[f"tables/{name}.parquet"] = origin(project.table_job(name), of(table.tables))
    for name, figure in project.figures.items():
        found = origin(project.figure_job(name), of(figure.tables))
        origins |= {f"figures/{name}.{suffix}": found for suffix in ("pdf", "png")}
    return origins


def changed(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """The keys in which two configs differ, each with both values where they are short."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**now, **before}:
            name = f"{path}.{key}" if path else key
            if key not in now or key not in before:
                yield f"{name} {'is gone' if key in before else 'is new'}"
            else:
                yield from changed(before[key], now[key], name)
    elif before != now:
        texts = [json.dumps(value) for value in (before, now)]
        yield f"{path} {texts[0]}, now {texts[1]}" if max(map(len, texts)) <= 40 else path


def stale(found: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Why a product of one origin is not what would be made now; empty where it is."""
    reasons = []
    if keys := list(changed(found["config"], now["config"])):
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        reasons.append(f"config: {'; '.join(keys[:3])}{more}")
    if stages := [name for name, code in now["code"].items() if found["code"].get(name) != code]:
        reasons.append(f"code of {', '.join(stages)}")
    if others := [name for name, sha256 in now["tables"].items() if found["tables"].get(name) != sha256]:
        reasons.append(f"made from another {', '.join(others)}")
    return reasons


def made_elsewhere(found: dict[str, Any], now: dict[str, Any]) -> str:
    """In what packages and machine differ. Such a product is not stale: what differs is rounding, which a reader may judge."""
    pairs = [(key, found[part].get(key), value) for part in ("packages", "machine") for key, value in now[part].items()]
    return ", ".join(f"{key} {before}, now {value}" for key, before, value in pairs if before != value)


class Line(NamedTuple):
    """What verification found of one file."""

    state: str
    path: str
    why: str = ""


def verify(results: Path, project: Project) -> list[Line]:
    """Every table, figure and page that a config gives, and every file beside them: current, stale, damaged, missing, unknown.

    What a plain `snakemake` does not make is missing only where other files of its target are there.
    """
    files = files_of(results)
    hashes = {path: file_hash(results / path) for path in files}
    wanted = set(project.default)
    for target in project.targets.values():
        wanted |= set(target) if set(target) & set(files) else set()
    known = expected(project, hashes)
    pages = {f"{name}.md" for name in project.pages}
    lines = []
    for path, now in known.items():
        if path not in files:
            lines += [Line("missing", path)] if path in wanted else []
            continue
        try:
            found = read_origin(results / path)
        except RarefeatError as error:
            lines.append(Line("damaged", path, str(error)))
            continue
        if reasons := stale(found, now):
            lines.append(Line("stale", path, "; ".join(reasons)))
        else:
            lines.append(Line("current", path, made_elsewhere(found, now)))
    unknown = [Line("unknown", path) for path in files if path not in known and path not in pages]
    return [
        *lines,
        *verify_intermediates(results),
        *verify_record(results, hashes, pages & (wanted | set(files)), pages),
        *unknown,
    ]


def verify_intermediates(results: Path) -> list[Line]:
    """Latents, encoders, probes and the like that are not what their names say; their content is for the jobs that need it."""
    lines = []
    for path in sorted(path for path in within(results) if INTERMEDIATE.fullmatch(path.name)):
        inside = path.relative_to(results)
        _, study, *axes, seeds = inside.with_suffix("").parts
        found = read_job(path)
        if found is None:
            lines.append(Line("damaged", str(inside), "it does not say what it is"))
            continue
        cell = [f"{axis}={value}" for axis, value in found.get("cell", {}).items()]
        if (study, sorted(axes), seeds) != (found.get("study"), sorted(cell), f"seeds={found.get('seeds')}"):
            is_ = "/".join([str(found.get("study")), *cell, f"seeds={found.get('seeds')}"])
            lines.append(Line("damaged", str(inside), f"it is {is_}"))
    return lines


def verify_record(results: Path, hashes: dict[str, str], wanted: set[str], pages: set[str]) -> list[Line]:
    """The pages, which only the record knows, and the record itself."""
    try:
        recorded = {
            path: entry["sha256"]
            for path, entry in json.loads((results / RECORD).read_text(encoding="utf-8"))["products"].items()
        }
    except FileNotFoundError:
        return [Line("missing", RECORD)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [Line("damaged", RECORD, f"{type(error).__name__}: {error}".splitlines()[0])]
    lines = []
    for page in sorted(wanted):
        if page not in hashes:
            lines.append(Line("missing", page))
        elif recorded.get(page, hashes[page]) != hashes[page]:
            lines.append(Line("damaged", page, f"its content is not what {RECORD} says"))
        else:
            lines.append(Line("current", page))
    others = [path for path in {**hashes, **recorded} if path not in pages and hashes.get(path) != recorded.get(path)]
    why = f"it has other bytes of {others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else "") if others else ""
    return [*lines, Line("stale" if others else "current", RECORD, why)]


def files_of(results: Path) -> list[str]:
    """Tables, figures and pages in a folder of results, sorted; what is being written has a name that begins with a dot."""
    found = [*(results / "tables").glob("*"), *(results / "figures").glob("*"), *results.glob("*.md")]
    paths = (str(path.relative_to(results)) for path in found if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in paths if path != "README.md")


def record(results: Path) -> dict[str, Any]:
    """Commit, date, machine and packages; every product with its hash and origin, and the config values behind them."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=PACKAGE, check=False)
        except OSError:  # there is no git
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    config, entries = {}, {}
    for path in files_of(results):
        entries[path] = {"sha256": file_hash(results / path)}
        try:
            found = read_origin(results / path)
        except RarefeatError:
            continue
        # Values are named by their hash, as many products share them.
        names = {name: digest(json.dumps(part).encode())[:12] for name, part in found["config"].items()}
        config |= {names[name]: part for name, part in found["config"].items()}
        entries[path] |= found | {"config": names}
    return {
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "packages": packages(),
        "config": config,
        "products": entries,
    }


def main() -> None:
    """Write the record, verify results, or show a file's metadata."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help=f"write {RECORD}, the origins of all that lies in a folder of results")
    two = commands.add_parser("verify", help="say of each table and figure whether the config and code of now would make it")
    three = commands.add_parser("show", help="print the metadata of a table or figure")
    for part in (one, two):
        part.add_argument("results", type=Path, help="folder of results")
    two.add_argument("--configfile", nargs="+", default=[], help="laid over config/config.yaml, as snakemake does")
    three.add_argument("file", type=Path)
    args = parser.parse_args()
    if args.command == "show":
        print(json.dumps(read_origin(args.file), indent=2))
        return
    if not args.results.is_dir():
        raise RarefeatError(f"{args.results} is no folder")
    if args.command == "record":
        content = json.dumps(record(args.results), indent=1) + "\n"
        with replacing(args.results / RECORD) as temporary:
            temporary.write_text(content, encoding="utf-8")
        return
    lines = verify(args.results, load("config/config.yaml", *args.configfile))
    for line in lines:
        print(f"{line.state:8} {line.path}{': ' * bool(line.why)}{line.why}")
    counts = Counter(line.state for line in lines)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    sys.exit(set(counts) != {"current"})


if __name__ == "__main__":
    run(main)
