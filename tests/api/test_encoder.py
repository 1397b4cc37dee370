"""Encoders from Python: the numbers of the workflow, called, drawn, saved and loaded."""

import numpy as np
import pytest
import torch
from conftest import refusal

import rarefeat
from rarefeat.api import encoder as encoders
from rarefeat.model.arms import ARMS
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.pretraining import ALWAYS, pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.files import sealed_files
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.run.code_hashes import module_hashes

SMALL = {"T": 8, "N": 256, "d1": 60, "progress": False}
POINT = {"eps_min": 0.2, "sigma": 0.05}
TRAINED = ("stages.synthesise:stage", "stages.pretrain:stage")


@pytest.fixture
def encoder_file(results):
    return results / "encoders/paper/eps_min=0.2/sigma=0.05/seeds=100-103.safetensors"


def are_equal(one: rarefeat.Encoder, other: rarefeat.Encoder) -> bool:
    tensors = ("weights", "bias", "history", "dictionary")
    return (
        all(torch.equal(getattr(one, name), getattr(other, name)) for name in tensors)
        and one.T1 == other.T1
        and one.trajectory.equals(other.trajectory)
        and (one.arm, one.data, one.training) == (other.arm, other.data, other.training)
    )


@pytest.mark.parametrize(
    ("arm", "seed"), [("dense", 100), ("pruned_neuron-alpha=0.1", 103), ("oracle_all", 103)]
)
def test_train_equals_workflow(results, quick_project, arm, seed):
    assert are_equal(
        rarefeat.train(**POINT, arm=arm, seed=seed, config=quick_project, progress=False),
        rarefeat.load_encoder(results, "paper", POINT, arm, seed),
    )


def test_train_changes_are_keys_of_the_config():
    bias = {"share": 0}
    changes = {"d1": 30, "N": 256, "T": 12, "lambda_": 0.01, "bias": bias, "history": True}
    at = {"simulator": "direct", "draws": "mine", "alpha": 0.3, "onset": 2, "progress": False}
    encoder = rarefeat.train(0.4, 0.1, "pruned_weight", 7, **at, **changes)
    study = rarefeat.load_config().studies["paper"]
    data = study.data.model_copy(update={"d1": 30, "N": 256})
    changes = {"T": 12, "lambda_": 0.01, "history": True}
    changes["bias"] = study.training.bias.model_copy(update={"share": 0.0})
    training = study.training.model_copy(update=changes)
    arm = Arm(arm="pruned_weight", alpha=0.3, onset=2)
    latents = synthesise("mine", data, 0.4, [7])["train"]
    trained, _ = pretrain("mine", "direct", data, training, [arm], 0.1, [7], latents)
    assert (encoder.data, encoder.training, encoder.arm) == (data, training, arm)
    for name in encoders.ALWAYS:
        expected = getattr(trained[arm.label], name)
        value = torch.as_tensor(getattr(encoder, encoders.FIELDS.get(name, name)))
        torch.testing.assert_close(value.to(expected), expected[0], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("arm", [name for name, arm in ARMS.items() if arm.trained])
def test_train_knows_every_built_in_arm(arm):
    simulator = "direct" if ARMS[arm].single_weights else "reduced"
    encoder = rarefeat.train(arm=arm, simulator=simulator, **SMALL | {"T": 1})
    assert (encoder.arm.arm, encoder.arm.alpha) == (arm, 0.1 * ARMS[arm].ratio)


def test_train_takes_numbers_of_numpy():
    numbers = {"seed": np.int64(7), "T": np.int32(2), "N": np.int64(128), "history": np.True_}
    one = rarefeat.train(np.float64(0.5), np.float64(0.05), progress=False, **numbers)
    other = rarefeat.train(0.5, 0.05, seed=7, T=2, N=128, history=True, progress=False)
    assert are_equal(one, other)
    assert type(one.seed) is int
    assert one.neuron_history(np.int64(3)).equals(one.neuron_history(3))


def test_neuron_history_ends_with_the_final_weights():
    encoder = rarefeat.train(T=20, N=256, history=True, progress=False)
    last = encoder.neuron_history(4).iloc[-1]
    expected = encoder.weights[4] @ encoder.dictionary
    assert last[list(range(9))].to_numpy() == pytest.approx(expected.numpy(), abs=1e-6)
    assert last["norm"] == pytest.approx(encoder.weights[4].norm().item(), rel=1e-5)
    assert last["bias"] == encoder.bias[4].item()
    assert encoder.neuron_history(4).index.tolist() == encoder.steps
    assert encoder.metrics["max_alignment"] == pytest.approx(
        encoder.cosines[:, encoder.rare_features].max().item()
    )


def test_neuron_history_names_directions_of_a_nuisance():
    views = {"rho": 0.5, "colour": 2, "colour_sigma": 1.0}
    changes = {"T": 3, "N": 256, "L": 1, "d1": 30, "simulator": "direct", "views": views}
    encoder = rarefeat.train(history=True, progress=False, **changes)
    assert list(encoder.neuron_history(0)) == [*range(9), "colour 0", "colour 1", "norm", "bias"]


def test_encoder_call_save_load_and_plot(tmp_path):
    encoder = rarefeat.train(eps_min=1.0, seed=9, history=True, simulator="direct", **SMALL)
    pairs = encoder.sample_pairs(50)
    z = torch.softmax(pairs.tokens @ pairs.tokens.mT, -1) @ pairs.tokens
    s = z @ encoder.weights.T
    expected = ((s - encoder.bias).relu() - (-s - encoder.bias).relu()).sum(-2)
    assert torch.allclose(encoder(pairs), expected, atol=1e-5)
    assert torch.allclose(encoder(pairs.tokens[3, 1]), expected[3, 1], atol=1e-5)
    assert encoder(pairs.tokens[:0]).shape == (0, 2, 30)
    recovered = (pairs.tokens @ encoder.dictionary).round().clamp(-1, 1).mean()
    assert torch.allclose(recovered, pairs.latents.float().mean(), atol=0.05)
    encoder.save(tmp_path / "one.safetensors")
    loaded = rarefeat.load(tmp_path / "one.safetensors")
    assert torch.equal(loaded.history, encoder.history)
    assert loaded.milestones.shape == encoder.milestones.shape == (2, 30, 11)
    assert are_equal(loaded, encoder)
    assert len(encoder.plot(neuron=2).get_lines()) == 9
    assert len(encoder.plot().get_lines()) == 2


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda encoder: encoder.neuron_history(0), "this training kept no history; train with"),
        (lambda encoder: encoder([]), "Encoder: samples: must be tokens (..., L, P) with P of at"),
        (lambda encoder: rarefeat.load(__file__), "holds no saved encoder; load_encoder reads"),
    ],
)
def test_encoder_refuses_in_one_line(call, line):
    assert line in refusal(call, rarefeat.train(T=1, N=128, progress=False))


def test_metrics_are_those_of_any_precision():
    """Of a network that is wide enough for a product of less precision."""
    encoder = rarefeat.train(T=5, N=128, m=64, d1=200)
    expected, cosines = encoder.metrics, encoder.cosines
    torch.set_float32_matmul_precision("medium")
    try:
        assert encoder.metrics == expected
        assert torch.equal(encoder.cosines, cosines)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_damaged_saved_encoder_is_to_be_saved_again(tmp_path):
    path = tmp_path / "one.safetensors"
    rarefeat.train(T=2, N=256, d1=40, K=32, progress=False).save(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    assert refusal(rarefeat.load, path) == f"load: {path} is damaged; save it again"


def test_load_encoder_refuses_missing_encoder(results):
    def load(**changes):
        keys = {"study": "paper", "cell": POINT, "arm": "dense", "seed": 100}
        return refusal(rarefeat.load_encoder, results, **keys | changes)

    assert "has snakemake trained it?" in load(cell=POINT | {"eps_min": 0.3})
    assert "its seed blocks are 100-103" in load(seed=104)
    assert "'ideal' is none of the trained arms" in load(arm="ideal")
    assert "cell: must have the keys eps_min and sigma, got rho" in load(cell={"rho": 5})
    assert "cell: eps_min: must be a number" in load(cell=POINT | {"eps_min": "0.5"})
    assert "load_encoder: cell: must be a mapping, got None" in load(cell=None)
    assert "load_encoder: seed: must be a whole number, got '100'" in load(seed="100")


def test_load_encoder_refuses_other_cell(results, encoder_file, tmp_path):
    other = tmp_path / "encoders/paper/eps_min=1.0/sigma=0.05" / encoder_file.name
    other.parent.mkdir(parents=True)
    other.write_bytes(encoder_file.read_bytes())
    assert "is not the file that its name says: it has another cell" in refusal(
        rarefeat.load_encoder, tmp_path, "paper", POINT | {"eps_min": 1.0}
    )


def test_load_encoder_refuses_damaged_file(results, encoder_file, tmp_path):
    damaged = tmp_path / encoder_file.relative_to(results)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(encoder_file.read_bytes()[:-1] + b"\1")
    assert "it is damaged" in refusal(rarefeat.load_encoder, tmp_path, "paper", POINT)


def rewrite(results, encoder_file, folder, block="100-103", **changes) -> None:
    """Write the encoders and trajectories to another folder, by a job with changes."""
    _, job = encoders.find_seed_block(results, "paper", encoders.make_cell(**POINT), 100)
    job = job.model_copy(update=changes | {"seeds": block})
    arms = ("dense", "pruned_neuron-alpha=0.1", "oracle_all")
    names = [f"{arm}/{name}" for arm in arms for name in ALWAYS]
    tensors = dict(zip(names, read_tensors(encoder_file, *names), strict=True))
    place = f"paper/eps_min=0.2/sigma=0.05/seeds={block}"
    write_tensors(folder / f"encoders/{place}.safetensors", tensors, job.to_json)
    path = results / "trajectories/paper/eps_min=0.2/sigma=0.05/seeds=100-103.parquet"
    rows = sealed_files.read_table(path).replace_schema_metadata()
    metadata = {sealed_files.KEY: job.to_json}
    sealed_files.write_table(folder / f"trajectories/{place}.parquet", rows, metadata)


def test_load_encoder_warns_of_other_code(results, encoder_file, tmp_path):
    rewrite(results, encoder_file, tmp_path, code=dict.fromkeys(TRAINED, "0"))
    with pytest.warns(UserWarning, match="was trained by other code than this") as caught:
        rarefeat.load_encoder(tmp_path, "paper", POINT)
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_load_encoder_reads_seed_of_two_equal_blocks(results, encoder_file, tmp_path):
    code = module_hashes(*TRAINED) | {"own.rules:mine": "0"}  # a user's rule is no other code
    rewrite(results, encoder_file, tmp_path, code=code)
    rewrite(results, encoder_file, tmp_path, block="100-104", code=code)
    assert are_equal(
        rarefeat.load_encoder(tmp_path, "paper", POINT),
        rarefeat.load_encoder(results, "paper", POINT),
    )
    rewrite(results, encoder_file, tmp_path, block="100-104", code={})
    assert "seeds=100-103 and seeds=100-104 both hold seed 100" in refusal(
        rarefeat.load_encoder, tmp_path, "paper", POINT
    )
