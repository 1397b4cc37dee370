"""Where a result comes from: content hashes of config and code in each table, commit, machine and date beside them."""

import argparse
import ast
import datetime
import hashlib
import importlib.metadata
import json
import platform
import subprocess
from pathlib import Path

from rarefeat.command import run
from rarefeat.files import replacing
from rarefeat.sections import Section

PACKAGE = Path(__file__).parent


def sources(*modules: str) -> list[Path]:
    """Files of the package that the modules import, directly or not, themselves included; sorted.

    A module is named from the package's root, as in "pretrain" or "core.encoder".
    """
    found: set[Path] = set()
    waiting = [PACKAGE.joinpath(*module.split(".")).with_suffix(".py") for module in modules]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
                base = PACKAGE.parent.joinpath(*node.module.split("."))
                candidates = [base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)]
                waiting += [candidate for candidate in candidates if candidate.is_file()]
    return sorted(found)


def digest(*texts: bytes) -> str:
    """One content hash of several texts."""
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()


def table_metadata(part: Section, *stages: str) -> dict[str, str]:
    """What goes into a table's own metadata, pure functions of config, seeds and the code of the stages it came through.

    `part` is what the table is made from: a study, or a section with studies of its own.
    """
    # How the seeds are cut into jobs changes no number.
    config = part.model_dump_json(by_alias=True, exclude={"seeds_per_block"})
    seeds = {}
    if "first_seed" in type(part).model_fields:
        seeds["rarefeat.seeds"] = f"{part.first_seed}-{part.first_seed + part.seeds - 1}"
    return seeds | {
        "rarefeat.config_sha256": digest(config.encode()),
        "rarefeat.code_sha256": digest(*(path.read_bytes() for path in sources(*stages))),
    }


def record(products: list[Path]) -> dict:
    """Commit, machine, packages and date, with a content hash of each product."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=PACKAGE, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    packages = ("snakemake", "torch", "numpy", "pandas", "pyarrow", "seaborn", "matplotlib", "scipy", "scikit-learn", "kornia")
    return {
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "processor": platform.machine(), "python": platform.python_version()},
        "packages": {name: importlib.metadata.version(name) for name in packages},
        "products": {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in products},
    }


def main() -> None:
    """Write results/provenance.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("products", nargs="+", type=Path, help="tables and figures")
    parser.add_argument("--output", required=True, help="JSON file to write")
    args = parser.parse_args()
    with replacing(args.output) as temporary:
        temporary.write_text(json.dumps(record(args.products), indent=2) + "\n")


if __name__ == "__main__":
    run(main)
