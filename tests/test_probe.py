"""The probe on encoders whose worth is known."""

import pytest
import torch
from conftest import seeded

from rarefeat.config import Arm, Data, Training
from rarefeat.core.encoder import embed
from rarefeat.core.sparse_coding import aggregated_sign, tokens
from rarefeat.probe import embed_pairs, probe
from rarefeat.synthesise import synthesise

SIZES = {"d": 9, "d1": 40, "C": 2.0, "N": 64, "probe_pairs": 200, "test_pairs": 700, "test_seed": 7}
TRAINING = Training(
    **{"m": 9, "K": 32, "tau": 1.0, "eta": 0.1, "lambda": 0.05, "sigma_0": 0.01, "T": 1},
    bias={"rule": "follow", "share": 0.2, "cap": 2.2, "T1": "eq34"},
)


def ideal(data: Data, sigma: float, bias: float = 0.0, eps_min: float = 0.3) -> tuple[dict, dict]:
    """The probe's row for the dictionary as encoder, and the latents it saw."""
    latents = synthesise("probe", data, eps_min, [1])
    weights = latents["dictionary"].mT.contiguous()
    arm = Arm(arm="ideal")
    (row,) = probe("probe", data, TRAINING, arm, sigma, [1], latents, weights, torch.full((1, data.d), bias))
    return row, latents


def test_one_noiseless_token_is_read_perfectly_by_the_dictionary():
    row, latents = ideal(Data(**SIZES, L=1, minority=[1.0]), 0.0)
    for name in ("balanced", "matched"):
        full = (aggregated_sign(latents[f"test_{name}"][:, 0]) != 0).any(-1).double().mean().item()
        assert row[f"cosine_similarity_{name}"] == pytest.approx(full, abs=1e-6)
        assert row[f"regression_mse_{name}"] < 1e-10
        assert row[f"regression_r2_{name}"] == pytest.approx(1.0)
    assert row["aligned_neurons"] == 1
    assert row["pure_neurons"] == 9
    assert row["pure_minority_neurons"] == 1
    assert row["mask_minority_overlap"] is None


def test_an_encoder_that_is_silent_is_worth_nothing():
    """A bias above every activation: all embeddings are zero, and the head can do no better than the mean."""
    row, _ = ideal(Data(**SIZES, L=1, minority=[1.0]), 0.0, bias=2.0)
    assert row["empty_share"] == 1.0
    assert row["cosine_similarity_balanced"] == 0.0
    assert abs(row["regression_r2_balanced"]) < 0.05
    assert row["final_loss"] == pytest.approx(torch.tensor(32.0).log().item())


def test_what_the_encoder_misses_costs_its_share_of_the_label():
    """Without the minority neuron the balanced MSE is the variance of that feature's part of the label, its activation rate."""
    data = Data(**SIZES | {"test_pairs": 5000}, L=1, minority=[1.0])
    latents = synthesise("probe", data, 0.3, [1])
    weights = latents["dictionary"].mT[:, :-1].contiguous()
    (row,) = probe("probe", data, TRAINING, Arm(arm="ideal"), 0.0, [1], latents, weights, torch.zeros(1, 8))
    for name in ("balanced", "matched"):
        rate = (aggregated_sign(latents[f"test_{name}"][:, 0])[:, -1] != 0).double().mean().item()
        assert row[f"regression_mse_{name}"] == pytest.approx(rate, rel=0.05)
    assert row["aligned_neurons"] == 0


def test_loss_is_above_its_floor_and_noise_makes_everything_worse():
    data = Data(**SIZES, L=4, minority=[1.0, 0.5])
    rows = [ideal(data, sigma)[0] for sigma in (0.0, 0.2, 0.5)]
    assert all(row["final_loss"] > row["loss_floor"] > 0 for row in rows)
    for name in ("balanced", "matched"):
        assert rows[0][f"regression_mse_{name}"] < rows[1][f"regression_mse_{name}"] < rows[2][f"regression_mse_{name}"]
        assert rows[0][f"cosine_similarity_{name}"] > rows[1][f"cosine_similarity_{name}"]


def test_embedding_only_what_differs_is_the_same_as_embedding_everything():
    data = Data(**SIZES, L=3, minority=[1.0, 0.5])
    latents = synthesise("probe", data, 0.2, [1, 2])
    balanced, matched = latents["test_balanced"], latents["test_matched"]
    changed = (balanced != matched).flatten(1).any(1)
    assert 0 < changed.sum() < len(changed)
    weights, bias = torch.randn(2, 5, 40, generator=seeded(3)), torch.full((2, 5), 0.1)
    both = embed_pairs(balanced, matched, latents["dictionary"], weights, bias, 0.3, seeded(4))
    # The same noise, drawn by the same chunks.
    generator = seeded(4)
    noise = torch.cat([torch.randn(len(part), 2, 3, 40, generator=generator) for part in balanced.split(500)])
    for name, z in (("balanced", balanced), ("matched", matched)):
        for r in range(2):
            x = tokens(noise.reshape(1, -1, 40).clone(), z.reshape(1, -1, 9).float(), latents["dictionary"][r : r + 1], 0.3)
            direct = embed(x.view(1, -1, 3, 40), weights[r : r + 1], bias[r : r + 1]).view(-1, 2, 5)
            torch.testing.assert_close(both[name][r], direct)
