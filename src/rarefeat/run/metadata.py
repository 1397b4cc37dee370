"""What a table or figure carries in its own metadata: the config, seeds, code, tables, packages and machine that made it.

One JSON text, under the key `rarefeat` of a Parquet file or a PNG, and in a PDF's Keywords. It holds no date, so that the same
machine gives the same bytes. Like tables, figures are sealed (files.py), so that damage or a change by hand shows.
"""

import functools
import hashlib
import importlib.metadata
import json
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
from rarefeat.run.job import Job
from rarefeat.storage.files import replacing, verify, write_table
from rarefeat.storage.origin import KEY

PACKAGES = (
    "rarefeat", "snakemake", "torch", "numpy", "pandas", "pyarrow", "seaborn", "matplotlib", "scipy", "scikit-learn", "kornia",
)  # fmt: skip


def values(part: Any) -> Any:
    """A part of the config, but for `seeds_per_block`: how seeds are cut into jobs changes no number."""
    if isinstance(part, dict):
        return {key: values(value) for key, value in part.items() if key != "seeds_per_block"}
    return [values(value) for value in part] if isinstance(part, list) else part


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


@functools.cache
def machine() -> dict[str, str]:
    """System, processor and Python."""
    try:
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        names = []
    processor = names[0] if names else platform.processor() or platform.machine()
    return {"system": platform.platform(), "processor": processor, "python": platform.python_version()}


def origin(job: Job, tables: Mapping[str, tuple[str, dict]]) -> dict[str, Any]:
    """Where a product comes from: the job that makes it, and tables, each with its hash and its own origin.

    What the tables were made from belongs to it, so that a figure stands for itself.
    """
    of_tables = [table for _, table in tables.values()]
    own = {
        "config": {name: values(part) for name, part in job.config.items()},
        "seeds": {name: found for name, part in job.config.items() if (found := seeds(part))},
        "code": job.code,
    }
    merged = {key: {name: of[name] for of in [*(t[key] for t in of_tables), own[key]] for name in of} for key in own}
    hashes = {name: sha256 for name, (sha256, _) in tables.items()}
    return merged | {"tables": hashes, "packages": packages(), "machine": machine()}


def made_from(job: Job, tables: Iterable[str | Path] = ()) -> dict[str, Any]:
    """The origin of what a job is about to write, with the tables that it has read."""
    return origin(job, {Path(path).name.removesuffix(".parquet"): (file_hash(path), read_origin(path)) for path in tables})


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def write_product(path: str | Path, table: pd.DataFrame, found: dict[str, Any]) -> None:
    """Write a table with its origin."""
    write_table(path, pa.Table.from_pandas(table, preserve_index=False), {KEY: json.dumps(found)})


def write_page(path: str | Path, text: str, job: Job) -> None:
    """Write a page of Markdown, which begins with its title; below that stands of what size the run is."""
    title, _, rest = text.partition("\n")
    note = f"\n**{job.of_size[0].upper()}{job.of_size[1:]}.**\n" if job.of_size else ""
    with replacing(path) as temporary:
        temporary.write_text(f"{title}\n{note}{rest}", encoding="utf-8")


def read_origin(path: str | Path) -> dict[str, Any]:
    """The origin in the metadata of a table or figure; RarefeatError where it is damaged or was changed by hand."""
    path = Path(path)
    if path.suffix not in {".parquet", ".png", ".pdf"}:
        raise RarefeatError(f"{path} is neither a table, .parquet, nor a figure, .png or .pdf")
    verify(path)
    try:
        match path.suffix:
            case ".parquet":
                text = pq.read_schema(path).metadata[KEY.encode()]
            case ".png":
                with Image.open(path) as image:
                    text = image.text[KEY]
            case _:
                (text,) = re.findall(rb"/Keywords \((.*)\)", path.read_bytes())
                text = re.sub(rb"\\(.)", rb"\1", text)
        return json.loads(text)
    except (KeyError, ValueError, TypeError) as error:
        raise RarefeatError(f"{path} has no metadata of this workflow") from error


def read_job(path: Path) -> dict[str, Any] | None:
    """What an intermediate file says that it is, from its head alone; None where it says nothing."""
    try:
        if path.suffix == ".parquet":
            text = (pq.read_schema(path).metadata or {}).get(KEY.encode())
        else:
            with open(path, "rb") as handle:
                head = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
            text = head["__metadata__"].get(KEY)
        found = json.loads(text)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError, pa.ArrowInvalid):
        return None
    return found if isinstance(found, dict) else None
