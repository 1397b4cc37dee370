"""Tests of the study of augmentation: weights, responses and heads of encoders, and its claims."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import run_stage, seeded, train_study, verdicts_of

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import NOT_RUN, measured_table
from rarefeat.claims.verdict import CHECK_FAILED, CHECK_PASSED, CONTRADICTED, SUPPORTED
from rarefeat.errors import RarefeatError
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import regression_target
from rarefeat.studies.augmentation import AUGMENTED, OF_SAMPLES, SUPERVISE, figures
from rarefeat.studies.augmentation import claims as decoupling
from rarefeat.studies.augmentation.config import Supervised
from rarefeat.studies.augmentation.measure import measure_augmentation, supervise
from rarefeat.studies.augmentation.metrics import (
    course_metrics,
    cross_talk,
    end_metrics,
    gradient_fractions,
    head_metrics,
    initial_sets,
    mean_best_cosine,
    response_metrics,
    separation,
    weight_composition,
)
from rarefeat.training.pretraining import TrainedEncoder
from rarefeat.workflow.config.study import merge_configs
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.project import load, parse
from rarefeat.workflow.run.job_inputs import JobInputs, call

PROJECT = load("config/config.yaml")
AUGMENTATION = PROJECT.sections["augmentation"]
STUDIES = AUGMENTATION.studies
RAW = yaml.safe_load(Path("config/config.yaml").read_text())
SMALL = {
    "seeds": 2,
    "seeds_per_block": 2,
    "data": {"d": 6, "d1": 30, "N": 128},
    "training": {"m": 8, "K": 16, "T": 20},
}


def test_weight_composition_is_shares_of_squared_norm():
    """Plant a neuron 3 : 4 in features and the colour, and one half in features."""
    recorded = torch.tensor(
        [[3.0, 0.0, 4.0, 5.0, 1.0], [0.0, 1.0, 0.0, math.sqrt(2), -math.sqrt(2)]]
    )
    shares = weight_composition(recorded, 2, 1)
    assert shares["share_features"].item() == pytest.approx((9 / 25 + 1 / 2) / 2)
    assert shares["share_colour"].item() == pytest.approx(16 / 25 / 2)
    assert shares["share_rest"].item() == pytest.approx(1 / 4)
    assert shares["bias_share"].item() == pytest.approx((0.2 - 1.0) / 2)


def test_end_metrics_of_neurons_on_single_features():
    study = STUDIES["random_mask"]
    d, m = study.data.d, study.training.m
    end = torch.zeros(m, d + 2)
    end[torch.arange(m), torch.arange(m) % 8] = 2.0
    end[0, 20], end[:, d] = 2.0, 2.0
    end[0, d] = math.sqrt(8)
    found = end_metrics(end, study.data)
    assert found["singletons"] == m - 1
    assert found["covered_features"] == 8 / d
    assert found["features_per_neuron"] == pytest.approx(1 + 1 / m)
    assert found["minority_alignment"] == 0
    assert set(found) <= set(AUGMENTED)


def test_initial_sets_of_planted_neurons():
    """Two lucky neurons of feature 0, one that has two features, and the rest spread over all."""
    projections = torch.full((6, 16), 0.1)
    projections[0, 0] = projections[1, 0] = projections[2, 1] = projections[2, 2] = 3.0
    found = initial_sets(projections, 1.0)
    assert found == {
        "lucky_neurons": pytest.approx(2 / 16), "ordinary_features": pytest.approx(4 / 6),
        "shared_ordinary": pytest.approx(1 / math.log(16)),
    }  # fmt: skip


def test_gradient_fractions_match_covariance_of_views():
    """Expect a gradient off the features from shared noise, and none from independent noise.

    Shared noise has sigma^2 there; a mask takes p d / d1 from features.
    """
    d, d1, n, p, sigma = 8, 64, 60_000, 0.3, 0.5
    M = torch.linalg.qr(torch.randn(d1, d, generator=seeded(1)))[0]
    weights = torch.randn(30, d1, generator=seeded(2))
    signal = (
        (torch.rand(n, d, generator=seeded(3)) < p)
        * torch.randn(n, d, generator=seeded(4)).sign()
        @ M.T
    )
    x = signal + sigma * torch.randn(n, d1, generator=seeded(5))
    same = gradient_fractions(weights, M, x, x, p, sigma)
    assert same["pull_features"] == pytest.approx((p + sigma**2) / p, rel=0.03)
    assert same["pull_rest"] == pytest.approx(1.0, rel=0.03)
    own = gradient_fractions(
        weights, M, x, signal + sigma * torch.randn(n, d1, generator=seeded(6)), p, sigma
    )
    assert own["pull_features"] == pytest.approx(1.0, rel=0.03)
    assert own["pull_rest"] == pytest.approx(0.0, abs=0.03)
    D = torch.rand(n, d1, generator=seeded(7)) < 0.5
    masked = gradient_fractions(weights, M, 2 * x * D, 2 * x * ~D, p, sigma)
    assert masked["pull_features"] == pytest.approx(
        1 - (M**4).sum(0).mean().item() - (d - 1) / d1, abs=0.06
    )
    assert masked["pull_rest"] == pytest.approx(-p * d / d1 / sigma**2, abs=0.06)


def test_cross_talk_of_spread_and_concentrated_features():
    spread = torch.linalg.qr(torch.randn(400, 5, generator=seeded(1)))[0]
    assert cross_talk(spread, 0.5, 50, seeded(2)) < 1.0
    assert cross_talk(torch.eye(400)[:, :5], 0.5, 50, seeded(2)) == pytest.approx(
        20 / math.log(400)
    )


def test_mean_best_cosine_ignores_sign_and_norm():
    w = torch.randn(12, 40, generator=seeded(1))
    assert mean_best_cosine(w, -3 * w.flip(0)) == pytest.approx(1.0)
    assert mean_best_cosine(w, torch.randn(12, 40, generator=seeded(2))) < 0.6
    # A neuron of no size does not count.
    assert mean_best_cosine(w[:1], torch.cat([w[:1], 1e-9 * w[1:2]])) == pytest.approx(1.0)


def trained(course, T1):
    """Return a replica with this trajectory, in which stage 1 ended at T1."""
    ends = torch.full((1, 2, *course.shape[1:]), math.nan)
    if T1 >= 0:
        ends[:, 0] = course[-1]
    kept = {
        "T1": torch.tensor([T1]),
        "T2": torch.tensor([-1]),
        "history": course[None],
        "ends": ends,
    }
    return TrainedEncoder(**kept, weights=torch.empty(0), bias=torch.empty(0), loss=torch.zeros(1))


def test_growth_matches_closed_form_for_every_rho():
    """Plant growth at the closed form of each noise correlation, and expect a ratio of 1."""
    for name in ("random_mask", "rho=0.5", "identical"):
        study, sigma = STUDIES[name], 0.2413
        data, training = study.data, study.training
        p = data.C * math.log(math.log(data.d)) / data.d
        rate = 1 - training.eta * training.lambda_
        rate += training.eta / training.tau * (1 - 1 / training.K) * (p + data.views.rho * sigma**2)
        steps = torch.tensor(log_spaced(training.T), dtype=torch.float64)
        course = torch.zeros(len(steps), training.m, data.d + 2, dtype=torch.float64)
        course[..., : data.d] = 1e-3 * (rate ** steps.clamp_max(60))[:, None, None]
        course[..., data.d] = 1.0
        found = course_metrics(trained(course, 50), study, 1.0, sigma, 1)
        assert found["growth_over_closed_form"] == pytest.approx(1.0, abs=1e-6)
        assert set(found) <= set(AUGMENTED)
        assert math.isnan(
            course_metrics(trained(course, -1), study, 1.0, sigma, 1)["growth_over_closed_form"]
        )


def test_response_metrics_detect_response_to_noise():
    """Compare an encoder that removes the noise with one whose output is mostly noise."""
    signal, noise = torch.zeros(50, 8), torch.randn(50, 8, generator=seeded(1))
    signal[:, 0] = 5.0
    active = torch.ones(50, dtype=torch.bool)
    clean = response_metrics(signal, torch.zeros(50, 8), signal, active)
    assert (clean["noise_left"], clean["noise_cosine"], clean["activity"]) == (0.0, 0.0, 1 / 8)
    dirty = response_metrics(0.01 * signal + noise, noise, 0.01 * signal, active)
    assert dirty["noise_left"] > 10
    assert dirty["noise_cosine"] > 0.95
    assert dirty["silent_signals"] == 0.0
    assert response_metrics(noise, noise, torch.zeros(50, 8), active)["silent_signals"] == 1.0


def test_separation_of_clustered_and_random_representations():
    feature = torch.arange(60) % 3
    apart = torch.nn.functional.one_hot(feature, 5).double()
    assert separation(apart, feature) == pytest.approx(1.0)
    assert separation(torch.randn(60, 5, generator=seeded(1)), feature) < 0.2
    assert math.isnan(separation(torch.zeros(60, 5), feature))


def test_head_metrics_on_features_and_on_noise():
    """Check that heads predict the label from features, and are at chance on noise."""
    z = torch.randint(-1, 2, (600, 4), generator=seeded(2)).double()
    values = z @ torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    good = head_metrics(z[:300], values[:300], z[300:], values[300:])
    assert good["regression_error"] < 1e-3
    assert good["classification_accuracy"] == 1.0
    noise = torch.randn(600, 4, generator=seeded(3))
    bad = head_metrics(noise[:300], values[:300], noise[300:], values[300:])
    assert 0.9 < bad["regression_error"] < 1.2
    assert 0.3 < bad["classification_accuracy"] < 0.7


def test_supervise_beats_a_head_on_the_raw_input():
    """Check that labels teach features from which a head predicts better than from the input."""
    study = parse(
        merge_configs(RAW, {"augmentation": {"studies": {"independent_noise": SMALL}}})
    ).studies
    study, sigma = study["independent_noise"], 0.4
    learning = Supervised(study="independent_noise", steps=600, batch=64, lr=0.01)
    weights, bias = supervise(study, learning, 1.0, sigma, 1)
    again = supervise(study, learning, 1.0, sigma, 1)
    assert torch.equal(weights, again[0])
    assert torch.equal(bias, again[1])
    M = make_simulator("direct", study.draws, 6, 30, 8, [1]).dictionary[0]
    z = torch.randint(-1, 2, (2000, 6), generator=seeded(3)) * (
        torch.rand(2000, 6, generator=seeded(4)) < 0.2
    )
    x = z.float() @ M.T + sigma * torch.randn(2000, 30, generator=seeded(5))
    values = z.double() @ regression_target(study.draws, 1, 6).double()
    f = embed(pre_activations(x[None, :, None], weights[None]), bias[None])[0]
    errors = [
        head_metrics(part[:1000], values[:1000], part[1000:], values[1000:])["regression_error"]
        for part in (x, f)
    ]
    assert errors[1] < 0.9 * errors[0]
    with pytest.raises(RarefeatError, match=r"lower augmentation\.supervised\.lr"):
        supervise(study, learning.model_copy(update={"steps": 20, "lr": 1e30}), 1.0, sigma, 1)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Train and measure small studies of three kinds."""
    kept = ("independent_noise", "colour_mask", "imbalance_random_mask")
    sizes = {"labels": [16, 64], "tests": 60, "gradients": 200}
    sizes["studies"] = dict.fromkeys(name for name in STUDIES if name not in kept)
    sizes["supervised"] = {"steps": 20, "batch": 16, "lr": 0.01}
    project = parse(merge_configs(RAW, {"augmentation": SMALL | sizes}))
    section = project.sections["augmentation"]
    assert tuple(section.studies) == kept
    folder, parts = tmp_path_factory.mktemp("encoders"), []
    run_stage(SUPERVISE.job("", section), folder, folder / "supervised.safetensors")
    for name, study in section.studies.items():
        train_study(folder, name, study)
        job = project.table_job(f"{name}.augmentation")
        parts.append(call(measure_augmentation, JobInputs(job, folder), job))
        assert all(set(table["study"]) == {name} for table in parts[-1].values())
    return project, {
        kind.name: validate_sorted(kind.schema, pd.concat([part[kind.name] for part in parts]))
        for kind in OF_SAMPLES
    }


def test_null_kind_of_views_is_left_out():
    def parsed(*names):
        kinds = {"augmentation": {"images": {"kinds": dict.fromkeys(names)}}}
        return parse(merge_configs(RAW, kinds)).sections["augmentation"].images

    assert list(parsed("crops").studies()) == ["views_none", "views_crops_and_intensity"]
    with pytest.raises(RarefeatError, match=r"images\.kinds"):
        parsed("none", "crops", "crops_and_intensity")


def test_studies_of_every_kind_are_measured(small):
    _, tables = small
    final = tables["augmentation"]
    neurons, keys = tables["augmentation_neurons"], ["study", "eps_min", "arm", "seed"]
    rates = neurons[neurons["encoder"] == "trained"].groupby(keys)["activity"].mean()
    trained = final[(final["metric"] == "activity") & (final["encoder"] == "trained")]
    expected = trained.set_index(keys)["value"].sort_index()
    assert rates.sort_index().to_numpy() == pytest.approx(expected.to_numpy())
    assert set(final["encoder"]) == {"trained", "raw", "oracle", "supervised"}
    assert set(final[final["encoder"] != "trained"]["study"]) == {"independent_noise"}
    arms = set(final[final["study"] == "imbalance_random_mask"]["arm"])
    assert arms == {"dense", "pruned_neuron", "oracle_all"}


def test_every_figure_is_drawn_from_a_subset_of_studies(small):
    project, tables = small
    for draw, name in (
        (figures.augmentation_dial, "augmentation"),
        (figures.augmentation_representations, "augmentation_neurons"),
    ):
        assert call(draw, {name: tables[name]}, project.figure_job(draw.__name__)).axes


def test_claims_of_a_subset_of_studies_are_measured(small):
    project, tables = small
    declared, final = load_claims("augmentation"), {"augmentation": tables["augmentation"]}
    measured = decoupling.measure(final, project.sections["augmentation"])
    table = measured_table(measured, declared)
    rows = table[table["primary"]].set_index("claim_id")
    assert set(rows.index) == set(declared.claims)
    there = ["WL-P1-lucky", "WL-colour-stays", "crossing-pruning"]
    assert rows.loc[there, "estimate"].notna().all()
    elsewhere = table[table["study"] == "independent_noise"].set_index("claim_id")["estimate"]
    assert elsewhere[["WL-P7-share", "WL-P12"]].notna().all()
    # What is read from a study that is not there says so.
    assert rows.loc["WL-P11", "remark"] == NOT_RUN


def planted(**changes):
    """Return metrics of every study as the paper has them but for `changes`, with little spread."""
    rows = []
    for (name, study), seed in itertools.product(STUDIES.items(), range(12)):
        augmented = name in decoupling.WITH
        values = {
            "growth_over_closed_form": 1.0, "share_features": 0.97 if augmented else 0.03,
            "covered_features": 1.0, "features_per_neuron": 1.2, "noise_left": 0.1,
            "noise_cosine": 0.2 if augmented else 0.99, "activity": 0.05,
            "bias_share": -0.5 if name == "identical_learned_bias" else 0.3,
            "share_colour": 0.001 if name == "colour_mask_and_redrawn" else 0.6,
            "lucky_neurons": 2.0,
            "ordinary_features": 1.0, "shared_ordinary": 0.5, "cross_talk": 0.5,
            "pull_features": 1.0 if augmented else 2.5, "pull_rest": 0.0 if augmented else 1.0,
            "lucky_above_threshold_at_T1": 1.0, "others_below_threshold_at_T1": 1.0,
            "few_strong_features_at_T1": 1.0, "outside_largest_at_T1": 1.0,
            "lucky_focus_at_T2": 0.8, "ordinary_over_lucky_at_T2": 1.0,
            "likeness_to_supervised": 0.95 if augmented else 0.5,
        } | changes  # fmt: skip
        for cell, arm in ((point, arm) for point in study.cells() for arm in point.trained):
            noise = 1e-4 * np.random.default_rng([seed, len(name), len(arm.label)]).normal()
            keys = {"study": name, **cell.values, **arm.model_dump(), "seed": seed}
            helped = 0.3 * (arm.arm != "dense") + 0.2 * name.startswith("imbalance_random_mask")
            values["minority_alignment"] = changes.get("helped", 1) * helped
            of_end = keys | {"encoder": "trained", "labels": 0}
            rows += [
                of_end | {"metric": metric, "value": value + noise}
                for metric, value in values.items()
                if metric in AUGMENTED
            ]
            error = changes.get("error", 0.2 if augmented else 0.8)
            heads = keys | {"labels": 1024, "metric": "regression_error"}
            rows.append(heads | {"encoder": "trained", "value": error + noise})
            if name == "independent_noise":
                rows.append(heads | {"encoder": "raw", "value": 0.6 + noise})
    return pd.DataFrame(rows)


def verdicts(**changes):
    """Return the verdict of every claim in its primary regime."""
    measured = decoupling.measure({"augmentation": planted(**changes)}, AUGMENTATION)
    table = verdicts_of("augmentation", measured)
    return table[table["primary"]].set_index("claim_id")["verdict"].to_dict()


def test_every_claim_is_supported_by_planted_paper_values():
    found = verdicts()
    assert set(found) == set(load_claims("augmentation").claims)
    checks = {"WL-P3-without", "WL-P3-noise"}
    assert {name for name in found if found[name] == CHECK_PASSED} == checks
    assert set(found.values()) == {SUPPORTED, CHECK_PASSED}


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("WL-P1-lucky", {"lucky_neurons": 0.2}),
        ("WL-P1-ordinary", {"ordinary_features": 3.0}),
        ("WL-P1-shared", {"shared_ordinary": 3.0}),
        ("WL-P2", {"cross_talk": 4.0}),
        ("WL-P3-features", {"pull_features": 0.8}),
        ("WL-P3-rest", {"pull_rest": 1.0}),
        ("WL-P3-without", {"pull_features": 1.0}),
        ("WL-P3-noise", {"pull_rest": 0.0}),
        ("WL-P5-lucky", {"lucky_above_threshold_at_T1": 0.5}),
        ("WL-P5-others", {"others_below_threshold_at_T1": 0.5}),
        ("WL-P5-few", {"few_strong_features_at_T1": 0.5}),
        ("WL-P5-outside", {"outside_largest_at_T1": 3.0}),
        ("WL-P6-focus", {"lucky_focus_at_T2": 0.3}),
        ("WL-P6-leads", {"ordinary_over_lucky_at_T2": 4.0}),
        ("WL-P14", {"likeness_to_supervised": 0.5}),
        ("WL-P14-without", {"likeness_to_supervised": 0.95}),
        ("WL-P4", {"growth_over_closed_form": 1.5}),
        ("WL-P7-share", {"share_features": 0.5}),
        ("WL-P7-singletons", {"covered_features": 0.4}),
        ("WL-P7-few", {"features_per_neuron": 4.0}),
        ("WL-P8", {"activity": 0.9}),
        ("WL-P9", {"noise_left": 2.0}),
        ("WL-P10-cosine", {"noise_cosine": 0.1}),
        ("WL-P10-share", {"share_features": 0.97}),
        ("WL-P11", {"error": 0.1}),
        ("WL-P12", {"error": 0.9}),
        ("WL-P12-raw", {"error": 0.9}),
        ("WL-P13-up", {"bias_share": -0.2}),
        ("WL-P13-down", {"bias_share": 0.2}),
        ("WL-colour-stays", {"share_colour": 0.001}),
        ("WL-colour-goes", {"share_colour": 0.6}),
        ("crossing-mask", {"helped": -1}),
        ("crossing-pruning", {"helped": -1}),
    ],
)
def test_claim_is_contradicted_by_a_wrong_quantity(claim, change):
    assert verdicts(**change)[claim] in (CONTRADICTED, CHECK_FAILED)


def test_invalid_studies_are_rejected():
    for change, words in (
        (
            {"simulator": "reduced"},
            "data.views needs every coordinate of a token|simulator: direct",
        ),
        ({"training": {"history": False}}, "training.history: true"),
        ({"data": {"views": {"mask": 0.5}, "L": 2}}, "views.mask needs L = 1"),
        ({"data": {"views": {"mask": 0}}}, "clean_negatives needs a mask"),
    ):
        with pytest.raises(RarefeatError, match=words):
            parse(merge_configs(RAW, {"augmentation": {"studies": {"random_mask": change}}}))
    for change, words in (
        ({"images": {"study": "digit"}}, "augmentation.images.study"),
        (
            {"images": {"study": {"training": {"epochs": 9}}}},
            "warmup_epochs must be at most epochs = 9",
        ),
        ({"images": {"study": {"data": 3}}}, "augmentation.images.study.data"),
        (
            {"images": {"kinds": 3}},
            "augmentation.images.kinds|augmentation.images.study.augmentation",
        ),
        ({"images": 3}, "augmentation.images"),
    ):
        with pytest.raises(RarefeatError, match=words):
            parse(merge_configs(RAW, {"augmentation": change}))


def test_image_views_differ_only_in_their_augmentation():
    views = AUGMENTATION.images
    kinds = views.studies()
    assert list(kinds) == ["views_none", "views_crops", "views_crops_and_intensity"]
    plain = {"augmentation": views.study.augmentation}
    others = [kind.model_copy(update=plain) for kind in kinds.values()]
    assert others[0] == others[1] == others[2]
    assert len({kind.augmentation.model_dump_json() for kind in kinds.values()}) == 3
    none = kinds["views_none"]
    assert ([arm.label for arm in none.arms], none.rho) == (["dense"], [1.0])
    assert [cell["split"] for cell in none.cells()] == ["long_tailed"]
