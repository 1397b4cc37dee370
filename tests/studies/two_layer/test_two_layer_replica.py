"""A replica: every arm on the same draws, whatever else is measured beside it."""

import math

import pandas as pd
import pytest

from rarefeat.errors import RarefeatError
from rarefeat.studies.two_layer import printed
from rarefeat.studies.two_layer.config import Procedure, Setting
from rarefeat.studies.two_layer.measure import Replica, train_replica
from rarefeat.studies.two_layer.printed import PRINTED

RATES = {"network_head": 0.3, "network_first": 0.003, "head": 10.0, "momentum": 0.95, "ntk": 4.0}
PROBLEM = {"labels": "parity", "d": 40, "D": 20, "k": 3, "negatives": 0.5}
NETWORK = {"method": "network"}
ARMS = [
    NETWORK,
    {"method": "network", "schedule": "printed"},
    {"method": "network", "weights": True},
    {"method": "ntk"},
    {"method": "random_features"},
    {"method": "one_step"},
    {"method": "one_step_rescaled"},
    {"method": "two_step"},
]
SIZES = {"n": 2000, "n_test": 1000, "m": 40, "T": 150, "batch": 100}


def small(**change) -> Setting:
    return Setting(**{"problem": PROBLEM, "rates": RATES, "arms": ARMS, **SIZES, **change})


def run(setting: Setting, seed: int = 0, structure: bool = True) -> Replica:
    return train_replica(setting, "test", seed, structure)


def of(replica: Replica, quantity: str, step: int = SIZES["T"]) -> dict[str, float]:
    """A quantity by arm."""
    return {key[0]: value for key, value in replica.numbers.items() if key[1:] == (step, quantity)}


@pytest.fixture(scope="module")
def all_arms() -> Replica:
    return run(small())


def test_features_emerge_with_structure_only(all_arms):
    """The order of Table A.1 at a small size.

    Two steps find the patterns, fixed features and uniform patterns do not.
    """
    found = of(all_arms, "test_accuracy")
    assert set(found) == {Procedure(**arm).label for arm in ARMS}
    assert found["network"] > 0.99
    assert found["two_step"] > 0.99
    assert found["one_step"] == pytest.approx(0.5, abs=0.02)  # by scale
    assert found["one_step_rescaled"] > 0.95
    assert found["random_features"] < 0.95
    cosines = [of(all_arms, "cosine", step)["network"] for step in (0, 1, 2)]
    assert cosines[0] < cosines[1] < 1
    assert cosines[2] > 0.97
    uniform = run(small(arms=[NETWORK | {"structure": False}]), structure=False)
    assert of(uniform, "test_accuracy")["network-no_structure"] < 0.7


@pytest.mark.parametrize("arm", [ARMS[1], ARMS[3], ARMS[-1]])
def test_an_arm_does_not_know_its_neighbours(all_arms, arm: dict):
    label = Procedure(**arm).label
    alone = {key: value for key, value in run(small(arms=[arm])).numbers.items() if key[0] == label}
    assert alone == {key: value for key, value in all_arms.numbers.items() if key[0] == label}


def test_d_enters_the_initial_cosine_alone():
    """What d changes is drawn in other directions: the rest of the numbers is close."""
    near, far = (run(small(problem=PROBLEM | {"d": d}, arms=[NETWORK])) for d in (20, 2000))
    before, after = ([of(one, "cosine", s)["network"] for one in (near, far)] for s in (0, 2))
    assert before[1] < before[0] / 2
    assert after[1] == pytest.approx(after[0], abs=0.02)


def test_tickets_and_rare_patterns_are_measured():
    problem = PROBLEM | {"labels": "majority", "frequency": [1, 1, 0.3], "negatives": None}
    tickets = {"sizes": [4], "random_draws": 2}
    found = run(small(problem=problem, arms=[NETWORK], tickets=tickets, neurons=[0, 2]))
    scores = {f"ticket-{score}-4" for score in ("random", "kink", "norm", "effective_rate")}
    assert set(of(found, "test_accuracy")) == {"network", "ticket-smallest-16", *scores}
    assert set(of(found, "decisive_accuracy")) == {"network", *scores}
    assert set(found.pictured["network"]) == {0, 2}
    assert of(found, "rare_ratio", 2)


def test_smallest_fifth_learns_with_smoothed_activation_only():
    """The smallest fifth of the neurons has no output unless the activation is smoothed."""
    tickets = {"sizes": [4], "random_draws": 1}
    clipped, smooth = (
        of(run(small(arms=[NETWORK], tickets=tickets, noise=noise)), "test_accuracy")
        for noise in (False, True)
    )
    assert clipped["ticket-smallest-16"] == 0.5  # the test sample has as many of either class
    assert smooth["ticket-smallest-16"] > 0.6


def test_the_hypercube_is_trained_from_its_initialisation():
    problem = {"labels": "hypercube", "d": 10, "D": 10, "k": 2, "sigma_r": 0.5}
    arms, chosen = [NETWORK | {"schedule": "plain"}], {"network_head": 0.01, "network_first": 0.03}
    found = run(small(problem=problem, arms=arms, activation="relu", rates=RATES | chosen))
    assert of(found, "test_accuracy")["network-plain"] > 0.9
    assert of(found, "least_coverage")["network-plain"] > 0.3


def test_too_large_a_step_is_named():
    """A step larger than a config may have makes the scores overflow."""
    setting = small(arms=[NETWORK])
    too_large = setting.rates.model_copy(update={"network_head": 1e38})
    with pytest.raises(RarefeatError, match="network: training diverged"):
        run(setting.model_copy(update={"rates": too_large}))


def test_the_printed_tables_are_whole():
    assert len(PRINTED) == 8 * 3 * 6
    missing = [item for item in PRINTED if math.isnan(item.printed)]
    assert {item.column for item in missing} == {"NTK"}
    assert all(0 <= item.printed <= 1 for item in PRINTED if item not in missing)


def test_rates_are_measured_on_draws_of_their_own():
    grid = {"network_head": [0.3], "network_first": [0.003], "ntk": [0.01, 4.0], "head": [10.0]}
    table = pd.DataFrame(printed.search_rates({"setting": "small"}, [0, 1], small(), grid))
    assert len(table) == 2 * (1 + 2 + 1)
    theirs = table[table.ntk == 4.0].sort_values("seed").held_out_accuracy.to_list()
    ntk = [of(run(small(arms=[ARMS[3]]), seed), "test_accuracy")["ntk"] for seed in (0, 1)]
    assert theirs != ntk


def test_the_smallest_rates_near_the_best_are_chosen():
    heads = {1.0: (0.9, 0.5), 3.0: (0.79, 0.80), 10.0: (0.8, 0.8)}
    rows = [("heads", rate, None, None, value) for rate, two in heads.items() for value in two]
    rows += [("network", None, 0.1, 0.1, 0.6), ("network", None, 0.1, 0.2, 0.7)]
    columns = ["learner", "head", "network_head", "network_first", "held_out_over_steps"]
    table = pd.DataFrame(rows, columns=columns).assign(setting="small")
    found = printed.two_layer_rates({"two_layer_search": table}, {"small": small().rates})
    assert found.to_numpy().tolist() == [
        ["small", "head", 10.0, 3.0],
        ["small", "network_first", 0.003, 0.2],
        ["small", "network_head", 0.3, 0.1],
    ]
