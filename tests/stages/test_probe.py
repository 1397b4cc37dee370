"""The probe on encoders whose worth is known."""

import pytest
import torch
from conftest import embed_tokens, probe_arm, seeded, small_training, tiny_data

from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import aggregated_sign
from rarefeat.stages.probe import embed_pairs
from rarefeat.stages.synthesise import synthesise
from rarefeat.workflow.config.model import Arm, Data

TRAINING = small_training(m=9, eta=0.1, sigma_0=0.01, T=1, bias={"T1": "eq34"})


def sized(**changes) -> Data:
    return tiny_data(
        **{"d": 9, "d1": 40, "C": 2.0, "N": 64, "probe_pairs": 200, "test_pairs": 700} | changes
    )


@pytest.fixture(params=["direct", "reduced"])
def simulator(request):
    return request.param


def ideal(simulator: str, data: Data, sigma: float, bias: float | None = None) -> tuple[dict, dict]:
    """The probe's row for the dictionary as encoder, and the latents it saw."""
    latents = synthesise("probe", data, 0.3, [1])
    weights = make_simulator(
        simulator, "probe", data.d, data.d1, data.d, [1]
    ).dictionary.mT.contiguous()
    arm = Arm(arm="ideal" if bias is None else "dense")
    encoder = weights, torch.full((1, data.d), bias or 0.0)
    (row,) = probe_arm("probe", simulator, data, TRAINING, arm, sigma, [1], latents, encoder)
    return row, latents


def test_dictionary_reads_noiseless_token_perfectly(simulator):
    row, latents = ideal(simulator, sized(L=1), 0.0)
    for name in ("balanced", "matched"):
        full = (
            (aggregated_sign(latents[f"test_{name}"][0, :, 0]) != 0).any(-1).double().mean().item()
        )
        assert row[f"cosine_similarity_{name}"] == pytest.approx(full, abs=1e-6)
        assert row[f"regression_mse_{name}"] < 1e-10
        assert row[f"regression_r2_{name}"] == pytest.approx(1.0)
    assert row["aligned_neurons"] == 1
    assert row["pure_neurons"] == 9
    assert row["pure_minority_neurons"] == 1
    assert row["mask_minority_overlap"] is None


def test_silent_encoder_has_trivial_metrics(simulator):
    """With a bias above every activation, the head can do no better than the mean."""
    row, _ = ideal(simulator, sized(L=1), 0.0, bias=2.0)
    assert row["empty_share"] == 1.0
    assert row["cosine_similarity_balanced"] == 0.0
    assert abs(row["regression_r2_balanced"]) < 0.05
    assert row["final_loss"] == pytest.approx(torch.tensor(32.0).log().item())


def test_missing_feature_costs_its_label_variance(simulator):
    """Without the minority neuron, the MSE is the activation rate of that feature."""
    data = sized(L=1, test_pairs=5000)
    latents = synthesise("probe", data, 0.3, [1])
    weights = (
        make_simulator(simulator, "probe", data.d, data.d1, data.d, [1])
        .dictionary.mT[:, :-1]
        .contiguous()
    )
    encoder = weights, torch.zeros(1, 8)
    (row,) = probe_arm(
        "probe", simulator, data, TRAINING, Arm(arm="dense"), 0.0, [1], latents, encoder
    )
    for name in ("balanced", "matched"):
        rate = (
            (aggregated_sign(latents[f"test_{name}"][0, :, 0])[:, -1] != 0).double().mean().item()
        )
        assert row[f"regression_mse_{name}"] == pytest.approx(rate, rel=0.05)
    assert row["aligned_neurons"] == 0


def test_loss_is_above_floor_and_noise_worsens_metrics(simulator):
    data = sized(L=4, minority=[1.0, 0.5])
    rows = [ideal(simulator, data, sigma)[0] for sigma in (0.0, 0.2, 0.5)]
    assert all(row["final_loss"] > row["loss_floor"] > 0 for row in rows)
    for name in ("balanced", "matched"):
        assert (
            rows[0][f"regression_mse_{name}"]
            < rows[1][f"regression_mse_{name}"]
            < rows[2][f"regression_mse_{name}"]
        )
        assert rows[0][f"cosine_similarity_{name}"] > rows[1][f"cosine_similarity_{name}"]


def test_ideal_arm_is_dictionary_without_bias(simulator):
    data = sized()
    assert ideal(simulator, data, 0.2)[0] == ideal(simulator, data, 0.2, bias=0.0)[0] | {
        "arm": "ideal"
    }


def test_embed_pairs_equals_embedding_everything(simulator):
    data = sized(minority=[1.0, 0.5])
    latents = synthesise("probe", data, 0.2, [1])
    balanced, matched = latents["test_balanced"][0], latents["test_matched"][0]
    changed = (balanced != matched).flatten(1).any(1)
    assert 0 < changed.sum() < len(changed)
    space = make_simulator(simulator, "probe", data.d, data.d1, 5, [1])
    weights, bias = space.initial_weights(1.0, [seeded(3)]), torch.full((1, 5), 0.1)
    # A second network beside the first changes nothing of it.
    networks = [(weights, bias), (weights[:, :2], bias[:, :2])]
    both, other = embed_pairs(balanced, matched, space, networks, 0.3, 0.5, [seeded(4)])
    for name in both:
        torch.testing.assert_close(other[name], both[name][..., :2])
    for name, z in (("balanced", balanced), ("matched", matched)):
        # The same noise, drawn by the same chunks, whatever the latents.
        noise = seeded(4)
        parts = [
            space.sample_tokens(part.flatten(0, 1)[None].float(), 0.3, [noise])
            for part in z.split(500)
        ]
        everything = embed_tokens(torch.cat(parts, 1), weights, bias, 0.5)[0].unflatten(0, (-1, 2))
        assert both[name].shape == (len(z), 2, 5)
        torch.testing.assert_close(both[name], everything)
    assert torch.equal(both["balanced"][~changed], both["matched"][~changed])
    assert not torch.equal(both["balanced"][changed], both["matched"][changed])
