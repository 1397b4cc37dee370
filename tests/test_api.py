"""The laboratory from Python: the same numbers as the workflow, and one line for what cannot be."""

import doctest
import inspect
import math
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import refusal, run_chain, run_stage

import rarefeat
from rarefeat.api import encoder as api
from rarefeat.api.tables import schema_of
from rarefeat.chain.pretrain import TrainedEncoder as Trained
from rarefeat.chain.pretrain import pretrain
from rarefeat.chain.synthesise import synthesise
from rarefeat.run.code_hashes import PackageSource
from rarefeat.run.metadata import build_origin, write_product
from rarefeat.storage.sealed_files import write_table
from rarefeat.storage.tensors import read_tensors, write_tensors

SOURCE = str(Path(rarefeat.__file__).parents[1])
TRAINED = ("chain.synthesise:stage", "chain.pretrain:stage")
POINT = {"eps_min": 0.2, "sigma": 0.05}


@pytest.fixture(scope="module")
def quick():
    return rarefeat.load_config("config/quick.yaml")


@pytest.fixture(scope="module")
def results(quick, tmp_path_factory) -> Path:
    """The study `paper` of the quick grid, by the stages that the workflow runs."""
    folder, study = tmp_path_factory.mktemp("project") / "results" / "quick", quick.studies["paper"]
    (block,) = study.blocks()
    for cell in study.cells():
        run_chain(folder, "paper", study, cell, block)
    tables = [folder / f"tables/paper_{name}.parquet" for name in ("grid", "summary", "trends")]
    run_stage(quick.table_job("paper_grid"), "--results", folder, "--output", *tables)
    return folder


@pytest.fixture
def encoder_file(results) -> Path:
    return results / "encoders/paper/eps_min=0.2/sigma=0.05/seeds=100-103.safetensors"


def same(one: rarefeat.Encoder, other: rarefeat.Encoder) -> bool:
    tensors = ("weights", "bias", "history", "dictionary")
    return (
        all(torch.equal(getattr(one, name), getattr(other, name)) for name in tensors)
        and one.T1 == other.T1
        and one.trajectory.equals(other.trajectory)
        and (one.arm, one.data, one.training) == (other.arm, other.data, other.training)
    )


def test_the_package_alone_imports_nothing_slow():
    script = "import sys, rarefeat\nprint({'torch', 'pandas', 'pydantic'} & {*sys.modules}, 'train' in dir(rarefeat))"
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "set() True\n"
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = rarefeat.trian


def test_the_public_names_are_in_no_digest():
    """A new one must not compute anything again."""
    closure = PackageSource().closure("chain.pretrain:stage")
    modules = {definition.module for definition, text in closure.items() if text}
    assert "chain.pretrain" in modules
    assert not {"", "api"} & modules


def test_every_public_name_is_there():
    assert all(getattr(rarefeat, name).__doc__ for name in rarefeat.__all__)


FINDER = doctest.DocTestFinder()
EXAMPLES = [
    example
    for name in rarefeat.__all__
    for example in FINDER.find(getattr(rarefeat, name), f"rarefeat.{name}")
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_examples_of_the_docstrings_run(results, example, monkeypatch):
    monkeypatch.chdir(results.parents[1])
    example.globs = {"rarefeat": rarefeat}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    said = []
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_every_public_function_has_an_example():
    functions = {
        f"rarefeat.{name}"
        for name in rarefeat.__all__
        if inspect.isfunction(getattr(rarefeat, name))
    }
    assert {example.name for example in EXAMPLES if example.examples} >= functions


@pytest.mark.parametrize("arm", ["dense", "pruned_neuron-alpha=0.1", "oracle_all"])
@pytest.mark.parametrize("seed", [100, 103])
def test_an_encoder_trained_here_is_the_workflow_s(results, quick, arm, seed):
    assert same(
        rarefeat.train(**POINT, arm=arm, seed=seed, config=quick),
        rarefeat.load_encoder(results, "paper", POINT, arm, seed),
    )


def test_a_sweep_is_the_workflow_s_to_the_last_bit(results, quick):
    """All arms and seeds of its grid at once, and in another order."""
    study = quick.studies["paper"]
    points = {axis: sorted({cell[axis] for cell in study.cells()}) for axis in ("eps_min", "sigma")}
    arms = [arm.label for arm in study.arms if arm.trained and "weight" not in arm.arm] + [
        "ideal",
        "initial",
    ]
    found = rarefeat.sweep(
        **points, arm=arms, seed=[103, 100, 102, 101], config=quick, progress=False
    )
    grid = rarefeat.read_table(results, "paper_grid")
    keys = ["eps_min", "sigma", "arm", "seed"]
    both = grid[keys].merge(found.table)[list(grid)]
    assert len(both) == len(grid)
    pd.testing.assert_frame_equal(both, grid, check_exact=True)


def test_changes_are_those_of_the_config():
    encoder = rarefeat.train(
        0.4, 0.1, "pruned_weight", 7, simulator="direct", draws="mine", d1=30, N=256, T=12, lambda_=0.01, bias={"share": 0},
        history=True, alpha=0.3, onset=2,
    )  # fmt: skip
    study = rarefeat.load_config().studies["paper"]
    data = study.data.model_copy(update={"d1": 30, "N": 256})
    bias = study.training.bias.model_copy(update={"share": 0.0})
    training = study.training.model_copy(
        update={"T": 12, "lambda_": 0.01, "bias": bias, "history": True}
    )
    (arm,) = (item for item in study.arms if item.arm == "pruned_weight")
    arm = arm.model_copy(update={"alpha": 0.3, "onset": 2})
    train = synthesise("mine", data, 0.4, [7])["train"]
    encoders, _ = pretrain("mine", "direct", data, training, [arm], 0.1, [7], train)
    assert (encoder.data, encoder.training, encoder.arm) == (data, training, arm)
    for name, expected in encoders[arm.label]._asdict().items():
        assert torch.allclose(
            torch.as_tensor(getattr(encoder, name)).to(expected),
            expected[0],
            rtol=0,
            atol=0,
            equal_nan=True,
        )


def test_the_number_of_threads_is_left_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        rarefeat.train(T=1, N=128)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_course_is_that_of_the_final_weights():
    encoder = rarefeat.train(T=20, N=256, history=True)
    last = encoder.neuron_history(4).iloc[-1]
    expected = encoder.weights[4] @ encoder.dictionary
    assert last[list(range(9))].to_numpy() == pytest.approx(expected.numpy(), abs=1e-6)
    assert last["norm"] == pytest.approx(encoder.weights[4].norm().item(), rel=1e-5)
    assert last["bias"] == encoder.bias[4].item()
    assert encoder.neuron_history(4).index.tolist() == encoder.steps
    assert encoder.metrics["max_alignment"] == pytest.approx(
        encoder.cosines[:, encoder.rare_features].max().item()
    )


def test_a_course_names_the_directions_of_a_nuisance():
    views = {"rho": 0.5, "colour": 2, "colour_sigma": 1.0}
    encoder = rarefeat.train(T=3, N=256, L=1, d1=30, simulator="direct", views=views, history=True)
    assert list(encoder.neuron_history(0)) == [*range(9), "colour 0", "colour 1", "norm", "bias"]


def course(neuron, history=True):
    return rarefeat.train(T=1, N=128, history=history).course(neuron)


def load_config(path):
    return rarefeat.load_config(path)


GIVEN = {rarefeat.predict_step: {"kappa": 0.8, "gamma": 3}, rarefeat.read_table: {"results": "results"},
         rarefeat.load_encoder: {"results": "results", "study": "paper", "cell": POINT}}  # fmt: skip
"""What else a case gives to a function."""
ONE_LINE = [
    (
        rarefeat.train,
        {"taus": 1},
        "train: taus: no such key (did you mean 'tau'?); known are simulator",
    ),
    (rarefeat.train, {"T_": 5}, "train: T_: no such key (did you mean 'T'?); known are"),
    (
        rarefeat.train,
        {"lambda_": 0.1, "lambda": 0.2},
        "train: lambda: given twice, as lambda_ as well",
    ),
    (
        rarefeat.train,
        {"bias": {"shar": 0}},
        "train: training.bias.shar: unknown key (did you mean 'share'?)",
    ),
    (rarefeat.train, {"sigma": -1}, "train: sigma: Input should be greater than or equal to 0"),
    (rarefeat.train, {"eps_min": "1e-1"}, "train: eps_min: must be a number, got '1e-1'"),
    (rarefeat.train, {"eps_min": True}, "train: eps_min: must be a number, got True"),
    (rarefeat.train, {"T": True}, "train: training.T: must be a number, got True"),
    (
        rarefeat.train,
        {"eta": float("nan")},
        "train: training.eta: Input should be a finite number, got nan",
    ),
    (rarefeat.train, {"eta": 1e300}, "training.eta: 1e+300 is beyond float32, from 1e-37 to 1e+37"),
    (rarefeat.train, {"T": 10**5000}, "training.T: must be at most 2^53, got <int>"),
    (
        rarefeat.train,
        {"arm": "pruned_neuron", "alpha": [0.1, 0.2]},
        "train: alpha: must be one value, got [0.1, 0.2]",
    ),
    (rarefeat.train, {"seed": "100"}, "train: seed: must be a whole number, got '100'"),
    (
        rarefeat.train,
        {"seed": -1},
        "train: first_seed: Input should be greater than or equal to 0, got -1",
    ),
    (rarefeat.train, {"draws": "a/b"}, "train: draws: invalid name 'a/b'; use letters"),
    (rarefeat.train, {"study": None}, "train: study: must be a text, got None"),
    (
        rarefeat.train,
        {"config": "file"},
        "train: config: must be what load_config returns, got 'file'",
    ),
    (rarefeat.train, {"config": {}}, "train: config: must be what load_config returns, got {}"),
    (load_config, {"path": 5}, "load_config: path: must be a text or a path, got 5"),
    (rarefeat.train, {"T": "long"}, "train: training.T: Input should be a valid integer"),
    (rarefeat.train, {"K": 128, "N": 100}, "training.K must not exceed data.N = 100"),
    (
        rarefeat.train,
        {"arm": "dens"},
        "arm 'dens' names none of the trained arms of the study paper (did you mean 'dense'?); there are dense,",
    ),
    (
        rarefeat.train,
        {"arm": "pruned_neuron", "study": "pruning"},
        "arm 'pruned_neuron' names several of the trained arms of the study pruning",
    ),
    (
        rarefeat.train,
        {"N": 10**13},
        "study paper: data.N = 10000000000000 needs 720,000.0 GB of memory",
    ),
    (
        rarefeat.train,
        {"study": "papre"},
        "study 'papre' is none of the contrastive encoder in this config (did you mean",
    ),
    (rarefeat.train, {"study": "digits"}, "study 'digits' is none of the contrastive encoder"),
    (load_config, {"path": "none.yaml"}, "cannot read config none.yaml"),
    (
        course,
        {"neuron": 0, "history": False},
        "this training kept no history; train with history=True",
    ),
    (course, {"neuron": 30}, "neuron must be from 0 to 29, got 30"),
    (course, {"neuron": True}, "course: neuron: must be a whole number, got True"),
    (
        rarefeat.load_encoder,
        {"cell": {"rho": 5}},
        "cell must have the keys eps_min and sigma, got rho",
    ),
    (
        rarefeat.load_encoder,
        {"cell": POINT | {"eps_min": "0.5"}},
        "load_encoder: cell: eps_min: must be a number, got '0.5'",
    ),
    (rarefeat.load_encoder, {"cell": None}, "load_encoder: cell: must be a mapping, got None"),
    (
        rarefeat.load_encoder,
        {"study": "../x"},
        "load_encoder: study: invalid name '../x'; use letters",
    ),
    (
        rarefeat.load_encoder,
        {"seed": "100"},
        "load_encoder: seed: must be a whole number, got '100'",
    ),
    (
        rarefeat.read_table,
        {"results": None, "name": "paper_grid"},
        "read_table: results: must be a text or a path, got None",
    ),
    (rarefeat.read_table, {"name": None}, "read_table: name: must be a text, got None"),
    (rarefeat.read_table, {"name": "x" * 300 + "_grid"}, "is the name of no table"),
    (rarefeat.read_table, {"name": "../tables/paper_grid"}, "is the name of no table"),
    (
        rarefeat.read_table,
        {"name": "longtail_sumary"},
        "is the name of no table (did you mean 'longtail_summary'",
    ),
    (
        rarefeat.predict_step,
        {"taus": 1},
        "predict_step: taus: the law does not know it (did you mean 'tau'?)",
    ),
    (rarefeat.predict_step, {"T": 900}, "predict_step: T goes with late, its four constants drop"),
    (rarefeat.predict_step, {"late": [0] * 4}, "predict_step: T goes with late"),
    (rarefeat.predict_step, {"T": 900, "late": [1]}, "predict_step: T goes with late"),
    (rarefeat.predict_step, {"T": 400, "late": [0] * 4}, "predict_step: T: must be at least 500"),
    (rarefeat.predict_step, {"N": 4096}, "predict_step: N: the law does not know it"),
    (
        rarefeat.predict_step,
        {"views": {"mask": 0.5}},
        "predict_step: views: the law does not know it",
    ),
    (rarefeat.predict_step, {"minority": [0.5]}, "minority: the law does not know it"),
    (
        rarefeat.predict_step,
        {"bias": {"rule": "grow"}},
        "predict_step: bias.rule: the law does not know it",
    ),
    (
        rarefeat.predict_step,
        {"study": "random_mask"},
        "study random_mask: the law is for data.views as they are",
    ),
    (rarefeat.predict_step, {"kappa": True}, "predict_step: kappa: must be a number, got True"),
    (rarefeat.predict_step, {"kappa": 0}, "predict_step: kappa: must be a number above 0, got 0"),
    (rarefeat.predict_step, {"kappa": "0.8"}, "predict_step: kappa: must be a number, got '0.8'"),
    (
        rarefeat.predict_step,
        {"replicas": 2.5},
        "predict_step: replicas: must be a whole number, got 2.5",
    ),
    (rarefeat.read_table, {"name": "paper"}, "'paper' is the name of no table"),
]


@pytest.mark.parametrize(("function", "keys", "line"), ONE_LINE)
def test_what_cannot_be_is_one_line(function, keys, line):
    assert line in refusal(function, **GIVEN.get(function, {}) | keys)


def test_an_encoder_that_is_not_there(results):
    assert "has snakemake trained it?" in refusal(
        rarefeat.load_encoder, results, "paper", POINT | {"eps_min": 0.3}
    )
    assert "its blocks of seeds are 100-103" in refusal(
        rarefeat.load_encoder, results, "paper", POINT, "dense", 104
    )
    assert "names none of the trained arms" in refusal(
        rarefeat.load_encoder, results, "paper", POINT, "ideal"
    )


def test_the_encoder_of_another_cell_is_refused(results, encoder_file, tmp_path):
    other = tmp_path / "encoders/paper/eps_min=1.0/sigma=0.05" / encoder_file.name
    other.parent.mkdir(parents=True)
    other.write_bytes(encoder_file.read_bytes())
    assert "is not the file that its name says: it has another cell" in refusal(
        rarefeat.load_encoder, tmp_path, "paper", POINT | {"eps_min": 1.0}
    )


def test_a_damaged_encoder_is_refused(results, encoder_file, tmp_path):
    damaged = tmp_path / encoder_file.relative_to(results)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(encoder_file.read_bytes()[:-1] + b"\1")
    assert "it is damaged" in refusal(rarefeat.load_encoder, tmp_path, "paper", POINT)


def rewritten(results, encoder_file, folder, block="100-103", **changes) -> None:
    """The encoders and trajectories in another folder, by a job with changes."""
    told = api.find_seed_block(results, "paper", api.a_cell(**POINT), 100)[1].model_copy(
        update=changes | {"seeds": block}
    )
    names = [
        f"{arm}/{name}"
        for arm in ("dense", "pruned_neuron-alpha=0.1", "oracle_all")
        for name in Trained._fields
    ]
    tensors = dict(zip(names, read_tensors(encoder_file, *names), strict=True))
    place = f"paper/eps_min=0.2/sigma=0.05/seeds={block}"
    write_tensors(folder / f"encoders/{place}.safetensors", tensors, told.text)
    rows = api.sealed_files.read_table(
        results / "trajectories/paper/eps_min=0.2/sigma=0.05/seeds=100-103.parquet"
    ).replace_schema_metadata()
    write_table(folder / f"trajectories/{place}.parquet", rows, {api.sealed_files.KEY: told.text})


def test_other_code_is_said(results, encoder_file, tmp_path):
    rewritten(results, encoder_file, tmp_path, code=dict.fromkeys(TRAINED, "0"))
    with pytest.warns(UserWarning, match="was trained by other code than this"):
        rarefeat.load_encoder(tmp_path, "paper", POINT)


def test_a_seed_of_two_blocks_is_read_where_they_are_the_same(results, encoder_file, tmp_path):
    rewritten(results, encoder_file, tmp_path)
    rewritten(results, encoder_file, tmp_path, block="100-104")
    assert same(
        rarefeat.load_encoder(tmp_path, "paper", POINT),
        rarefeat.load_encoder(results, "paper", POINT),
    )
    rewritten(results, encoder_file, tmp_path, block="100-104", code={})
    assert "seeds=100-103 and seeds=100-104 both hold seed 100" in refusal(
        rarefeat.load_encoder, tmp_path, "paper", POINT
    )


def test_numbers_of_numpy_are_numbers():
    one = rarefeat.train(
        np.float64(0.5),
        np.float64(0.05),
        seed=np.int64(7),
        T=np.int32(2),
        N=np.int64(128),
        history=np.True_,
    )
    assert same(one, rarefeat.train(0.5, 0.05, seed=7, T=2, N=128, history=True))
    assert type(one.seed) is int
    assert one.neuron_history(np.int64(3)).equals(one.neuron_history(3))
    assert rarefeat.predict_step(
        np.float64(0.8), np.int64(10), replicas=np.int64(20)
    ) == rarefeat.predict_step(0.8, 10, replicas=20)


def test_the_law_warns_where_it_was_not_tested():
    with pytest.warns(UserWarning, match=r"decay is 0\.\d+, outside of 0\.03 to 0\.2"):
        rarefeat.predict_step(0.8, 10, replicas=5, lambda_=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rarefeat.predict_step(0.8, 10, replicas=5)
    late = {"late": [-2.0, -0.6, 0.0, 0.7], "replicas": 20, "lambda_": 0.02}
    with pytest.warns(UserWarning, match="T is inf, outside of 500 to 4000"):
        limit = rarefeat.predict_step(0.8, 10, T=math.inf, **late)
    with pytest.warns(UserWarning, match="m is 40, outside of 30 to 30"):
        rarefeat.predict_step(0.8, 10, T=2000, m=40, **late)
    own, later = (rarefeat.predict_step(0.8, 10, T=T, N=8192, **late) for T in (500, 2000))
    assert 0 < limit < later < own, (limit, later, own)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("paper_trends", "paper_grid"),
        ("paper_grid", "direct_grid"),
        ("paper_grid", "paper.arms_grid"),
        ("paper_grid", "pape_grid"),
        ("claims_imbalance_and_pruning", "claims_beyond_the_papers"),
        ("claims_imbalance_and_pruning", "claims_nonsense"),
        ("sensitivity_shi_feature_learning", "sensitivity_wen_li_feature_decoupling"),
        ("theory_measured", "selection_measured"),
        ("digits.longtail", "longtail"),
        ("mask=0.25.augmentation", "mask=0.augmentation"),
    ],
)
def test_a_table_under_another_name_is_refused(quick, tmp_path, source, name):
    written = tmp_path / f"tables/{source}.parquet"
    write_product(
        written, pd.DataFrame({"value": [1.0]}), build_origin(quick.table_job("paper_grid"))
    )
    written.rename(written.with_name(f"{name}.parquet"))
    with pytest.raises(rarefeat.RarefeatError, match="is not the table that its name says"):
        rarefeat.read_table(tmp_path, name)


def test_a_table_that_is_not_there(results):
    with pytest.raises(
        rarefeat.RarefeatError,
        match=r"papr_grid.parquet does not exist \(did you mean 'paper_grid'",
    ):
        rarefeat.read_table(results, "papr_grid")


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("paper.arms_grid", "{study}_grid"),
        ("digits.longtail_summary", "longtail_summary"),
        ("mask=0.25.augmentation", "augmentation"),
        ("longtail_summary", "longtail_summary"),
        ("claims_imbalance_and_pruning", "claims_{paper}"),
    ],
)
def test_the_schema_of_a_table_by_its_name(name, schema):
    assert schema_of(name).name == schema
