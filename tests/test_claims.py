"""Claims: verdicts from numbers, quantities of planted neurons, and each claim where it is true and where it is false."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import yaml
from conftest import tiny_data, tiny_training

from rarefeat.claims import (
    convergence,
    decoupling,
    figures_1_to_4,
    imbalance,
    initialisation,
    long_tail,
    maps,
    pruning,
    stage_one,
    stage_two,
)
from rarefeat.claims.claim import CONDITION, FAILS, HOLDS, UNTESTABLE, Claim, Measured, claims_table, of_fit, of_seeds, overall
from rarefeat.claims.evidence import Evidence, exponent
from rarefeat.claims.figure import draw
from rarefeat.claims.table import measure, page
from rarefeat.config import Grid, load, merged, parse
from rarefeat.core.simulators import make_simulator
from rarefeat.figures import CLAIMS_GROUPS, CLAIMS_MAPS
from rarefeat.images.sections import ImageArm
from rarefeat.milestones import milestone_rows, milestones
from rarefeat.one_step import one_step, one_step_rows
from rarefeat.overlap import overlap_rows, smallest_of_minority
from rarefeat.pretrain import log_spaced, pretrain
from rarefeat.sections import Arm
from rarefeat.synthesise import synthesise
from rarefeat.tables import AUGMENTED, METRICS, MILESTONES, ONE_STEP
from rarefeat.tensors import write_tensors

GROUPS = (initialisation, stage_one, stage_two, convergence, pruning, imbalance, long_tail, decoupling)
CLAIMS = [value for module in GROUPS for value in vars(module).values() if isinstance(value, Claim)]
SEEDS = 12
PAPER = load("config/config.yaml").studies["paper"]


def around(value, seed=0):
    """A value for each seed, with little spread."""
    return value + 1e-3 * np.random.default_rng(seed).normal(size=SEEDS)


def right(claim):
    """A number that satisfies a claim, and one that contradicts it."""
    low, high = claim.threshold[0], claim.threshold[-1]
    match claim.side:
        case "above" | "not below":
            return low + 0.5, low - 0.5
        case "below" | "not above":
            return high - 0.5, high + 0.5
    return (low + high) / 2, high + 0.5


# Verdicts


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_holds_where_its_quantity_is_right_and_fails_where_it_is_wrong(claim):
    true, false = right(claim)
    verdicts = claims_table([Measured(claim, "true", of_seeds(around(true)))])["verdict"]
    assert list(verdicts) == [HOLDS]
    table = claims_table([Measured(claim, "false", of_seeds(around(false)))])
    assert list(table["verdict"]) == [FAILS]
    assert list(table["condition"]) == ["the interval lies on the other side"]


def test_ids_of_claims_are_distinct_and_each_says_where_it_comes_from():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.source and claim.statement and claim.quantity and claim.reason for claim in CLAIMS)


def test_a_claim_that_holds_in_some_regimes_says_in_which():
    claim = stage_one.OUTSIDE
    table = claims_table([Measured(claim, "here", of_seeds(around(1.0))), Measured(claim, "there", of_seeds(around(2.0)))])
    assert list(table["verdict"]) == [CONDITION, FAILS]
    assert table["condition"][0] == "here"
    assert overall(table) == CONDITION
    assert overall(table[1:]) == FAILS


def test_few_replicas_and_given_reasons_are_not_tested():
    claim = stage_two.GROWTH
    few = Measured(claim, "few", of_seeds(np.array([1.0, math.nan, 1.0])))
    told = Measured(claim, "told", of_seeds(around(1.0)), "true by construction")
    table = claims_table([few, told])
    assert list(table["verdict"]) == [UNTESTABLE] * 2
    assert table["condition"][1] == "true by construction"
    assert table["p_value"].isna().all()


def test_a_difference_that_is_noise_is_not_shown():
    draws = np.random.default_rng(3).normal(size=(400, 10))
    family = [Measured(pruning.RAISES, str(index), of_seeds(values)) for index, values in enumerate(draws)]
    table = claims_table(family)
    # Family-wise: 400 true null hypotheses are rejected at all in one of twenty tables.
    assert (table["verdict"] == FAILS).all()
    assert (table["p_value"] < 0.05).sum() > 5


def test_many_other_tests_do_not_protect_a_bound():
    """Seven standard errors on the wrong side of it, among a thousand tests of nothing."""
    draws = np.random.default_rng(4).normal(size=(1000, 10))
    others = [Measured(pruning.RAISES, str(index), of_seeds(values)) for index, values in enumerate(draws)]
    bound = Measured(initialisation.LUCKY, "scaling", of_fit(-0.33, -0.48, -0.18, 5))
    assert list(claims_table([*others, bound])["verdict"])[-1] == FAILS


def test_the_estimate_of_a_fit_keeps_its_interval():
    assert of_fit(1.5, 1.0, 2.0, 7).interval() == pytest.approx((1.0, 2.0))
    assert of_seeds(np.array([1.0, 2.0, 3.0])).interval() == pytest.approx(
        (2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)), rel=1e-5
    )


def test_values_without_spread_decide_by_themselves():
    assert list(claims_table([Measured(stage_one.UNDER, "all", of_seeds(np.ones(6)))])["verdict"]) == [HOLDS]
    assert list(claims_table([Measured(stage_one.UNDER, "none", of_seeds(np.zeros(6)))])["verdict"]) == [FAILS]


# Milestones of planted neurons

DATA, EPS_MIN = tiny_data(d=4, d1=20, C=1.0), 0.5
TRAINING = tiny_training(m=3, T=100, eta=0.1, sigma_0=0.1, history=True)
STEPS = log_spaced(TRAINING.T)


def history(projections, outside, bias=0.0):
    """(R, m, d + 2) from projections (R, m, d) and the norm outside span(M), (R, m)."""
    norms = (projections.square().sum(-1) + outside**2).sqrt()
    return torch.cat([projections, norms[..., None], torch.full((*norms.shape, 1), bias)], -1).float()


def course(growth, decay=1.0, start=None):
    """Every feature grows by its own factor, and the rest decays."""
    start = torch.tensor([[0.1, 0.2, 0.05, 0.1], [0.2, 0.1, 0.1, 0.05], [0.05, 0.1, 0.2, 0.2]]) if start is None else start
    time = torch.tensor(STEPS, dtype=torch.float32)[:, None]
    return history(start * (torch.tensor(growth)[None] ** time)[:, None, :], 0.4 * (decay**time).expand(-1, 3))


def found(planted, T1=40, eps_min=EPS_MIN):
    values = milestones(planted, T1, DATA, TRAINING, eps_min, 0.05, torch.Generator().manual_seed(0))
    assert set(values) == set(MILESTONES)
    return values


def test_growth_and_decay_of_stage_one_are_read_off_the_neurons():
    values = found(course([1.03, 1.03, 1.03, 1.01], decay=1 - 0.1 * 0.05))
    decay = TRAINING.eta * TRAINING.lambda_
    assert values["stage1_growth_majority"] == pytest.approx(0.03 + decay, rel=1e-3)
    assert values["stage1_growth_minority"] == pytest.approx(0.01 + decay, rel=1e-3)
    assert values["stage1_decay_outside"] == pytest.approx(1.0, rel=0.01)
    assert found(course([1.03] * 4, decay=1.0))["stage1_decay_outside"] == pytest.approx(0.0, abs=0.01)


def test_exponent_in_the_frequency_is_one_for_growth_that_is_proportional_to_it():
    x = np.array([0.2, 0.5, 1.0])
    assert exponent(x, np.array([3 * x, x**2]).T) == pytest.approx([1.0, 2.0])
    assert np.isnan(exponent(x, np.array([[1.0], [-1.0], [1.0]]))).all()


def test_stage_two_ends_when_a_neuron_has_grown_d_fold():
    values = found(course([1.06, 1.0, 1.0, 1.0]), T1=10)
    start = next(index for index, step in enumerate(STEPS) if step >= 10)
    norms = course([1.06, 1.0, 1.0, 1.0])[..., 4]
    expected = next(step for step, norm in zip(STEPS, norms, strict=True) if (norm**2 >= 4 * norms[start] ** 2).any())
    assert values["T2"] == expected
    assert math.isnan(found(course([1.0] * 4), T1=10)["T2"])


def test_strength_magnitude_and_purity_at_the_end():
    end = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.2, 0.0], [0.0, 0.0, 1.0, 0.5]])
    planted = history(end.expand(len(STEPS), 3, 4).clone(), torch.zeros(len(STEPS), 3))
    values = found(planted)
    assert values["strength_ratio"] == pytest.approx(0.25 / ((1 + 1 + 1.04) / 3))
    assert values["magnitude_ratio"] == pytest.approx(0.5)
    assert values["pure_share"] == pytest.approx(2 / 3)
    assert values["pure_minority_neurons"] == 0
    assert values["largest_norm"] == pytest.approx(math.sqrt(1.25))
    # The one neuron with the minority feature is the largest, the last that magnitude pruning takes.
    assert values["minority_norm_rank"] == 1.0
    assert found(planted * torch.tensor([1.0, 1.0, 0.1])[:, None])["minority_norm_rank"] == 0.0


def test_initial_norms_are_measured_in_units_of_their_law():
    start = torch.full((3, 4), TRAINING.sigma_0)
    outside = TRAINING.sigma_0 * 4.0  # d1 - d = 16 directions
    planted = history(start.expand(len(STEPS), 3, 4).clone(), torch.full((len(STEPS), 3), outside))
    assert found(planted)["initial_norm_deviation"] == pytest.approx(0.0, abs=1e-5)
    assert found(planted)["initial_feature_norm_deviation"] == pytest.approx(0.0, abs=1e-5)
    assert found(2 * planted)["initial_norm_deviation"] > 1
    assert found(2 * planted)["initial_feature_norm_deviation"] > 1


def test_the_sets_at_initialisation_carry_over_to_t1():
    """A neuron on one feature alone is lucky for it at ratio 1, and above the threshold at T1; one that has lost it is not."""
    start = torch.eye(4)[:3]
    planted = history(start.expand(len(STEPS), 3, 4).clone(), torch.zeros(len(STEPS), 3))
    values = found(planted, 10, eps_min=1.0)
    assert values["lucky_focus_at_T"] == values["lucky_over_strongest_at_T"] == values["others_small_at_T"] == 1.0
    assert values["lucky_above_threshold_at_T1"] == 1.0
    assert values["others_below_threshold_at_T1"] == 1.0
    lost = planted.clone()
    lost[1:, :, :4] = 0.0
    lost[1:, :, 3] = 1.0
    values = found(lost, 10, eps_min=1.0)
    assert values["lucky_focus_at_T"] == 0.0
    assert values["others_small_at_T"] < 1.0
    assert values["lucky_above_threshold_at_T1"] == 0.0
    assert values["others_below_threshold_at_T1"] < 1.0


def test_a_single_direction_off_the_features_holds_what_a_uniform_one_does():
    """All of the norm outside: the largest of 16 coordinates of a unit vector, in units of sqrt(log d / d1)."""
    planted = history(torch.full((len(STEPS), 3, 4), 1e-6), torch.ones(len(STEPS), 3))
    unit = math.sqrt(math.log(DATA.d) / DATA.d1)
    assert 0.3 < found(planted)["outside_largest_at_T1"] * unit < 0.9
    inside = history(torch.ones(len(STEPS), 3, 4), torch.full((len(STEPS), 3), 1e-6))
    assert found(inside)["outside_largest_at_T1"] < 1e-5


def test_what_the_oracle_would_prune_is_seen_apart_from_the_rest():
    """The last neuron is the minority's: its other features and its part off the features, whatever the others have."""
    end = torch.tensor([[1.0, 0.9, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.3, 1.0]])
    planted = history(end.expand(len(STEPS), 3, 4).clone(), torch.tensor([5.0, 0.0, 0.4]).expand(len(STEPS), 3))
    norm = math.sqrt(1 + 0.09 + 0.16)
    assert found(planted)["pruned_other_features"] == pytest.approx(math.sqrt(4) * 0.3 / norm)
    assert found(planted)["pruned_outside"] == pytest.approx(math.sqrt(20 / 16) * 0.4 / norm)
    assert math.isnan(found(planted[..., [3, 1, 2, 0, 4, 5]])["pruned_outside"])


# One step


@pytest.mark.parametrize("simulator", ["direct", "reduced"])
def test_masking_the_minority_neuron_of_the_dictionary_is_theorem_3_2(simulator):
    """One strong neuron a feature: the mask speeds up the masked one, lowers its samples' logit, and leaves the rest alone."""
    data, training = tiny_data(d=4, d1=40, L=1, C=2.0, minority=[1.0]), tiny_training(m=4, K=32, eta=0.1, tau=1.0)
    space = make_simulator(simulator, "planted", 4, 40, 4, [1])
    weights = space.dictionary.mT.contiguous()
    values = one_step(simulator, "planted", data, training, 0.5, 0.02, 1, weights, torch.full((1, 4), 0.2), batches=60)
    assert set(values) == set(ONE_STEP)
    assert values["pruned_neurons"] == 1
    assert values["growth_minority_gain"] > 0.0005
    assert abs(values["growth_majority_gain"]) < 0.2 * values["growth_minority_gain"]
    assert values["logit_with_minority"] < -0.02
    assert abs(values["logit_leak"]) < 0.2
    assert values["similarity_positive"] > 0
    assert abs(values["similarity_negative"]) < 0.1


def test_neurons_that_a_bias_silences_have_no_gain_and_no_ratio():
    data, training = tiny_data(d=4, d1=40, L=1, C=2.0), tiny_training(m=4, K=8)
    space = make_simulator("direct", "planted", 4, 40, 4, [1])
    weights = space.dictionary.mT.contiguous()
    values = one_step("direct", "planted", data, training, 0.5, 0.02, 1, weights, torch.full((1, 4), 100.0), batches=2)
    assert values["growth_minority_gain"] == 0.0
    assert math.isnan(values["gain_ratio"])
    assert math.isnan(values["negative_share"])


def test_without_a_neuron_of_the_minority_there_is_nothing_to_prune():
    data, training = tiny_data(d=4, d1=40, L=1, C=2.0), tiny_training(m=3, K=8)
    space = make_simulator("direct", "planted", 4, 40, 3, [1])
    weights = space.dictionary.mT[:, :3].contiguous()
    assert one_step("direct", "planted", data, training, 0.5, 0.02, 1, weights, torch.zeros(1, 3), batches=2) == {}


def test_a_study_without_such_a_neuron_has_an_empty_table_and_claims_that_are_not_testable(tmp_path):
    study = load("config/config.yaml").claims.studies["stages"]
    grid = {"one": Grid(eps_min=[0.5], sigma=[0.05], arms=["dense"])}
    study = study.model_copy(update={"seeds": 2, "grid": grid})
    (point,) = study.points()
    # The dictionary's first features and nothing of the last, under the coordinates of the reduced simulator.
    weights = make_simulator("reduced", "", 9, 500, 30, [100, 101]).dictionary.mT[:, torch.arange(30) % 8]
    tensors = {"dense/weights": weights.contiguous(), "dense/bias": torch.zeros(2, 30)}
    (path,) = study.paths([point], "safetensors")
    write_tensors(tmp_path / path, tensors)
    table = one_step_rows(study, tmp_path, batches=2)
    assert len(table) == 0
    pa.Table.from_pandas(table)
    milestone = pd.DataFrame(
        {"eps_min": [0.5], "sigma": [0.05], "seed": [1], "metric": ["minority_norm_rank"], "value": [np.nan]}
    )
    measured = pruning.measure(Evidence(milestones={"stages": milestone}, one_step={"stages": table}), {}, PAPER)
    assert set(claims_table(measured)["verdict"]) == {UNTESTABLE}


# Trends, gains and onsets


def test_the_trend_of_a_figure_is_seen_in_its_direction_alone():
    rng = np.random.default_rng(5)
    rising = np.arange(6)[:, None] + rng.normal(size=(6, SEEDS))
    assert figures_1_to_4.page_statistic(rising).mean() > 0.5
    assert figures_1_to_4.page_statistic(-rising).mean() < -0.5
    assert abs(figures_1_to_4.page_statistic(rng.normal(size=(6, 2000))).mean()) < 0.05
    assert (figures_1_to_4.page_statistic(np.ones((6, 3))) == 0).all()


def trajectories(gain, seeds=range(8), step=10):
    """A dense arm and two masked ones, of which the second gains, in the columns of the trajectories table."""
    rows = []
    for seed in seeds:
        for arm, bonus in ((Arm(arm="dense"), 0.0), (Arm(arm="pruned_neuron", alpha=0.1), 0.0),
                           (Arm(arm="pruned_neuron", alpha=0.4), gain)):  # fmt: skip
            noise = 1e-3 * np.random.default_rng([seed, int(10 * arm.alpha)]).normal()
            keys = {"eps_min": 0.5, "sigma": 0.05, **arm.model_dump(), "seed": seed}
            for at in (0, step):
                rows.append(
                    {**keys, "step": at, "metric": "max_alignment", "value": 0.3 + 0.01 * seed + noise + (at > 0) * bonus}
                )
                if arm.alpha:
                    rows.append({**keys, "step": at, "metric": "mask_minority_overlap", "value": 0.9 + noise})
    return pd.DataFrame(rows)


def searched(search, held_out):
    """The arguments of pruning.measure for a search and its confirmation under one law."""
    tables = {"pruning": search, "pruning_held_out": held_out}
    return Evidence(trajectories=tables), dict.fromkeys(tables, PAPER), PAPER


def test_a_search_that_finds_another_regime_than_the_held_out_one_confirms_nothing():
    held_out = trajectories(0.2, range(100, 108))
    held_out = held_out[held_out["alpha"] != 0.4]
    table = claims_table(pruning.measure(*searched(trajectories(0.2), held_out)))
    confirmed = table[table["claim_id"] == "A1-confirmed"].iloc[0]
    assert confirmed["verdict"] == UNTESTABLE
    assert "alpha 0.4" in confirmed["condition"]
    evidence, studies, paper = searched(trajectories(0.2), trajectories(0.2, range(100, 108)))
    training = PAPER.training.model_copy(update={"tau": 2.0})
    studies["pruning_held_out"] = PAPER.model_copy(update={"training": training})
    table = claims_table(pruning.measure(evidence, studies, paper))
    assert table[table["claim_id"] == "A1-confirmed"].iloc[0]["verdict"] == UNTESTABLE


def test_a_confirmation_is_not_corrected_for_the_tests_of_the_search():
    """One test at p = 0.01 among a thousand of nothing."""
    draws = np.random.default_rng(4).normal(size=(1000, 10))
    others = [Measured(pruning.RAISES, str(index), of_seeds(values)) for index, values in enumerate(draws)]
    values = 0.9 + np.random.default_rng(5).normal(size=10)
    alone = Measured(pruning.CONFIRMED, "held out", of_seeds(values))
    table = claims_table([*others, alone])
    assert 1e-4 < table["p_value"].iloc[-1] < 0.05
    assert table["adjusted_p_value"].iloc[-1] == table["p_value"].iloc[-1]
    assert table["verdict"].iloc[-1] == HOLDS


def T5_rows(exponent, sizes=(0.3, 0.5, 0.9), steps=5000):
    """Verdicts of the claims at T5, the minority's strength a power of the ratio in the oracle arm and 1 in the dense one."""
    milestone, studies = {}, {}
    for ratio in sizes:
        name = f"T5_ratio={ratio}"
        planted = {"magnitude_ratio": ratio**exponent, "pruned_other_features": 0.2, "pruned_outside": 0.9,
                   "pure_minority_neurons": 4.0}  # fmt: skip
        milestone[name] = pd.DataFrame(
            [
                {"eps_min": ratio, "sigma": 0.05, "arm": arm, "seed": seed, "metric": metric, "value": noise + value}
                for metric, value in planted.items()
                for arm in ("dense", "oracle")
                for seed, noise in enumerate(around(0.0))
            ]
        )
        studies[name] = PAPER.model_copy(update={"training": PAPER.training.model_copy(update={"T": steps})})
    table = claims_table(pruning.measure(Evidence(milestones=milestone), studies, PAPER))
    return table.groupby("claim_id").apply(overall).to_dict()


def test_at_t5_the_strength_of_the_pruned_feature_must_not_depend_on_the_ratio():
    verdicts = T5_rows(0.0)
    assert verdicts["18-alpha"] == HOLDS
    assert verdicts["18-others"] == HOLDS
    assert verdicts["18-beta"] == FAILS
    assert verdicts["3.2-c"] == HOLDS
    assert T5_rows(1.0)["18-alpha"] == FAILS


def test_a_training_that_ends_before_t5_says_nothing():
    verdicts = T5_rows(0.0, steps=100)
    assert verdicts["18-others"] == verdicts["3.2-c"] == UNTESTABLE
    assert "18-alpha" not in verdicts


def test_the_smallest_neurons_are_those_of_the_minority_where_they_are():
    """Norms 1 ... 4; the second and third smallest are aligned with the last of three features."""
    history = torch.zeros(2, 4, 5)
    history[..., 3] = torch.tensor([4.0, 2.0, 1.0, 3.0])
    history[..., 2] = torch.tensor([0.0, 2.0, 0.0, -1.5])
    history[1, :, 2] = 0
    assert smallest_of_minority(history, 3, 1)[0].tolist() == pytest.approx([0, 1 / 2, 2 / 3, 1 / 2])
    assert (smallest_of_minority(history, 3, 1)[1] == 0).all()


def test_the_search_finds_the_arm_that_gains_and_confirms_it_on_other_seeds():
    table = claims_table(pruning.measure(*searched(trajectories(0.2), trajectories(0.2, range(100, 108)))))
    confirmed = table[table["claim_id"] == "A1-confirmed"].iloc[0]
    assert "alpha 0.4" in confirmed["regime"]
    assert confirmed["verdict"] == HOLDS
    gained = table[table["claim_id"] == "A1-gain"].set_index("regime")["verdict"]
    assert sorted(gained) == [FAILS, CONDITION]
    assert set(table[table["claim_id"] == "3.2-implicit"]["verdict"]) == {HOLDS}


def test_a_gain_of_the_search_that_other_seeds_do_not_show_is_not_confirmed():
    table = claims_table(pruning.measure(*searched(trajectories(0.2), trajectories(0.0, range(100, 108)))))
    assert table[table["claim_id"] == "A1-confirmed"].iloc[0]["verdict"] == FAILS


@pytest.mark.parametrize(("end", "verdict"), [(0.95, ("equal",)), (0.2, ("lasting",))])
def test_a_transient_imbalance_is_told_from_a_lasting_one(end, verdict):
    rows = []
    for seed in range(8):
        for step, majority, minority in (
            (0, 0.2, 0.1),
            (100, 0.95, 0.1),
            (200, 0.95, 0.6 if end > 0.5 else 0.1),
            (1000, 0.95, end),
        ):
            for metric, value in (("majority_alignment", majority), ("max_alignment", minority)):
                noise = 1e-3 * np.random.default_rng([seed, step]).normal()
                rows.append(
                    {"eps_min": 0.5, "sigma": 0.05, "seed": seed, "step": step, "metric": metric, "value": value + noise}
                )
    table = claims_table(imbalance.measure(Evidence(trajectories={"phase": pd.DataFrame(rows)}))).set_index("claim_id")[
        "verdict"
    ]
    assert tuple(name for name in ("lasting", "equal") if table[name] == HOLDS) == verdict
    assert table["onset"] == (HOLDS if end > 0.5 else UNTESTABLE)


# From training to the page


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A claims section of small studies, the evidence that training them gives, and an overlap table."""
    raw = yaml.safe_load(Path("config/config.yaml").read_text())
    sizes = {
        "data": {"d1": 40, "N": 128, "test_pairs": 32},
        "training": {"K": 32, "T": 30, "m": 8, "eta": 0.4, "sigma_0": 0.02},
    }
    wanted = ("stages", "pruning", "pruning_held_out", "T5_ratio=0.5", *CLAIMS_MAPS["phase"][1])
    studies = {}
    for name in wanted:
        study = raw["claims"]["studies"][name]
        training = study.get("training", {}) | {"T": 30}
        studies[name] = study | {"seeds": 5, "seeds_per_block": 5, "training": training}
    raw["claims"]["studies"] = studies
    raw["claims"]["sensitivity"] |= {"keys": ["training.K"], "factors": [0.5], "seeds": 5}
    claims = parse(merged(raw, sizes)).claims
    folder = tmp_path_factory.mktemp("encoders")
    evidence = Evidence(
        grid=paper_grid(),
        exponents=pd.DataFrame(columns=["quantity", "log_power"]),
        longtail=longtail(),
        augmentation=augmentation(),
    )
    for name, study in claims.every_study().items():
        rows = []
        for point in study.points():
            for block, seeds in study.blocks().items():
                latents = synthesise(study.draws, study.data, point.eps_min, seeds)["train"]
                at = study.draws, study.simulator, study.data, study.training, point.trained, point.sigma, seeds
                encoders, trajectory = pretrain(*at, latents)
                tensors = {f"{arm}/{part}": x for arm, encoder in encoders.items() for part, x in encoder._asdict().items()}
                write_tensors(folder / name / point.path / f"seeds={block}.safetensors", tensors)
                rows += [{**row, "eps_min": point.eps_min, "sigma": point.sigma} for row in trajectory]
        if study.training.history:
            evidence.milestones[name] = milestone_rows(study, folder / name)
            evidence.one_step[name] = one_step_rows(study, folder / name, batches=2)
        else:
            evidence.trajectories[name] = pd.DataFrame(rows)
    assert set(evidence.milestones) == set(claims.tables()["milestones"])
    assert set(evidence.trajectories) == set(claims.tables()["trajectories"])
    return claims, evidence, overlap_rows(claims.studies["stages"], folder / "stages")


def augmentation():
    """The rows of one study of augmentation that a claim is about, random but for their keys."""
    rng = np.random.default_rng(11)
    return pd.DataFrame(
        [
            {"study": "random_mask", "eps_min": 1.0, "sigma": 0.24, **Arm(arm="dense").model_dump(), "seed": seed}
            | {"encoder": "trained", "labels": labels, "metric": metric, "value": rng.uniform()}
            for seed in range(6)
            for labels, metrics in ((0, AUGMENTED), (64, ("regression_error",)))
            for metric in metrics
            if not (labels == 0 and metric == "regression_error")
        ]
    )


def longtail():
    """Replicas of two arms at two rho, random but for their keys."""
    rng = np.random.default_rng(10)
    return pd.DataFrame(
        [
            {"dataset": "digits", "rho": rho, "split": "long_tailed", **arm.model_dump(), "seed": seed}
            | {"balanced_accuracy": rng.uniform(), "balanced_delta_20": rng.uniform()}
            for rho in (5.0, 50.0)
            for arm in (ImageArm(arm="dense"), ImageArm(arm="pruned", alpha=0.5))
            for seed in range(6)
        ]
    )


def paper_grid():
    """A grid table with one block, random but for its keys."""
    rng = np.random.default_rng(9)
    return pd.DataFrame(
        [
            {"eps_min": eps_min, "sigma": sigma, "arm": arm, "seed": seed} | {name: rng.uniform() for name in METRICS}
            for eps_min in (0.1, 0.5, 1.0)
            for sigma in (0.05, 0.1)
            for arm in ("dense", "oracle")
            for seed in range(6)
        ]
    )


def test_every_part_of_the_theory_is_measured_and_drawn(small):
    claims, evidence, overlap = small
    block = Grid(eps_min=[0.1, 0.5, 1.0], sigma=[0.05, 0.1], arms=["dense"])
    grid = {name: block for name in ("figures_1_and_2", "figure_3", "figure_4")}
    paper = load("config/config.yaml").studies["paper"].model_copy(update={"grid": grid})
    table = claims_table(measure(evidence, claims, paper, load("config/config.yaml").augmentation))
    groups = {group.replace(" ", "_") for group in table["group"]}
    assert groups == set(CLAIMS_GROUPS)
    text = page(table, claims)
    assert all(f"### {claim_id}" in text for claim_id in table["claim_id"])
    assert "K=16" in text
    for group in CLAIMS_GROUPS:
        plt.close(draw(table, group))
    plt.close(maps.phase(claims, {name: evidence.trajectories[name] for name in CLAIMS_MAPS["phase"][1]}))
    plt.close(maps.pruning(claims, {"pruning": evidence.trajectories["pruning"]}))
    plt.close(maps.overlap(claims, {"stages": overlap}))


def test_the_predicted_onset_comes_sooner_for_frequent_features_and_never_for_the_rarest():
    study = load("config/config.yaml").claims.studies["phase"]
    onsets = [maps.onset(study, eps_min, 0.05) for eps_min in (0.01, 0.2, 0.5, 1.0)]
    assert onsets[0] == math.inf
    assert onsets[1] > onsets[2] > onsets[3] > 0


# The config and the page


def test_the_studies_of_the_claims_are_legal_and_the_varied_ones_differ_in_one_number():
    claims = load("config/config.yaml").claims
    base = claims.studies[claims.sensitivity.study]
    varied = {name: study for name, study in claims.every_study().items() if name not in claims.studies}
    assert len(varied) == len(claims.sensitivity.keys) * len(claims.sensitivity.factors)
    for study in varied.values():
        parts = [(base.data, study.data), (base.training, study.training)]
        changed = [
            key for before, after in parts for key, value in before.model_dump().items() if value != after.model_dump()[key]
        ]
        assert len(changed) == 1
        assert study.draws == base.draws
    seeds = {name: {seed for block in study.blocks().values() for seed in block} for name, study in claims.studies.items()}
    held_out = seeds.pop("pruning_held_out")
    assert all(not held_out & used for used in seeds.values())


def test_the_studies_of_t5_end_no_sooner():
    claims = load("config/config.yaml").claims
    chosen = [study for name, study in claims.studies.items() if name.startswith("T5_")]
    assert len(chosen) > 2
    for study in chosen:
        (point,) = study.points()
        T5 = pruning.end_of_pruning(study.data, study.training.eta, point.eps_min, point.sigma)
        assert T5 <= study.training.T < 1.01 * T5
        assert point.arms[1].onset == int(study.data.d**1.99 / study.training.eta)


def test_the_page_says_which_verdicts_a_hyper_parameter_changes():
    claims = load("config/config.yaml").claims
    point, claim = "eps_min 0.3, sigma 0.05", stage_one.OUTSIDE
    true, false = right(claim)
    planted = [("stages", true), ("stages_K=64", false), ("stages_K=256", true)]
    measured = [Measured(claim, f"{name}: {point}", of_seeds(around(value))) for name, value in planted]
    measured.append(Measured(stage_one.FEW, f"stages: {point}", of_seeds(around(right(stage_one.FEW)[1]))))
    measured.append(Measured(stage_one.FEW, f"stages_K=64: {point}", of_seeds(around(right(stage_one.FEW)[0]))))
    text = page(claims_table(measured), claims)
    assert "| K=64 | 2 | 3.1b | C.1d |" in text
    assert "| K=256 | 1 |  |  |" in text


def test_the_page_shows_every_claim_with_its_rows():
    measured = [Measured(claim, f"regime {claim.id}", of_seeds(around(right(claim)[0]))) for claim in CLAIMS]
    text = page(claims_table(measured), load("config/config.yaml").claims)
    assert all(f"### {claim.id}" in text and f"regime {claim.id}" in text for claim in CLAIMS)
    assert "nan" not in text
    assert f"{len(CLAIMS)} holds" in text
