"""A replica: every arm on the same draws, whatever else is measured beside it."""

import math

import pandas as pd
import pytest

from rarefeat.errors import RarefeatError
from rarefeat.studies.two_layer import learning_rates, paper_values, run_replica, search
from rarefeat.studies.two_layer.config import Procedure, Setting

RATES = {"network_head": 0.3, "network_first": 0.003, "head": 10.0, "momentum": 0.95, "ntk": 4.0}
PROBLEM = {"labels": "parity", "d": 40, "D": 20, "k": 3, "negatives": 0.5}
ARMS = [
    {"method": "network"},
    {"method": "network", "schedule": "printed"},
    {"method": "network", "structure": False},
    {"method": "network", "weights": True},
    {"method": "ntk"},
    {"method": "random_features"},
    {"method": "one_step"},
    {"method": "one_step_rescaled"},
    {"method": "two_step"},
]


def small(**change) -> Setting:
    keys = {
        "problem": PROBLEM,
        "n": 2000,
        "n_test": 1000,
        "m": 40,
        "T": 150,
        "batch": 100,
        "rates": RATES,
        "arms": ARMS,
    }
    return Setting(**keys | change)


def ends(setting: Setting, quantity: str = "test_accuracy", seed: int = 0) -> dict[str, float]:
    return {
        row.arm: row.value
        for row in run_replica.run(setting, "test", seed).rows
        if row.quantity == quantity
    }


def test_features_emerge_with_structure_only():
    """The order of Table A.1 at a small size.

    Two steps find the patterns, fixed features and uniform patterns do not.
    """
    found = ends(small())
    assert set(found) == {Procedure(**arm).label for arm in ARMS}
    assert found["network"] > 0.99
    assert found["two_step"] > 0.99
    assert found["one_step"] == pytest.approx(0.5, abs=0.02)  # by scale
    assert found["one_step_rescaled"] > 0.95
    assert found["random_features"] < 0.95
    assert found["network-no_structure"] < 0.7
    cosines = {
        (row.arm, row.step): row.value
        for row in run_replica.run(small(), "test", 0).rows
        if row.quantity == "cosine"
    }
    assert cosines["network", 0] < cosines["network", 1] < 1
    assert cosines["network", 2] > 0.97


def test_an_arm_does_not_know_its_neighbours():
    together = ends(small())
    for arm in ("ntk", "two_step", "network-printed"):
        alone = [a for a in ARMS if Procedure(**a).label == arm]
        assert ends(small(arms=alone)) == {arm: together[arm]}


def test_d_enters_the_initial_cosine_alone():
    """What d changes is drawn in other directions: the same network in law.

    The rest of the numbers close.
    """
    near, far = (
        {
            (row.arm, row.step): row.value
            for row in run_replica.run(
                small(problem=PROBLEM | {"d": d}, arms=ARMS[:1]), "test", 0
            ).rows
            if row.quantity == "cosine"
        }
        for d in (20, 2000)
    )
    assert far["network", 0] < near["network", 0] / 2
    assert far["network", 2] == pytest.approx(near["network", 2], abs=0.02)


def test_tickets_and_rare_patterns_are_measured():
    problem = PROBLEM | {"labels": "majority", "frequency": [1, 1, 0.3], "negatives": None}
    setting = small(
        problem=problem, arms=ARMS[:1], tickets={"sizes": [4], "random_draws": 2}, neurons=[0, 2]
    )
    outcome = run_replica.run(setting, "test", 0)
    arms = {row.arm for row in outcome.rows}
    assert {"ticket-random-4", "ticket-kink-4", "ticket-norm-4", "ticket-effective_rate-4"} <= arms
    assert "ticket-smallest-16" in arms
    assert set(outcome.neurons) == {("network", 0), ("network", 2)}
    quantities = {row.quantity for row in outcome.rows}
    assert {"rare_ratio", "decisive_accuracy"} <= quantities


def test_smallest_fifth_learns_with_smoothed_activation_only():
    """The smallest fifth of the neurons has no output unless the activation is smoothed."""
    tickets = {"sizes": [4], "random_draws": 1}
    found = {
        noise: ends(small(arms=ARMS[:1], tickets=tickets, noise=noise))["ticket-smallest-16"]
        for noise in (False, True)
    }
    assert found[False] == 0.5  # the test sample has as many of either class
    assert found[True] > 0.6


def test_the_hypercube_is_trained_from_its_initialisation():
    problem = {"labels": "hypercube", "d": 10, "D": 10, "k": 2, "sigma_r": 0.5}
    arms = [{"method": "network", "schedule": "plain"}]
    setting = small(
        problem=problem,
        arms=arms,
        activation="relu",
        rates=RATES | {"network_head": 0.01, "network_first": 0.03},
    )
    found = {
        (row.step, row.quantity): row.value for row in run_replica.run(setting, "test", 0).rows
    }
    assert found[150, "test_accuracy"] > 0.9
    assert found[150, "least_coverage"] > 0.3


def test_too_large_a_step_is_named():
    """A step larger than a config may have makes the scores overflow."""
    setting = small(arms=ARMS[:1])
    rates = setting.rates.model_copy(update={"network_head": 1e38})
    setting = setting.model_copy(update={"rates": rates})
    with pytest.raises(RarefeatError, match="network: training diverged"):
        run_replica.run(setting, "test", 0)


def test_the_printed_tables_are_whole():
    assert len(paper_values.PRINTED) == 8 * 3 * 6
    missing = [printed for printed in paper_values.PRINTED if math.isnan(printed.value)]
    assert {printed.column for printed in missing} == {"NTK"}
    assert all(
        0 <= p.value <= (1 if p.quantity == "cosine" else 100)
        for p in paper_values.PRINTED
        if p not in missing
    )
    assert [mixture.clusters for mixture in paper_values.MIXTURES] == [
        2**mixture.k for mixture in paper_values.MIXTURES
    ]


def test_rates_are_measured_on_draws_of_their_own():
    grid = {
        "network_head": [0.3],
        "network_first": [0.003],
        "ntk": [0.01, 4.0],
        "head": [0.001, 10.0],
    }
    table = search.measure(small(), "small", grid, range(2))
    assert len(table) == 2 * (1 + 2 + 2)
    theirs = table[table.ntk == 4.0].sort_values("seed").held_out_accuracy.to_list()
    assert theirs != [ends(small(arms=[{"method": "ntk"}]), seed=seed)["ntk"] for seed in range(2)]


def test_the_smallest_rate_near_the_best_is_chosen():
    heads = {1.0: (0.9, 0.5), 3.0: (0.79, 0.80), 10.0: (0.8, 0.8)}
    rows = [
        {"learner": "heads", "seed": i, "head": rate, "held_out_over_steps": value}
        for rate, two in heads.items()
        for i, value in enumerate(two)
    ]
    rows += [
        {
            "learner": "network",
            "seed": 0,
            "network_head": 0.1,
            "network_first": first,
            "held_out_over_steps": value,
        }
        for first, value in [(0.1, 0.6), (0.2, 0.7)]
    ]
    assert learning_rates.choose(pd.DataFrame(rows)) == {
        "head": 3.0,
        "network_head": 0.1,
        "network_first": 0.2,
    }


def test_the_config_is_held_against_the_search():
    table = search.measure(
        small(),
        "small",
        {"network_head": [0.3], "network_first": [0.003], "head": [3.0], "ntk": [2.0]},
        range(1),
    )
    found = learning_rates.compare_with_search({"small": small().rates}, table).set_index("rate")
    assert found["chosen"].to_dict() == {
        "network_head": 0.3,
        "network_first": 0.003,
        "head": 3.0,
        "ntk": 2.0,
    }
    assert found["configured"].to_dict() == {
        "network_head": 0.3,
        "network_first": 0.003,
        "head": 10.0,
        "ntk": 4.0,
    }
