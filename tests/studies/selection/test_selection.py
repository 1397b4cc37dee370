"""The study of selection: config, stages on a small grid, claims, published tables."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import of_size, verdicts_of
from pydantic import ValidationError

import tables_selection
from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import (
    CHECK_PASSED,
    CONTRADICTED,
    NO_PREMISE,
    SUPPORTED,
)
from rarefeat.images.nt_xent import nt_xent
from rarefeat.stages import critical_frequency
from rarefeat.studies.selection import MEASURE, changes, claims, digits
from rarefeat.studies.selection.config import SCORES, Intervention, InterventionSweep
from rarefeat.studies.selection.critical_frequency import COORDINATES, ridge
from rarefeat.studies.selection.measure import measure_selection
from rarefeat.workflow.project import load

FULL = of_size("full")
QUICK = load("config/config.yaml", "config/quick.yaml")
SECTION = FULL.sections["selection"]
CLAIM_SET = load_claims("selection")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"stop": True}, "stop is for arms with a mask"),
        ({"mask": "oracle_all", "alpha": 0.2}, "not for oracle_all"),
        ({"mask": "oracle_all", "source": "batch"}, "mask by score"),
        ({"reopened": True, "revived": True}, "give one of them"),
    ],
)
def test_contradictory_arm_is_rejected(keys, message):
    with pytest.raises(ValidationError, match=message):
        Intervention(**keys)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arms": [{"mask": "norm"}]}, "the dense training"),
        ({"arms": [{}, {"mask": "norm", "alpha": 0.01}]}, "prunes nothing"),
        ({"arms": [{}, {"mask": "norm", "onset": 500}]}, "no step has a mask"),
        ({"scored": [501]}, "must not exceed T"),
        ({"arms": [{}, {}]}, "distinct"),
    ],
)
def test_impossible_sweep_is_rejected(changes, message):
    raw = SECTION.sweeps["scores_9"].model_dump(by_alias=True) | changes
    with pytest.raises(ValidationError, match=message):
        InterventionSweep.model_validate(raw)


def measure_last(name: str, seeds: list[int], **changes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Measure the last cell of a sweep of the quick size with some changes."""
    raw = QUICK.sections["selection"].sweeps[name].model_dump(by_alias=True)
    sweep = InterventionSweep.model_validate(raw | changes)
    cell = sweep.cells()[-1]
    return measure_selection(cell.values, seeds, name, **MEASURE.config_of(sweep, cell))


def test_measure_is_independent_of_the_seed_block():
    data = QUICK.sections["selection"].sweeps["help"].data.model_dump()
    small = {
        "arms": [{}, {"mask": "effective_rate", "onset": 20}],
        "data": data | {"N": 128, "probe_pairs": 40, "test_pairs": 64},
    }
    numbers, scores = measure_last("help", [7000, 7001], **small)
    assert set(numbers["arm"]) == {"dense", "effective_rate-onset=20"}
    assert not len(scores)
    assert {"balanced_mse", "learned", "T1", "largest_norm"} <= set(numbers["quantity"])
    alone, _ = measure_last("help", [7001], **small)
    of_seed = numbers[numbers["seed"] == 7001].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_seed, alone, check_exact=True)


def test_scores_are_evaluated_at_scored_steps():
    numbers, scores = measure_last("scores_new", [7000], scored=[30, 60])
    assert sorted(scores["step"].unique()) == [30, 60]
    n_pure = numbers[numbers["quantity"] == "pure_minority_neurons"]["value"].iloc[0]
    assert (scores[scores["step"] == 60]["wanted"] == n_pure).all()
    assert scores["auc"].isna().all() == (scores["wanted"] == 0).all()


# Labels of arms, as the claims name them.
BY_RATE, STOPPED, CONTRAST, ORACLE = (
    CLAIM_SET.claims[name].primary.axes["arm"]
    for name in ("I-rate", "I-stop", "I-contrast", "H-oracle")
)
BY_RANDOM = BY_RATE.replace("effective_rate", "random")


def planted_regimes(error: float = 0.0, along_share: float = 0.0) -> pd.DataFrame:
    """Return sixty regimes of the test and twenty of the fit.

    The prediction is off by `error`, and by a multiple of the bias scale.
    """
    random = np.random.default_rng(1)
    rows = pd.DataFrame({name: random.uniform(1.0, 2.0, 80) for name in COORDINATES})
    step = random.uniform(0.2, 0.9, 80)
    predicted = step + error + along_share * (rows["share"] - 1.5) + 0.02 * random.normal(size=80)
    study = np.repeat(["law_test", "law_fit"], [60, 20])
    return rows.assign(study=study, step=step, predicted=predicted, place="among", diverged=0)


def planted_outcomes(steepness: float = 1.0, within: bool = True) -> pd.DataFrame:
    """Return replicas of sixty regimes, of which twenty are also those of the fit.

    They learn with the probability of the model at a margin `steepness` times as large; unless
    `within`, their margin is not related to their outcome at a given eps_min.
    """
    random = np.random.default_rng(3)
    eps_min = np.tile(np.repeat(np.arange(10), 16), 60)
    of_replica = random.normal(size=len(eps_min))
    margin = (eps_min - 4.5) * 0.8 + 2 * of_replica * within
    learned = random.uniform(size=len(eps_min)) < 1 / (1 + np.exp(-steepness * margin))
    columns = {
        "point": np.repeat(np.arange(60), 160),
        "eps_min": eps_min,
        "study": "law_test",
        "margin": margin if within else margin + 2 * of_replica,
        "learned": learned.astype(float),
        "probability": 1 / (1 + np.exp(-margin)),
    }
    rows = pd.DataFrame(columns)
    return pd.concat([rows, rows[rows["point"] < 20].assign(study="law_fit")])


def verdict_of(rows, claim) -> str:
    table = verdicts_of("selection", [row for row in rows if row.claim == claim])
    return table.loc[table["primary"], "verdict"].item()


@pytest.mark.parametrize(
    ("claim", "law", "fate", "expected"),
    [
        *(
            (claim, {}, {}, SUPPORTED)
            for claim in ("L-error", "L-ridge", "L-residual", "L-auc-within", "L-slope", "L-loss")
        ),
        ("L-error", {"error": 0.3}, {}, CONTRADICTED),
        ("L-ridge", {"error": 0.5}, {}, CONTRADICTED),
        ("L-residual", {"along_share": 0.3}, {}, CONTRADICTED),
        ("L-auc-within", {}, {"within": False}, CONTRADICTED),
        ("L-slope", {}, {"steepness": 0.5}, CONTRADICTED),
        ("L-loss", {}, {"steepness": 0.3}, CONTRADICTED),
    ],
)
def test_claims_on_the_model_can_fail(claim, law, fate, expected):
    rows = claims.model_measurements(planted_regimes(**law), planted_outcomes(**fate))
    assert verdict_of(rows, claim) == expected


def test_ridge_recovers_a_linear_dependence():
    random = np.random.default_rng(4)
    rows = pd.DataFrame(random.uniform(1, 2, (400, 9)), columns=COORDINATES)
    rows = rows.assign(step=0.5 + 0.2 * (rows["share"] - 1.5))
    off = ridge(rows.head(300), rows.tail(100)) - rows["step"].tail(100)
    assert np.abs(off).max() < 0.005


def planted_scores(auc: dict[str, float]) -> pd.DataFrame:
    """Return scores with some AUCs, a half by default and without a bias."""
    random, rows = np.random.default_rng(2), []
    for share, eps_min in ((0.0, 0.7), (0.2, 0.7), (0.2, 1.0)):
        keys = {"point": f"share={share:g}", "eps_min": eps_min, "step": 600, "wanted": 3}
        for source in ("batch", "running"):
            for score in SCORES:
                value = auc.get(score, 0.5) if share and eps_min < 1 else 0.5
                values = value + 1e-3 * random.normal(size=12)
                scored = keys | {"score": score, "source": source}
                rows += [scored | {"seed": seed, "auc": own} for seed, own in enumerate(values)]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("auc", "expected"),
    [
        ({"effective_rate": 0.99, "norm": 0.2, "firing_rate": 0.8}, SUPPORTED),
        ({"effective_rate": 0.6, "norm": 0.9, "firing_rate": 0.8}, CONTRADICTED),
    ],
)  # fmt: skip
def test_claims_on_scores_follow_their_aucs(auc, expected):
    rows = list(claims.score_measurements("scores_new", planted_scores(auc)))
    for claim in ("S-rate", "S-batch", "S-norm", "S-rate-firing"):
        assert verdict_of(rows, claim) == expected, claim
    assert verdict_of(rows, "S-no-bias") == SUPPORTED
    assert verdict_of(rows, "S-random") == CHECK_PASSED


def number_rows(
    point: str, eps_min: float, seed: int, arm: str, values: dict[str, float]
) -> list[dict]:
    """Return rows of a table `STUDY_selection`."""
    keys = {"point": point, "eps_min": eps_min, "seed": seed, "arm": arm}
    return [keys | {"quantity": name, "value": float(value)} for name, value in values.items()]


def planted_masks(gain: float) -> pd.DataFrame:
    """Return replicas under masks with a gain; the oracle has one only if the others have none."""
    random, rows = np.random.default_rng(3), []
    effects = {"dense": 0, BY_RATE: gain, BY_RANDOM: 0, STOPPED: gain, ORACLE: gain < 0}
    for point, eps_min in (("share=0.2", 0.7), ("share=0.7", 0.5)):
        for arm, effect in (effects | {CONTRAST: gain}).items():
            means = {
                "max_alignment": 0.5 + effect,
                "majority_alignment": 0.9,
                "pure_minority_neurons": 2 + (-effect if arm == CONTRAST else effect),
                "largest_norm": 1.0 if gain > 0 or arm == "dense" else 4.0,
                "balanced_mse": 1 - effect,
            }
            for seed in range(12):
                values = {name: mean + 1e-3 * random.normal() for name, mean in means.items()}
                rows += number_rows(point, eps_min, seed, arm, values | {"diverged": 0.0})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("gain", "expected"), [(0.3, SUPPORTED), (-0.3, CONTRADICTED)])
def test_claims_on_masks_follow_the_gains(gain, expected):
    rows = list(claims.mask_measurements("interventions", planted_masks(gain)))
    for claim in set(claims.MASK_CLAIMS) - {"I-nearest", "I-locked"}:
        assert verdict_of(rows, claim) == expected, claim
    passed = "check passed" if expected == SUPPORTED else "check failed"
    assert verdict_of(rows, "I-locked") == passed


@pytest.mark.parametrize(("gain", "expected"), [(0.0, SUPPORTED), (0.3, CONTRADICTED)])
def test_claim_on_nearest_mask_follows_the_cosine(gain, expected):
    random, axes = np.random.default_rng(5), CLAIM_SET.claims["I-nearest"].primary.axes
    values, rows = {"majority_alignment": 0.9, "largest_norm": 1.0, "diverged": 0.0}, []
    for arm, effect in (("dense", 0.0), (axes["arm"], gain)):
        for seed in range(30):
            cosine = {"max_alignment": 0.3 + effect + 0.05 * random.random()}
            rows += number_rows("share=0.2", axes["eps_min"], seed, arm, values | cosine)
    measured = list(claims.mask_measurements("acting", pd.DataFrame(rows)))
    assert verdict_of(measured, "I-nearest") == expected


def planted_help(shift: float, silent: float = 0.2) -> pd.DataFrame:
    """Return replicas whose critical frequency, and cost, the interventions shift."""
    eps, random, rows = np.linspace(0.1, 1, 10), np.random.default_rng(4), []
    critical = random.normal(0.6, 0.04, 12)
    for arm in ["dense", *claims.HELP_CLAIMS, ORACLE]:
        shifted = critical + shift * (arm != "dense") * (arm != ORACLE or shift > 0)
        cost = max(shift, 0) * (arm != "dense")
        for eps_min in eps:
            for seed in range(12):
                values = {
                    "learned": eps_min > shifted[seed],
                    "majority_alignment": 0.9 - cost,
                    "diverged": 0.0,
                    "silent_share": silent,
                }
                rows += number_rows("share=0.7", eps_min, seed, arm, values)
    return pd.DataFrame(rows)


def test_opened_gates_are_tested_where_gates_are_silent():
    rows = list(claims.help_measurements("help", planted_help(-0.2, silent=0.0)))
    for claim in ("H-reopened", "H-revived", "H-cost"):
        assert verdict_of(rows, claim) == NO_PREMISE, claim
    assert verdict_of(rows, "H-later") == SUPPORTED


@pytest.mark.parametrize(("shift", "expected"), [(-0.2, SUPPORTED), (0.2, CONTRADICTED)])
def test_claims_on_help_follow_critical_frequencies(shift, expected):
    rows = list(claims.help_measurements("help", planted_help(shift)))
    for claim in (*claims.HELP_CLAIMS.values(), "H-oracle", "H-cost"):
        assert verdict_of(rows, claim) == expected, claim
    # Only the mask of the oracle changes nothing, where that is planted.
    assert [row.claim for row in rows if row.remark == claims.SAME] == ["H-oracle"] * (shift < 0)


@pytest.mark.parametrize(("gain", "expected"), [(0.1, SUPPORTED), (-0.1, CONTRADICTED)])
def test_claims_on_digits_follow_the_accuracies(gain, expected):
    random = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "rho": 20.0,
            "seed": seed,
            "rule": rule,
            "group": "tail",
            "accuracy": 0.5 + gain * (rule != "random") + 1e-3 * random.normal(),
        }
        for seed in range(12)
        for rule in ("dense", "random", "norm", "effective_rate")
    )
    rows = list(claims.digit_measurements(table))
    for claim in ("D-rate", "D-norm"):
        assert verdict_of(rows, claim) == expected, claim
    points = [float(re.search(r"random by ([+-][\d.]+)$", row.remark)[1]) for row in rows]
    assert points == pytest.approx([-100 * gain] * len(rows), abs=0.2)


def test_masked_objective_has_the_gradient_of_nt_xent():
    random = torch.Generator().manual_seed(1)
    f = torch.rand(2, 8, 5, generator=random).requires_grad_()
    mask = torch.rand(2, 5, generator=random) < 0.4
    digits.masked_objective(f, mask, 0.5).sum().backward()
    same = torch.eye(8, dtype=torch.bool)
    for s in range(2):
        own = f[s].detach().requires_grad_()
        z = torch.nn.functional.normalize(own, dim=-1)
        hidden = torch.nn.functional.normalize(own.detach().masked_fill(mask[s], 0.0), dim=-1)
        weights = (hidden @ hidden.T / 0.5).masked_fill(same, -torch.inf).softmax(-1)
        nt_xent(z @ z.T / 0.5, weights).backward()
        torch.testing.assert_close(f.grad[s], own.grad)


def test_digits_replica_is_independent_of_others():
    small = {"rules": ["random", "effective_rate"], "hidden": 40, "m": 30, "train": 400}
    training = QUICK.sections["selection"].digits.training.model_copy(update=small)
    both, alone = (
        digits.digits_of_selection({"rho": 5.0}, seeds, "digits", "selection tests", training)
        for seeds in ([1, 2], [2])
    )
    assert [row for row in both if row["seed"] == 2] == alone
    assert {row["rule"] for row in alone} == {"dense", *training.rules}


def test_random_mask_of_digits_is_drawn_at_every_step():
    """Neurons that are masked at every step grow at every step, until they hold all of f."""
    training = SECTION.digits.training.model_copy(update={"steps": 150, "hidden": 40})
    of = digits.split_digits("selection tests", training, 5.0, 3)
    share = {}
    for rule in ("random", "largest"):
        parameters, mask = digits.train("selection tests", training, rule, [of], [3])
        energy = digits.embed_images(parameters, of.train[None])[0].square().sum(0)
        share[rule] = (energy[mask[0]].sum() / energy.sum()).item()
    assert share["random"] < 0.4
    assert share["largest"] > 0.9


def test_split_digits_has_its_ratio():
    training = SECTION.digits.training
    of = digits.split_digits("selection tests", training, 20.0, 3)
    assert of.rare.sum() == training.tail
    rare = of.rare[of.train_labels].sum().item()
    assert abs(len(of.long_tailed) - (training.train - rare + rare / 20)) <= 3


def planted_errors(error: float, beyond: int) -> pd.DataFrame:
    """Return thirty regimes of an error, some without a critical frequency among the eps_min."""
    rng = np.random.default_rng(3)
    steps = rng.uniform(0.3, 0.8, 30)
    columns = {name: rng.permutation(30) + 1.0 for name in tables_selection.PARAMETERS}
    columns |= {"study": "law_test", "place": ["above"] * beyond + ["among"] * (30 - beyond)}
    columns |= {"step": steps, "predicted": steps + error}
    return pd.DataFrame(columns | {"auc": 0.97, "probability": 0.5, "learned": 0.4})


def test_law_errors_by_parameter():
    found = tables_selection.law_errors(planted_errors(-0.1, 2)).set_index(["parameter", "third"])
    everywhere = found.loc[("all", "")]
    assert (everywhere["regimes"], everywhere["no_step"]) == (30, 2)
    values = everywhere[["error", "bias", "auc", "calibration"]].to_list()
    assert values == pytest.approx([0.1, -0.1, 0.97, 0.1])
    assert found.loc["share"]["regimes"].to_list() == [10, 10, 10]
    assert set(found.index.get_level_values("parameter")) == {"all", *tables_selection.PARAMETERS}


def test_law_beside_baselines_of_few_and_many_regimes():
    """A regression finds a linear dependence, and the better the more regimes it is fitted on."""
    table = planted_errors(-0.1, 2)
    table["step"] = 0.3 + 0.01 * table["d"]
    table["predicted"] = table["step"] - 0.1
    fit = table.sample(8, random_state=0).assign(study="law_fit")
    rows = tables_selection.law_baselines(pd.concat([fit, table])).groupby("baseline")
    for name, (few, all_others) in ((name, group.to_dict("records")) for name, group in rows):
        assert (few["regimes"], all_others["regimes"], all_others["n"]) == (8, 29, 30)
        if name != "constant":
            assert 0 < few["mean"] < all_others["mean"] <= 0.1
            assert all_others["mean"] > 0.09


def test_law_constants():
    columns = {"study": ["law_fit", "law_fit", "law_test"], "centre": np.log(0.5), "n": [8, 8, 16]}
    table = pd.DataFrame(columns | {"steepness": 7.0})
    assert tables_selection.law_constants(table).to_dict("records") == [
        {"kappa": pytest.approx(0.5), "gamma": 7.0, "regimes": 2, "replicas": 16}
    ]


def test_scores_over_regimes_with_neurons_to_find():
    rows = []
    for point, auc, found in (
        ("lambda=0.02, share=0.2", 0.9, 8),
        ("lambda=0.1, share=0.2", 0.7, 5),
        ("lambda=0.1, share=0.7", 0.6, 4),
    ):
        for eps, step, source, off in (
            (0.5, 500, "running", 0.0),
            (1.0, 500, "running", 9),
            (0.5, 50, "running", 9),
            (0.5, 500, "batch", 9),
        ):
            keys = {"point": point, "eps_min": eps, "step": step, "source": source, "score": "norm"}
            rows += [
                keys | {"seed": seed, "auc": auc + off if seed < found else np.nan}
                for seed in range(8)
            ]
    table = pd.DataFrame(rows)
    said = tables_selection.scores_over_regimes(table, table.assign(auc=table["auc"] - 0.4))
    assert said[["score", "share", "regimes"]].to_numpy().tolist() == [["norm", 0.2, 4]]
    assert said[["median", "min", "max"]].to_numpy() == pytest.approx(np.array([[0.6, 0.3, 0.9]]))


def test_changes_are_paired_by_seed():
    rng, rows = np.random.default_rng(4), []
    first, half = "norm-onset=92", "norm-alpha=0.5-onset=92"
    for seed, start in enumerate(rng.uniform(0.2, 0.6, 6)):
        for arm, gain, size in (("dense", 0.0, 1), (first, 0.3, 2), (half, 0.1, 8)):
            values = {"max_alignment": start + gain, "majority_alignment": 0.9}
            values |= {"largest_norm": size, "diverged": size > 4}
            rows += number_rows("share=0.2", 0.7, seed, arm, values)
    table = pd.DataFrame(rows)
    found = changes.changes(table).set_index(["arm", "quantity"])
    gain = found.loc[(first, "gain"), ["mean", "ci_low", "ci_high"]]
    assert gain.to_list() == pytest.approx([0.3, 0.3, 0.3])
    assert found.loc[(half, "largest_norm"), "mean"] == pytest.approx(3.0)
    assert found.loc[half]["diverged"].to_list() == [6, 6, 6]
    assert set(changes.masks(table)["arm"]) == {first}


def test_validated_ranges_are_those_of_law_test():
    sweep = SECTION.sweeps["law_test"]
    ranges = {name: (at.low, at.high) for name, at in sweep.hypercube.ranges.items()}
    ranges["decay"] = ranges.pop("lambda")
    scale = sweep.training.logit_scale(sweep.data.d1)
    fixed = {"sigma": sweep.sigma, "K": sweep.training.K, "attention_scale": scale}
    ranges |= {name: (value, value) for name, value in fixed.items()}
    assert ranges == critical_frequency.VALIDATED_RANGES
