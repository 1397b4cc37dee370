"""What the docs say of files of tensors and intermediate tables is what the stages write."""

import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import run_cell, run_chain
from pyarrow.csv import read_csv
from safetensors.torch import load_file

import chain_files as chain
import image_files as images
from file_schemas import FileSchema
from rarefeat.images import pretrain as image_training
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.workflow.project import load
from rarefeat.workflow.study_kind import IMAGE_DATA, IMAGE_PRETRAIN, IMAGE_PROBE, IMAGE_SPLITS

CONFIG = Path(__file__).parents[1] / "config"
TYPES = {"double": "float64", "large_string": "string"}


def pattern(text: str) -> str:
    return re.sub(
        r"\\{(\w+)\\}", lambda found: r"\d+" if found[1] == "seed" else ".+", re.escape(text)
    )


def written(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each column or tensor of a file."""
    if path.suffix in (".parquet", ".csv"):
        schema = pq.read_schema(path) if path.suffix == ".parquet" else read_csv(path).schema
        return {field.name: (TYPES.get(str(field.type), str(field.type)), ()) for field in schema}
    return {
        name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in load_file(path).items()
    }


def missing(path: Path, results: Path, declared: FileSchema, sizes: Mapping[str, int]) -> list[str]:
    """What a file lacks; all else is as declared. sizes: of axes; another has one in the file."""
    assert re.fullmatch(pattern(declared.path), str(path.relative_to(results)))
    seen, sizes = set(), dict(sizes)
    for name, (kind, shape) in written(path).items():
        entry = next(item for item in declared.entries if re.fullmatch(pattern(item.name), name))
        seen.add(entry)
        assert kind in (entry.type, str(pa.null())), name
        if entry.shape is not None:
            # `n` is the length of a list, of each its own.
            own = {
                axis: size
                for axis, size in zip(entry.shape, shape, strict=True)
                if axis not in sizes or axis == "n"
            }
            sizes |= own
            assert shape == tuple(sizes.get(axis) or eval(axis, {}, sizes) for axis in entry.shape)
    return [entry.name for entry in declared.entries if entry not in seen]


@pytest.fixture(scope="module")
def project():
    return load(CONFIG / "config.yaml", CONFIG / "quick.yaml")


@pytest.fixture(scope="module", params=["paper", "colour_mask_and_redrawn"])
def encoded(request, project, tmp_path_factory):
    """A study and the files of its first cell: latents, encoders, trajectories and probes."""
    results, study = tmp_path_factory.mktemp("results"), project.studies[request.param]
    cell, block = study.cells()[0], next(iter(study.blocks()))
    paths = run_chain(results, request.param, study, cell, block)
    return results, study, paths, len(study.blocks()[block])


def test_the_chain_writes_what_is_declared(encoded):
    results, study, paths, S = encoded
    data, training = study.data, study.training
    sizes = {name: getattr(data, name) for name in ("N", "L", "d", "probe_pairs", "test_pairs")}
    sizes |= {"S": S, "2": 2, "m": training.m, "colour": data.views.colour}
    sizes["R"] = len(log_spaced(training.T)) if training.history else 0
    if study.simulator == "direct":
        sizes["p"] = data.d1
    declared = {"latents": chain.LATENTS, "encoders": chain.ENCODERS}
    declared |= {"trajectories": chain.COURSES, "probes": chain.PROBES}
    trained = training.attention != "fixed"
    for folder, contents in declared.items():
        absent = [] if trained or folder != "encoders" else ["{arm}/query_key"]
        assert missing(paths[folder], results, contents, sizes) == absent


@pytest.fixture(scope="module")
def pictured(project, tmp_path_factory):
    """The files of a cell of the digits, and its checkpoint with records, as if interrupted."""
    results, study = tmp_path_factory.mktemp("results"), project.studies["digits"]
    training = study.training.model_copy(update={"epochs": 1, "log_epochs": 1})
    study = study.model_copy(update={"training": training})
    cell = next(item for item in study.cells() if item["arm"] != "dense")
    at = "digits", study, cell, next(iter(study.blocks()))
    checkpoints = results / "checkpoints/digits" / cell.path
    paths = run_cell(results, IMAGE_DATA, *at) | run_cell(results, IMAGE_SPLITS, *at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", lambda path, missing_ok=False: None)
        paths |= run_cell(results, IMAGE_PRETRAIN, *at)
    paths |= run_cell(results, IMAGE_PROBE, *at)
    paths["checkpoints"] = next(path for path in checkpoints.glob("seeds=*.safetensors"))
    paths["records"] = paths["checkpoints"].with_suffix(".csv")
    return results, paths


def test_the_stages_of_images_write_what_is_declared(pictured):
    results, paths = pictured
    sizes = {"3": 3, "H": 8, "W": 8, "C": 10, "32": 32, "8": 1 + len(image_training.RECORDED)}
    declared = {"images": images.IMAGES, "splits": images.SPLITS, "encoders": images.ENCODERS}
    declared |= {"trajectories": images.COURSES, "probes": images.PROBES}
    declared |= {"checkpoints": images.CHECKPOINTS, "records": images.RECORDS}
    for folder, contents in declared.items():
        assert missing(paths[folder], results, contents, sizes) == []
