"""Late learning: trainings until the feature is learned, tables of outcomes, and claims."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from conftest import of_size, verdicts_of

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import CONTRADICTED, SUPPORTED
from rarefeat.studies.fate import (
    AGAIN,
    FATE_POINTS,
    GROWTH,
    LateLearning,
    Push,
    claims,
    learning_times,
)
from rarefeat.studies.fate.draws import CellSettings
from rarefeat.studies.fate.growth import gate
from rarefeat.studies.fate.learning_times import largest_normal
from rarefeat.studies.fate.measure import Course, train_until_learned

FATE = of_size("quick").sections["fate"]
REUSE = FATE.studies["reuse"]
TRAINING = REUSE.training.model_copy(update={"T": 120})
POINT = {"latents": "plain", "N": 0, "sigma": 0.05, "share": 0.2, "lambda": 0.02, "eps_min": 0.2}


@pytest.fixture(scope="module")
def full() -> LateLearning:
    """Return the section `fate` at its full size."""
    return of_size("full").sections["fate"]


@pytest.mark.parametrize(
    ("N", "push"), [(256, None), (0, Push(by="feature", size=0.002)), (0, Push(by="none"))]
)
def test_replica_is_independent_of_the_others(N, push):
    """Also of the seeds and regimes whose training ended before."""
    cell = CellSettings("test", REUSE.data, TRAINING, "plain", N, 0.05, 1.0)
    regimes = [{"share": 0.2, "lambda": decay} for decay in (0.02, 0.5)]
    course = Course(10, 10, 20, 2, push=push)
    both = pd.DataFrame(train_until_learned(cell, regimes, course, [1, 2, 3]))
    assert both["ended_at"].nunique() > 1
    for i, regime in enumerate(regimes):
        alone = pd.DataFrame(train_until_learned(cell, [regime], course, [2]))
        together = both.iloc[[3 * i + 1]].reset_index(drop=True)
        pd.testing.assert_frame_equal(together, alone, check_exact=True, check_dtype=False)


def planted(late: bool, N: int = 8192, latents: str = "plain", n: int = 16) -> pd.DataFrame:
    """Return replicas that all learn at step 1,000, or never."""
    rows = pd.DataFrame({"seed": range(n), "learned_at": 1000.0 if late else np.nan})
    rows[[*GROWTH, *AGAIN, "cosine_looked", "cosine", "count"]] = np.nan
    random = np.random.default_rng(N)
    return rows.assign(
        **POINT | {"latents": latents, "N": N},
        pure_at=rows["learned_at"],
        T=4000,
        push="",
        push_size=0.0,
        kick_size=0.07 * N**-0.5 if N else 0.0,
        diverged=0.0,
        others=0.9 - 0.001 * random.random(n),
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
    studies = of_size("full").sections["fate"].studies
    names = [name.removesuffix("_fate") for name in tables]
    section = SimpleNamespace(studies={name: studies[name] for name in names})
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
    late |= {"replacement": not matters}
    tables = {
        "mechanism_fate": pd.concat(planted(value, 8192, name, 60) for name, value in late.items()),
        "mechanism_fresh_fate": planted(False, 0, n=60),
    }
    primary = judge(tables)
    needed, enough = (SUPPORTED, CONTRADICTED) if matters else (CONTRADICTED, SUPPORTED)
    assert primary[["F-signs", "F-tokens"]].tolist() == [needed] * 2
    assert primary[["F-signs-fresh", "F-tokens-fresh", "F-replacement"]].tolist() == [enough] * 3


@pytest.mark.parametrize("matters", [True, False])
def test_claims_on_removal_follow_planted_replicas(matters):
    """The top pairs delay, or the others do."""
    ways = [f"without_{which}_{k}" for which in ("top", "other") for k in (5, 15)]
    random = np.random.default_rng(0)
    cells = []
    for name in ways:
        cell = planted(("top" in name) != matters, 8192, name, 60)
        cells.append(cell.assign(learned_at=cell["learned_at"] * 2 ** random.normal(0, 0.2, 60)))
    primary = judge({"removal_fate": pd.concat(cells)})
    expected = SUPPORTED if matters else CONTRADICTED
    assert primary[["F-top-5", "F-top-15", "F-top-share"]].tolist() == [expected] * 3


@pytest.mark.parametrize("matters", [True, False])
def test_claims_on_the_push_follow_planted_replicas(matters):
    """A push lets the feature in, and reuse without it does not; or the other way round."""
    late = {"neuron_1": matters, "neuron_quarter": False, "leak_1": not matters}
    late |= {"ties": matters, "method_push": matters}
    tables = {f"{name}_fate": planted(value, 0, n=60) for name, value in late.items()}
    tables["ties_fate"] = tables["ties_fate"].assign(N=512)
    for name in ("fresh", "method_nothing"):
        tables[f"{name}_fate"] = planted(False, 0, n=60)
    tables["reused_fate"] = planted(True, 2048, n=60)
    cells = planted(not matters, 2048, n=60), planted(False, 0, n=60)
    tables["reused_none_fate"] = pd.concat(cells)
    primary = judge(tables)
    claimed = ["F-push", "F-push-dose", "F-push-reuse", "F-push-out", "F-ties", "F-method"]
    assert primary[claimed].tolist() == [SUPPORTED if matters else CONTRADICTED] * 6
    otherwise = [CONTRADICTED if matters else SUPPORTED] * 2
    assert primary[["F-leak-rest", "F-leak-added"]].tolist() == otherwise
    assert primary["F-method-cost"] == SUPPORTED


@pytest.mark.parametrize("right", [True, False])
def test_predictor_claims_follow_planted_replicas(right):
    """Half of the points are late, so that no answer for all is better than a half."""
    random, cells = np.random.default_rng(0), []
    for N in (2048, 8192, 16384, 32768, 131072):
        cell = planted((N < 20_000) == right, N, n=24)
        wrong = random.random(24) < 0.1
        excess = np.where((cell["learned_at"].notna() == right) ^ wrong, 0.01, -0.01)
        cells.append(cell.assign(excess=excess, largest_leak=0.02 + excess))
    fresh = planted(not right, 0, n=24).assign(leak=0.01, excess=-0.01)
    primary = judge({"thresholds_fate": pd.concat([*cells, fresh])})
    expected = SUPPORTED if right else CONTRADICTED
    assert primary[["F-threshold", "F-neuron", "F-neuron-decay"]].tolist() == [expected] * 3


def test_points_have_the_threshold_of_their_setting(full):
    """Of half the push the threshold is the same, and a quarter of the pairs has it."""
    table = pd.concat(planted(N > 0, N) for N in (2048, 8192, 0))
    points = learning_times.fate_points({"reuse_fate": table}, {"reuse": full.studies["reuse"]})
    points = FATE_POINTS.schema.validate(points[list(FATE_POINTS.columns)]).set_index("N")
    assert points["threshold"].nunique() == 1
    limit = gate(9, 0.2) * (0.02 - 0.01) / largest_normal(30)
    assert points["threshold"].iloc[0] == pytest.approx(limit)
    assert points.loc[2048, "critical_N"] == pytest.approx(0.07**2 / limit**2)
    assert math.isnan(points.loc[0, "critical_N"])


def test_cell_trains_its_points_together(full):
    study = full.studies["leak"]
    trainings = [regime for cell in study.cells() for regime in study.settings(cell)["regimes"]]
    assert len(study.cells()) == 9
    assert len(trainings) == len(study.points()) == 27


def test_every_declared_claim_is_measured(full):
    tables = {
        f"{name}_fate": pd.concat(
            planted(True, N, way).assign(eps_min=eps, **{"lambda": decay})
            for N in study.N
            for way in study.latents
            for eps in study.eps_min
            for decay in getattr(study, "lambda")
        )
        for name, study in full.studies.items()
    }
    measured = {row.claim for row in claims.measure(tables, full)}
    assert measured == set(load_claims("fate").claims)
