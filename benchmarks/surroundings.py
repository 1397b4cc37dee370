"""One small study under odd surroundings: are its tables, byte for byte, those of an ordinary run, or is there one clear line?

    python benchmarks/surroundings.py [WHAT ...]

reads tests/faults/surroundings.yaml and writes docs/tables/surroundings.csv, from which docs/operations/faults.md tells.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import yaml

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests/faults/surroundings.yaml"
TABLE = ROOT / "docs/tables/surroundings.csv"
RUN = "snakemake mine --cores 2 --configfile mine.yaml --config results=results/{n}"


def ran(command: str, folder: Path, name: str) -> tuple[int, str]:
    """Exit status and output of a command in the copy; `RUN` stands for the run itself, {n} for its results."""
    command = command.replace("RUN", RUN).replace("{n}", name)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = {**os.environ, "PYTHONPATH": str(folder / "src"), "PATH": path}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=told, capture_output=True, errors="replace", timeout=600)
    return done.returncode, done.stdout + done.stderr


def tables(folder: Path, name: str) -> dict[str, bytes]:
    """The bytes of the tables of one run."""
    return {path.name: path.read_bytes() for path in (folder / f"results/{name}/tables").glob("*.parquet")}


def main() -> None:
    """Run what is asked for, or all, and write what became of it."""
    known = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        ignored = shutil.ignore_patterns("results", "tests", "docs", ".git", ".venv", "site", ".snakemake", "__pycache__")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=ignored)
        (folder / "mine.yaml").write_text(yaml.safe_dump(known["config"]), encoding="utf-8")
        status, said = ran("RUN", folder, "base")
        if status:
            sys.exit(said)
        base = tables(folder, "base")
        for number, (what, command) in enumerate(known["surroundings"].items()):
            if sys.argv[1:] and what not in sys.argv[1:]:
                continue
            status, said = ran(command, folder, f"r{number}")
            found = tables(folder, f"r{number}")
            lines = [line for line in said.splitlines() if "rror" in line]
            same = sum(found.get(name) == text for name, text in base.items())
            rows.append((what, status, same, len(base), lines[-1].strip() if status and lines else ""))
            print(*rows[-1], flush=True)
    table = pd.DataFrame(rows, columns=["what", "status", "equal", "tables", "line"])
    if not sys.argv[1:]:
        table.to_csv(TABLE, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
