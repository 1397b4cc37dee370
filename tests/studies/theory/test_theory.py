"""Tests of the theory: one step, pruned neurons, roles of studies, from training to verdicts."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import tiny_data, tiny_training, train_study, verdicts_of, write_encoders

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import measured_table
from rarefeat.claims.verdict import NOT_TESTABLE, SUPPORTED, sensitivity_rows, verdicts
from rarefeat.model.simulators import make_simulator
from rarefeat.stages.tables import METRICS
from rarefeat.studies.theory import ONE_STEP, claims, figures, of_encoders
from rarefeat.studies.theory.encoders import half_and_double, one_step, read_one_step
from rarefeat.studies.theory.pruning_claims import end_of_pruning
from rarefeat.studies.theory.table_reader import ClaimTableReader
from rarefeat.workflow.config.study import Grid, merge_configs
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.project import load, parse
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job_inputs import JobInputs

PROJECT = load("config/config.yaml")
THEORY = PROJECT.sections["theory"]


def encoders_of(name, study, results):
    """Return the inputs of a function that reads the encoders of one study."""
    (table,) = of_encoders("", "one_step", {name: study}).values()
    return JobInputs(table.job({}), results)


# One step


@pytest.mark.parametrize("simulator", ["direct", "reduced"])
def test_one_step_of_the_dictionary_follows_theorem_3_2(simulator):
    """Plant one strong neuron a feature and mask that of the minority.

    The mask speeds up the masked neuron, lowers its samples' logit, and leaves the rest alone.
    """
    data, training = (
        tiny_data(d=4, d1=40, L=1, C=2.0, minority=[1.0]),
        tiny_training(m=4, K=32, eta=0.1, tau=1.0),
    )
    space = make_simulator(simulator, "planted", 4, 40, 4, [1])
    weights = space.dictionary.mT.contiguous()
    values = one_step(
        simulator, "planted", data, training, 0.5, 0.02, 1, weights, torch.full((1, 4), 0.2), 60
    )
    assert set(values) | {"fires_with_its_features", "fires_at_most"} == set(ONE_STEP)
    assert values["pruned_neurons"] == 1
    assert values["growth_minority_gain"] > 0.0005
    assert abs(values["growth_majority_gain"]) < 0.2 * values["growth_minority_gain"]
    assert values["logit_with_minority"] < -0.02
    assert abs(values["logit_leak"]) < 0.2
    assert values["similarity_positive"] > 0
    assert abs(values["similarity_negative"]) < 0.1


def test_silenced_neurons_have_no_gain_and_no_ratio():
    data, training = tiny_data(d=4, d1=40, L=1, C=2.0), tiny_training(m=4, K=8)
    space = make_simulator("direct", "planted", 4, 40, 4, [1])
    weights = space.dictionary.mT.contiguous()
    values = one_step(
        "direct", "planted", data, training, 0.5, 0.02, 1, weights, torch.full((1, 4), 100.0), 2
    )
    assert values["growth_minority_gain"] == 0.0
    assert math.isnan(values["gain_ratio"])
    assert math.isnan(values["negative_share"])


def test_read_one_step_without_a_minority_neuron(tmp_path):
    """Check that only the firing metrics are measured where there is nothing to prune."""
    grid = {"one": Grid(eps_min=[0.5], sigma=[0.05], arms=["dense"])}
    study = THEORY.studies["stages"].model_copy(update={"seeds": 2, "grid": grid})
    ((cell,), (block,)) = study.cells(), study.blocks()
    # The dictionary's first features and nothing of the last, under the coordinates of the reduced
    # simulator.
    weights = make_simulator("reduced", "", 9, 500, 30, [100, 101]).dictionary.mT[
        :, torch.arange(30) % 8
    ]
    tensors = {"dense/weights": weights, "dense/bias": torch.zeros(2, 30)}
    write_encoders(tmp_path, "stages", study, cell, block, tensors)
    table = read_one_step(encoders_of("stages", study, tmp_path), study, batches=2)
    assert set(table["metric"]) == {"fires_with_its_features", "fires_at_most"}
    assert len(table) == 4


# Onsets


@pytest.mark.parametrize(("end", "verdict"), [(0.95, ("equal",)), (0.2, ("lasting",))])
def test_imbalance_claims_separate_transient_from_lasting(end, verdict):
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
                keys = {"eps_min": 0.5, "sigma": 0.05, "seed": seed, "step": step}
                rows.append(keys | {"metric": metric, "value": value + noise})
    table = verdicts_of(
        "theory",
        claims.phase(ClaimTableReader({"phase_trajectories": pd.DataFrame(rows)}, THEORY)),
    )
    table = table.set_index("claim_id")["verdict"]
    assert tuple(name for name in ("lasting", "equal") if table[name] == SUPPORTED) == verdict
    assert table["onset"] == (SUPPORTED if end > 0.5 else NOT_TESTABLE)


# From training to the verdicts


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Train small studies of every role but two; return the project and their tables."""
    wanted = (
        "stages",
        "pruning",
        "T5_ratio=0.5",
        *PROJECT.sections["theory"].studies_with_role("phase"),
    )
    studies = {name: None for name in THEORY.studies if name not in wanted}
    for name in wanted:
        studies[name] = {"seeds": 5, "seeds_per_block": 5, "training": {"T": 60}}
    studies["T5_ratio=0.5"]["arms"] = [
        {"arm": name} | ({"onset": 30} if name != "dense" else {})
        for name in ("dense", "oracle_all", "oracle_gated", "oracle_partial")
    ]
    theory = {
        "studies": studies,
        "sensitivity": {"keys": ["training.K"], "factors": [0.5], "seeds": 5},
    }
    sizes = {
        "data": {"d1": 40, "N": 128, "test_pairs": 32},
        "training": {"K": 32, "T": 60, "m": 20, "eta": 0.4, "sigma_0": 0.02},
        "size": "quick",
    }
    raw = yaml.safe_load(Path("config/config.yaml").read_text())
    project = parse(merge_configs(raw, sizes | {"theory": theory}))
    results = tmp_path_factory.mktemp("results")
    courses = {
        name: train_study(results, name, study)
        for name, study in project.sections["theory"].every_study().items()
    }
    tables = {
        "confirmation_grid": confirmation_grid(),
        "scaling_exponents": pd.DataFrame(columns=["quantity", "log_power"]),
    }
    for name, table in project.outputs["theory"].tables.items():
        function = load_function(table.function)
        if name == "half_and_double":
            milestones = {source: tables[source] for source in table.tables}
            tables[name] = function(milestones, project.sections["theory"])
        elif name.endswith("_trajectories"):
            tables[name] = pd.DataFrame(courses[table.study])
        else:
            few = {"batches": 2} if function is read_one_step else {}
            inputs = JobInputs(project.table_job(name), results)
            rows = function(inputs, table.sections[table.study], **few)
            tables[name] = validate(load_function(table.schema), rows)
    return project, tables


def confirmation_grid():
    """Return a grid table with one block, random but for its keys."""
    rng = np.random.default_rng(9)
    return pd.DataFrame(
        [
            {"eps_min": eps_min, "sigma": sigma, "arm": arm, "seed": seed}
            | {name: rng.uniform() for name in METRICS}
            for eps_min in (0.1, 0.5, 1.0)
            for sigma in (0.05, 0.1)
            for arm in ("dense", "ideal")
            for seed in range(6)
        ]
    )


def test_every_claim_is_measured_and_its_figure_drawn(small):
    project, tables = small
    measured = claims.measure(tables, project.sections["theory"])
    before = measured_table(measured, load_claims("theory"))
    table = verdicts(before)
    assert set(table["group"]) == {claim.group for claim in load_claims("theory").claims.values()}
    assert set(table[table["primary"]]["claim_id"]) == set(load_claims("theory").claims)
    assert set(tables) >= set(project.claim_inputs["theory"].tables)
    assert "K = 16" in set(sensitivity_rows(before)["varied"])
    # The ideal encoder is no replica of the trained one.
    assert set(table.loc[table["claim_id"] == "11", "n"]) == {6}
    figures.half_and_double({"half_and_double": tables["half_and_double"]})


# The config and the page


def test_varied_studies_differ_in_one_number():
    base, every = THEORY.studies[THEORY.sensitivity.study], THEORY.every_study()
    varied = {name: study for name, study in every.items() if name not in THEORY.studies}
    assert len(varied) == len(THEORY.sensitivity.keys) * len(THEORY.sensitivity.factors)
    for study in varied.values():
        parts = [(base.data, study.data), (base.training, study.training)]
        parts += [(base.grid["ratios"], study.grid["ratios"])]
        changed = [
            key
            for before, after in parts
            for key, value in before.model_dump().items()
            if value != after.model_dump()[key]
        ]
        assert len(set(changed) - {"eps_min"}) == 1
        assert study.draws == base.draws


def test_half_and_double_counts_seeds_that_change():
    theory = THEORY.model_copy(
        update={
            "sensitivity": THEORY.sensitivity.model_copy(
                update={"keys": ["training.K"], "factors": [2.0], "eps_min": [0.5]}
            )
        }
    )

    def milestones(learned):
        return pd.DataFrame(
            {"eps_min": 0.5, "arm": "dense", "seed": range(len(learned)), "metric": "learned"}
        ).assign(value=learned)

    tables = {"base": milestones([0.0, 0, 0, 0, 0, 0, 1, 1]), "K": milestones([1.0] * 7)}
    table = half_and_double(tables, theory).set_index("setting")
    assert table.loc["K", ["factor", "value", "more", "fewer", "n"]].tolist() == [2, "256", 6, 0, 7]
    assert table.loc["K", "p_value"] == pytest.approx(2 / 2**6)
    assert table.loc["", ["learned_share", "p_value"]].tolist() == [0.25, 1]


def test_T5_studies_train_until_T5():
    chosen = list(THEORY.studies_with_role("T5").values())
    assert len(chosen) > 2
    for study in chosen:
        (cell,) = study.cells()
        T5 = end_of_pruning(study.data, study.training, cell["eps_min"], cell["sigma"])
        assert T5 <= study.training.T < 1.01 * T5
        assert {arm.onset for arm in cell.arms[1:]} == {
            int(study.data.d**1.99 / study.training.eta)
        }
