"""The laboratory from Python: the same numbers as the workflow, and one line for what cannot be."""

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rarefeat
from rarefeat import api
from rarefeat.chain.pretrain import Encoder as Trained
from rarefeat.chain.pretrain import pretrain
from rarefeat.chain.synthesise import synthesise
from rarefeat.config.cells import path_of
from rarefeat.run import dependencies
from rarefeat.run.job import job
from rarefeat.storage.files import write_table
from rarefeat.storage.tensors import read_tensors, write_tensors

SOURCE = str(Path(rarefeat.__file__).parents[1])
TRAINED = ("chain.synthesise", "chain.pretrain")
POINT = {"eps_min": 0.2, "sigma": 0.05}


def run_stage(told, *arguments) -> None:
    """A stage's command line, in this process."""
    before, sys.argv = sys.argv, [told.stage, "--job", told.text, *map(str, arguments)]
    try:
        importlib.import_module(f"rarefeat.{told.stage}").main()
    finally:
        sys.argv = before


@pytest.fixture(scope="module")
def quick():
    return rarefeat.load_config("config/quick.yaml")


@pytest.fixture(scope="module")
def results(quick, tmp_path_factory) -> Path:
    """The study `paper` of the quick grid, by the stages that the workflow runs."""
    folder, study = tmp_path_factory.mktemp("project") / "results" / "quick", quick.studies["paper"]
    for cell in study.cells():
        (block,) = study.blocks()
        latents, encoders, trajectories, probes = (
            folder / path_of(kind, "paper", cell if kind != "latents" else cell.to("eps_min"), block, suffix)
            for kind, suffix in (
                ("latents", "safetensors"), ("encoders", "safetensors"), ("trajectories", "parquet"), ("probes", "parquet")
            )
        )  # fmt: skip
        drawn = {"draws": study.draws, "data": study.data}
        run_stage(job("chain.synthesise", (), drawn, "paper", cell.to("eps_min"), block), "--output", latents)
        told = job("chain.pretrain", TRAINED[:1], study.pretrained(cell), "paper", cell, block)
        run_stage(told, "--latents", latents, "--encoders", encoders, "--trajectories", trajectories)
        told = job("chain.probe", TRAINED, study.probed(cell), "paper", cell, block)
        run_stage(told, "--latents", latents, "--encoders", encoders, "--output", probes)
    tables = {f"--{name}": folder / f"tables/paper_{name}.parquet" for name in ("grid", "summary", "trends")}
    run_stage(quick.table_job("paper_grid"), "--results", folder, *(item for pair in tables.items() for item in pair))
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
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "set() True\n"
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = rarefeat.trian


def test_the_public_names_are_in_no_digest():
    """A new one must not compute anything again."""
    assert not {Path(rarefeat.__file__), Path(api.__file__)} & {*dependencies.source_files("chain.pretrain")}


def test_every_public_name_is_there():
    assert all(getattr(rarefeat, name).__doc__ for name in rarefeat.__all__)


@pytest.mark.parametrize("example", doctest.DocTestFinder().find(api, "rarefeat"), ids=lambda example: example.name)
def test_the_examples_of_the_docstrings_run(results, example, monkeypatch):
    monkeypatch.chdir(results.parents[1])
    example.globs = {"rarefeat": rarefeat}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    said = []
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_every_public_function_has_an_example():
    shown = {example.name for example in doctest.DocTestFinder().find(api, "rarefeat") if example.examples}
    assert shown >= {"rarefeat.train", "rarefeat.load_encoder", "rarefeat.read_table", "rarefeat.load_config"}


@pytest.mark.parametrize("arm", ["dense", "pruned_neuron-alpha=0.1", "oracle_all"])
@pytest.mark.parametrize("seed", [100, 103])
def test_an_encoder_trained_here_is_the_workflow_s(results, quick, arm, seed):
    assert same(
        rarefeat.train(**POINT, arm=arm, seed=seed, config=quick), rarefeat.load_encoder(results, "paper", POINT, arm, seed)
    )


def test_changes_are_those_of_the_config():
    encoder = rarefeat.train(
        0.4, 0.1, "pruned_weight", 7, simulator="direct", draws="mine", d1=30, N=256, T=12, lambda_=0.01, bias={"share": 0},
        history=True, alpha=0.3, onset=2,
    )  # fmt: skip
    study = rarefeat.load_config().studies["paper"]
    data = study.data.model_copy(update={"d1": 30, "N": 256})
    bias = study.training.bias.model_copy(update={"share": 0.0})
    training = study.training.model_copy(update={"T": 12, "lambda_": 0.01, "bias": bias, "history": True})
    (arm,) = (item for item in study.arms if item.arm == "pruned_weight")
    arm = arm.model_copy(update={"alpha": 0.3, "onset": 2})
    train = synthesise("mine", data, 0.4, [7])["train"]
    encoders, _ = pretrain("mine", "direct", data, training, [arm], 0.1, [7], train)
    assert (encoder.data, encoder.training, encoder.arm) == (data, training, arm)
    for name, expected in encoders[arm.label]._asdict().items():
        assert torch.allclose(torch.as_tensor(getattr(encoder, name)).to(expected), expected[0], rtol=0, atol=0, equal_nan=True)


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
    last = encoder.course(4).iloc[-1]
    expected = encoder.weights[4] @ encoder.dictionary
    assert last[list(range(9))].to_numpy() == pytest.approx(expected.numpy(), abs=1e-6)
    assert last["norm"] == pytest.approx(encoder.weights[4].norm().item(), rel=1e-5)
    assert last["bias"] == encoder.bias[4].item()
    assert encoder.course(4).index.tolist() == encoder.steps
    assert encoder.metrics["max_alignment"] == pytest.approx(encoder.cosines[:, encoder.rare].max().item())


def test_a_course_names_the_directions_of_a_nuisance():
    views = {"rho": 0.5, "colour": 2, "colour_sigma": 1.0}
    encoder = rarefeat.train(T=3, N=256, L=1, d1=30, simulator="direct", views=views, history=True)
    assert list(encoder.course(0)) == [*range(9), "colour 0", "colour 1", "norm", "bias"]


ONE_LINE = {
    "unknown key": (lambda: rarefeat.train(taus=1), "train: taus: no such key; known are simulator"),
    "bound": (lambda: rarefeat.train(sigma=-1), "train: grid.point.sigma.0: Input should be greater than or equal to 0"),
    "type": (lambda: rarefeat.train(T="long"), "train: training.T: Input should be a valid integer"),
    "keys at odds": (lambda: rarefeat.train(K=128, N=100), "training.K must not exceed data.N = 100"),
    "arm": (lambda: rarefeat.train(arm="dens"), "arm 'dens' names none of the trained arms of the study paper: dense,"),
    "arm of several": (
        lambda: rarefeat.train(arm="pruned_neuron", study="pruning"),
        "arm 'pruned_neuron' names several of the trained arms of the study pruning",
    ),
    "memory": (lambda: rarefeat.train(N=10**13), "study paper: data.N = 10000000000000 needs 720,000.0 GB of memory"),
    "study": (
        lambda: rarefeat.train(study="papre"),
        "study 'papre' is none of the contrastive encoder in this config; near it",
    ),
    "image study": (lambda: rarefeat.train(study="digits"), "study 'digits' is none of the contrastive encoder"),
    "config": (lambda: rarefeat.load_config("none.yaml"), "cannot read config none.yaml"),
    "no history": (lambda: rarefeat.train(T=1, N=128).course(0), "this training kept no history; train with history=True"),
    "neuron": (lambda: rarefeat.train(T=1, N=128, history=True).course(30), "neuron must be from 0 to 29, got 30"),
    "cell": (
        lambda: rarefeat.load_encoder("results", "paper", {"rho": 5}),
        "cell must have the keys eps_min and sigma, got rho",
    ),
    "step's key": (lambda: rarefeat.predict_step(0.8, 3, taus=1), "predict_step: taus: no such key"),
    "step's constant": (lambda: rarefeat.predict_step("0.8", 3), "predict_step: kappa: must be a number above 0, got '0.8'"),
    "step's replicas": (
        lambda: rarefeat.predict_step(0.8, 3, replicas=2.5),
        "predict_step: replicas: must be a whole number above 0, got 2.5",
    ),
    "no table": (lambda: rarefeat.read_table("results", "paper"), "'paper' is the name of no table"),
}


@pytest.mark.parametrize("case", ONE_LINE)
def test_what_cannot_be_is_one_line(case):
    call, line = ONE_LINE[case]
    with pytest.raises(rarefeat.RarefeatError) as error:
        call()
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def loaded_error(results, *arguments) -> str:
    with pytest.raises(rarefeat.RarefeatError) as error:
        rarefeat.load_encoder(results, *arguments)
    return str(error.value)


def test_an_encoder_that_is_not_there(results):
    assert "has snakemake trained it?" in loaded_error(results, "paper", POINT | {"eps_min": 0.3})
    assert "its blocks of seeds are 100-103" in loaded_error(results, "paper", POINT, "dense", 104)
    assert "names none of the trained arms" in loaded_error(results, "paper", POINT, "ideal")


def test_the_encoder_of_another_cell_is_refused(results, encoder_file, tmp_path):
    other = tmp_path / "encoders/paper/eps_min=1.0/sigma=0.05" / encoder_file.name
    other.parent.mkdir(parents=True)
    other.write_bytes(encoder_file.read_bytes())
    assert "is not the file that its name says: it has another cell" in loaded_error(
        tmp_path, "paper", POINT | {"eps_min": 1.0}
    )


def test_a_damaged_encoder_is_refused(results, encoder_file, tmp_path):
    damaged = tmp_path / encoder_file.relative_to(results)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(encoder_file.read_bytes()[:-1] + b"\1")
    assert "it is damaged" in loaded_error(tmp_path, "paper", POINT)


def rewritten(results, encoder_file, folder, block="100-103", **changes) -> None:
    """The encoders and trajectories in another folder, by a job with changes."""
    told = api.block_of(results, "paper", api.a_cell(**POINT), 100)[1].model_copy(update=changes | {"seeds": block})
    names = [f"{arm}/{name}" for arm in ("dense", "pruned_neuron-alpha=0.1", "oracle_all") for name in Trained._fields]
    tensors = dict(zip(names, read_tensors(encoder_file, *names), strict=True))
    place = f"paper/eps_min=0.2/sigma=0.05/seeds={block}"
    write_tensors(folder / f"encoders/{place}.safetensors", tensors, told.text)
    rows = api.files.read_table(
        results / "trajectories/paper/eps_min=0.2/sigma=0.05/seeds=100-103.parquet"
    ).replace_schema_metadata()
    write_table(folder / f"trajectories/{place}.parquet", rows, {api.files.KEY: told.text})


def test_other_code_is_said(results, encoder_file, tmp_path):
    rewritten(results, encoder_file, tmp_path, code=dict.fromkeys(TRAINED, "0"))
    with pytest.warns(UserWarning, match="was trained by other code than this"):
        rarefeat.load_encoder(tmp_path, "paper", POINT)


def test_a_seed_of_two_blocks_is_read_where_they_are_the_same(results, encoder_file, tmp_path):
    rewritten(results, encoder_file, tmp_path)
    rewritten(results, encoder_file, tmp_path, block="100-104")
    assert same(rarefeat.load_encoder(tmp_path, "paper", POINT), rarefeat.load_encoder(results, "paper", POINT))
    rewritten(results, encoder_file, tmp_path, block="100-104", code={})
    assert "seeds=100-103 and seeds=100-104 both hold seed 100" in loaded_error(tmp_path, "paper", POINT)


@pytest.mark.parametrize(("source", "name"), [("paper_trends", "paper_grid"), ("paper_grid", "direct_grid")])
def test_a_table_under_another_name_is_refused(results, tmp_path, source, name):
    (tmp_path / "tables").mkdir()
    (tmp_path / f"tables/{name}.parquet").write_bytes((results / f"tables/{source}.parquet").read_bytes())
    with pytest.raises(rarefeat.RarefeatError, match="is not the table that its name says"):
        rarefeat.read_table(tmp_path, name)


def test_a_table_that_is_not_there(results):
    with pytest.raises(rarefeat.RarefeatError, match=r"papr_grid.parquet does not exist; near it: paper_grid"):
        rarefeat.read_table(results, "papr_grid")


@pytest.mark.parametrize(
    ("name", "schema", "study"),
    [
        ("paper.arms_grid", "{study}_grid", "paper.arms"),
        ("digits.longtail_summary", "longtail_summary", "digits"),
        ("mask=0.25.augmentation", "augmentation", "mask=0.25"),
        ("longtail_summary", "longtail_summary", ""),
        ("claims_imbalance_and_pruning", "claims_{paper}", ""),
    ],
)
def test_the_schema_of_a_table_by_its_name(name, schema, study):
    found, of = api.schema_of(name)
    assert (found.name, of) == (schema, study)
