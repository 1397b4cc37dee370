"""Where results come from: one record of all of them, and whether they are what the config and the code of now would make."""

import argparse
import datetime
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rarefeat.command import run
from rarefeat.config import Config, load
from rarefeat.figures import (
    AUGMENTATION_FIGURES,
    AUGMENTATION_TABLES,
    CLAIMS_GROUPS,
    CLAIMS_MAPS,
    FIGURES,
    IMAGE_VIEWS_TABLES,
    STUDIES,
)
from rarefeat.files import RarefeatError, replacing
from rarefeat.metadata import file_hash, machine, origin, packages, read_origin
from rarefeat.sections import Section
from rarefeat.sources import PACKAGE, digest

STUDY_TABLES = {"grid": "grid", "summary": "grid", "trends": "grid", "trajectories": "trajectories"}
IMAGES_TABLES = ("longtail", "longtail_classes", "longtail_summary", "longtail_trajectories")
# Pages hold what tables hold, for people, and no metadata.
PAGES = ("summary.md", "table2.md", "claims.md")
RECORD = "provenance.json"


class Product(NamedTuple):
    """A table or figure: its kind, the sections of the config that it is made from, the tables that it is made from."""

    kind: str
    parts: Mapping[str, Section] = MappingProxyType({})
    tables: tuple[str, ...] = ()
    claims: bool = False


def need(where: str, wanted: Iterable[str], known: Iterable[str], why: str) -> None:
    """RarefeatError where a section of the config lacks a name."""
    if missing := set(wanted) - set(known):
        raise RarefeatError(f"config: {where}.{min(missing)} is missing; {why}")


def products(config: Config) -> dict[str, Product]:
    """Every table and figure of a config by its path below the folder of results, each after the tables that it is made from.

    RarefeatError where the config leaves out what a figure shows.
    """
    studies, studies_of_claims = config.studies, config.claims.every_study()
    need("studies", STUDIES, studies, "the figures need it")
    blocks = [item.block for item in FIGURES.values() if item.block]
    need("studies.paper.grid", blocks, studies["paper"].grid, "the figures show it")
    mapped = {f"{name}_{kind}": (kind, name) for kind, names in CLAIMS_MAPS.values() for name in names}
    need("claims.studies", [name for _, name in mapped.values()], studies_of_claims, "a map of the claims shows it")
    tables = {
        f"{name}_{table}": Product(kind, {name: study})
        for name, study in studies.items()
        for table, kind in STUDY_TABLES.items()
    }
    tables |= {name: Product("augmentation", {"augmentation": config.augmentation}) for name in AUGMENTATION_TABLES}
    tables |= {name: Product("image_views", config.image_views()) for name in IMAGE_VIEWS_TABLES}
    tables |= {name: Product("images", config.images) for name in IMAGES_TABLES}
    tables["alignment_heatmap"] = Product("alignment_heatmap", {"heatmap": studies["heatmap"]})
    tables["cross_check"] = Product("cross_check", tables=("paper_grid", "direct_grid"))
    scaling = {"scaling": config.scaling}
    tables["lucky_sets"] = Product("lucky_sets", scaling)
    tables |= {name: Product("scaling", scaling, ("lucky_sets",)) for name in ("scaling", "scaling_exponents")}

    measured = {f"{name}_{kind}": (kind, name) for kind, names in config.claims.tables().items() for name in names}
    tables |= {
        table: Product(kind, {name: studies_of_claims[name]}, claims=True)
        for table, (kind, name) in (measured | mapped).items()
    }
    parts = {"claims": config.claims, "paper": studies["paper"], "augmentation": config.augmentation}
    read = (*measured, "paper_grid", "scaling_exponents", "longtail", "augmentation")
    tables["claims"] = Product("claims", parts, read, claims=True)

    figures = {name: Product("figure", tables=figure.tables) for name, figure in FIGURES.items()}
    figures |= {name: Product("augmentation_figure", tables=AUGMENTATION_TABLES) for name in AUGMENTATION_FIGURES}
    figures["augmentation_images"] = Product("image_views_figure", tables=IMAGE_VIEWS_TABLES)
    shown = ("longtail_summary", "longtail_trajectories")
    figures |= {f"longtail_{name}": Product("images_figure", tables=shown) for name in config.images}
    figures |= {f"claims_{group}": Product("claims_figure", tables=("claims",), claims=True) for group in CLAIMS_GROUPS}
    for name, (kind, names) in CLAIMS_MAPS.items():
        figures[f"claims_map_{name}"] = Product("claims_map", tables=tuple(f"{study}_{kind}" for study in names), claims=True)
    return {f"tables/{name}.parquet": product for name, product in tables.items()} | {
        f"figures/{name}.{suffix}": product for name, product in figures.items() for suffix in ("pdf", "png")
    }


def expected(config: Config, hashes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The origin that every product of a config has now, by path; `hashes` are those of the files that are there, by path."""
    origins: dict[str, dict[str, Any]] = {}
    for path, product in products(config).items():
        needed = {name: f"tables/{name}.parquet" for name in product.tables}
        tables = {name: (hashes.get(table, ""), origins[table]) for name, table in needed.items()}
        origins[path] = origin(product.kind, product.parts, tables)
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


def elsewhere(found: dict[str, Any], now: dict[str, Any]) -> str:
    """In what packages and machine differ. Such a product is not stale: what differs is rounding, which a reader may judge."""
    pairs = [(key, found[part].get(key), value) for part in ("packages", "machine") for key, value in now[part].items()]
    return ", ".join(f"{key} {before}, now {value}" for key, before, value in pairs if before != value)


class Line(NamedTuple):
    """What verification found of one file."""

    state: str
    path: str
    why: str = ""


def verify(results: Path, config: Config) -> list[Line]:
    """Every table, figure and page that a config gives, and every file beside them: current, stale, damaged, missing, unknown.

    What belongs to the claims is not missing where no table of claims was made.
    """
    files = there(results)
    hashes = {path: file_hash(results / path) for path in files}
    claims = "tables/claims.parquet" in files
    known = products(config)
    lines = []
    for path, now in expected(config, hashes).items():
        if path not in files:
            lines += [Line("missing", path)] if claims or not known[path].claims else []
            continue
        try:
            found = read_origin(results / path)
        except RarefeatError as error:
            lines.append(Line("damaged", path, str(error)))
            continue
        if reasons := stale(found, now):
            lines.append(Line("stale", path, "; ".join(reasons)))
        else:
            lines.append(Line("current", path, elsewhere(found, now)))
    unknown = [Line("unknown", path) for path in files if path not in {*known, *PAGES}]
    return [*lines, *verify_record(results, hashes, claims), *unknown]


def verify_record(results: Path, hashes: dict[str, str], claims: bool) -> list[Line]:
    """The pages, which only the record knows, and the record itself."""
    try:
        recorded = {path: entry["sha256"] for path, entry in json.loads((results / RECORD).read_text())["products"].items()}
    except FileNotFoundError:
        return [Line("missing", RECORD)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [Line("damaged", RECORD, f"{type(error).__name__}: {error}".splitlines()[0])]
    lines = []
    for page in PAGES:
        if page not in hashes:
            lines += [Line("missing", page)] if claims or page != "claims.md" else []
        elif recorded.get(page, hashes[page]) != hashes[page]:
            lines.append(Line("damaged", page, f"its content is not what {RECORD} says"))
        else:
            lines.append(Line("current", page))
    others = [path for path in {**hashes, **recorded} if path not in PAGES and hashes.get(path) != recorded.get(path)]
    why = f"it has other bytes of {others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else "") if others else ""
    return [*lines, Line("stale" if others else "current", RECORD, why)]


def there(results: Path) -> list[str]:
    """Tables, figures and pages in a folder of results, sorted; what is being written has a name that begins with a dot."""
    found = [*(results / "tables").glob("*"), *(results / "figures").glob("*"), *(results / page for page in PAGES)]
    return sorted(str(path.relative_to(results)) for path in found if path.is_file() and not path.name.startswith("."))


def record(results: Path) -> dict[str, Any]:
    """Commit, date, machine and packages; every product with its hash and origin, and the config values behind them."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=PACKAGE, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    config, entries = {}, {}
    for path in there(results):
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
            temporary.write_text(content)
        return
    lines = verify(args.results, load("config/config.yaml", *args.configfile))
    for line in lines:
        print(f"{line.state:8} {line.path}{': ' * bool(line.why)}{line.why}")
    counts = Counter(line.state for line in lines)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    sys.exit(set(counts) != {"current"})


if __name__ == "__main__":
    run(main)
