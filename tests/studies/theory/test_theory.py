"""The theory: quantities of planted neurons, roles of studies, and each claim where it is true and where it is false."""

import dataclasses
import math
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
import yaml
from conftest import around, right, tiny_data, tiny_training, train_study, verdicts_of, write_encoders

from rarefeat.chain.milestones import milestones
from rarefeat.chain.tables import METRICS, MILESTONES
from rarefeat.claims.claim import CONDITION, FAILS, HOLDS, UNTESTABLE, Measured, measured_table, of_seeds, overall
from rarefeat.claims.evidence import exponent
from rarefeat.config.model import Arm
from rarefeat.config.section import told as as_told
from rarefeat.config.study import Grid, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.core.recording import log_spaced
from rarefeat.core.simulators import make_simulator
from rarefeat.kind import TRAINED
from rarefeat.project import load, parse
from rarefeat.run.job import job
from rarefeat.studies.theory import figures
from rarefeat.studies.theory.claims import CLAIMS, imbalance, measure, pruning, stage_one
from rarefeat.studies.theory.claims.evidence import Evidence
from rarefeat.studies.theory.milestones import milestone_rows
from rarefeat.studies.theory.one_step import one_step, one_step_rows
from rarefeat.studies.theory.overlap import overlap_rows, smallest_of_minority
from rarefeat.studies.theory.sensitivity import sensitivity
from rarefeat.studies.theory.tables import ONE_STEP

PROJECT = load("config/config.yaml")
THEORY, PAPER = PROJECT.sections["theory"], PROJECT.studies["paper"]


def told(stage, name, study):
    """The job of a table that is read from the encoders of one study."""
    return job(f"studies.theory.{stage}", TRAINED, {name: study.plain()}, name)


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
    grid = {"one": Grid(eps_min=[0.5], sigma=[0.05], arms=["dense"])}
    study = THEORY.studies["stages"].model_copy(update={"seeds": 2, "grid": grid})
    ((cell,), (block,)) = study.cells(), study.blocks()
    # The dictionary's first features and nothing of the last, under the coordinates of the reduced simulator.
    weights = make_simulator("reduced", "", 9, 500, 30, [100, 101]).dictionary.mT[:, torch.arange(30) % 8]
    write_encoders(tmp_path, "stages", study, cell, block, {"dense/weights": weights, "dense/bias": torch.zeros(2, 30)})
    table = one_step_rows(told("one_step", "stages", study), study.plain(), tmp_path, batches=2)
    assert len(table) == 0
    pa.Table.from_pandas(table)
    milestone = pd.DataFrame(
        {"eps_min": [0.5], "sigma": [0.05], "seed": [1], "metric": ["minority_norm_rank"], "value": [np.nan]}
    )
    evidence = Evidence({"stages": study}, {"stages": milestone}, one_step={"stages": table}, paper=PAPER)
    assert set(verdicts_of(pruning.measure(evidence))["verdict"]) == {UNTESTABLE}


# Gains and onsets


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


def searched(search, held_out, **changes):
    """Evidence of a search and of its confirmation, under one law but for changes of the confirmation's training."""
    study = THEORY.studies["pruning"]
    training = study.training.model_copy(update=changes)
    studies = {"search": study, "again": study.model_copy(update={"role": "held_out", "training": training})}
    return Evidence(studies, trajectories={"search": search, "again": held_out}, paper=PAPER)


def test_a_search_that_finds_another_regime_than_the_held_out_one_confirms_nothing():
    held_out = trajectories(0.2, range(100, 108))
    held_out = held_out[held_out["alpha"] != 0.4]
    table = verdicts_of(pruning.measure(searched(trajectories(0.2), held_out)))
    confirmed = table[table["claim_id"] == "A1-confirmed"].iloc[0]
    assert confirmed["verdict"] == UNTESTABLE
    assert "alpha 0.4" in confirmed["condition"]
    table = verdicts_of(pruning.measure(searched(trajectories(0.2), trajectories(0.2, range(100, 108)), tau=2.0)))
    assert table[table["claim_id"] == "A1-confirmed"].iloc[0]["verdict"] == UNTESTABLE


def test_studies_are_found_by_their_role_and_not_by_their_name():
    """The search and its confirmation under any names; without a study of that role there is none."""
    evidence = searched(trajectories(0.2), trajectories(0.2, range(100, 108)))
    table = verdicts_of(pruning.measure(evidence)).set_index("claim_id")
    assert table.loc["A1-confirmed", "verdict"] == HOLDS
    assert table.loc["A1-confirmed", "regime"].startswith("again: ")
    alone = dataclasses.replace(evidence, studies={"search": evidence.studies["search"]})
    table = verdicts_of(pruning.measure(alone)).set_index("claim_id")
    assert table.loc["A1-confirmed", "verdict"] == UNTESTABLE
    assert "no study with the role held_out" in table.loc["A1-confirmed", "condition"]


def test_a_confirmation_is_not_corrected_for_the_tests_of_the_search():
    """One test at p = 0.01 among a thousand of nothing."""
    draws = np.random.default_rng(4).normal(size=(1000, 10))
    others = [Measured(pruning.RAISES, str(index), of_seeds(values)) for index, values in enumerate(draws)]
    values = 0.9 + np.random.default_rng(5).normal(size=10)
    alone = Measured(pruning.CONFIRMED, "held out", of_seeds(values))
    table = verdicts_of([*others, alone])
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
        study = THEORY.studies["T5_ratio=0.5"]
        studies[name] = study.model_copy(update={"training": study.training.model_copy(update={"T": steps})})
    table = verdicts_of(pruning.measure(Evidence(studies, milestone, paper=PAPER)))
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


def test_the_overlap_is_a_mean_over_the_replicas_of_every_block(tmp_path):
    """Three replicas in two blocks; in the last one the smallest neuron is the minority's, in the others another one is."""
    study = THEORY.studies["stages"]
    training = study.training.model_copy(update={"T": 5, "m": 2})
    grid = {"one": Grid(eps_min=[0.5], sigma=[0.05], arms=["dense"])}
    study = study.model_copy(update={"seeds": 3, "seeds_per_block": 2, "grid": grid, "training": training})
    (cell,) = study.cells()
    d, steps = study.data.d, log_spaced(5)
    planted = torch.zeros(3, len(steps), 2, d + 2)
    planted[:, :, 0, d] = planted[:, :, 0, 0] = 1.0
    planted[:, :, 1, d] = planted[:, :, 1, d - 1] = torch.tensor([2.0, 2.0, 0.5])[:, None]
    for (block, seeds), rows in zip(study.blocks().items(), planted.split(2), strict=True):
        assert len(seeds) == len(rows)
        write_encoders(tmp_path, "stages", study, cell, block, {"dense/history": rows})
    table = overlap_rows(told("overlap", "stages", study), study.plain(), tmp_path)
    assert len(table) == 2 * len(steps)
    assert set(table["n"]) == {3}
    assert table[table["alpha"] == 0.5]["overlap"].tolist() == pytest.approx([1 / 3] * len(steps))
    assert table[table["alpha"] == 1.0]["overlap"].tolist() == pytest.approx([1 / 2] * len(steps))


def test_the_search_finds_the_arm_that_gains_and_confirms_it_on_other_seeds():
    table = verdicts_of(pruning.measure(searched(trajectories(0.2), trajectories(0.2, range(100, 108)))))
    confirmed = table[table["claim_id"] == "A1-confirmed"].iloc[0]
    assert "alpha 0.4" in confirmed["regime"]
    assert confirmed["verdict"] == HOLDS
    gained = table[table["claim_id"] == "A1-gain"].set_index("regime")["verdict"]
    assert sorted(gained) == [FAILS, CONDITION]
    assert set(table[table["claim_id"] == "3.2-implicit"]["verdict"]) == {HOLDS}


def test_a_gain_of_the_search_that_other_seeds_do_not_show_is_not_confirmed():
    table = verdicts_of(pruning.measure(searched(trajectories(0.2), trajectories(0.0, range(100, 108)))))
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
    table = verdicts_of(imbalance.measure(Evidence({"any": THEORY.studies["phase"]}, trajectories={"any": pd.DataFrame(rows)})))
    table = table.set_index("claim_id")["verdict"]
    assert tuple(name for name in ("lasting", "equal") if table[name] == HOLDS) == verdict
    assert table["onset"] == (HOLDS if end > 0.5 else UNTESTABLE)


# From training to the verdicts


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A project with small studies of every role but two, and their tables, from training them."""
    wanted = ("stages", "pruning", "pruning_held_out", "T5_ratio=0.5", *PROJECT.sections["theory"].of_role("phase"))
    studies = {name: None for name in THEORY.studies if name not in wanted}
    for name in wanted:
        studies[name] = {"seeds": 5, "seeds_per_block": 5, "training": {"T": 60}}
    studies["T5_ratio=0.5"]["arms"] = [{"arm": "dense"}, {"arm": "oracle", "onset": 30}]
    theory = {"studies": studies, "sensitivity": {"keys": ["training.K"], "factors": [0.5], "seeds": 5}}
    sizes = {
        "data": {"d1": 40, "N": 128, "test_pairs": 32},
        "training": {"K": 32, "T": 60, "m": 20, "eta": 0.4, "sigma_0": 0.02},
        "size": "quick",
    }
    raw = yaml.safe_load(Path("config/config.yaml").read_text())
    project = parse(merged(raw, sizes | {"theory": theory | {"maps": {"overlap": ["stages"]}}}))
    results = tmp_path_factory.mktemp("results")
    courses = {name: train_study(results, name, study) for name, study in project.sections["theory"].every_study().items()}
    tables = {"paper_grid": paper_grid(), "scaling_exponents": pd.DataFrame(columns=["quantity", "log_power"])}
    read = {"milestones": milestone_rows, "one_step": partial(one_step_rows, batches=2), "overlap": overlap_rows}
    for name in project.made["theory"].tables:
        study, _, kind = name.rpartition("_one_step" if name.endswith("_one_step") else "_")
        kind = kind or "one_step"
        if kind == "trajectories":
            tables[name] = pd.DataFrame(courses[study])
        else:
            tables[name] = read[kind](project.table_job(name), project.studies[study].plain(), results)
    return project, tables


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


def test_every_claim_of_the_theory_is_measured_and_its_maps_are_drawn(small):
    project, tables = small
    table = verdicts_of(measure(tables, project.table_job("theory_measured")))
    assert {claim.group for claim in CLAIMS} == set(project.claimed["theory"].groups)
    assert set(table["group"]) == set(project.claimed["theory"].groups)
    assert set(tables) >= set(project.claimed["theory"].tables)
    assert "| K=16 |" in "\n".join(sensitivity(table, project.sections["theory"]))
    for name, figure in project.made["theory"].figures.items():
        draw = getattr(figures, figure.function)
        plt.close(draw({table: tables[table] for table in figure.tables}, project.figure_job(name)))


def test_a_study_that_its_claims_miss_is_one_line(small):
    """Without the phase studies nothing says whether the imbalance lasts."""
    project, tables = small
    job = project.table_job("theory_measured")
    theory = project.sections["theory"]
    kept = {name: study for name, study in theory.studies.items() if study.role != "phase"}
    job = job.model_copy(update={"config": job.config | {"theory": as_told(theory.model_copy(update={"studies": kept}))}})
    before = measure(tables, project.table_job("theory_measured"))
    measured_table(before, claims := [claim for claim in CLAIMS if claim in {row.claim for row in before}])
    with pytest.raises(RarefeatError, match="nothing was measured for lasting, equal, onset: is a study left out") as caught:
        measured_table(measure(tables, job), claims)
    assert "\n" not in str(caught.value)


def test_the_predicted_onset_comes_sooner_for_frequent_features_and_never_for_the_rarest():
    study = THEORY.studies["phase"]
    onsets = [figures.onset(study, eps_min, 0.05) for eps_min in (0.01, 0.2, 0.5, 1.0)]
    assert onsets[0] == math.inf
    assert onsets[1] > onsets[2] > onsets[3] > 0


# The config and the page


def test_the_studies_of_the_claims_are_legal_and_the_varied_ones_differ_in_one_number():
    claims = THEORY
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
    (held_out,) = (seeds.pop(name) for name in claims.of_role("held_out"))
    assert all(not held_out & used for used in seeds.values())


def test_the_studies_of_t5_end_no_sooner():
    claims = THEORY
    chosen = list(claims.of_role("T5").values())
    assert len(chosen) > 2
    for study in chosen:
        (cell,) = study.cells()
        T5 = pruning.end_of_pruning(study.data, study.training.eta, cell["eps_min"], cell["sigma"])
        assert T5 <= study.training.T < 1.01 * T5
        assert cell.arms[1].onset == int(study.data.d**1.99 / study.training.eta)


def test_the_page_says_which_verdicts_a_hyper_parameter_changes():
    claims = THEORY
    point, claim = "eps_min 0.3, sigma 0.05", stage_one.OUTSIDE
    true, false = right(claim)
    planted = [("stages", true), ("stages_K=64", false), ("stages_K=256", true)]
    measured = [Measured(claim, f"{name}: {point}", of_seeds(around(value))) for name, value in planted]
    measured.append(Measured(stage_one.FEW, f"stages: {point}", of_seeds(around(right(stage_one.FEW)[1]))))
    measured.append(Measured(stage_one.FEW, f"stages_K=64: {point}", of_seeds(around(right(stage_one.FEW)[0]))))
    text = "\n".join(sensitivity(verdicts_of(measured), claims))
    assert "| K=64 | 2 | 3.1b | C.1d |" in text
    assert "| K=256 | 1 |  |  |" in text
