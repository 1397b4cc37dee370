"""One small study under odd surroundings: are its tables, byte for byte, those of an ordinary run, or is there one clear line?

    python benchmarks/surroundings.py [--at-once 2] [WHAT ...]

Runs what tests/faults/surroundings.yaml lists, or those WHAT alone, each in a copy of the project, and puts its rows into
docs/tables/surroundings.csv, from which docs/operations/faults.md tells.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pandas as pd
import yaml

from rarefeat.report.published import FOLDER, Published, commit

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests/faults/surroundings.yaml"
COLUMNS = ["what", "status", "equal", "tables", "line"]
LEFT_OUT = ("results", "tests", "docs", ".git", ".venv", "site", ".snakemake", "__pycache__")


def ran(command: str, folder: Path, words: dict[str, str]) -> tuple[int, str]:
    """Exit status and output of a command in a new copy of the project, with what its words in capital letters stand for."""
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    config = yaml.safe_load(LIST.read_text(encoding="utf-8"))["config"]
    (folder / "mine.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = {**os.environ, "PYTHONPATH": str(folder / "src"), "PATH": path, "BASE": str(folder.parent / "base/results"),
            "VENV": sys.prefix}  # fmt: skip
    for word, text in words.items():
        command = re.sub(rf"\b{word}\b", lambda _, text=text: text, command)
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=told, capture_output=True, errors="replace", timeout=3600)
    return done.returncode, done.stdout + done.stderr


def said(output: str) -> str:
    """The line of error in an output: this project's, or else the last of another program."""
    lines = [
        line.strip() for line in output.splitlines() if re.search(r"rror|\*\*\*", line) and not line.startswith("make: *** [")
    ]
    own = [line for line in lines if re.match(r"([\w.-]+: )?error: ", line)]
    return ("Traceback: " if "Traceback" in output else "") + "; ".join(dict.fromkeys(own or lines[-1:]))


def tables(folder: Path) -> dict[str, bytes]:
    """The bytes of the tables of one run."""
    return {path.name: path.read_bytes() for path in (folder / "results/tables").glob("*.parquet") if path.is_file()}


def main() -> None:
    """Run what is asked for, or all, and publish what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, default=1, help="how many run at the same time")
    parser.add_argument("what", nargs="*", help="those alone")
    args = parser.parse_args()
    known = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    asked = {what: known["surroundings"][what] for what in args.what or known["surroundings"]}
    published = Published(ROOT / FOLDER)
    before = published.origins.get("surroundings", {}).get("commit", "").split(", ")
    commits = dict.fromkeys([*filter(None, before), commit()])
    rows = {row["what"]: row for row in published["surroundings"].to_dict("records")} if "surroundings" in published else {}
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(args.at_once) as pool:
        Path(place).chmod(0o755)  # one entry is another user
        status, output = ran("RUN", Path(place, "base"), known["words"])
        if status:
            sys.exit(output)
        base = tables(Path(place, "base"))
        folders = {what: Path(place, f"n{number}") for number, what in enumerate(asked)}
        running = {pool.submit(ran, command, folders[what], known["words"]): what for what, command in asked.items()}
        for done in as_completed(running):
            what = running[done]
            status, output = done.result()
            found = tables(folders[what])
            line = said(output).replace(str(folders[what]), "FOLDER") if status else ""
            equal = sum(found.get(name) == text for name, text in base.items())
            rows[what] = dict(zip(COLUMNS, (what, status, equal, len(base), line), strict=True))
            print(*rows[what].values(), sep=" | ", flush=True)
            if status and not line:
                print(output)
            table = pd.DataFrame([rows[name] for name in known["surroundings"] if name in rows], columns=COLUMNS)
            run = "runs of one small study on two cores (benchmarks/surroundings.py)"
            published.put("surroundings", table, {"commit": ", ".join(commits), "run": run})


if __name__ == "__main__":
    main()
