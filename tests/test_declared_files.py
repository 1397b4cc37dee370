"""What the docs say of files of tensors and intermediate tables is what the stages write."""

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import run_cell, run_chain
from pyarrow.csv import read_csv
from safetensors import safe_open

from rarefeat.images import file_schemas as images
from rarefeat.images import pretrain as image_training
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.stages import file_schemas as chain
from rarefeat.workflow.files.file_schema import FileSchema
from rarefeat.workflow.project import load
from rarefeat.workflow.study_kind import IMAGE_DATA, IMAGE_PRETRAIN, IMAGE_PROBE, IMAGE_SPLITS

CONFIG = Path(__file__).parents[1] / "config"
TYPES = {"double": "float64", "large_string": "string"}


def pattern(text: str) -> str:
    """A regular expression for what a name with wildcards stands for."""
    return re.sub(
        r"\\{(\w+)\\}", lambda found: r"\d+" if found[1] == "seed" else ".+", re.escape(text)
    )


def differences(
    path: Path, results: Path, contents: FileSchema, sizes: Mapping[str, int]
) -> list[str]:
    """What of a file is not as it was declared. sizes: of known axes.

    Each of the others has one size in the file.
    """
    found = (
        []
        if re.fullmatch(pattern(contents.path), str(path.relative_to(results)))
        else [f"path {path}"]
    )
    seen, sizes = set(), dict(sizes)
    if path.suffix in (".parquet", ".csv"):
        schema = pq.read_schema(path) if path.suffix == ".parquet" else read_csv(path).schema
        written = {
            field.name: (TYPES.get(str(field.type), str(field.type)), ()) for field in schema
        }
    else:
        with safe_open(path, framework="pt") as handle:
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
        written = {
            name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            for name, tensor in tensors.items()
        }
    for name, (kind, shape) in written.items():
        entry = next(
            (item for item in contents.entries if re.fullmatch(pattern(item.name), name)), None
        )
        if entry is None:
            found.append(f"{name} is not declared")
            continue
        seen.add(entry)
        if kind not in (entry.type, str(pa.null())):
            found.append(f"{name} has type {kind}")
        if entry.shape is not None:
            if len(shape) == len(entry.shape):
                # `n` is the length of a list, of each its own.
                sizes |= {
                    axis: size
                    for axis, size in zip(entry.shape, shape, strict=True)
                    if axis not in sizes or axis == "n"
                }
            if shape != tuple(
                eval(axis, {}, sizes) if axis not in sizes else sizes[axis] for axis in entry.shape
            ):
                found.append(f"{name} has shape {shape}")
    return found + [f"{entry.name} is not there" for entry in contents.entries if entry not in seen]


@pytest.fixture(scope="module")
def project():
    return load(CONFIG / "config.yaml", CONFIG / "quick.yaml")


@pytest.fixture(scope="module", params=["paper", "colour_mask_and_redrawn"])
def encoded(request, project, tmp_path_factory):
    """A study and the files of its first cell: latents, encoders, trajectories and probes."""
    results, study = tmp_path_factory.mktemp("results"), project.studies[request.param]
    cell, block = study.cells()[0], next(iter(study.blocks()))
    return (
        results,
        study,
        run_chain(results, request.param, study, cell, block),
        len(study.blocks()[block]),
    )


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("latents", chain.LATENTS),
        ("encoders", chain.ENCODERS),
        ("trajectories", chain.COURSES),
        ("probes", chain.PROBES),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_the_chain_writes_what_is_declared(encoded, kind, contents):
    results, study, paths, S = encoded
    data, training = study.data, study.training
    sizes = {name: getattr(data, name) for name in ("N", "L", "d", "probe_pairs", "test_pairs")}
    sizes |= {"S": S, "2": 2, "m": training.m, "colour": data.views.colour}
    sizes["R"] = len(log_spaced(training.T)) if training.history else 0
    if study.simulator == "direct":
        sizes["p"] = data.d1
    trained = training.attention != "fixed"
    absent = [] if trained or kind != "encoders" else ["{arm}/query_key is not there"]
    assert differences(paths[kind], results, contents, sizes) == absent


@pytest.fixture(scope="module")
def pictured(project, tmp_path_factory):
    """The digits: images, splits, an encoder with a mask, its course, probes.

    A checkpoint with its records.
    """
    results, study = tmp_path_factory.mktemp("results"), project.studies["digits"]
    training = study.training.model_copy(update={"epochs": 1, "log_epochs": 1})
    study = study.model_copy(update={"training": training})
    cell = next(item for item in study.cells() if item["arm"] != "dense")
    at = "digits", study, cell, next(iter(study.blocks()))
    checkpoints = results / "checkpoints/digits" / cell.path
    paths = run_cell(results, IMAGE_DATA, *at) | run_cell(results, IMAGE_SPLITS, *at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Path, "unlink", lambda path, missing_ok=False: None
        )  # keep them, as an interruption does
        paths |= run_cell(results, IMAGE_PRETRAIN, *at)
    paths |= run_cell(results, IMAGE_PROBE, *at)
    paths["checkpoints"] = next(path for path in checkpoints.glob("seeds=*.safetensors"))
    paths["records"] = paths["checkpoints"].with_suffix(".csv")
    return results, paths


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        ("images", images.IMAGES),
        ("splits", images.SPLITS),
        ("encoders", images.ENCODERS),
        ("trajectories", images.COURSES),
        ("probes", images.PROBES),
        ("checkpoints", images.CHECKPOINTS),
        ("records", images.RECORDS),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_the_stages_of_images_write_what_is_declared(pictured, kind, contents):
    results, paths = pictured
    sizes = {"3": 3, "H": 8, "W": 8, "C": 10, "32": 32, "8": 1 + len(image_training.RECORDED)}
    assert differences(paths[kind], results, contents, sizes) == []
