"""The path of a GPU without one: by tensors without data, and by its draws on the CPU."""

import pandas as pd
import pytest
import torch
from conftest import SMALL_DATA, small_training
from scipy import stats

from rarefeat.errors import RarefeatError
from rarefeat.model import batch_invariant, device, randomness, simulators
from rarefeat.stages import probe
from rarefeat.stages.synthesise import synthesise
from rarefeat.training import loop, pretraining
from rarefeat.training.pretraining import pretrain, train_arms
from rarefeat.workflow.config.model import Arm, Training, Views
from rarefeat.workflow.run.cli_helpers import progress_display

ARMS = [
    Arm(arm="dense"),
    Arm(arm="pruned_neuron", alpha=0.5, onset=2),
    Arm(arm="oracle_all"),
    Arm(arm="oracle_gated"),
]
SEEDS = [3, 4, 5]
FAR = 5.0
CPU = torch.device("cpu")


@pytest.fixture
def everywhere(monkeypatch):
    """Every branch of a device on the processor, its draws among them."""
    for module in (device, batch_invariant, simulators):
        monkeypatch.setattr(module, "is_on_cpu", lambda x: False)
    for module in (loop, pretraining, probe):
        monkeypatch.setattr(module, "make_generators", at_once)


def at_once(study, seeds, purpose, device="cpu"):
    """Draw for all replicas in one call what is drawn at each step; all else as usual."""
    if "noise" in purpose or purpose == "complement":
        return randomness.DeviceGenerator(
            len(seeds), CPU, randomness.make_device_generator(CPU, f"{study}/{seeds}/{purpose}")
        )
    return randomness.make_generators(study, seeds, purpose)


def without_data(monkeypatch, **changes) -> Training:
    """A training on torch's device for shapes, where to ask for a value is an error."""
    monkeypatch.setattr(randomness, "make_device_generator", lambda device, key: None)
    return small_training(**changes).model_copy(update={"device": "meta"})


@pytest.mark.parametrize("d1", [SMALL_DATA.d1, 15])
@pytest.mark.parametrize(
    "views",
    [Views(), Views(rho=0.5, colour=2, colour_sigma=0.1), Views(mask=0.3, clean_negatives=True)],
)
@pytest.mark.parametrize("simulator", ["reduced", "direct"])
def test_training_stays_on_device_without_waiting(simulator, views, d1, monkeypatch):
    if views != Views() and simulator == "reduced":
        pytest.skip("other views need every coordinate")
    data = SMALL_DATA.model_copy(
        update={"views": views, "d1": d1, "L": 1 if views.mask else SMALL_DATA.L}
    )
    arms = [*ARMS, *([Arm(arm="pruned_weight", alpha=0.5)] if simulator == "direct" else [])]
    at = without_data(monkeypatch, history=True)
    train = synthesise("device", data, 0.5, SEEDS)["train"]
    with progress_display(False):
        encoders, courses = train_arms("device", simulator, data, at, arms, 0.1, SEEDS, train, "")
    of_processor, rows = pretrain(
        "device", simulator, data, small_training(history=True), arms, 0.1, SEEDS, train
    )
    for label, found in encoders.items():
        assert [(part.shape, part.dtype) for part in found] == [
            (part.shape, part.dtype) for part in of_processor[label]
        ]
    tensors = [part for found in encoders.values() for part in found]
    tensors += [
        value
        for found in courses.values()
        for metrics in found.values()
        for value in metrics.values()
    ]
    assert {part.device.type for part in tensors} == {"meta"}
    assert {row["step"] for row in rows} == set(courses)


def test_waiting_for_device_is_detected(monkeypatch):
    """What the test of a training rests on."""
    monkeypatch.setattr(loop, "any_or_gpu", lambda condition: bool(condition.any()))
    with pytest.raises(RuntimeError, match="meta"):
        test_training_stays_on_device_without_waiting(
            "reduced", Views(), SMALL_DATA.d1, monkeypatch
        )


@pytest.mark.parametrize("simulator", ["reduced", "direct"])
def test_probe_embeddings_are_computed_on_device(simulator, monkeypatch):
    at = without_data(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: x)
    space = simulators.to_device(
        simulators.make_simulator(simulator, "device", SMALL_DATA.d, SMALL_DATA.d1, at.m, [3]),
        "meta",
    )
    latents = synthesise("device", SMALL_DATA, 0.5, [3])
    network = torch.randn(1, at.m, space.dictionary.shape[1]), torch.zeros(1, at.m)
    noise = randomness.make_generators("device", [3], "probe noise", "meta")
    (found,) = probe.embed_pairs(
        latents["test_balanced"][0], latents["test_matched"][0], space, [network], 0.1, 1.0, noise
    )
    assert {name: (part.device.type, part.shape) for name, part in found.items()} == {
        name: ("meta", (SMALL_DATA.test_pairs, 2, at.m)) for name in ("balanced", "matched")
    }


def test_missing_gpu_is_rejected(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    train = synthesise("device", SMALL_DATA, 0.5, SEEDS)["train"]
    with pytest.raises(RarefeatError, match=r"training\.device: no GPU is available, got cuda"):
        pretrain(
            "device", "reduced", SMALL_DATA, small_training(device="cuda"), ARMS, 0.1, SEEDS, train
        )


def block(S, seed=0):
    return randomness.DeviceGenerator(S, CPU, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dof", [3, 40])
def test_chi_variables_of_block_have_chi_distribution(dof):
    found = simulators.chi_variables(20_000, 3, dof, block(2))
    for column in range(3):
        assert stats.kstest(found[..., column].flatten(), stats.chi(dof - column).cdf).pvalue > 1e-4


def test_block_draws_independent_replicas_and_calls():
    noise = block(2)
    first, second = (simulators.standard_normals(2, 400, 50, noise) for _ in range(2))
    draws = torch.stack([first[0], first[1], second[0]]).flatten(1)
    assert all(stats.kstest(x, stats.norm.cdf).pvalue > 1e-4 for x in draws)
    correlation = torch.corrcoef(draws).fill_diagonal_(0)
    assert correlation.abs().max() < FAR / 20_000**0.5


def test_device_stream_depends_on_all_keys():
    keys = ("a/[1, 2]/noise", "b/[1, 2]/noise", "a/[1, 3]/noise", "a/[1, 2]/complement")
    seeds = {randomness.make_device_generator(CPU, key).initial_seed() for key in keys}
    assert len(seeds) == len(keys)
    assert max(seeds) >= 2**32


def test_tokens_of_block_have_expected_gram_matrices(everywhere):
    """Inner products of a sample's tokens, in the coordinates that no weight sees too."""
    latents = torch.zeros(2, 4000, 3, 4)
    latents[..., 0] = 1
    space = simulators.ReducedSimulator(4, 60, 6, 2)
    tokens = space.sample_tokens(latents, 0.5, block(2)).double().flatten(0, 1)
    gram = tokens @ tokens.mT
    mean = 1 + 0.25 * 60 * torch.eye(3, dtype=torch.float64)
    assert ((gram.mean(0) - mean).abs() < FAR * (gram.var(0) / len(gram)).sqrt()).all()


def test_robust_cholesky_gpu_equals_cpu(monkeypatch):
    """For a regular, a singular and a dead matrix; an indefinite one is NaN, its neighbours not."""
    a = torch.randn(4, 6, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    a[1, :, 3:] = 0
    a[2, 2] = 0
    gram = (a @ a.mT).float().double()
    expected = simulators.robust_cholesky(gram)
    monkeypatch.setattr(simulators, "is_on_cpu", lambda x: False)
    found = simulators.robust_cholesky(gram)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-12)
    gram[3, 0, 0] = -1
    again = simulators.robust_cholesky(gram)
    assert again[:3].equal(found[:3])
    assert again[3].isnan().all()


@pytest.mark.parametrize("simulator", ["reduced", "direct"])
def test_training_on_device_path_has_equal_distribution(simulator, everywhere, monkeypatch):
    """Metrics of the last step over many replicas, on the path of a GPU and of a CPU."""
    seeds, at = list(range(40)), small_training(T=30, kernel="torch")
    latents = synthesise("device", SMALL_DATA, 0.5, seeds)
    config = "device", simulator, SMALL_DATA, at, ARMS[:2], 0.3, seeds

    def measured():
        encoders, _ = pretrain(*config, latents["train"])
        networks = {label: (one.weights, one.bias, one.loss) for label, one in encoders.items()}
        return pd.DataFrame(probe.probe(*config, latents, networks)).groupby("arm")

    found = measured()
    monkeypatch.undo()
    expected = measured()
    for name in ("max_alignment", "majority_alignment", "feature_share", "final_loss",
                 "cosine_similarity_balanced"):  # fmt: skip
        for arm in ARMS[:2]:
            pair = [rows.get_group(arm.arm)[name] for rows in (found, expected)]
            assert stats.ks_2samp(*pair).pvalue > 1e-3, (name, arm.arm)
            assert not pair[0].equals(pair[1])


def test_device_paths_agree_without_noise(everywhere, monkeypatch):
    """Without noise the branches of a device differ from the processor's in rounding alone."""
    train = synthesise("device", SMALL_DATA, 0.5, SEEDS)["train"]

    def weights():
        found, _ = pretrain(
            "device", "direct", SMALL_DATA, small_training(), ARMS, 0.0, SEEDS, train
        )
        return torch.stack([found[arm.label].weights for arm in ARMS])

    found = weights()
    monkeypatch.undo()
    assert torch.allclose(found, weights(), rtol=0, atol=1e-5)
