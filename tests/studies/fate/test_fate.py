"""The fate over time: latents of each kind, the course of a replica, and the law for the time."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import of_size, verdicts_of
from scipy.special import expit

from rarefeat.chain import critical_frequency as closed_form
from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import CONTRADICTED, SUPPORTED
from rarefeat.core.logistic_fit import LogisticFit
from rarefeat.core.randomness import generator
from rarefeat.run.job import Job
from rarefeat.studies.fate import claims, critical_frequency, learning_times
from rarefeat.studies.fate.config import AXES, DecayAndScale, LearningStudy
from rarefeat.studies.fate.doc_tables import longer, stairs
from rarefeat.studies.fate.findings import findings
from rarefeat.studies.fate.training import CellSettings, draw_latent_pairs, train_until_learned

FATE = of_size("quick").sections["fate"]
COURSE = FATE.studies["reuse"]
TRAINING = COURSE.training.model_copy(update={"T": 80})


def setting(latents="plain", N=256, eps_min=1.0) -> CellSettings:
    return CellSettings("test", COURSE.data, TRAINING, latents, N, 0.05, eps_min)


def pairs(latents: str, n: int = 4000) -> torch.Tensor:
    return draw_latent_pairs(n, setting(latents), generator("test", 1, "train")).long()


def test_antithetic_pairs_have_no_chance_correlation_with_the_rare_feature():
    sums = pairs("antithetic").sum(2)  # (n, 2, d)
    assert (sums[:, :, -1:] * sums[:, :, :-1]).sum(0).abs().max() == 0
    plain = pairs("plain").sum(2)
    assert (plain[:, :, -1:] * plain[:, :, :-1]).sum(0).abs().max() > 0


def test_apart_the_rare_feature_is_alone_and_as_frequent_as_before():
    plain, apart = pairs("plain"), pairs("apart")
    there = (plain[..., -1] != 0).any(-1).any(-1)
    assert there.any()
    assert (apart[there][..., :-1] == 0).all()
    assert (apart[..., -1] == plain[..., -1]).all()
    assert (apart[~there] == plain[~there]).all()


@pytest.mark.parametrize("N", [256, 0])
def test_a_replica_does_not_depend_on_those_beside_it_nor_on_who_has_ended(N):
    at = setting(N=N)
    regimes = [DecayAndScale(share=0.2, lambda_=decay) for decay in (0.02, 0.5)]
    both = pd.DataFrame(train_until_learned(at, regimes, 10, 10, 20, [1, 2, 3]))
    assert both["ended_at"].nunique() > 1
    for i, regime in enumerate(regimes):
        alone = pd.DataFrame(train_until_learned(at, [regime], 10, 10, 20, [2]))
        own = both.iloc[[3 * i + 1]].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, alone, check_exact=True, check_dtype=False)


def test_the_linear_course_is_that_of_its_differential_equation():
    seen = learning_times.StateAtMeasurement(
        *(np.array([value]) for value in (0.1, 0.012, 0.003, 0.02, 0.14))
    )
    x, eta = 0.1, 0.1
    for _ in range(1000):
        x += eta * ((0.012 - 0.02) * x + 0.003)
    assert math.exp(learning_times.log_margin_after(seen, eta, 1000.0)[0]) * 0.14 == pytest.approx(
        x, rel=1e-3
    )
    assert math.exp(learning_times.log_margin_limit(seen)[0]) * 0.14 == pytest.approx(0.003 / 0.008)
    assert np.isinf(learning_times.log_margin_limit(seen._replace(leak=np.array([0.03])))[0])


def test_shares_have_exact_intervals():
    assert learning_times.clopper_pearson(0, 16) == pytest.approx((0, 1 - 0.025 ** (1 / 16)))
    assert learning_times.clopper_pearson(16, 16) == pytest.approx((0.025 ** (1 / 16), 1))


def planted(late: bool, N: int = 8192, latents: str = "plain", n: int = 16) -> pd.DataFrame:
    """Replicas that all learn at 1,000, or never."""
    rows = pd.DataFrame({"seed": range(n), "learned_at": 1000.0 if late else np.nan})
    point = {
        "latents": latents,
        "N": N,
        "sigma": 0.05,
        "share": 0.2,
        "lambda": 0.02,
        "eps_min": 0.2,
    }
    random = np.random.default_rng(N)
    return rows.assign(
        **point, T=4000, kick=N**-0.5 * np.exp(0.1 * random.normal(size=n)) if N else 0.001, diverged=0.0,
        cosine_looked=0.01, leak=0.01,
        opened_trained=1.0, opened_fresh=1.0 - 0.01 * random.random(n), opened_without=0.1 * random.random(n),
    )  # fmt: skip


@pytest.mark.parametrize(("reuse", "expected"), [(True, SUPPORTED), (False, CONTRADICTED)])
def test_claims_on_the_cause_follow_what_is_planted(reuse, expected):
    n = 60
    finite = [planted(reuse, 8192, n=n), planted(False, 32768, n=n)]
    untied = planted(False, latents="antithetic", n=n)
    tables = {"reuse_fate": pd.concat([*finite, planted(False, 0, n=n)]), "untied_fate": untied}
    section = SimpleNamespace(
        studies=FATE.studies, of_role=lambda role: ["reuse", "untied"] if role == "point" else []
    )
    rows = claims.run_measurements(tables, SimpleNamespace(part=lambda *_: section))
    table = verdicts_of(
        "fate", [row for row in rows if row.regime.study != "untied" or row.claim == "F-antithetic"]
    )
    primary = table[table["primary"]].set_index("claim_id")["verdict"]
    for claim in ("F-late", "F-reuse", "F-antithetic"):
        assert primary[claim] == expected, claim
    assert primary["F-kick"] == SUPPORTED
    if reuse:
        assert primary[["F-feature", "F-selective", "F-passes"]].tolist() == [SUPPORTED] * 3


def test_the_quick_grid_has_every_axis():
    assert [axis for axis, _ in COURSE.points()[0].axes] == list(AXES)


def test_a_cell_trains_its_points_side_by_side():
    course = of_size("full").sections["fate"].studies["leak"]
    beside = [(cell, regime) for cell in course.cells() for regime in course.regimes(cell)]
    assert len(course.cells()) == 9
    assert len(beside) == len(course.points()) == 27


def test_every_declared_claim_is_measured():
    section = of_size("full").sections["fate"]
    tables = {
        f"{name}_fate": planted(True, latents=course.latents[0])
        for name, course in section.studies_with_role("point").items()
    }
    tables["reuse_fate"] = pd.concat([planted(True, N) for N in section.studies["reuse"].N])
    tables["leak_fate"] = pd.concat([planted(True, N) for N in section.studies["leak"].N])
    tables["leak_noiseless_fate"] = planted(True, 0)
    timed = planted(True).assign(
        study="time_fit", at_once=0.0, probability=0.5, gate_alone=0.5, predicted=900.0
    )
    tables["fate_times"] = pd.concat([timed, timed.assign(study="time_test")])
    rows = timed.iloc[:3].assign(role="test", by_law=0.5, by_regime=0.5, without_T=0.5, learned=1.0)
    tables["fate_late"] = rows
    measured = {
        row.claim
        for row in claims.run_measurements(tables, SimpleNamespace(part=lambda *_: section))
    }
    assert measured == set(load_claims("fate").claims)


def test_what_is_found_is_of_one_decay_and_of_every_course_s_own_last_step():
    section = of_size("full").sections["fate"]
    tables = {}
    for name, course in section.studies_with_role("point").items():
        late = {0.01: True, 0.02: name != "rarest"}
        parts = [
            planted(
                late.get(point["lambda"], False), point["N"], point["latents"], course.seeds
            ).assign(**point.values, T=course.training.T, cosine=0.0, count=300.0)
            for point in course.points()
        ]
        tables[f"{name}_fate"] = pd.concat(parts)
    points = learning_times.fate_points(
        tables, SimpleNamespace(part=lambda *_: section.studies_with_role("point"))
    )
    verdict = {"verdict": "supported", "estimate": 0.5, "ci_low": 0.3, "ci_high": 0.7}
    verdicts = pd.DataFrame([verdict | {"claim_id": name} for name in ("F-reuse", "F-border")])
    first, second, third, fourth = findings(
        section, {"fate_points": points, "verdicts_fate_over_time": verdicts}
    )
    assert "100 [86, 100] % with fresh pairs at every step" in first
    assert "more replicas learn it from a sample of 8,192 pairs" in second
    assert "from 0.1 on at a decay of 0.01 and from 0.2 on at a decay of 0.02" in third
    assert "At 0.1 no replica has it with a decay of 0.02 or 0.05" in third
    assert "is right more often than the better of the answers" in fourth
    nobody = points.assign(at_once=0, late=0)
    *_, third, _ = findings(section, {"fate_points": nobody, "verdicts_fate_over_time": verdicts})
    assert (
        "by step 8,000 at no frequency. At 0.1 no replica has it with a decay of 0.01, 0.02 or 0.05."
        in third
    )


def test_the_published_stairs_keep_every_rise():
    shares = learning_times.fate_shares(
        {"reuse_fate": pd.concat([planted(True, 2048), planted(False, 8192)])}, None
    )
    kept = stairs(shares)
    assert len(kept) < len(shares) / 3
    for _, part in shares[shares["step"] >= 100].groupby("N"):
        own = kept[kept["N"] == part["N"].iloc[0]].set_index("step")["learned"]
        assert own.reindex(part["step"]).ffill().to_numpy().tolist() == part["learned"].tolist()


def test_who_learns_later_is_counted_once_and_stays_counted():
    at = {"latents": "plain", "N": 0, "sigma": 0.05, "share": 0.2, "lambda": 0.02, "eps_min": 0.1}
    learned = pd.DataFrame(
        {"learned_at": [500.0, 501, 8000, 32_000, math.nan], "cosine": [0.9, 0.9, 0.9, 0.9, 0.03]}
    )
    found = longer(learned.assign(**at)).iloc[0]
    assert found[["by_500", "by_2000", "by_8000", "by_32000", "n"]].tolist() == [1, 2, 3, 4, 5]
    assert found["ci_low"] < 0.8 < found["ci_high"]
    assert found["cosine_without"] == 0.03


def drawn_course(
    role: str, seeds: int, constants: LogisticFit, late: closed_form.LateLearningFit
) -> tuple[LearningStudy, pd.DataFrame]:
    """A course of drawn regimes, and replicas that learn as the law with T says."""
    course = (
        of_size("full").sections["fate"].studies[f"time_{role}"].model_copy(update={"seeds": seeds})
    )
    random, rows = np.random.default_rng(len(role)), []
    for point in course.points():
        part = pd.DataFrame({"seed": range(seeds), "learned_at": 0.0}).assign(**point.values)
        part = critical_frequency.replicas(course, part)
        steps = critical_frequency.evaluation_steps(course.training.T, course.looked)
        chance = expit(
            constants.steepness
            * (
                part["margin"].to_numpy()[:, None]
                - critical_frequency.model_centres(part, steps, 0.1, constants, late)
            )
        )
        learned = random.random((seeds, 1)) < chance
        at = np.where(learned.any(1), np.array(steps)[learned.argmax(1)], np.nan)
        rows.append(part.assign(learned_at=at, T=course.training.T))
    return course, pd.concat(rows)


def test_the_step_s_law_with_T_is_found_again_where_it_is_true():
    constants, late = LogisticFit(0.2, 6.0), closed_form.LateLearningFit(-1.0, -0.6, 0.0, 0.7)
    course, rows = drawn_course("fit", 40, constants, late)
    again, more = critical_frequency.fit_late_learning(course, rows)
    assert again.centre == pytest.approx(constants.centre, abs=0.15)
    assert critical_frequency.model_centres(rows, [4000], 0.1, again, more) == pytest.approx(
        critical_frequency.model_centres(rows, [4000], 0.1, constants, late), abs=0.35
    )


def test_the_centre_falls_from_its_own_time_to_a_limit():
    at = critical_frequency.point_of(
        COURSE, {"N": 8192, "share": 0.2, "lambda": 0.02, "sigma": 0.05, "eps_min": 0.3}
    )
    own, late = LogisticFit(0.2, 6.0), closed_form.LateLearningFit(-1.0, -0.6, 0.0, 0.7)
    centres = [
        closed_form.fit_at_step(at, T, own, late).centre for T in (100, 500, 1000, 8000, math.inf)
    ]
    assert centres[0] == centres[1] == own.centre
    assert centres == sorted(centres, reverse=True)
    assert centres[-1] == pytest.approx(
        own.centre - math.exp(-1.0 - 0.6 * math.log(0.02 / at.growth_rate))
    )
    assert closed_form.critical_frequency(
        at, closed_form.fit_at_step(at, math.inf, own, late)
    ) < closed_form.critical_frequency(at, own)


def test_the_law_with_T_warns_outside_of_the_regimes_that_tested_it():
    course = of_size("full").sections["fate"].studies["time_test"]
    drawn = course.drawn.ranges
    pull = critical_frequency.point_of(course, course.points()[0].values).growth_rate
    assert closed_form.VALIDATED_RANGES_LATE["N"] == (drawn["N"].low, drawn["N"].high)
    assert closed_form.VALIDATED_RANGES_LATE["share"] == (drawn["share"].low, drawn["share"].high)
    assert closed_form.VALIDATED_RANGES_LATE["T"] == (course.looked, course.training.T)
    assert closed_form.VALIDATED_RANGES_LATE["decay"] == pytest.approx(
        (drawn["lambda"].low / pull, drawn["lambda"].high / pull), rel=0.02
    )
    assert closed_form.VALIDATED_RANGES_LATE["d"] == (course.data.d, course.data.d)


def test_grids_that_cross_the_step_nowhere_have_a_table_without_rows():
    courses, tables = {}, {}
    for role in ("fit", "test"):
        courses[role], tables[f"{role}_fate"] = drawn_course(
            role, 4, LogisticFit(0.2, 6.0), closed_form.LateLearningFit(-1.0, -0.6, 0.0, 0.7)
        )
        tables[f"{role}_fate"] = tables[f"{role}_fate"].assign(latents="plain")
    courses["grid"] = COURSE
    tables["grid_fate"] = pd.concat(
        planted(late=False).assign(**point.values) for point in COURSE.points()
    ).assign(latents="plain", learned_at=np.nan, T=COURSE.training.T)
    told = {name: course.model_dump(mode="json", by_alias=True) for name, course in courses.items()}
    assert critical_frequency.fate_step(
        tables, Job(stage="studies.fate.critical_frequency:fate_step", config={"courses": told})
    ).empty
