"""Tests of the study of the premise of Theorem 3.2: weights by hand, changes, claims."""

import pandas as pd
import pytest
import torch

from rarefeat.model.simulators import make_simulator
from rarefeat.studies.pruning_premise import (
    AXES,
    STUDY,
    interpolate_weights,
    rare_among_smallest,
)
from rarefeat.workflow.project import load
from rarefeat.workflow.run.job import make_job

POINT = dict(zip(AXES, (1.0, 0.112, 0.0, 0.1, 0.3), strict=True))


def drawn_weights(m: int = 7, d: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of two replicas, and their dictionary."""
    simulator = make_simulator("reduced", "test", d, 40, m, [0, 1])
    generators = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    return simulator.initial_weights(0.1, generators), simulator.dictionary


@pytest.mark.parametrize("purity", [0.0, 0.4, 1.0])
def test_interpolated_weights_have_one_norm_and_mean_size(purity):
    weights, dictionary = drawn_weights()
    norms = interpolate_weights(weights, dictionary, purity).norm(dim=-1)
    torch.testing.assert_close(norms, weights.norm(dim=-1).mean(1, keepdim=True).expand(2, 7))


def test_interpolated_weights_go_from_drawn_to_pure():
    weights, dictionary = drawn_weights()
    start = interpolate_weights(weights, dictionary, 0.0)
    cosine = torch.cosine_similarity(start, weights, dim=-1)
    torch.testing.assert_close(cosine, torch.ones(2, 7))
    pure = interpolate_weights(weights, dictionary, 1.0) @ dictionary
    assert pure[0].argmax(-1).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert (pure != 0).sum(-1).eq(1).all()


def test_rare_among_smallest_counts_nearest_features():
    projections = torch.tensor([[[0.0, 1.0], [0.2, 0.1], [0.0, -0.1], [1.0, 0.0]]])
    norms = torch.tensor([[1.0, 0.3, 0.1, 2.0]])
    assert rare_among_smallest(projections, norms, 0.25).item() == 1.0
    assert rare_among_smallest(projections, norms, 0.5).item() == 0.5


def replicas(point: dict = POINT, seeds: int = 6, **arms: dict[str, float]) -> pd.DataFrame:
    """Rows of dense and of arms ARM or ARM__straight_through with these values, equal by seed."""
    dense = {"premise": 1.0, "norm": 0.3, "norm_majority": 0.4, "strength": 0.3}
    dense |= {"strength_majority": 0.4, "cosine": 0.9, "projection": 0.3}
    dense |= {"projection_majority": 0.4, "growth": 0.1, "growth_majority": 0.2}
    dense |= {"r2": 0.5, "diverged": 0.0}
    rows = []
    for name, values in {"dense": {}, **arms}.items():
        arm, _, update = name.partition("__")
        keys = {**point, "arm": arm, "pruned_update": update or "unmasked"}
        for seed in range(seeds):
            # A spread that is common to all arms, so that differences are exact.
            spread = {key: 0.01 * seed for key in ("growth", "r2")}
            row = dense | values
            rows.append(
                {**keys, "seed": seed, **{key: row[key] + spread.get(key, 0) for key in row}}
            )
    return pd.DataFrame(rows)


def test_changes_are_paired_by_point_and_seed():
    other = POINT | {"eps_min": 0.5}
    table = pd.concat(
        [
            replicas(pruned_neuron={"growth": 0.5, "growth_majority": 0.22, "strength": 0.6}),
            replicas(other, pruned_neuron={"growth": 0.0, "projection": 0.8}),
        ]
    ).sample(frac=1, random_state=0)
    changes = STUDY.changes(table).set_index(["eps_min", "seed"]).sort_index()
    assert changes.loc[0.3, "growth"].tolist() == pytest.approx([0.4] * 6)
    assert changes.loc[0.3, "spill"].tolist() == pytest.approx([0.05] * 6)
    assert changes.loc[0.3, "lead"].tolist() == pytest.approx([1.0] * 6)
    assert changes.loc[0.5, "growth"].tolist() == pytest.approx([-0.1] * 6)
    assert changes.loc[0.5, "level"].tolist() == pytest.approx([1.0] * 6)


SECTION = load("config/config.yaml").sections["pruning_premise"]


def measured(**arms: dict[str, float]) -> dict:
    """Estimates by claim of one point with these arms; of the others there are dense rows."""
    every = {name: {} for name in ("pruned_neuron", "random_neuron", "oracle_all")}
    every["pruned_neuron__straight_through"] = {}
    table = replicas(**every | arms)
    job = make_job("claims.estimate:estimate_mean", (), {"pruning_premise": SECTION})
    return {row.claim: row for row in STUDY.measure_claims({"premise_replicas": table}, job)}


def test_claims_tell_the_choice_by_magnitude_from_any_mask():
    mask = {"growth": 0.5, "strength": 0.6}
    alone = measured(pruned_neuron=mask, random_neuron={})
    shared = measured(pruned_neuron=mask, random_neuron=mask)
    for claim in ("P-15", "P-18"):
        assert alone[claim].estimate.value == shared[claim].estimate.value > 0
        assert alone[f"{claim}-control"].estimate.value > 0
        assert shared[f"{claim}-control"].estimate.value == pytest.approx(0)


def test_claims_count_runaways_and_straight_through_apart():
    rows = measured(
        pruned_neuron={"strength": 0.6},
        pruned_neuron__straight_through={"strength": 0.15},
        random_neuron={},
        oracle_all={"projection": 9.0, "diverged": 1.0},
    )
    assert rows["P-18-bounded"].estimate.value == 0
    assert rows["P-18"].diverged == rows["P-18-control"].diverged == 0
    assert rows["P-18"].estimate.value > 0 > rows["P-straight"].estimate.value
