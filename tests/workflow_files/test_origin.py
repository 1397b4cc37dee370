"""A file says what it is.

Whoever reads it takes no other: not one of another cell, block, study, config or code.
"""

import json
from functools import partial
from pathlib import Path

import pytest
from conftest import refusal, run_cell, run_chain, run_stage, tiny_data, tiny_training
from safetensors.torch import load as tensors_of

from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import Grid, Study
from rarefeat.workflow.files.origin import KEY, check_origin
from rarefeat.workflow.files.sealed_files import read_table, write_table
from rarefeat.workflow.files.tensors import write_tensors
from rarefeat.workflow.study_kind import PRETRAIN, PROBE, SYNTHESISE, Table

FOUND = {
    "study": "paper",
    "cell": {"eps_min": 0.5, "sigma": 0.1},
    "seeds": "1-2",
    "config": {"data": {"d": 9}, "training": {"T": 5}},
    "code": {"stages.pretrain": "0a", "stages.synthesise": "1b"},
}


def test_expected_file_is_accepted():
    check_origin("f", json.dumps(FOUND), FOUND)
    # What is not named is not asked for.
    code = {"stages.synthesise": "1b"}
    some = {"study": "paper", "config": {"data": {"d": 9}}, "code": code}
    check_origin("f", json.dumps(FOUND), some)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"study": "direct"}, 'another study "paper" instead of "direct"'),
        ({"cell": {"eps_min": 0.5, "sigma": 0.2}}, "another cell"),
        ({"seeds": "3-4"}, 'another seeds "1-2" instead of "3-4"'),
        (
            {"config": {"training": {"T": 6}}},
            'another config.training {"T": 5} instead of {"T": 6}',
        ),
        ({"config": {"probe": {"l2": 1}}}, "another config.probe null"),
        ({"code": {"stages.pretrain": "0b"}}, 'another code.stages.pretrain "0a" instead of "0b"'),
        ({"code": {"stages.probe": None, "stages.pretrain": None}}, "another code.stages.pretrain"),
    ],
)
def test_other_file_is_refused_with_what_differs(changes, words):
    message = refusal(check_origin, "results/f.parquet", json.dumps(FOUND), FOUND | changes)
    assert message.startswith("results/f.parquet is not the file that its name says: it has")
    assert words in message
    assert message.endswith("; delete it and run snakemake again")


@pytest.mark.parametrize("text", [None, "", "no JSON", "[1]", "3"])
def test_file_without_metadata_is_refused(text):
    assert "f does not say what it is" in refusal(check_origin, "f", text, {"study": "paper"})


STUDY = Study(
    simulator="reduced",
    draws="tiny",
    seeds=2,
    first_seed=1,
    seeds_per_block=1,
    data=tiny_data(d1=20),
    training=tiny_training(T=3, history=True),
    arms=[Arm(arm="dense"), Arm(arm="ideal")],
    grid={"points": Grid(eps_min=[0.5, 1.0], sigma=[0.1], arms=["dense", "ideal"])},
)
ENCODERS_READ = [
    "studies.theory.encoders:read_milestones",
    "studies.theory.encoders:read_one_step",
    "studies.imbalance.measure:alignment_map",
]
READERS = {
    "encoders": [PROBE.function, *ENCODERS_READ],
    "latents": [PRETRAIN.function, PROBE.function],
    "probes": ["stages.aggregate:aggregate"],
    "trajectories": ["stages.aggregate:aggregate_trajectories"],
}


MADE_BY = {folder: stage for stage in (SYNTHESISE, PRETRAIN, PROBE) for folder in stage.folders}


class Chain:
    """The folder of results of a tiny study.

    The command lines of the stages that make and read it.
    """

    def __init__(self, results: Path):
        self.results, self.cell, self.block = results, STUDY.cells()[0], next(iter(STUDY.blocks()))
        for point in STUDY.cells():
            for block in STUDY.blocks():
                run_chain(results, "tiny", STUDY, point, block)

    def path(self, kind, point=None, block=None):
        return self.results / MADE_BY[kind].path(
            kind, "tiny", point or self.cell, block or self.block
        )

    def run(self, name):
        for stage in (PRETRAIN, PROBE):
            if stage.function == name:
                run_cell(self.results, stage, "tiny", STUDY, self.cell, self.block)
                return
        files = {"encoders": PRETRAIN} if name in ENCODERS_READ else {"trajectories": PRETRAIN}
        if name.endswith(":aggregate"):
            files = {"probes": PROBE, "trajectories": PRETRAIN}
        job = Table("", name, {"tiny": STUDY}, files, study="tiny").job({})
        names = ("grid", "summary") if name.endswith(":aggregate") else ("table",)
        run_stage(job, self.results, *(self.results / f"{name}.parquet" for name in names))


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path)


def reworded(path: Path, **changes) -> None:
    """Write a file again, the same but for what it says that it is."""
    if path.suffix == ".parquet":
        table = read_table(path)
        said = json.loads(table.schema.metadata[KEY.encode()])
        write_table(path, table, {KEY: json.dumps(said | changes)})
    else:
        content = path.read_bytes()
        said = json.loads(
            json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][KEY]
        )
        write_tensors(path, tensors_of(content), json.dumps(said | changes))


def test_every_reader_takes_the_right_file_and_no_other(chain):
    """Sound files of another cell, seeds, study, config or code.

    Files that do not say what they are.
    """
    other_cell, other_block = STUDY.cells()[1], list(STUDY.blocks())[1]
    job = PRETRAIN.job("tiny", STUDY, chain.cell, chain.block)
    training = job.config["training"] | {"eta": 0.31}
    for kind, readers in READERS.items():
        for reader in readers:
            chain.run(reader)
        path, module = chain.path(kind), MADE_BY[kind].function
        code = MADE_BY[kind].job("tiny", STUDY, chain.cell, chain.block).code
        right = path.read_bytes()
        others = {
            "cell": partial(path.write_bytes, chain.path(kind, other_cell).read_bytes()),
            "seeds": partial(path.write_bytes, chain.path(kind, None, other_block).read_bytes()),
            "study": partial(reworded, path, study="direct"),
            "config.draws": partial(reworded, path, config=job.config | {"draws": "other"}),
            "config.": partial(reworded, path, config={"other": 1}),
            f"code.{module}": partial(reworded, path, code=code | {module: "0" * 12}),
        }
        if kind != "latents":
            others["config.training"] = partial(
                reworded, path, config=job.config | {"training": training}
            )
        for key, write in others.items():
            write()
            for reader in readers:
                message = refusal(chain.run, reader)
                assert message.startswith(
                    f"{path} is not the file that its name says: it has another {key}"
                ), (kind, reader)
            path.write_bytes(right)
        reworded(path, config=None)
        assert "it has another config." in refusal(chain.run, readers[0])
        if path.suffix == ".parquet":
            write_table(path, read_table(path).replace_schema_metadata({}))
        else:
            write_tensors(path, tensors_of(right))
        for reader in readers:
            assert (
                refusal(chain.run, reader)
                == f"{path} does not say what it is; delete it and run snakemake again"
            )
        path.write_bytes(right)
