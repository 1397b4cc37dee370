"""The study of learners: its rates, outcomes, frequencies and claims on planted tables."""

import numpy as np
import pandas as pd
import pytest
from conftest import of_size

from rarefeat.studies.learners import CHOOSE_RATE, LearnerStudy, late_learners
from rarefeat.studies.learners.lockout import (
    CONTRASTS,
    KEEPS,
    frequencies,
    half_frequency,
    is_learned,
    locate_frequency,
    measure_claims,
    outcomes,
    thresholds,
)
from rarefeat.studies.learners.measure import best_rate
from rarefeat.workflow.config.cells import cell

EPS_MIN = np.array([0.25, 0.5, 0.75, 1.0])
SEEDS = range(6)


@pytest.fixture(scope="module")
def study() -> LearnerStudy:
    return of_size("").sections["learners"].studies["which_learners"]


def planted(
    learner: str, learned_from: list[float], pairs: str = "returning", kept: float = 0.1
) -> pd.DataFrame:
    """Return readouts of three features: each seed has learned the last from its frequency on.

    `kept` is read of it before that, and untrained 0.6.
    """
    rows = []
    for eta, eps_min in ((0.0, 0.0), *((0.1, eps_min) for eps_min in (0, *EPS_MIN))):
        for seed, start in zip(SEEDS, learned_from, strict=True):
            rare = (0.78 if eps_min >= start else kept) if eta else 0.6
            for feature, r2 in enumerate((0.8, 0.8, rare)):
                rows.append(
                    {
                        "learner": learner, "pairs": pairs, "eps_min": eps_min, "eta": eta,
                        "seed": seed, "feature": feature, "r2": r2, "r2_shuffled": -0.01,
                        "cosine": r2, "norm": 1.0, "rank": 3.0, "loss": 1.0, "diverged": 0.0,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_seed_blocks_share_the_file_of_a_rate(study):
    blocks = study.model_copy(update={"seeds_per_block": 4})
    files = [path for *_, path in CHOOSE_RATE.files_of("mine", blocks, "rates")]
    assert files == [f"rates/mine/learner={name}.parquet" for name in study.learners]


def test_half_frequency_interpolates_and_is_censored():
    shares = np.array([[0, 0, 1, 1], [0.5, 0.6, 1, 1], [0, 0.25, 0.5, 0.2], [0, 0.1, 0.2, 0.4]])
    frequencies = half_frequency(shares, EPS_MIN)
    assert frequencies == pytest.approx([0.625, 0.25, 0.75, np.inf])


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.7])
def test_learned_is_what_lies_beyond_a_run_without_the_feature(kept):
    table = outcomes(planted("a", [0.5] * 6, kept=kept), n_rare=1)
    by_frequency = table.groupby("eps_min")["learned"].mean()
    assert by_frequency.tolist() == [0, 0, 1, 1, 1]
    assert table["r2_never"].eq(kept).all()
    hardly_trained = (pd.Series([r2]) for r2 in (0.71, 0.70, 0.69))
    assert is_learned(*hardly_trained).tolist() == [0]
    without = outcomes(planted("a", [0.5] * 6)[lambda rows: rows["eps_min"] > 0], n_rare=1)
    assert without["learned"].isna().all()


def test_broken_replicas_have_learned_nothing():
    table = outcomes(planted("a", [0.5] * 6), n_rare=1)
    broken = planted("a", [0.5] * 6)
    broken.loc[broken["seed"] == 0, ["r2", "cosine"]] = np.nan
    broken.loc[broken["seed"] == 1, "diverged"] = 1.0
    table = outcomes(broken, n_rare=1)
    assert table[table["seed"] <= 1][["learned", "aligned"]].isna().all().all()


def test_frequencies_have_intervals_and_bounds(study):
    tables = [planted("mixed", [0.5, 0.5, 0.5, 0.75, 0.75, 1.0]), planted("all", [0.25] * 6)]
    tables.append(planted("none", [2.0] * 6))
    rows = frequencies({"readouts": pd.concat(tables)}, study.data)
    rows = rows[rows["measure"] == "readout"].set_index("learner")
    assert rows.loc["all", ["frequency", "bound"]].tolist() == [0.25, "at most"]
    assert rows.loc["none", ["frequency", "bound"]].tolist() == [1.0, "above"]
    mixed = rows.loc["mixed"]
    assert mixed["frequency"] == pytest.approx(0.5)
    assert mixed["ci_low"] <= mixed["frequency"] < mixed["ci_high"]
    assert {mixed["ci_low"], mixed["ci_high"]} <= {*EPS_MIN}
    assert mixed["kept"] == pytest.approx(0.1 / 0.6)
    assert mixed["n"] == len(SEEDS)
    assert np.isnan(locate_frequency(pd.DataFrame([[0.0, 1.0]], columns=[0.5, 1.0]))["ci_low"])


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.08])
def test_interval_of_a_frequency_covers_it(spread):
    """With 20 seeds, wherever half of them learn between the points of the grid."""
    rng, grid, covered = np.random.default_rng(0), np.arange(1, 11) / 10, []
    for _ in range(60):
        centre = rng.uniform(0.25, 0.85)
        start = rng.normal(centre, spread, 20)
        learned = pd.DataFrame((grid >= start[:, None]).astype(float), columns=grid)
        found = locate_frequency(learned)
        covered.append(found["ci_low"] <= centre <= found["ci_high"])
    assert np.mean(covered) >= 0.93


def test_thresholds_rise_with_the_frequency_of_learning():
    values = thresholds(outcomes(planted("a", [0.25, 0.5, 0.75, 1.0, 2.0, 2.0]), 1))
    assert values["a", "returning"].tolist() == pytest.approx([0.25, 0.375, 0.625, 0.875, 1, 1])


def test_best_rate_has_the_smallest_finite_loss():
    def table(*loss: float) -> pd.DataFrame:
        return pd.DataFrame({"loss": loss, "diverged": 0.0})

    tables = {0.1: table(2.5, 2.6), 0.3: table(1.2, 1.1), 1.0: table(1.2, 1.3)}
    assert best_rate(tables) == 0.3
    assert best_rate(tables | {3.0: table(0.1, np.nan)}) == 0.3
    assert best_rate(tables | {3.0: table(0.1, 0.1).assign(diverged=1.0)}) == 0.3
    assert best_rate({1.0: table(np.nan), 0.1: table(np.nan)}) == 0.1


@pytest.mark.parametrize("is_true", [True, False])
def test_claims_follow_planted_thresholds_and_what_is_kept(study, is_true):
    late, early = [0.75, 0.75, 1.0, 1.0, 0.75, 1.0], [0.25, 0.25, 0.25, 0.5, 0.25, 0.25]
    first, others = (late, early) if is_true else (early, late)
    tables = [planted("infonce", first), planted("spectral", late)]
    tables += [planted(name, others, kept=0.55) for name in CONTRASTS.values()]
    readouts = pd.concat(tables)
    rows = {
        row.claim: row.values.mean()
        for row in measure_claims({"readouts": readouts}, study.data, study.eps_min, study.pairs)
    }
    assert {*rows} == {*KEEPS, *CONTRASTS}
    assert all((rows[claim] > 0) == is_true for claim in CONTRASTS)
    assert rows["B-infonce-erases"] < 0.5 < rows["B-linear-keeps"]


def test_a_cell_names_its_learner_without_the_arm(study):
    settings = study.settings(cell(learner="adam", pairs="fresh", eps_min=0.1))
    assert settings["learner"]["optimiser"] == "adam"
    assert settings["arm"].arm == "dense"


def test_late_learners_count_every_rare_feature():
    def readouts(learner: str, returning: list[float], fresh: list[float]) -> pd.DataFrame:
        rows = []
        for pairs, cosines in (("returning", returning), ("fresh", fresh)):
            for seed, cosine in enumerate(cosines):
                for feature, value in enumerate((0.99, 0.95, cosine)):
                    row = {"learner": learner, "eta": 0.1, "eps_min": 0.2, "pairs": pairs}
                    row |= {"seed": seed, "feature": feature, "cosine": value, "diverged": 0.0}
                    rows.append(row)
        return pd.DataFrame(rows)

    one = readouts("one", [0.95, 0.95, 0.6, 0.1], [0.1, 0.1, 0.95, 0.1])
    two = readouts("two", [0.95, 0.1, 0.95, 0.95], [0.95, 0.95, 0.95, 0.95])
    two.loc[(two["feature"] == 1) & (two["seed"] == 3), "cosine"] = 0.2
    one.loc[(one["seed"] == 0) & (one["pairs"] == "returning"), "diverged"] = 1.0
    table = late_learners(one, one.assign(learner="other"), two).set_index(["learner", "pairs"])
    assert table.loc[["one", "two"], "learned"].tolist() == [2, 1, 2, 3]
    assert table.loc[("one", "returning"), "pure"] == 1
    assert table.loc[("two", "fresh"), "reuse"] == -0.25
    assert (table["reuse_ci_low"] <= table["reuse"]).all()
