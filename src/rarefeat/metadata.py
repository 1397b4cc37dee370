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

from rarefeat.files import RarefeatError, verify, write_table
from rarefeat.sections import Section
from rarefeat.sources import digest, sources

PACKAGES = (
    "rarefeat", "snakemake", "torch", "numpy", "pandas", "pyarrow", "seaborn", "matplotlib", "scipy", "scikit-learn", "kornia",
)  # fmt: skip
TRAINED = ("synthesise", "pretrain")
# The stages that a kind of table or figure came through, apart from those of the tables that it was made from.
STAGES = {
    "grid": (*TRAINED, "probe", "aggregate"),
    "trajectories": (*TRAINED, "aggregate"),
    "milestones": (*TRAINED, "milestones"),
    "one_step": (*TRAINED, "one_step"),
    "overlap": (*TRAINED, "overlap"),
    "alignment_heatmap": (*TRAINED, "alignment_map"),
    "cross_check": ("cross_check",),
    "lucky_sets": ("lucky_sets",),
    "scaling": (*TRAINED, "scaling"),
    "augmentation": (*TRAINED, "supervise", "augmentation"),
    "images": ("images.datasets", "images.splits", "images.pretrain", "images.probe", "images.table"),
    "image_views": ("images.datasets", "images.splits", "images.pretrain", "images.representations"),
    "claims": ("claims.table",),
    "figure": ("plot",),
    "augmentation_figure": ("augmentation_figure",),
    "images_figure": ("images.figure",),
    "image_views_figure": ("images.representations_figure",),
    "claims_figure": ("claims.figure",),
    "claims_map": ("claims.maps",),
}
KEY = "rarefeat"


@functools.cache
def code(stage: str) -> str:
    """A content hash of the sources of a stage."""
    return digest(*(path.read_bytes() for path in sources(stage)))


def values(part: Any) -> Any:
    """A section of the config as plain values, but for `seeds_per_block`: how seeds are cut into jobs changes no number."""
    if isinstance(part, Section):
        part = part.model_dump(mode="json", by_alias=True)
    if isinstance(part, dict):
        return {key: values(value) for key, value in part.items() if key != "seeds_per_block"}
    return [values(value) for value in part] if isinstance(part, list) else part


def seeds(part: Section) -> str | dict[str, str]:
    """First and last seed of a study; of each study where a section has several."""
    if "first_seed" in type(part).model_fields:
        return f"{part.first_seed}-{part.first_seed + part.seeds - 1}"
    return {name: seeds(study) for name, study in part.studies.items()}


@functools.cache
def packages() -> dict[str, str]:
    """Versions of the packages that make numbers."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


@functools.cache
def machine() -> dict[str, str]:
    """System, processor and Python."""
    try:
        names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    processor = names[0] if names else platform.processor() or platform.machine()
    return {"system": platform.platform(), "processor": processor, "python": platform.python_version()}


def origin(kind: str, parts: Mapping[str, Section], tables: Mapping[str, tuple[str, dict]]) -> dict[str, Any]:
    """Where a product of a kind comes from: sections of the config by name, and tables, each with its hash and its own origin.

    What the tables were made from belongs to it, so that a figure stands for itself.
    """
    of_tables = [table for _, table in tables.values()]
    own = {
        "config": {name: values(part) for name, part in parts.items()},
        "seeds": {name: seeds(part) for name, part in parts.items()},
        "code": {stage: code(stage) for stage in STAGES[kind]},
    }
    merged = {key: {name: of[name] for of in [*(t[key] for t in of_tables), own[key]] for name in of} for key in own}
    hashes = {name: sha256 for name, (sha256, _) in tables.items()}
    return merged | {"tables": hashes, "packages": packages(), "machine": machine()}


def made_from(kind: str, parts: Mapping[str, Section], tables: Iterable[str | Path] = ()) -> dict[str, Any]:
    """The origin of what a stage is about to write, from its sections of the config and the tables that it has read."""
    return origin(kind, parts, {Path(path).stem: (file_hash(path), read_origin(path)) for path in tables})


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def write_product(path: str | Path, table: pd.DataFrame, found: dict[str, Any]) -> None:
    """Write a table with its origin."""
    write_table(path, pa.Table.from_pandas(table, preserve_index=False), {KEY: json.dumps(found)})


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
