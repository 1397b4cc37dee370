"""The claims of the theory on planted tables: each verdict where its numbers say so."""

from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from conftest import verdicts_of

from rarefeat.claims.verdict import (
    CONTRADICTED,
    DIVERGED,
    NO_PREMISE,
    NOT_TESTABLE,
    SUPPORTED,
    UNDECIDED,
)
from rarefeat.studies.theory import claims
from rarefeat.studies.theory.pruning_claims import (
    ORACLES,
    algorithm_1,
    one_step,
    until_T5,
)
from rarefeat.studies.theory.table_reader import ClaimTableReader, bends
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load
from tables_theory import learned_by_mask

PROJECT = load()
THEORY = PROJECT.sections["theory"]
SEEDS = range(3000, 3012)
RATIOS = (0.7, 0.8, 0.9, 1.0)


def noise(*key, spread=1e-3):
    return spread * np.random.default_rng(crc32(repr(key).encode())).normal(size=len(SEEDS))


def table(values, arm="dense", **where):
    """Rows of milestones, or of one step, from {metric: value or values by seed}."""
    rows = []
    for index, (metric, value) in enumerate(values.items()):
        by_seed = np.broadcast_to(np.asarray(value, dtype=float), len(SEEDS)) * (1 + noise(index))
        keys = {"sigma": 0.05, "arm": arm, **where, "metric": metric}
        rows += [
            {**keys, "seed": seed, "value": found}
            for seed, found in zip(SEEDS, by_seed, strict=True)
        ]
    return pd.DataFrame(rows)


def judged(part, tables):
    reader = ClaimTableReader(tables, THEORY)
    found = verdicts_of("theory", part(reader))
    return found.set_index(["claim_id", "study", "point"])["verdict"]


def empty():
    return {
        "scaling_exponents": pd.DataFrame(columns=["quantity", "log_power"]),
        "confirmation_grid": pd.DataFrame(
            columns=["eps_min", "sigma", "arm", "final_loss", "ideal_loss"]
        ),
    }


# The laws of T2


def times(exponent, reached=(1.0, 1.0, 1.0)):
    """T1_C=...: T2 - T1 = 100 C^exponent, reached by a share of the replicas at each C."""
    tables = {}
    for C, share in zip((0.5, 1, 2), reached, strict=True):
        T2 = 40 + 100 * C**exponent * np.exp(noise(C, spread=0.05))
        T2[: round((1 - share) * len(SEEDS))] = np.nan
        tables[f"T1_C={C:g}_milestones"] = table({"T1": 40.0, "T2": T2}, eps_min=1.0)
    return tables


def law(tables):
    reader = ClaimTableReader(tables, THEORY)
    rows = [row for row in claims.stage_two(reader) if row.claim == "60-eps"]
    return verdicts_of("theory", rows).iloc[0]


def test_law_of_T2_and_remark_on_censored_replicas():
    """Distinguish a planted law of T2 from none, and expect a remark on censored replicas."""
    assert law(times(-1.0))["verdict"] == SUPPORTED
    assert law(times(0.0))["verdict"] == CONTRADICTED
    row = law(times(-1.0, (0.75, 1.0, 1.0)))
    assert "3 of 36 replicas do not reach T2" in row["remark"]
    row = law(times(-1.0, (0.25, 1.0, 1.0)))
    assert row["verdict"] == NOT_TESTABLE
    assert "more than half" in row["remark"]


# Curves of strength


def strength(power, learned=(1, 1, 1, 1), metric="strength_ratio"):
    parts = [
        table({metric: eps**power if is_learned else 1e-3, "learned": float(is_learned),
               "magnitude_ratio": eps, "pure_share": eps, "pure_minority_neurons": 10 * eps},
              eps_min=eps)
        for eps, is_learned in zip(RATIOS, learned, strict=True)
    ]  # fmt: skip
    return empty() | {"stages_theory_milestones": pd.concat(parts)}


def of_curve(tables):
    found = judged(claims.convergence, tables)
    curve = found["E.1c"]
    return curve.to_list(), found["E.1c-exponent"].iloc[0]


def test_squared_strength_supports_curve_and_exponent():
    curve, exponent = of_curve(strength(2.0))
    assert curve == [SUPPORTED] * 3
    assert exponent == SUPPORTED


def test_saturated_strength_contradicts_curve_and_exponent():
    curve, exponent = of_curve(strength(0.0))
    assert curve[0] == CONTRADICTED  # 1 where 0.49 is claimed
    assert exponent == CONTRADICTED


def test_no_exponent_is_fitted_through_a_step():
    """Plant ratios 0.001, 0.001, 1, 1: where the feature is not learned, no power law is fitted."""
    _, exponent = of_curve(strength(0.0, learned=(0, 0, 1, 1)))
    assert exponent == NOT_TESTABLE


@pytest.mark.parametrize(
    ("learned", "expected"), [((1, 1, 1, 1), SUPPORTED), ((0, 0, 1, 1), NOT_TESTABLE)]
)
def test_gain_exponent_needs_a_learned_feature(learned, expected):
    gains = [
        table({"growth_minority_gain": 0.01 * eps**2 * (1 + noise("gain", eps))}, eps_min=eps)
        for eps in RATIOS
    ]
    found = judged(
        one_step,
        strength(2.0, learned) | {"stages_theory_one_step": pd.concat(gains)},
    )
    assert found["15-eps"].to_list() == [expected]


def test_bends_detects_curvature():
    x = np.array(RATIOS)
    flat = np.ones(len(SEEDS)) * (1 + noise("flat"))
    assert bends(x, np.outer([0.1, 1.0, 1.03, 1.0], flat))
    assert bends(x[1:], np.outer([0.1, 1.0, 1.03], flat))
    assert not bends(x, np.array([eps**2 * (1 + noise(eps)) for eps in RATIOS]))


# The assumed set, and Algorithm 1


def oracles(magnitude, lost=(), learned=1.0):
    tables = empty()
    for ratio in (0.3, 0.5, 0.7, 0.9):
        parts = []
        for arm in ("dense", *ORACLES):
            metrics = {"pure_minority_neurons": 2.0 if arm == "dense" else 6.0,
                       "magnitude_ratio": magnitude(ratio), "pruned_other_features": 0.2,
                       "pruned_outside": 0.9, "diverged": float(arm in lost)}  # fmt: skip
            parts.append(table(metrics, arm=arm, eps_min=ratio))
        parts.append(table({"learned": learned}, arm="dense", eps_min=ratio))
        tables[f"T5_ratio={ratio}_milestones"] = pd.concat(parts)
    return judged(until_T5, tables)


def test_each_oracle_has_its_own_rows():
    found = oracles(lambda ratio: 1.0)
    for oracle in ORACLES:
        point = f"eps_min 0.7, sigma 0.05, {oracle}"
        assert found["3.2-c", "T5_ratio=0.7", point] == SUPPORTED
        assert found["3.2-c-more", "T5_ratio=0.7", point] == SUPPORTED
        assert found["K3-equal", "T5_ratio=0.7", point] == SUPPORTED
        assert found["18-others", "T5_ratio=0.7", point] == SUPPORTED
        assert found["18-beta", "T5_ratio=0.7", point] == CONTRADICTED
        assert found["18-alpha", "T5", oracle] == SUPPORTED
    assert (
        oracles(lambda ratio: 0.2 * ratio)[
            "K3-equal", "T5_ratio=0.7", "eps_min 0.7, sigma 0.05, oracle_gated"
        ]
        == CONTRADICTED
    )
    assert oracles(lambda ratio: ratio)["18-alpha", "T5", "oracle_gated"] == CONTRADICTED


def test_oracle_of_an_unlearned_feature_has_no_premise():
    found = oracles(lambda ratio: 1.0, learned=0.1)
    assert set(found) == {NO_PREMISE}


def test_diverged_oracle_is_no_gain():
    found = oracles(lambda ratio: 1.0, lost=("oracle_all",))
    assert found["3.2-c", "T5_ratio=0.7", "eps_min 0.7, sigma 0.05, oracle_all"] == DIVERGED
    assert found["18-alpha", "T5", "oracle_all"] == DIVERGED
    assert found["3.2-c", "T5_ratio=0.7", "eps_min 0.7, sigma 0.05, oracle_gated"] == SUPPORTED


def course(minority, majority, random=(0.0, 0.0), loss=4.0, overlap=1.0):
    """Return the verdicts of trajectories whose arms change the two alignments by these amounts."""
    rows = []
    for arm, alpha, (rare, common) in (
        ("dense", 0.0, (0.0, 0.0)),
        ("pruned_neuron", 0.1, (minority, majority)),
        ("random_neuron", 0.1, random),
    ):  # fmt: skip
        keys = {"eps_min": 0.5, "sigma": 0.05, **Arm(arm=arm, alpha=alpha).model_dump()}
        values = {
            "max_alignment": 0.5 + rare,
            "majority_alignment": 0.5 + common,
            "loss": loss if alpha else 4.0,
            "weight_norm": 1.0,
        }
        values |= {"mask_minority_overlap": overlap} if alpha else {}
        for metric, value in values.items():
            seen = value + noise(arm, metric)
            rows += [
                {**keys, "seed": s, "step": 500, "metric": metric, "value": v}
                for s, v in zip(SEEDS, seen, strict=True)
            ]
    found = judged(algorithm_1, {"pruning_trajectories": pd.DataFrame(rows)}).droplevel(
        ["study", "point"]
    )
    return found["A1-gain"], found["A1-control"]


@pytest.mark.parametrize(("minority", "learned", "adjusted"), [(0.2, 12, 2**-10), (-0.2, 0, 1.0)])
def test_masks_are_compared_by_the_runs_that_learn(minority, learned, adjusted):
    """Dense ends just below the threshold in every run."""
    rows = []
    for arm, rare in (("dense", 0.0), ("pruned_neuron", minority), ("random_neuron", 0.0)):
        keys = {"eps_min": 0.5, "sigma": 0.05}
        keys |= Arm(arm=arm, alpha=0.1 * (arm != "dense")).model_dump()
        values = {"max_alignment": 0.45 + rare, "mask_minority_overlap": 0.25}
        rows += [
            {**keys, "seed": seed, "step": 500, "metric": metric, "value": value}
            for metric, value in values.items()
            for seed in SEEDS
        ]
    found = learned_by_mask(pd.DataFrame(rows)).set_index("arm")
    assert found["learned"].to_dict() == {"dense": 0, "pruned_neuron": learned, "random_neuron": 0}
    assert found.loc["pruned_neuron", "adjusted_p"] == pytest.approx(adjusted, rel=0.05)
    assert found.loc["pruned_neuron", ["more", "fewer", "cosine"]].tolist() == [
        learned, 0, pytest.approx(minority)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arms", "expected"),
    [
        ({"minority": 0.2, "majority": 0.0}, (SUPPORTED, SUPPORTED)),
        ({"minority": -0.2, "majority": 0.0}, (CONTRADICTED, CONTRADICTED)),
        ({"minority": 0.2, "majority": 0.0, "random": (0.3, 0.0)}, (SUPPORTED, CONTRADICTED)),
        ({"minority": 0.2, "majority": 0.0, "loss": 20.0}, (DIVERGED, DIVERGED)),
    ],
)
def test_algorithm_1_against_majority_and_random_mask(arms, expected):
    assert course(**arms) == expected


def test_algorithm_1_says_nothing_where_other_neurons_are_pruned():
    assert course(0.2, 0.0, overlap=0.2) == (NO_PREMISE, NO_PREMISE)


def test_equal_gain_of_the_majority_does_not_support_A1():
    """Plant the regime that had confirmed A1: 0.71 to 0.94 for both."""
    assert course(0.23, 0.23)[0] in (UNDECIDED, CONTRADICTED)
    assert course(0.23, 0.4)[0] == CONTRADICTED


# W(0)


def test_initial_deviations_follow_their_exponent():
    def found(power):
        tables = empty() | {
            f"T1_d1={d1}_milestones": table(
                {"initial_norm_deviation": float(d1) ** power}, eps_min=1.0
            )
            for d1 in (250, 1000, 4000, 16000)
        }
        return judged(claims.start, tables)["B.2a"].iloc[0]

    assert found(-0.5) == SUPPORTED
    assert found(0.0) == CONTRADICTED
