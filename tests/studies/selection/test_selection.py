"""The study as a whole: its config, its stages on a small grid, and claims that are true and false."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import of_size, verdicts_of
from pydantic import ValidationError
from rarefeat.studies.selection.kind import MEASURE

from rarefeat.chain import critical_frequency
from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import ALPHA_LEVEL, CONTRADICTED, SUPPORTED
from rarefeat.config.section import dump_config
from rarefeat.images.nt_xent import nt_xent
from rarefeat.project import load
from rarefeat.run.job import job
from rarefeat.studies.selection import (
    claims,
    digits,
    doc_tables,
    figures,
    measure,
    model_diagnostics,
)
from rarefeat.studies.selection.config import Intervention, InterventionSweep
from rarefeat.studies.selection.critical_frequency import estimate_critical_frequency

FULL = of_size("full")
QUICK = load("config/config.yaml", "config/quick.yaml")
SECTION = FULL.sections["selection"]


KNOWN = load_claims("selection")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"stop": True}, "stop is for arms with a mask"),
        ({"mask": "oracle_all", "alpha": 0.2}, "not for oracle_all"),
        ({"mask": "oracle_all", "source": "batch"}, "mask by score"),
        ({"reopened": True, "revived": True}, "give one of them"),
    ],
)
def test_an_arm_that_contradicts_itself_is_refused(keys, said):
    with pytest.raises(ValidationError, match=said):
        Intervention(**keys)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arms": [{"mask": "norm"}]}, "the dense training"),
        ({"arms": [{}, {"mask": "norm", "alpha": 0.01}]}, "prunes nothing"),
        ({"arms": [{}, {"mask": "norm", "onset": 500}]}, "no step has a mask"),
        ({"scored": [501]}, "must not exceed T"),
        ({"arms": [{}, {}]}, "distinct"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(changes, said):
    raw = SECTION.sweeps["scores_9"].model_dump(by_alias=True) | changes
    with pytest.raises(ValidationError, match=said):
        InterventionSweep.model_validate(raw)


def test_no_other_study_has_the_seeds():
    own = {name for name in SECTION.studies()}
    for name, study in FULL.studies.items():
        used = {seed for block in study.blocks().values() for seed in block}
        assert (7000 <= min(used) < 20000) == (name in own), name


def test_every_declared_regime_is_run_with_its_seeds():
    for name, claim in KNOWN.claims.items():
        sweep, axes = SECTION.studies()[claim.primary.study], claim.primary.axes
        # A regime is a replicate of a claim about the law.
        assert claim.seeds == (
            sweep.drawn.regimes if claim.group == "the law for the step" else sweep.seeds
        ), name
        assert axes.get("arm", "dense") in [arm.label for arm in getattr(sweep, "arms", [])] + [
            "dense"
        ], name
        if claim.group == "selection of neurons":
            assert axes["step"] == max(sweep.scored), name
    assert ALPHA_LEVEL == 0.05


def a_job(name: str, size: dict) -> tuple[InterventionSweep, str]:
    """The job of the first cell of a sweep of the quick size, made smaller still."""
    sweep = InterventionSweep.model_validate(
        QUICK.sections["selection"].sweeps[name].model_dump(by_alias=True) | size
    )
    cell, (block, _) = sweep.cells()[-1], next(iter(sweep.blocks().items()))
    return sweep, job(MEASURE.function, (), sweep.training_config(), name, cell, block)


def test_a_cell_is_measured_and_a_replica_does_not_know_its_block():
    small = {
        "seeds": 2,
        "arms": [{}, {"mask": "effective_rate", "onset": 20}],
        "seeds_per_block": 2,
    }
    small |= {
        "data": QUICK.sections["selection"].sweeps["help"].data.model_dump()
        | {"N": 128, "probe_pairs": 40, "test_pairs": 64}
    }
    _, both = a_job("help", small)
    numbers, scores = measure.measure(both)
    assert set(numbers["arm"]) == {"dense", "effective_rate-onset=20"}
    assert not len(scores)
    assert {"balanced_mse", "learned", "T1", "largest_norm"} <= set(numbers["quantity"])
    sweep, _ = a_job("help", small | {"seeds_per_block": 1})
    alone, _ = measure.measure(
        job(MEASURE.function, (), sweep.training_config(), "help", sweep.cells()[-1], "7001-7001")
    )
    pd.testing.assert_frame_equal(
        numbers[numbers["seed"] == 7001].reset_index(drop=True), alone, check_exact=True
    )


def test_scores_are_judged_at_the_steps_that_are_asked_for():
    _, found = a_job("scores_new", {"seeds": 1, "scored": [30, 60]})
    numbers, scores = measure.measure(found)
    assert sorted(scores["step"].unique()) == [30, 60]
    wanted = numbers[numbers["quantity"] == "pure_minority_neurons"]["value"].iloc[0]
    assert (scores[scores["step"] == 60]["wanted"] == wanted).all()
    assert scores["auc"].isna().all() == (scores["wanted"] == 0).all()


# As the claims name them.
BY_RATE, STOPPED, CONTRAST = (
    KNOWN.claims[name].primary.axes["arm"] for name in ("I-rate", "I-stop", "I-contrast")
)
ORACLE, BY_RANDOM = (
    KNOWN.claims["H-oracle"].primary.axes["arm"],
    BY_RATE.replace("effective_rate", "random"),
)


def a_law(error: float = 0.0, along_share: float = 0.0) -> pd.DataFrame:
    """Sixty regimes whose predicted step is off by `error`, and by something along the share of the bias; twenty of the fit."""
    random = np.random.default_rng(1)
    rows = pd.DataFrame(
        {name: random.uniform(1.0, 2.0, 80) for name in model_diagnostics.COORDINATES}
    )
    step = random.uniform(0.2, 0.9, 80)
    predicted = step + error + along_share * (rows["share"] - 1.5) + 0.02 * random.normal(size=80)
    study = np.repeat(["law_test", "law_fit"], [60, 20])
    return rows.assign(study=study, step=step, predicted=predicted, place="among", diverged=0)


def a_fate(steepness: float = 1.0, within: bool = True) -> pd.DataFrame:
    """Replicas of sixty regimes that learn with the law's probability at a margin `steepness` times as large; or not by it."""
    random = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "point": np.repeat(np.arange(60), 160),
            "eps_min": np.tile(np.repeat(np.arange(10), 16), 60),
        }
    )
    of_replica = random.normal(size=len(rows))
    margin = (rows["eps_min"] - 4.5) * 0.8 + 2 * of_replica * within
    learned = random.uniform(size=len(rows)) < 1 / (1 + np.exp(-steepness * margin))
    shown = margin if within else margin + 2 * of_replica
    rows = rows.assign(
        study="law_test",
        margin=shown,
        learned=learned.astype(float),
        probability=1 / (1 + np.exp(-margin)),
    )
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
def test_each_claim_of_the_law_can_fail(claim, law, fate, expected):
    assert verdict_of(list(claims.the_law(a_law(**law), a_fate(**fate))), claim) == expected


def test_the_regression_beside_the_law_finds_what_is_linear():
    random = np.random.default_rng(4)
    rows = pd.DataFrame(
        {name: random.uniform(1.0, 2.0, 400) for name in model_diagnostics.COORDINATES}
    ).assign(step=lambda table: 0.5 + 0.2 * (table["share"] - 1.5))
    off = model_diagnostics.ridge(rows.head(300), rows.tail(100)) - rows["step"].tail(100)
    assert np.abs(off).max() < 0.005


def some_scores(auc: dict[str, float], wanted: int = 3) -> pd.DataFrame:
    random, rows = np.random.default_rng(2), []
    for share, eps_min in ((0.0, 0.7), (0.2, 0.7), (0.2, 1.0)):
        for source in ("batch", "running"):
            for score in measure.SCORES:
                value = auc.get(score, 0.5) if share and eps_min < 1 else 0.5
                rows += [
                    {"point": f"share={share:g}", "eps_min": eps_min, "seed": seed, "step": 600, "score": score,
                     "source": source, "wanted": wanted, "auc": value + 1e-3 * random.normal()}
                    for seed in range(12)
                ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("auc", "expected"),
    [
        ({"effective_rate": 0.99, "norm": 0.2, "firing_rate": 0.8}, SUPPORTED),
        ({"effective_rate": 0.6, "norm": 0.9, "firing_rate": 0.8}, CONTRADICTED),
    ],
)  # fmt: skip
def test_claims_of_the_scores_follow_their_aucs(auc, expected):
    rows = list(claims.selection("scores_new", some_scores(auc)))
    for claim in ("S-rate", "S-batch", "S-norm", "S-rate-firing"):
        assert verdict_of(rows, claim) == expected, claim
    for claim in ("S-random", "S-symmetry", "S-no-bias"):
        assert verdict_of(rows, claim) == SUPPORTED, claim


def some_masks(gain: float) -> pd.DataFrame:
    random, rows = np.random.default_rng(3), []
    arms = ["dense", BY_RATE, BY_RANDOM, STOPPED, ORACLE, CONTRAST]
    for point, eps_min in (("share=0.2", 0.7), ("share=0.7", 0.5)):
        for arm in arms:
            own = gain * (arm not in ("dense", BY_RANDOM, ORACLE))
            own = gain < 0 if arm == ORACLE else own
            contrast = -1 if arm == CONTRAST else 1
            for seed in range(12):
                values = {
                    "max_alignment": 0.5 + own, "majority_alignment": 0.9, "pure_minority_neurons": 2 + contrast * own,
                    "largest_norm": 1.0 if gain > 0 or arm == "dense" else 4.0, "balanced_mse": 1 - own, "diverged": 0.0,
                }  # fmt: skip
                rows += [
                    {"point": point, "eps_min": eps_min, "seed": seed, "arm": arm, "quantity": name,
                     "value": value + 1e-3 * random.normal() * (name != "diverged")}
                    for name, value in values.items()
                ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("gain", "expected"), [(0.3, SUPPORTED), (-0.3, CONTRADICTED)])
def test_claims_of_the_interventions_follow_the_gains(gain, expected):
    rows = list(claims.interventions("interventions", some_masks(gain)))
    for claim in set(claims.OF_MASKS) - {"I-nearest"}:
        assert verdict_of(rows, claim) == expected, claim


@pytest.mark.parametrize(("gain", "expected"), [(0.0, SUPPORTED), (0.3, CONTRADICTED)])
def test_the_claim_on_a_mask_that_acts_follows_the_cosine(gain, expected):
    random, place = np.random.default_rng(5), KNOWN.claims["I-nearest"].primary.axes
    rows = [
        {"point": "share=0.2", "eps_min": place["eps_min"], "seed": seed, "arm": arm, "quantity": name, "value": value}
        for arm in ("dense", place["arm"])
        for seed in range(30)
        for name, value in {
            "max_alignment": 0.3 + gain * (arm != "dense") + 0.05 * random.random(), "majority_alignment": 0.9,
            "largest_norm": 1.0, "diverged": 0.0,
        }.items()
    ]  # fmt: skip
    assert (
        verdict_of(list(claims.interventions("acting", pd.DataFrame(rows))), "I-nearest")
        == expected
    )


def some_steps(shift: float) -> pd.DataFrame:
    eps, random, rows = np.linspace(0.1, 1, 10), np.random.default_rng(4), []
    own = random.normal(0.6, 0.04, 12)
    for arm in ["dense", *claims.OF_ARMS, ORACLE]:
        moved = own + shift * (arm != "dense") * (arm != ORACLE or shift > 0)
        cost = max(shift, 0) * (arm != "dense")
        for eps_min in eps:
            for seed in range(12):
                values = {
                    "learned": float(eps_min > moved[seed]),
                    "majority_alignment": 0.9 - cost,
                    "diverged": 0.0,
                }
                rows += [
                    {
                        "point": "share=0.7",
                        "eps_min": eps_min,
                        "seed": seed,
                        "arm": arm,
                        "quantity": name,
                        "value": value,
                    }
                    for name, value in values.items()
                ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("shift", "expected"), [(-0.2, SUPPORTED), (0.2, CONTRADICTED)])
def test_claims_of_what_moves_the_step_follow_the_steps(shift, expected):
    rows = list(claims.helped("help", some_steps(shift)))
    for claim in (*claims.OF_ARMS.values(), "H-oracle", "H-cost"):
        assert verdict_of(rows, claim) == expected, claim
    # Only the oracle's mask, where it is planted to move nothing.
    assert [row.claim for row in rows if row.remark == claims.SAME] == ["H-oracle"] * (shift < 0)


@pytest.mark.parametrize(("gain", "expected"), [(0.1, SUPPORTED), (-0.1, CONTRADICTED)])
def test_claims_of_the_digits_follow_the_accuracies(gain, expected):
    random = np.random.default_rng(5)
    table = pd.DataFrame(
        {"rho": 20.0, "seed": seed, "rule": rule, "group": "tail",
         "accuracy": 0.5 + gain * (rule != "random") + 1e-3 * random.normal()}
        for seed in range(12) for rule in ("dense", "random", "norm", "effective_rate")
    )  # fmt: skip
    rows = list(claims.images(table))
    for claim in ("D-rate", "D-norm"):
        assert verdict_of(rows, claim) == expected, claim
    told = [float(re.search(r"random by ([+-][\d.]+)$", row.remark)[1]) for row in rows]
    assert told == pytest.approx([-100 * gain] * len(rows), abs=0.2)


def test_what_the_digits_descend_is_the_gradient_of_the_image_studies():
    random = torch.Generator().manual_seed(1)
    f = torch.rand(2, 8, 5, generator=random).requires_grad_()
    mask = torch.rand(2, 5, generator=random) < 0.4
    digits.descended(f, mask, 0.5).sum().backward()
    for s in range(2):
        own = f[s].detach().requires_grad_()
        z = torch.nn.functional.normalize(own, dim=-1)
        hidden = torch.nn.functional.normalize(own.detach().masked_fill(mask[s], 0.0), dim=-1)
        weights = (
            (hidden @ hidden.T / 0.5)
            .masked_fill(torch.eye(8, dtype=torch.bool), -torch.inf)
            .softmax(-1)
        )
        nt_xent(z @ z.T / 0.5, weights).backward()
        torch.testing.assert_close(f.grad[s], own.grad)


def test_a_replica_of_the_digits_does_not_know_the_others():
    training = QUICK.sections["selection"].digits.training
    both, alone = (digits.rows("selection tests", training, 5.0, seeds) for seeds in ([1, 2], [2]))
    assert [row for row in both if row["seed"] == 2] == alone
    assert {row["rule"] for row in alone} == {"dense", *training.rules}


def test_a_random_mask_of_the_digits_is_drawn_anew_and_takes_nothing_over():
    """Neurons that are masked at every step are pulled at every step, until they hold the whole embedding."""
    training = SECTION.digits.training.model_copy(update={"steps": 150, "hidden": 40})
    of = digits.split("selection tests", training, 5.0, 3)
    share = {}
    for rule in ("random", "largest"):
        parameters, mask = digits.train("selection tests", training, rule, [of], [3])
        energy = digits.respond(parameters, of.train[None])[0].square().sum(0)
        share[rule] = (energy[mask[0]].sum() / energy.sum()).item()
    assert share["random"] < 0.4
    assert share["largest"] > 0.9


def test_long_tailed_digits_have_their_ratio():
    training = SECTION.digits.training
    of = digits.split("selection tests", training, 20.0, 3)
    assert of.rare.sum() == training.tail
    rare = of.rare[of.train_labels].sum().item()
    assert abs(len(of.long_tailed) - (training.train - rare + rare / 20)) <= 3


def test_cells_are_the_same_for_a_job_whose_keys_are_sorted():
    sweep = SECTION.sweeps["scores_9"]
    again = type(sweep).model_validate(json.loads(json.dumps(dump_config(sweep), sort_keys=True)))
    assert [cell.path for cell in again.cells()] == [cell.path for cell in sweep.cells()]


def test_what_a_cell_is_told_does_not_hold_its_seeds():
    told = json.dumps(job(MEASURE.function, (), SECTION.sweeps["help"].training_config()).config)
    assert "first_seed" not in told
    assert "eps_min" not in told
    more = SECTION.sweeps["help"].model_copy(update={"seeds": 99})
    assert (
        job(MEASURE.function, (), more.training_config()).text
        == job(MEASURE.function, (), SECTION.sweeps["help"].training_config()).text
    )


def test_steps_of_correlated_seeds_have_a_wide_interval():
    """Seeds that learn at every eps_min or at none: eps_min tells nothing, and the jackknife knows how few seeds there are."""
    eps = np.linspace(0.1, 1, 10)
    own = np.repeat([0.35, 0.75], 4)
    low, high = estimate_critical_frequency(eps, (eps[:, None] > own).astype(float)).interval()
    assert high - low > 0.2


def planted_law(off: float, without_step: int) -> pd.DataFrame:
    """Thirty regimes whose steps the law misses by `off`, some without a step among the eps_min."""
    regimes = 30
    rng = np.random.default_rng(3)
    steps = rng.uniform(0.3, 0.8, regimes)
    places = ["above" if regime < without_step else "among" for regime in range(regimes)]
    columns = {name: rng.permutation(regimes) + 1.0 for name in doc_tables.REGIONS}
    told = {
        "study": "law_test",
        "place": places,
        "step": steps,
        "predicted": steps + off,
        "auc": 0.97,
    }
    return pd.DataFrame(columns | told | {"probability": 0.5, "learned": 0.4})


def test_the_page_says_how_far_the_law_is_off_and_where():
    found = doc_tables.law_errors(planted_law(-0.1, 2)).set_index(["parameter", "third"])
    everywhere = found.loc[("all", "")]
    assert (everywhere["regimes"], everywhere["no_step"]) == (30, 2)
    assert (everywhere["error"], everywhere["bias"]) == (pytest.approx(0.1), pytest.approx(-0.1))
    assert (everywhere["auc"], everywhere["calibration"]) == (
        pytest.approx(0.97),
        pytest.approx(0.1),
    )
    assert found.loc["share"]["regimes"].to_list() == [10, 10, 10]
    assert set(found.index.get_level_values("parameter")) == {"all", *doc_tables.REGIONS}


def test_the_page_holds_the_law_against_a_regression_that_sees_as_much_or_all_others():
    """A step that is linear in a coordinate: the regression finds it, and the more regimes it sees the better."""
    table = planted_law(-0.1, 2)
    table["step"] = 0.3 + 0.01 * table["d"]
    table["predicted"] = table["step"] - 0.1
    fit = table.sample(8, random_state=0).assign(study="law_fit")
    few, all_others = doc_tables.law_beside_ridge(pd.concat([fit, table])).to_dict("records")
    assert (few["regimes"], all_others["regimes"], all_others["n"]) == (8, 29, 30)
    assert 0 < few["mean"] < all_others["mean"] <= 0.1
    assert all_others["mean"] > 0.09


def test_a_figure_leaves_out_what_few_replicas_say():
    found = {"few": 4, "many": 5}
    scores = pd.DataFrame(
        [
            {"point": point, "auc": 0.5 if seed < n else np.nan}
            for point, n in found.items()
            for seed in range(8)
        ]
    )
    assert set(figures.enough(scores, ["point"])["point"]) == {"many"}
    # A small run shows what it has.
    few = scores[scores["point"] == "few"]
    assert figures.enough(few, ["point"]).equals(few)


def test_the_page_says_the_constants_of_the_law():
    table = pd.DataFrame(
        {
            "study": ["law_fit", "law_fit", "law_test"],
            "centre": np.log(0.5),
            "steepness": 7.0,
            "n": [8, 8, 16],
        }
    )
    assert doc_tables.law_constants(table).to_dict("records") == [
        {"kappa": pytest.approx(0.5), "gamma": 7.0, "regimes": 2, "replicas": 16}
    ]


def test_the_page_says_how_well_rules_do_over_regimes_that_have_neurons_to_find():
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
    said = doc_tables.scores_over_regimes(table, table.assign(auc=table["auc"] - 0.4))
    assert said[["score", "share", "regimes"]].to_numpy().tolist() == [["norm", 0.2, 4]]
    assert said[["median", "min", "max"]].to_numpy() == pytest.approx(np.array([[0.6, 0.3, 0.9]]))


def test_the_page_pairs_every_arm_with_dense_by_seed():
    rng = np.random.default_rng(4)
    rows = []
    for seed in range(6):
        start = rng.uniform(0.2, 0.6)
        for arm, gain, size in (
            ("dense", 0.0, 1.0),
            ("norm-onset=92", 0.3, 2.0),
            ("norm-alpha=0.5-onset=92", 0.1, 8.0),
        ):
            values = {
                "max_alignment": start + gain,
                "majority_alignment": 0.9,
                "largest_norm": size,
                "diverged": size > 4,
            }
            rows += [
                {
                    "point": "share=0.2",
                    "eps_min": 0.7,
                    "seed": seed,
                    "arm": arm,
                    "quantity": name,
                    "value": float(value),
                }
                for name, value in values.items()
            ]
    found = doc_tables.changes(pd.DataFrame(rows)).set_index(["arm", "quantity"])
    assert found.loc[
        ("norm-onset=92", "gain"), ["mean", "ci_low", "ci_high"]
    ].to_list() == pytest.approx([0.3, 0.3, 0.3])
    assert found.loc[("norm-alpha=0.5-onset=92", "largest_norm"), "mean"] == pytest.approx(3.0)
    assert found.loc["norm-alpha=0.5-onset=92"]["diverged"].to_list() == [6, 6, 6]
    assert set(doc_tables.masks(pd.DataFrame(rows))["arm"]) == {"norm-onset=92"}


def test_the_ranges_outside_of_which_the_law_warns_are_those_of_its_test():
    drawn = SECTION.sweeps["law_test"].drawn.ranges
    assert {
        "decay" if name == "lambda" else name: (at.low, at.high) for name, at in drawn.items()
    } == critical_frequency.VALIDATED_RANGES
