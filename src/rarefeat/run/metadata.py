"""What a table or figure carries in its own metadata: the config, seeds, code, tables, packages and machine that made it.

One JSON text, under the key `rarefeat` of a Parquet file or a PNG, and in a PDF's Keywords. It holds no date, so that the same
machine gives the same bytes. Like tables, figures are sealed (files.py), so that damage or a change by hand shows.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from rarefeat.core.errors import RarefeatError
from rarefeat.run.job import Job, parsed, without_blocks
from rarefeat.storage.files import BLANK, SEAL, read_table, verify, write_file, write_table
from rarefeat.storage.origin import KEY

SUFFIXES = (".parquet", ".png", ".pdf", ".md", ".html")
PACKAGES = (
    "rarefeat", "snakemake", "torch", "numpy", "pandas", "pyarrow", "seaborn", "matplotlib", "scipy", "scikit-learn", "kornia",
)  # fmt: skip


def seeds(part: Any) -> Any:
    """First and last seed of a study; of each study where a part of the config has several."""
    if not isinstance(part, dict):
        return {}
    if "first_seed" in part:
        return f"{part['first_seed']}-{part['first_seed'] + part['seeds'] - 1}"
    return {name: found for name, item in part.items() if (found := seeds(item))}


@functools.cache
def packages() -> dict[str, str]:
    """Versions of the packages that make numbers."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


INSTRUCTIONS = {"avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"}, "avx2": {"avx2", "fma"}}
"""The sets of instructions between which torch chooses, best first, with the flags of a processor that has them."""


@functools.cache
def machine() -> dict[str, str]:
    """System, processor, Python, and the instructions that torch rounds by: what may move a result's last digits."""
    try:
        found = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        found = ""
    names, flags = (re.findall(rf"^{key}\s*: (.+)$", found, re.MULTILINE) for key in ("model name", "flags"))
    has = set(flags[0].split()) if flags else set()
    best = next((name for name, needed in INSTRUCTIONS.items() if needed <= has), "default")
    return {
        "system": platform.platform(),
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "instructions": os.environ.get("ATEN_CPU_CAPABILITY", best),
        "python": platform.python_version(),
    }


def origin(job: Job, tables: Mapping[str, tuple[str, dict]]) -> dict[str, Any]:
    """Where a product comes from: the job that makes it, and tables, each with its hash and its own origin.

    What the tables were made from belongs to it, so that a figure stands for itself.
    """
    of_tables = [table for _, table in tables.values()]
    own = {
        "config": {name: without_blocks(part) for name, part in job.config.items()},
        "seeds": {name: found for name, part in job.config.items() if (found := seeds(part))},
        "code": job.code,
    }
    merged = {key: {name: of[name] for of in [*(t[key] for t in of_tables), own[key]] for name in of} for key in own}
    hashes = {name: sha256 for name, (sha256, _) in tables.items()}
    return merged | {"job": job.identity, "tables": hashes, "packages": packages(), "machine": machine()}


def made_from(job: Job, tables: Iterable[str | Path] = ()) -> dict[str, Any]:
    """The origin of what a job is about to write, with the tables that it has read."""
    return origin(job, {Path(path).name.removesuffix(".parquet"): (file_hash(path), read_origin(path)) for path in tables})


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def write_product(path: str | Path, table: pd.DataFrame, found: dict[str, Any]) -> None:
    """Write a table with its name and its origin."""
    name = Path(path).name.removesuffix(".parquet")
    write_table(path, pa.Table.from_pandas(table, preserve_index=False), {KEY: json.dumps({"name": name, **found})})


def read_named(path: str | Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A table of the workflow and its origin; RarefeatError where it is missing, damaged, or another than its name says."""
    found = read_origin(path)
    if found.get("name") != Path(path).name.removesuffix(".parquet"):
        is_ = f"it is {found.get('name')}; delete it and run snakemake again"
        raise RarefeatError(f"{path} is not the table that its name says: {is_}")
    return read_table(path).to_pandas(), found


def read_product(path: str | Path, tables: Mapping[str, str]) -> pd.DataFrame:
    """Read a table of the workflow.

    Args:
        tables: the identity of the job that makes it, by its name, as a job that reads it is told.

    Raises:
        RarefeatError: where it is missing or damaged, or is another table than its name says, or of another config or code.
    """
    name = Path(path).name.removesuffix(".parquet")
    table, found = read_named(path)
    if name not in tables or found.get("job") != tables[name]:
        raise RarefeatError(
            f"{path} is of another config, or of other code, than what is made now; delete it and run snakemake again"
        )
    return table


def read_products(paths: Iterable[str | Path], job: Job) -> dict[str, pd.DataFrame]:
    """The tables that a job reads, by name."""
    return {Path(path).name.removesuffix(".parquet"): read_product(path, job.tables) for path in paths}


def write_page(path: str | Path, text: str, job: Job, tables: Iterable[str | Path] = ()) -> None:
    """Write a page of Markdown or HTML with its origin, in comments at its end."""
    # Two hyphens would end the comment.
    origin_of = json.dumps({"name": Path(path).name, **made_from(job, tables)}).replace("--", "-\\u002d")
    write_file(path, f"{text}\n<!-- {KEY} {origin_of} -->\n<!-- {SEAL}: {BLANK} -->\n", sealed=True)


def page_text(path: str | Path) -> str:
    """The text of a page, without its origin; RarefeatError where it is damaged or was changed by hand."""
    verify(path)
    return Path(path).read_text(encoding="utf-8").partition(f"\n<!-- {KEY} ")[0]


def read_origin(path: str | Path) -> dict[str, Any]:
    """The origin in a table, figure or page; RarefeatError where it is damaged or was changed by hand."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise RarefeatError(f"{path} is neither a table, a figure nor a page: {', '.join(SUFFIXES)}")
    if path.suffix in (".md", ".html") and path.is_file() and f"<!-- {KEY} ".encode() not in path.read_bytes():
        raise RarefeatError(f"{path} has no metadata of this workflow")
    verify(path)
    if (found := read_job(path)) is None:
        raise RarefeatError(f"{path} has no metadata of this workflow")
    return found


def of_job(found: Mapping[str, Any], text: str) -> bool:
    """Whether what a file says of its job or of its origin is of this job."""
    return found == json.loads(text) if "stage" in found else found.get("job") == parsed(text).identity


def read_job(path: Path) -> dict[str, Any] | None:
    """What a file says of its job or of its origin, without a look at the rest of it; None where it says nothing."""
    try:
        match path.suffix:
            case ".parquet":
                text = pq.read_schema(path).metadata[KEY.encode()]
            case ".safetensors":
                with open(path, "rb") as handle:
                    text = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))["__metadata__"][KEY]
            case ".png":
                with Image.open(path) as image:
                    text = image.info[KEY]  # .text would decode all of it
            case ".md" | ".html":
                (text,) = re.findall(rf"\n<!-- {KEY} (.*) -->\n<!-- ".encode(), path.read_bytes())
            case ".pdf":
                (text,) = re.findall(rb"/Keywords \((.*)\)", path.read_bytes())
                text = re.sub(rb"\\(.)", rb"\1", text)
            case _:
                return None
        found = json.loads(text)
    except (OSError, AttributeError, ValueError, KeyError, TypeError, OverflowError, MemoryError, pa.ArrowInvalid):
        return None
    return found if isinstance(found, dict) else None
