"""Where results come from: one record of all of them, and whether they are what the config and the code of now would make."""

import argparse
import dataclasses
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
from rarefeat.images.contents import changed_files, known
from rarefeat.project import Project, load
from rarefeat.run.command import run
from rarefeat.run.digests import ACCEPTED, PACKAGE, code, digest
from rarefeat.run.metadata import file_hash, machine, origin, packages, read_job, read_origin
from rarefeat.run.results_folder import nested, within
from rarefeat.storage.files import BLANK, SEAL, refuse_cut, replacing, seal
from rarefeat.storage.files import verify as verify_bytes

RECORD = "provenance.json"
INTERMEDIATE = re.compile(r"seeds=\d+-\d+\.(safetensors|parquet)")
"""Name of a file of one cell and block; a checkpoint of an unfinished training has a longer one."""


def expected(project: Project, hashes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The origin that every table, figure and page has now, by path; hashes: of the files that are there, by path."""
    origins: dict[str, dict[str, Any]] = {}

    def of(names: Iterable[str], suffix: str = "tables/{}.parquet") -> dict[str, tuple[str, dict[str, Any]]]:
        paths = {name: suffix.format(name) for name in names}
        return {name: (hashes.get(path, ""), origins[path]) for name, path in paths.items()}

    for name, table in project.tables.items():
        origins[f"tables/{name}.parquet"] = origin(project.table_job(name), of(table.tables))
    for name, figure in project.figures.items():
        found = origin(project.figure_job(name), of(figure.tables))
        origins |= {f"figures/{name}.{suffix}": found for suffix in ("pdf", "png")}
    for name, page in project.pages.items():
        origins[f"{name}.md"] = origin(project.page_job(name), of(page.tables))
        origins[f"pages/{name}_text.html"] = origin(project.text_page_job(name), {})
    for name, browsed in project.browsed.items():
        origins[f"pages/{name}.html"] = origin(project.browsed_job(name), of(browsed.tables))
    for paper in project.papers:
        origins[f"pages/claims_{paper}.html"] = origin(project.claims_page_job(paper), of([f"claims_{paper}"]))
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
    if not reasons and found.get("job") != now["job"]:
        reasons.append("made from a page or a table that is another by now")
    return reasons


def made_elsewhere(found: dict[str, Any], now: dict[str, Any]) -> str:
    """In what packages and machine differ. Such a product is not stale: what differs is rounding, which a reader may judge."""
    pairs = [(key, found[part].get(key), value) for part in ("packages", "machine") for key, value in now[part].items()]
    return ", ".join(f"{key} {before}, now {value}" for key, before, value in pairs if before not in (None, value))


class Line(NamedTuple):
    """What verification found of one file."""

    state: str
    path: str
    why: str = ""


NOT_CHECKED = ("logs", "checkpoints", "README.md", ".lock", ".store", "pages/run_times.html", ACCEPTED)
"""Files and folders of which nothing is said: what jobs print, what unfinished trainings keep, what a person has accepted."""


def checked(results: Path, project: Project | None = None) -> Iterator[str]:
    """The files below a folder of results, and links, but for NOT_CHECKED and what remembers digests of a study's images."""
    remembered = {str(known(results, name).relative_to(results)) for name in (project.studies if project else ())}
    for path in within(results):
        name = str(path.relative_to(results))
        if name not in remembered and not any(name == one or name.startswith(f"{one}/") for one in NOT_CHECKED):
            yield name


def verify(results: Path, project: Project, deep: bool = False) -> list[Line]:
    """Every file below a folder of results: current, accepted, stale, damaged, missing or unknown.

    What a plain `snakemake` does not make is missing only where other files of its target are there.

    Args:
        deep: whether every byte of intermediate files is looked at; else what they are, and that they are whole.
    """
    paths = sorted(path for path in checked(results, project) if path != RECORD)
    linked = [path for path in paths if (results / path).is_symlink()]
    hashes = {path: file_hash(results / path) for path in products_of(results)}
    now = expected(project, hashes)
    wanted = set(project.default)
    for target in project.targets.values():
        wanted |= set(target) if set(target) & set(paths) else set()
    lines = [Line("damaged", path, "it is a link, and what it leads to is not checked") for path in linked]
    lines += verify_products(results, now, set(paths), wanted)
    others = [path for path in paths if path not in now]
    other = ("tables/", "figures/", "pages/", ".")
    intermediate = [path for path in others if path.endswith((".safetensors", ".parquet")) and not path.startswith(other)]
    lines += [line for path in intermediate if (line := verify_intermediate(results, path, deep, project))]
    lines += verify_record(results, hashes, set(intermediate))
    return lines + [Line("unknown", path) for path in others if path not in intermediate]


def verify_products(results: Path, origins: dict[str, Any], paths: set[str], wanted: set[str]) -> list[Line]:
    """The tables, figures and pages with these origins by now, among the files that are there, and those that are wanted."""
    lines = []
    for path, now in origins.items():
        if path not in paths:
            lines += [Line("missing", path)] if path in wanted else []
            continue
        try:
            found = read_origin(results / path)
        except RarefeatError as error:
            lines.append(Line("damaged", path, str(error)))
            continue
        if reasons := stale(found, now):
            lines.append(Line("stale", path, "; ".join(reasons)))
        elif stages := sorted(name for name, standing in now["code"].items() if standing != code(name)):
            lines.append(Line("accepted", path, f"by a sample: code of {', '.join(stages)}"))
        else:
            lines.append(Line("current", path, made_elsewhere(found, now)))
    return lines


def states(project: Project) -> dict[str, Line]:
    """What is found of every table, figure and page that is there, by path.

    Raises:
        RarefeatError: naming what is stale or damaged, unless the config allows it in a report.
    """
    results = Path(project.results)
    hashes = {path: file_hash(results / path) for path in products_of(results)}
    found = {line.path: line for line in verify_products(results, expected(project, hashes), set(hashes), set())}
    wrong = [line for line in found.values() if line.state in ("stale", "damaged")]
    if wrong and not project.stale_in_report:
        others = f", as are {len(wrong) - 1} others" if len(wrong) > 1 else ""
        raise RarefeatError(
            f"no report: {results / wrong[0].path} is {wrong[0].state} ({wrong[0].why}){others}; run snakemake with this config"
            " first, or say --config stale_in_report=true"
        )
    return found


def verify_intermediate(results: Path, path: str, deep: bool, project: Project) -> Line | None:
    """Latents, encoders, probes or the like that are not what their names say, or of other images than there are by now.

    None where there is nothing to say.
    """
    found = read_job(results / path)
    if found is None:
        return Line("damaged", path, "it does not say what it is")
    try:
        verify_bytes(results / path) if deep else refuse_cut(results / path)
    except RarefeatError as error:
        return Line("damaged", path, str(error))
    if what := changed_files(found, project.studies, results):
        return Line("stale", path, what)
    if not INTERMEDIATE.fullmatch(Path(path).name):
        return None
    _, study, *axes, seeds = Path(path).with_suffix("").parts
    cell = [f"{axis}={value}" for axis, value in found.get("cell", {}).items()]
    if (study, sorted(axes), seeds) != (found.get("study"), sorted(cell), f"seeds={found.get('seeds')}"):
        is_ = "/".join([str(found.get("study")), *cell, f"seeds={found.get('seeds')}"])
        return Line("damaged", path, f"it is {is_}")
    return None


def verify_record(results: Path, hashes: dict[str, str], intermediate: set[str]) -> list[Line]:
    """The record itself, and the intermediate files that only it knows."""
    path = results / RECORD
    if not path.exists():
        return [Line("missing", RECORD)]
    try:
        verify_bytes(path)
        found = json.loads(path.read_text(encoding="utf-8"))
        recorded = {name: entry["sha256"] for name, entry in found["products"].items()}
        gone = [name for name in found["intermediate"] if name not in intermediate]
    except (RarefeatError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [Line("damaged", RECORD, str(error).splitlines()[0])]
    lines = [Line("missing", name, f"it was there when {RECORD} was written") for name in gone]
    others = [name for name in {**hashes, **recorded} if hashes.get(name) != recorded.get(name)]
    why = f"it has other bytes of {others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else "") if others else ""
    return [*lines, Line("stale" if others else "current", RECORD, why)]


def products_of(results: Path) -> list[str]:
    """Tables, figures and pages in a folder of results, sorted; what is being written has a name that begins with a dot."""
    found = [path for place in ("tables/*", "figures/*", "pages/*.html", "*.md") for path in results.glob(place)]
    paths = (str(path.relative_to(results)) for path in found if path.is_file() and not path.name.startswith("."))
    return sorted(path for path in paths if path not in NOT_CHECKED)


def git(*arguments: str) -> str | None:
    """What git says of the clone that the package stands in; None where it says nothing."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, encoding="utf-8", cwd=PACKAGE, check=False)
    except OSError:  # there is no git
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def record(results: Path) -> dict[str, Any]:
    """Commit, date, machine and packages; every product with its hash and origin, and the config values behind them."""
    config, entries = {}, {}
    for path in products_of(results):
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
        SEAL: BLANK,
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "packages": packages(),
        "config": config,
        "products": entries,
        "intermediate": sorted(path for path in checked(results) if INTERMEDIATE.fullmatch(Path(path).name)),
    }


def write_record(results: Path) -> None:
    """Write the record of a folder of results."""
    with replacing(results / RECORD) as temporary:
        temporary.write_text(json.dumps(record(results), indent=1) + "\n", encoding="utf-8")
        seal(temporary)


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
    two.add_argument("--deep", action="store_true", help="look at every byte of intermediate files, too")
    three.add_argument("file", type=Path)
    args = parser.parse_args()
    if args.command == "show":
        print(json.dumps(read_origin(args.file), indent=2))
        return
    if not args.results.is_dir():
        raise RarefeatError(f"{args.results} is no folder")
    if args.command == "record":
        write_record(args.results)
        return
    project = dataclasses.replace(load("config/config.yaml", *args.configfile), results=str(args.results))
    lines = verify(args.results, project, args.deep)
    for line in lines:
        print(f"{line.state:8} {line.path}{': ' * bool(line.why)}{line.why}")
    counts = Counter(line.state for line in lines)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    others = [str(path.relative_to(args.results)) for path in nested(args.results)]
    told = [", ".join(NOT_CHECKED), *(["the contents of intermediate files, without --deep"] if not args.deep else [])]
    print(f"not checked: {'; '.join([*told, *(f'{name}, other results' for name in others)])}")
    sys.exit(bool(set(counts) - {"current", "accepted"}))


if __name__ == "__main__":
    run(main)
