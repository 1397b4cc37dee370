"""Late learning: latents, trainings until the feature is learned, and both models."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import of_size, verdicts_of

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import CONTRADICTED, SUPPORTED
from rarefeat.studies.fate import LateLearning, claims, learning_times
from rarefeat.studies.fate.doc_tables import count_longer, select_stairs
from rarefeat.studies.fate.draws import CellSettings
from rarefeat.studies.fate.measure import train_until_learned

FATE = of_size("quick").sections["fate"]
REUSE = FATE.studies["reuse"]
TRAINING = REUSE.training.model_copy(update={"T": 120})
POINT = {"latents": "plain", "N": 0, "sigma": 0.05, "share": 0.2, "lambda": 0.02, "eps_min": 0.2}


@pytest.fixture(scope="module")
def full() -> LateLearning:
    """Return the section `fate` at its full size."""
    return of_size("full").sections["fate"]


@pytest.mark.parametrize("N", [256, 0])
def test_replica_is_independent_of_the_others(N):
    """Also of the seeds and regimes whose training ended before."""
    cell = CellSettings("test", REUSE.data, TRAINING, "plain", N, 0.05, 1.0)
    regimes = [{"share": 0.2, "lambda": decay} for decay in (0.02, 0.5)]
    both = pd.DataFrame(train_until_learned(cell, regimes, 10, 10, 20, [1, 2, 3]))
    assert both["ended_at"].nunique() > 1
    for i, regime in enumerate(regimes):
        alone = pd.DataFrame(train_until_learned(cell, [regime], 10, 10, 20, [2]))
        together = both.iloc[[3 * i + 1]].reset_index(drop=True)
        pd.testing.assert_frame_equal(together, alone, check_exact=True, check_dtype=False)


def test_linear_model_solves_its_differential_equation():
    state = learning_times.StateAtMeasurement(
        *(np.array([value]) for value in (0.1, 0.012, 0.003, 0.02, 0.14))
    )
    x, eta = 0.1, 0.1
    for _ in range(1000):
        x += eta * ((0.012 - 0.02) * x + 0.003)
    after = math.exp(learning_times.log_margin_after(state, eta, 1000.0)[0]) * 0.14
    assert after == pytest.approx(x, rel=1e-3)
    limit = math.exp(learning_times.log_margin_limit(state)[0]) * 0.14
    assert limit == pytest.approx(0.003 / 0.008)
    assert np.isinf(learning_times.log_margin_limit(state._replace(leak=np.array([0.03])))[0])


def test_share_interval_at_the_ends():
    for n in (1, 16):
        assert learning_times.share_interval(0, n) == pytest.approx((0, 1 - 0.025 ** (1 / n)))
        assert learning_times.share_interval(n, n) == pytest.approx((0.025 ** (1 / n), 1))


def planted(late: bool, N: int = 8192, latents: str = "plain", n: int = 16) -> pd.DataFrame:
    """Return replicas that all learn at step 1,000, or never."""
    rows = pd.DataFrame({"seed": range(n), "learned_at": 1000.0 if late else np.nan})
    random = np.random.default_rng(N)
    return rows.assign(
        **POINT | {"latents": latents, "N": N},
        pure_at=rows["learned_at"],
        T=4000,
        kick=N**-0.5 * np.exp(0.1 * random.normal(size=n)) if N else 0.001,
        diverged=0.0,
        cosine_looked=0.01,
        leak=0.01,
        excess=0.01 if late else -0.01,
        largest_leak=0.03 if late else 0.01,
        opened_trained=1.0,
        opened_fresh=1.0 - 0.01 * random.random(n),
        opened_without=0.1 * random.random(n),
    )


@pytest.mark.parametrize(("reuse", "expected"), [(True, SUPPORTED), (False, CONTRADICTED)])
def test_claims_on_the_sample_follow_planted_replicas(reuse, expected):
    n = 60
    finite = [planted(reuse, 8192, n=n), planted(False, 32768, n=n)]
    tables = {"reuse_fate": pd.concat([*finite, planted(False, 0, n=n)])}
    primary = judge(tables)
    for claim in ("F-late", "F-reuse"):
        assert primary[claim] == expected, claim
    if reuse:
        assert primary[["F-selective", "F-passes"]].tolist() == [SUPPORTED] * 2


def judge(tables) -> pd.Series:
    """Return the verdict of each primary claim that some tables of point studies have."""
    names = [name.removesuffix("_fate") for name in tables]
    section = SimpleNamespace(studies=FATE.studies, studies_with_role=lambda role: names)
    rows = claims.measure(tables, section)
    declared = load_claims("fate").claims
    table = verdicts_of(
        "fate", [row for row in rows if declared[row.claim].primary.study == row.regime.study]
    )
    return table[table["primary"]].set_index("claim_id")["verdict"]


@pytest.mark.parametrize("matters", [True, False])
def test_claims_on_the_drawing_follow_planted_replicas(matters):
    """Each way that matters takes late learning away, or brings it to fresh pairs."""
    late = {"plain": True, "new_signs": not matters, "new_tokens": not matters}
    late |= {"planted_ties": matters, "replacement": not matters}
    tables = {
        "mechanism_fate": pd.concat(planted(value, 8192, name, 60) for name, value in late.items()),
        "mechanism_fresh_fate": planted(False, 0, n=60),
    }
    primary = judge(tables)
    needed, enough = (SUPPORTED, CONTRADICTED) if matters else (CONTRADICTED, SUPPORTED)
    assert primary[["F-signs", "F-tokens", "F-ties"]].tolist() == [needed] * 3
    assert primary[["F-signs-fresh", "F-tokens-fresh", "F-replacement"]].tolist() == [enough] * 3


@pytest.mark.parametrize("matters", [True, False])
def test_claims_on_removal_follow_planted_replicas(matters):
    """The top pairs delay, or the random ones do."""
    ways = [f"without_{which}_{k}" for which in ("top", "random") for k in (5, 15)]
    random = np.random.default_rng(0)
    cells = []
    for name in ways:
        cell = planted(("top" in name) != matters, 8192, name, 60)
        cells.append(cell.assign(learned_at=cell["learned_at"] * 2 ** random.normal(0, 0.2, 60)))
    primary = judge({"removal_fate": pd.concat(cells)})
    expected = SUPPORTED if matters else CONTRADICTED
    assert primary[["F-top-5", "F-top-15", "F-top-share"]].tolist() == [expected] * 3


@pytest.mark.parametrize("right", [True, False])
def test_predictor_claims_follow_planted_replicas(right):
    """At each decay half of the points are late, so that no answer is better than a half."""
    random, cells = np.random.default_rng(0), []
    for N in (2048, 8192, 16384, 32768, 131072):
        cell = planted(N < 20_000, N, n=24)
        wrong = random.random(24) < 0.1
        excess = np.where((cell["learned_at"].notna() == right) ^ wrong, 0.01, -0.01)
        cells.append(cell.assign(excess=excess, leak=-1.0, kick=0.0))
    # A leak of fresh pairs far below the decay: the critical sample is between 2,048 and 131,072.
    fresh = planted(False, 0, n=24).assign(leak=0.007, excess=-0.01, kick=0.0)
    primary = judge({"reuse_fate": pd.concat([*cells, fresh])})
    assert primary["F-threshold"] == SUPPORTED
    assert primary["F-neuron"] == (SUPPORTED if right else CONTRADICTED)
    assert primary["F-border"] == CONTRADICTED


def test_cell_trains_its_points_together(full):
    study = full.studies["leak"]
    trainings = [regime for cell in study.cells() for regime in study.settings(cell)["regimes"]]
    assert len(study.cells()) == 9
    assert len(trainings) == len(study.points()) == 27


def test_every_declared_claim_is_measured(full):
    tables = {
        f"{name}_fate": pd.concat(planted(True, N, way) for N in study.N for way in study.latents)
        for name, study in full.studies_with_role("point").items()
    }
    timed = planted(True).assign(
        study="time_fit", at_once=0.0, probability=0.5, gate_alone=0.5, predicted=900.0
    )
    tables["fate_times"] = pd.concat([timed, timed.assign(study="time_test")])
    measured = {row.claim for row in claims.measure(tables, full)}
    assert measured == set(load_claims("fate").claims)


def test_select_stairs_keeps_every_rise():
    shares = learning_times.fate_shares(
        {"reuse_fate": pd.concat([planted(True, 2048), planted(False, 8192)])}
    )
    stairs = select_stairs(shares)
    assert len(stairs) < len(shares) / 3
    for _, group in shares[shares["step"] >= 100].groupby("N"):
        selected = stairs[stairs["N"] == group["N"].iloc[0]].set_index("step")["learned"]
        filled = selected.reindex(group["step"]).ffill()
        assert filled.to_numpy().tolist() == group["learned"].tolist()


def test_count_longer_is_cumulative():
    learned = pd.DataFrame(
        {"learned_at": [500.0, 501, 8000, 32_000, math.nan], "cosine": [0.9, 0.9, 0.9, 0.9, 0.03]}
    )
    row = count_longer(learned.assign(**POINT)).iloc[0]
    assert row[["by_500", "by_2000", "by_8000", "by_32000", "n"]].tolist() == [1, 2, 3, 4, 5]
    assert row["ci_low"] < 0.8 < row["ci_high"]
    assert row["cosine_without"] == 0.03
