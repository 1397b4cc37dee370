"""Metadata of tables, figures and pages: what made each.

One short JSON under the key `rarefeat` of a Parquet file or a PNG, in the Keywords of a PDF, and in
a comment at the end of a page. It names the job by its identity; a table also holds its
settings and the hashes of its modules. It holds no date, so that the
same machine gives the same bytes.
"""

import functools
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

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.model import Data
from rarefeat.workflow.config.study import serves_native_step
from rarefeat.workflow.files.origin import KEY, drop_neutral_keys
from rarefeat.workflow.files.sealed_files import (
    BLANK,
    SEAL,
    read_table,
    verify,
    write_file,
    write_table,
)
from rarefeat.workflow.run.code_hashes import hash_texts
from rarefeat.workflow.run.job import Job

PACKAGES = (
    "rarefeat", "torch", "numpy", "pandas", "pyarrow", "seaborn", "matplotlib",
    "scipy", "scikit-learn", "kornia", "numba",
)  # fmt: skip
INSTRUCTIONS = {
    "avx512": {"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"},
    "avx2": {"avx2", "fma"},
}
"""Flags of the processor by the set of instructions that torch then uses, best first."""


@functools.cache
def packages() -> dict[str, str]:
    """Return the versions of the packages that compute numbers."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


VARIABLES = re.compile(
    "OPENBLAS_CORETYPE|MKL_CBWR|MKL_ENABLE_INSTRUCTIONS|MKL_DEBUG_CPU_TYPE|(ONE)?DNN(L)?_MAX_CPU_ISA"
    "|ONEDNN_DEFAULT_FPMATH_MODE|NPY_DISABLE_CPU_FEATURES|NPY_ENABLE_CPU_FEATURES|BLIS_ARCH_TYPE"
    "|NUMBA_(OPT|LOOP_VECTORIZE|SLP_VECTORIZE|ENABLE_AVX|DISABLE_INTEL_SVML|CPU_NAME|CPU_FEATURES)"
)
"""Variables by which libraries compute with other instructions, and so other last digits."""


@functools.cache
def machine() -> dict[str, str]:
    """Return what may change the last digits: the machine, Python, and VARIABLES that are set."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    names, flags = (
        re.findall(rf"^{key}\s*: (.+)$", text, re.MULTILINE) for key in ("model name", "flags")
    )
    flags = set(flags[0].split()) if flags else set()
    best = next((name for name, needed in INSTRUCTIONS.items() if needed <= flags), "default")
    return {
        "system": platform.system(),
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "instructions": os.environ.get("ATEN_CPU_CAPABILITY", best),
        "python": platform.python_version(),
    } | {key: text for key, text in sorted(os.environ.items()) if VARIABLES.fullmatch(key)}


def seeds(section: Any) -> Any:
    """Return the first and last seed of a study, or of each study in a section of the config."""
    if not isinstance(section, dict):
        return {}
    if "first_seed" in section:
        return f"{section['first_seed']}-{section['first_seed'] + section['seeds'] - 1}"
    return {name: of_study for name, item in section.items() if (of_study := seeds(item))}


def kernels(section: Any) -> set[str]:
    """Return what trains the encoders of a section: torch, native, or `auto` if not certain."""
    if not isinstance(section, dict):
        return set()
    training = section.get("training")
    if isinstance(training, dict) and "kernel" in training:
        # Other kinds choose simulator and sizes themselves; what is certain of them is the key.
        if training["kernel"] == "torch" or "simulator" not in section:
            return {training["kernel"]}
        device, data = training.get("device", "cpu"), Data(**section["data"])
        serves = serves_native_step(section["simulator"], device, data, training["m"])
        return {"native" if serves else "torch"}
    return set().union(*map(kernels, section.values()))


def identify(job: Job) -> dict[str, Any]:
    """Return what identifies a job: its stage, its identity and the hash of its config."""
    config = json.dumps(drop_neutral_keys(job.config), sort_keys=True)
    return {
        "stage": job.stage,
        "job": job.identity,
        "config": hash_texts(config.encode())[:16],
    }


def build_origin(job: Job, tables: Iterable[str | Path] = ()) -> dict[str, Any]:
    """Return the origin of what a job writes; `tables` are the files that it has read."""
    of_tables = [(read_job_metadata(Path(path)) or {}).get("seeds", {}) for path in tables]
    return {
        **identify(job),
        "seeds": {
            name: value
            for ranges in (*of_tables, seeds(job.config))
            for name, value in ranges.items()
        },
        "kernels": sorted(kernels(job.config)),
        "tables": job.tables,
        "packages": packages(),
        "machine": machine(),
    }


def write_product(path: str | Path, table: pd.DataFrame, origin: Mapping[str, Any]) -> None:
    """Write a table with its name and origin."""
    metadata = {KEY: json.dumps({"name": Path(path).stem, **origin})}
    write_table(path, pa.Table.from_pandas(table, preserve_index=False), metadata)


def read_table_and_origin(path: str | Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a table and its origin; RarefeatError if missing, damaged or not what its name says."""
    origin = read_origin(path)
    if origin.get("name") != Path(path).stem:
        raise RarefeatError(
            f"{path} is not the table that its name says: it is {origin.get('name')}; delete it"
            f" and run snakemake again"
        )
    return read_table(path).to_pandas(), origin


def stale(path: str | Path) -> RarefeatError:
    """Return the error for a file of another job than the one that makes it now."""
    return RarefeatError(
        f"{path} is of another config, or of other code, than what is made now; delete it and run"
        f" snakemake again"
    )


def read_product(path: str | Path, tables: Mapping[str, str]) -> pd.DataFrame:
    """Read a table of the workflow, of the job that `tables` has under its name.

    It raises RarefeatError if the file is missing, damaged, or another one than its name says.
    """
    table, origin = read_table_and_origin(path)
    if origin["job"] != tables.get(origin["name"]):
        raise stale(path)
    return table


def write_page(path: str | Path, text: str, job: Job) -> None:
    """Write a page of Markdown or HTML with its origin and seal in a comment at its end."""
    origin = json.dumps({"name": Path(path).stem, **identify(job), SEAL: BLANK})
    # Two hyphens would end the comment.
    comment = origin.replace("--", "-\\u002d")
    write_file(path, f"{text}\n<!-- {KEY} {comment} -->\n", sealed=True)


def read_origin(path: str | Path) -> dict[str, Any]:
    """Read the metadata of a sealed file; RarefeatError if it is damaged or was edited."""
    path = Path(path)
    # A text of somebody else is not damaged.
    binary = path.suffix in (".parquet", ".safetensors", ".png", ".pdf")
    if binary or not path.is_file() or SEAL.encode() in path.read_bytes():
        verify(path)
        if (origin := read_job_metadata(path)) is not None:
            return origin
    raise RarefeatError(f"{path} has no metadata of this workflow")


def read_job_metadata(path: Path) -> dict[str, Any] | None:
    """Read the metadata of a file and nothing else of it; None if it has none."""
    try:
        match path.suffix:
            case ".parquet":
                text = pq.read_schema(path).metadata[KEY.encode()]
            case ".safetensors":
                with open(path, "rb") as handle:
                    text = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))[
                        "__metadata__"
                    ][KEY]
            case ".png":
                with Image.open(path, formats=["PNG"]) as image:
                    text = image.info[KEY]  # .text would decode all of it
            case ".md" | ".html":
                *_, text = re.findall(rf"\n<!-- {KEY} (.*) -->\n".encode(), path.read_bytes())
            case ".pdf":
                (text,) = re.findall(rb"/Keywords \((.*)\)", path.read_bytes())
                text = re.sub(rb"\\(.)", rb"\1", text)
            case _:
                return None
        metadata = json.loads(text)
    except Exception:  # anything may stand in a file of other software
        return None
    return metadata if isinstance(metadata, dict) else None
