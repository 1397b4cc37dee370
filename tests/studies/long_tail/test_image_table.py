"""Tests of Table 2: group metrics by replica, paired summaries, and the claims."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import seeded, verdicts_of

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.verdict import CONTRADICTED, SUPPORTED
from rarefeat.images.network import calibrate, make_encoder
from rarefeat.images.probe import probe_images
from rarefeat.studies.long_tail import IMAGE_KEYS, LONGTAIL_CLASSES, PROBES
from rarefeat.studies.long_tail.aggregate import longtail, longtail_summary, measure
from rarefeat.workflow.config.images import ImageProbe, ImageStudy, Network
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.project import load

PROJECT = load("config/config.yaml")
STUDY = PROJECT.studies["digits"]
SEEDS = range(6)


def classes_table(gain, study=STUDY, name="digits"):
    """Return accuracies that fall by 0.04 a rank, with `gain(arm, rho)` more on every class.

    The order of the classes turns with the seed.
    """
    rows = []
    for cell, seed in itertools.product(study.cells(), SEEDS):
        rho, split, (arm,) = cell["rho"], cell["split"], cell.arms
        noise = 1e-4 * np.random.default_rng([seed, int(rho), len(arm.label)]).normal()
        for probe, rank in itertools.product(set(PROBES) - {"balanced_sgd"}, range(10)):
            accuracy = 0.8 - 0.04 * rank + gain(arm, rho) + noise
            rows.append(
                {"dataset": name, "rho": float(rho), "split": split,
                 "width": study.network_of(cell).width, **arm.model_dump(), "seed": seed,
                 "probe": probe, "class": (rank + seed) % 10, "rank": rank,
                 "count": 100 - 10 * rank, "accuracy": accuracy}
            )  # fmt: skip
    return validate_sorted(LONGTAIL_CLASSES.schema, pd.DataFrame(rows))


def replicas_of(classes, study=STUDY):
    """Return the replicas of such classes, with an effective rank that grows over the training."""
    keys = classes[[*IMAGE_KEYS, "seed"]].drop_duplicates()
    courses = [
        keys.assign(epoch=epoch, metric="effective_rank", value=0.5 * epoch) for epoch in (2, 4, 10)
    ]
    return longtail({"classes": classes, "courses": pd.concat(courses)}, study)


def replicas(gain):
    return replicas_of(classes_table(gain))


def summary_of(replicas):
    return longtail_summary({"replicas": replicas})


def test_groups_follow_the_class_order_of_the_replica():
    table = replicas(lambda arm, rho: 0.0)
    assert table["balanced_accuracy"].to_numpy() == pytest.approx(0.62, abs=1e-3)
    assert table["knn_delta_20"].to_numpy() == pytest.approx(0.32, abs=1e-9)
    assert table["few_shot_few"].to_numpy() == pytest.approx(0.8 - 0.04 * 8, abs=1e-3)
    assert table["balanced_sgd_accuracy"].isna().all()
    assert set(table["images"]) == {550}
    assert set(table["effective_rank"]) == {5.0}


def test_summary_pairs_arms_with_dense_by_rho_and_split():
    gain = {"dense": 0.0, "pruned": 0.05, "self_damaging": -0.02, "resampled": 0.03}
    summary = summary_of(replicas(lambda arm, rho: gain[arm.arm]))
    chosen = summary[(summary["probe"] == "balanced") & (summary["metric"] == "accuracy")]
    for _, row in chosen[chosen["arm"] != "dense"].iterrows():
        assert row["paired_difference"] == pytest.approx(gain[row["arm"]], abs=1e-3)
        assert row["paired_ci_low"] <= row["paired_difference"] <= row["paired_ci_high"]
    assert chosen[chosen["arm"] == "dense"]["paired_difference"].isna().all()
    assert not summary.duplicated([*IMAGE_KEYS, "probe", "metric"]).any()


def test_intervals_of_accuracies_stay_within_their_range():
    """Plant two seeds whose Student interval goes from far below 0 to far above 1."""
    classes = classes_table(lambda arm, rho: 0.0)
    classes = classes[classes["seed"] < 2].assign(
        accuracy=lambda table: np.where(table["seed"] == 0, 0.99, 0.5)
    )
    flat = classes["arm"] == "dense"
    classes.loc[flat, "accuracy"] = np.where(classes.loc[flat, "seed"] == 0, 0.01, 0.5)
    summary = summary_of(replicas_of(classes))
    share, gap = summary[summary["metric"] == "accuracy"], summary[summary["metric"] == "delta_20"]
    assert (share["ci_low"].min(), share["ci_high"].max()) == (0.0, 1.0)
    assert (share["paired_ci_low"].min(), share["paired_ci_high"].max()) == (-1.0, 1.0)
    assert gap["ci_low"].min() >= -1
    assert gap["paired_ci_high"].max() <= 2


def test_arms_are_paired_with_dense_of_their_width():
    study = STUDY.model_copy(update={"widths": [8, 32], "rho": [10.0]})
    assert {cell.path for cell in study.cells()} >= {"rho=10.0/split=long_tailed/width=8/arm=dense"}
    assert {study.network_of(cell).width for cell in study.cells()} == {8, 32}
    classes = classes_table(lambda arm, rho: 0.0 if arm.arm == "dense" else 0.1, study)
    classes["accuracy"] += 0.005 * (classes["width"] == 32)
    table = replicas_of(classes, study)
    chosen = summary_of(table).query(
        "probe == 'balanced' and metric == 'accuracy' and arm != 'dense'"
    )
    assert set(chosen["width"]) == {8, 32}
    assert chosen["paired_difference"].to_numpy() == pytest.approx(0.1, abs=1e-3)
    measured = list(measure({"longtail": table}))
    assert len(measured) == 3 * 2 * sum(arm.alpha > 0 for arm in study.arms)
    random = table.assign(threshold=table["threshold"].mask(table["alpha"] > 0, "random"))
    assert not list(measure({"longtail": random}))


def verdicts(gain):
    table = verdicts_of("long_tail", measure({"longtail": replicas(gain)}))
    assert set(table["claim_id"]) == set(load_claims("long_tail").claims)
    return table[table["primary"]].set_index("claim_id")["verdict"].to_dict()


def test_table2_claims_follow_planted_gains():
    """Check that planted gains support the claims of Table 2, and losses contradict them."""
    growing = {5: 0.02, 10: 0.05, 50: 0.12}
    found = verdicts(lambda arm, rho: growing[rho] if arm.arm != "dense" else 0.0)
    assert (found["T2-accuracy"], found["T2-rho"]) == (SUPPORTED, SUPPORTED)
    # The same gain on every class leaves Delta_20 as it was: less than the least effect that would
    # count.
    assert found["T2-delta"] == CONTRADICTED
    found = verdicts(lambda arm, rho: 0.0 if arm.arm == "dense" else -0.1)
    assert found["T2-accuracy"] == CONTRADICTED


ARMS = [{"arm": "dense"}, {"arm": "pruned"}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arms": ARMS}, "alpha must be above 0 for the arms with a mask"),
        ({"balanced_arms": ["sparse"]}, "balanced_arms: sparse is none of"),
        ({"rho": [0.5]}, "greater than or equal to 1"),
        ({"widths": [8, 8]}, "widths\n  Value error, values must be distinct"),
        ({"data": {"format": "cifar_parquet"}}, "folder is required"),
        ({"data": {"format": "digits", "classes": [1]}}, "classes must be distinct, and two"),
    ],
)
def test_invalid_image_studies_are_rejected(change, words):
    with pytest.raises(ValueError, match=words):
        ImageStudy.model_validate(STUDY.model_dump() | change)


def test_list_of_ratios_expands_to_arms():
    arms = [
        {"arm": "dense"},
        {"arm": "pruned", "alpha": [0.05, 0.9], "pruned_update": ["unmasked", "straight_through"]},
    ]
    study = ImageStudy.model_validate(STUDY.model_dump() | {"arms": arms, "balanced_arms": []})
    assert [arm.label for arm in study.arms] == [
        "dense", "pruned_unmasked-alpha=0.05", "pruned_straight_through-alpha=0.05",
        "pruned_unmasked-alpha=0.9", "pruned_straight_through-alpha=0.9",
    ]  # fmt: skip


def test_probes_on_separable_images_and_on_random_labels():
    network = Network(block="basic", depths=[1, 1], width=4, stem="cifar", head=6)
    labels, images = torch.arange(60) % 3, torch.zeros(60, 3, 8, 8)
    images[torch.arange(60), labels] = 200
    images = (images + torch.randint(0, 40, images.shape, generator=seeded(0))).byte()
    encoder = make_encoder(network, 1, "probe", 1)
    calibrate(encoder, images)
    split = {"pool": torch.arange(60), "pretrain": torch.arange(0, 60, 2)}
    split["few_shot"] = torch.arange(6)
    config = ImageProbe(l2=1e-3, few_shot=2, neighbours=3, sgd=True)
    data = {"train": images, "train_labels": labels}
    data |= {"test": images[:30], "test_labels": labels[:30]}
    found = probe_images("probe", 1, data, split, encoder, config)
    assert set(found) == set(PROBES)
    for name, accuracy in found.items():
        assert (accuracy == 1).all(), name
    data["train_labels"] = labels[torch.randperm(60, generator=seeded(1))]
    assert probe_images("probe", 1, data, split, encoder, config)["knn"].mean() < 0.8
