"""The study of fine labels: stages from file to file, tables, and claims on planted numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from common import DETECTORS, hierarchy, learner, section
from conftest import made_table, make_cells

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import NOT_RUN, measured_table
from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels import (
    COMPARE,
    CROSS,
    DIGITS,
    DIRECT,
    KIND,
    MEASURE,
    SCALAR,
    SWEEP_DIGITS,
    TRAIN,
    claims,
    networks,
    theory,
)
from rarefeat.studies.fine_labels.config import COARSE, Labels, fine
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job_inputs import JobInputs, call

REPOSITORY = Path(__file__).parents[3]
CLAIM_SET = load_claims("fine_labels")
LABELS = ["coarse", "manual", "random-2", "clusters-5", "rebalanced-5", "whole-10", "sample"]
KINDS = [dict(zip(("kind", "ids"), label.split("-"), strict=False)) for label in LABELS]
SMALL = {
    "seeds_per_block": 1,
    "direct": {"seeds": 2},
    "crossing": {"seeds_per_block": 1, "training": {"T": 5, "bias_from": 2}},
    "digits": {
        "seeds_per_block": 1,
        "labels": [{**kind, "ids": int(kind.get("ids", 0))} for kind in KINDS],
        "candidates": [2, 4],
    },
}


def tables_of(section, folder):
    """Return every table of a section; each cell and block is a job of its own."""
    tables = {}
    for stage in (TRAIN, MEASURE, COMPARE, CROSS, SWEEP_DIGITS):
        for name, study in section.studies().items():
            if isinstance(study, stage.study):
                make_cells(folder, stage, name, study)
    for name, table in KIND.build_outputs(section).tables.items():
        job = table.job({})
        inputs = JobInputs(job, folder)
        inputs.update({source: tables[source] for source in table.tables})
        tables[name] = call(load_function(table.function), inputs, job)
    return {name.removeprefix("fine_labels_"): table for name, table in tables.items()}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, tables_of(section(**SMALL), folder)


def test_tables_are_whole(results):
    _, tables = results
    errors = tables["errors"]
    kinds = {"subclass-1", "subclass-2", "subclass-4", "random-4", "misaligned-4", "sample"}
    assert set(errors["labels"]) == kinds
    assert errors[errors["metric"].str.endswith("_error")]["value"].between(0, 1).all()
    assert "hard_error" not in set(errors[errors["labels"] == "misaligned-4"]["metric"])
    tuned = {"tuned_hard_error", "tuning_smallest_change"}
    assert {*tuned, "easy_subclass_error", "error_in_noise"} <= set(errors["metric"])
    heads = tables["heads"]
    # Seeds, penalties and fractions, of coarse and fine labels at two k and of three other labels;
    # patch sums have only penalties.
    assert len(heads) == 2 * 2 * 2 * (2 + 2 + 3) + 2 * 2
    assert heads[heads["features"] == "patch sums"]["labels"].unique().tolist() == ["subclass-1"]
    assert (tables["simulators"].query("metric == 'on_noise'")["value"] == 0).all()
    arms = {"dense", "dense-bias=1", "pruned_neuron-alpha=0.1", "oracle_gated-bias=1"}
    assert set(tables["crossing"]["arm"]) == arms
    # Of three arms on views, and of two and one on pairs of a subclass and of a superclass.
    assert len(tables["crossing_heads"]) == 2 * 2 * 2 * 2 * (3 + 2 + 1)
    # Seeds, checkpoints and readouts of seven kinds of labels, the baseline with one readout more.
    assert len(tables["digits_errors"]) == 2 * 2 * (2 * 7 + 1)
    assert (tables["digits_summary"]["n"] == 2).all()
    hard = tables["summary"].query("metric == 'hard_error' and labels == 'subclass-1' and k == 2")
    assert hard["s_dag"].tolist() == [1.0, 3.0]
    assert (hard["n"] == 2).all()


def test_tables_are_independent_of_seed_blocks(results, tmp_path):
    _, apart = results
    together = tables_of(section(**SMALL | {"seeds_per_block": 2}), tmp_path)
    for name, table in apart.items():
        pd.testing.assert_frame_equal(
            table, together[name], check_exact=False, rtol=1e-9, atol=1e-12
        )


def test_stage_rejects_files_of_another_config(results):
    folder, _ = results
    other = section(**SMALL, learner={"eta": 0.2}).studies()[SCALAR]
    job = MEASURE.job(SCALAR, other, other.cells()[0], "3000-3000")
    with pytest.raises(RarefeatError, match=r"another config\.learner"):
        JobInputs(job, folder).file("detectors").tensors("detectors")
    tables = KIND.build_outputs(section(**SMALL, tests=160)).tables
    with pytest.raises(RarefeatError, match=r"another config\.tests"):
        made_table(folder, tables["fine_labels_errors"])


def test_training_has_no_hard_samples():
    """A change of the distractors trains nothing again."""
    for changes in ({"s_dag": [2]}, {"hierarchy": {"alpha_dag": [0.2, 0.4]}}, {"tests": 160}):
        one, two = section().studies()[SCALAR], section(**changes).studies()[SCALAR]
        cells = one.cells()
        for stage, chosen, same in ((TRAIN, cells, True), (MEASURE, cells[:1], False)):
            for cell in chosen:
                jobs = [stage.job(SCALAR, study, cell, "3000-3001") for study in (one, two)]
                assert (jobs[0] == jobs[1]) == same


def test_fine_labels_learn_subclasses():
    """The theorems at k = 4, where distractors outweigh the subclasses of coarse labels."""
    data, own = hierarchy(k=4, P=24, s_star=6, s_dag=10), learner()
    found = {}
    for labels in (COARSE, fine(4), Labels(kind="random", ids=4)):
        replicas = networks.train(data, own, DETECTORS, labels, [0, 1])
        errors = networks.errors(replicas, data, own.kappa_b, 400, [10.0])
        found[labels.label] = {name: values.mean() for (name, _), values in errors.items()}
    assert all(errors["easy_error"] < 0.01 for errors in found.values())
    assert found["subclass-4"]["hard_error"] < 0.05
    assert found["subclass-1"]["hard_error"] > 0.3
    assert found["random-4"]["hard_error"] > 0.3


def test_growth_compares_late_with_early_steps():
    replicas = networks.train(hierarchy(), learner(), DETECTORS, COARSE, [0])
    t = replicas.history.steps.double()[:, None, None, None]
    linear = replicas.history._replace(displacement=t.expand_as(replicas.history.displacement))
    found = networks.growth(replicas._replace(history=linear))
    assert found["late_over_early_growth"].item() == pytest.approx((39 - 10) / (10 - 2))
    assert found["first_ratio"] == found["largest_ratio"] == 1


def measure_claims(tables):
    """Measure the claims on tables whose names lack the prefix."""
    tables = {f"fine_labels_{name}": table for name, table in tables.items()}
    return list(claims.measure(tables, section(**SMALL)))


def test_every_claim_is_measured_or_explained(results):
    _, tables = results
    rows = measure_claims(tables)
    assert {row.claim for row in rows} == set(CLAIM_SET.claims)
    table = measured_table(rows, CLAIM_SET)
    assert set(table["group"]) == {claim.group for claim in CLAIM_SET.claims.values()}
    # Every claim has one primary row, which is that of its regime, or says that it was not run.
    assert table.groupby("claim_id")["primary"].sum().eq(1).all()
    without = {**tables, "heads": tables["heads"].query("labels != 'sample'")}
    left = measured_table(measure_claims(without), CLAIM_SET).query("claim_id == '7-sample'")
    assert left["remark"].tolist() == [NOT_RUN]


def test_quantities_of_claims_on_planted_tables(results):
    """On tables where every quantity is known."""
    _, tables = results
    data = section().hierarchy
    known = {
        "first_ratio": lambda k, coarse: 1 / k if coarse else 2 - 1 / k,
        "ratio": lambda k, coarse: 0.7 / k,
        "largest_ratio": lambda k, coarse: 1.5 / k,
        "late_over_early_growth": lambda k, coarse: 1.0,
        "bias_over_common": lambda k, coarse: 0.1 if coarse else 0.2,
        "bias_over_subclass": lambda k, coarse: 0.1,
        "hard_error": lambda k, coarse: 0.4 if coarse else 0.05,
        "predicted_hard_error": lambda k, coarse: 0.3,
        "tuning_smallest_change": lambda k, coarse: 0.25,
        "error_in_noise": lambda k, coarse: 0.02,
    }
    errors = tables["errors"].copy()
    coarse = errors["labels"] == "subclass-1"
    for metric, value in known.items():
        here = errors["metric"] == metric
        values = [value(*row) for row in zip(errors["k"][here], coarse[here], strict=True)]
        errors.loc[here, "value"] = values
    # As R orders it.
    hard, R = ((errors["metric"] == name) & coarse for name in ("hard_error", "R"))
    rank = errors[R].set_index(["k", "s_dag", "seed"])["value"]
    at = pd.MultiIndex.from_frame(errors.loc[hard, ["k", "s_dag", "seed"]])
    errors.loc[hard, "value"] = (rank.loc[at] / 100).to_numpy()
    heads = tables["heads"].copy()
    sums = heads["features"] == "patch sums"
    planted = heads["labels"].map({"subclass-4": 0.1, "sample": 0.3}).fillna(0.2)
    heads["hard"] = planted.where(~sums)
    heads.loc[sums, "easy"] = heads["penalty"].map({0.0: 0.5, 0.1: 0.4})
    swept = tables["digits_errors"].copy()
    planted = {"coarse": 0.2, "manual": 0.1, "clusters-5": 0.15, "whole-10": 0.25}
    swept["error"] = swept["labels"].map(planted).fillna(0.3)
    swept.loc[swept["epoch"] < 4, "error"] += 0.1
    swept.loc[swept["readout"] != "finetuned", "error"] = 1.0
    swept.loc[swept["labels"] == "clusters-5", "classes"] = 10
    rows = measure_claims({**tables, "errors": errors, "heads": heads, "digits_errors": swept})
    found = {(row.claim, CLAIM_SET.format_regime(row.regime)): row.estimate for row in rows}
    floor = theory.fine_floor(data.P, data.s_star)
    expected = {
        ("4-first-coarse", "k=2"): 0.0,
        ("4-first-fine", "k=4"): 0.0,
        ("4-order-coarse", "k=2..4"): -1.0,
        ("4-bound-coarse", "k=4"): np.log(1.5),
        ("4-log-growth", "k=2"): 0.0,
        ("4-bias-coarse-common", "k=2"): 0.0,
        ("4-bias-fine-common", "k=2"): np.log(2),
        ("5-hard-fine", "k=2"): 0.05 - floor,
        ("5-R-coarse", "k x s_dag"): 1.0,
        ("5-R-fine", "k x s_dag"): 0.05 - floor,
        ("G4-fine-tuning", "k=4"): 0.25,
        ("7-sample", "k=4"): 0.2,
        ("7-random", "k=4"): 0.1,
        ("B2-linear", "noise"): 0.4 - 0.02,
    }
    of_digits = {
        ("6-manual", "manual"): -0.5,
        ("6-sample", "sample"): 0.5,
        ("6-random", "random-2"): 0.5,
        ("6-clusters", "clusters-5"): -0.25,
        ("6-manual-clusters", "manual, clusters-5"): -0.25,
        ("6-whole", "whole-10, clusters-5"): 0.5,
        ("6-rebalanced", "rebalanced-5"): 0.75,
        ("6-late", "manual, epoch 2"): 0.5,
    }
    values = {(claim, f"{SCALAR}: {point}"): x for (claim, point), x in expected.items()}
    values |= {(claim, f"{DIGITS}: parity, {point}"): x for (claim, point), x in of_digits.items()}
    for key, value in values.items():
        assert found[key].value == pytest.approx(value), key
    assert found["F1-noise", f"{DIRECT}: k=2, fine"].value == 0
    assert ("6-late", f"{DIGITS}: parity, manual, epoch 4") not in found
