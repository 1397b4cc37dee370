"""Schemas of every table: type, bounds, unit, definition and source of each column. docs/tables.md is rendered from here."""

# ruff: noqa: E501 - a definition reads best on its own line

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from rarefeat.files import RarefeatError, read_table

ARMS = ["dense", "pruned_neuron", "pruned_weight", "oracle", "initial", "ideal"]
CORE = "imbalance_and_pruning"
LIAO = "liao_imbalanced_features"


def column(dtype, checks, unit: str, description: str, source: str = "", nullable: bool = False) -> pa.Column:
    """A column with its unit and source beside the description."""
    return pa.Column(
        dtype, checks=checks, nullable=nullable, description=description, metadata={"unit": unit, "source": source}
    )


def at_least(value: float) -> pa.Check:
    """Lower bound."""
    return pa.Check.ge(value)


# Cosines and shares are computed in float32: a perfect alignment may exceed 1 by rounding.
SHARE = pa.Check.in_range(0, 1 + 1e-5)
COSINE = pa.Check.in_range(-1 - 1e-5, 1 + 1e-5)

POINT = {
    "eps_min": column(
        float,
        pa.Check.in_range(0, 1),
        "1",
        "frequency of the minority features over that of the majority ones",
        f"{CORE}, Def. 3.1",
    ),
    "sigma": column(float, at_least(0), "1", "standard deviation of the noise per coordinate", f"{CORE}, A.2"),
}
ARM = {
    "arm": column(
        str,
        pa.Check.isin(ARMS),
        "",
        "dense; pruned_neuron, pruned_weight: Algorithm 1 by neuron norm or weight magnitude; oracle: the pruned set that Theorem 3.2 assumes; initial: no training; ideal: the dictionary itself",
        f"{CORE}, Algorithm 1, Thm. 3.2",
    ),
    "alpha": column(float, pa.Check.in_range(0, 1), "1", "pruning ratio; 0 for arms without a ratio", f"{CORE}, Algorithm 1"),
    "onset": column("int64", at_least(0), "steps", "first step with a mask", f"{CORE}, A.2"),
    "pruned_update": column(
        str,
        pa.Check.isin(["unmasked", "straight_through"]),
        "",
        "what a mask changes: the logits alone, or the whole step through the masked network's gradient",
        f"{CORE}, eq. (5)",
    ),
}
KEYS = POINT | ARM
SEED = {"seed": column("int64", at_least(0), "", "seed of the replica")}

METRICS = {
    "aligned_neurons": column(
        float,
        at_least(0),
        "neurons",
        "neurons with absolute cosine >= 0.3 to the minority feature (mean over the minority features where there are several)",
        f"{CORE}, Figure 1",
    ),
    "max_alignment": column(
        float,
        SHARE,
        "1",
        "largest absolute cosine of a neuron to the minority feature (mean over the minority features where there are several)",
        f"{CORE}, Figure 2",
    ),
    "majority_alignment": column(float, SHARE, "1", "the same, mean over the majority features"),
    "pure_neurons": column(float, at_least(0), "neurons", "neurons with absolute cosine > 0.9 to any feature"),
    "pure_minority_neurons": column(float, at_least(0), "neurons", "neurons with absolute cosine > 0.9 to a minority feature"),
    "feature_share": column(float, SHARE, "1", "mean over neurons of ||M^T w||^2 / ||w||^2", f"{CORE}, eq. (34)"),
    "cosine_similarity_balanced": column(
        float,
        COSINE,
        "1",
        "mean cosine similarity of positive test pairs, every feature at the majority frequency; a pair with a zero embedding counts as 0",
        f"{CORE}, Figure 3",
    ),
    "cosine_similarity_matched": column(float, COSINE, "1", "the same at the training frequencies", f"{CORE}, Figure 3"),
    "regression_mse_balanced": column(
        float,
        at_least(0),
        "label^2",
        "test MSE of the linear head, label <w*, sign sum_l z^(l)> with w* of independent signs; head fitted and tested with every feature at the majority frequency",
        f"{CORE}, Figure 4",
    ),
    "regression_mse_matched": column(
        float, at_least(0), "label^2", "the same, fitted and tested at the training frequencies", f"{CORE}, Figure 4"
    ),
    "regression_r2_balanced": column(float, pa.Check.le(1), "1", "1 - MSE / variance of the test labels, balanced"),
    "regression_r2_matched": column(float, pa.Check.le(1), "1", "1 - MSE / variance of the test labels, matched"),
    "final_loss": column(
        float,
        at_least(0),
        "nat",
        "InfoNCE without the l2 term, unmasked, on batches of K held-out pairs at the training frequencies",
        f"{CORE}, eq. (1)",
    ),
    "loss_floor": column(
        float,
        at_least(0),
        "nat",
        "mean log of the number of candidates with the anchor's latent sign pattern in the same batches: no encoder's expected loss is lower",
    ),
    "empty_share": column(float, SHARE, "1", "share of balanced test pairs with an embedding that is exactly zero"),
    "mask_minority_overlap": column(
        float,
        SHARE,
        "1",
        "share of the pruned neurons (weights, for pruned_weight) that belong to neurons with absolute cosine >= 0.3 to a minority feature, at the last step; null where nothing is pruned",
        nullable=True,
    ),
}

MILESTONES = {
    "initial_norm_deviation": "max_i | ||w_i(0)||^2 / (sigma_0^2 d1) - 1 | sqrt(d1) / log d1",
    "initial_feature_norm_deviation": "the same of the feature part, with d for d1",
    "T1": "the step that ended stage 1",
    "stage1_growth_minority": "growth per step of the minority feature in the first half of stage 1, less 1 - eta lambda",
    "stage1_growth_majority": "the same of the majority features",
    "stage1_growth_over_closed_form": "the latter over its closed form (docs/model.md)",
    "stage1_decay_outside": "decay per step of the part of W outside span(M), over eta lambda",
    "lucky_above_threshold_at_T1": "share of lucky neurons with the bound of Theorem C.1 (b)",
    "others_below_threshold_at_T1": "share of neurons outside M_j with that of (c)",
    "few_strong_features_at_T1": "share of neurons with that of (d)",
    "outside_largest_at_T1": "largest |cos| to a single direction outside span(M) over sqrt(log d / d1), (e)",
    "T2": "first recorded step with a neuron grown d-fold in norm^2 since T1, eq. (61)",
    "lucky_growth_at_T2": "share of lucky neurons with eq. (9)",
    "lucky_focus_at_T2": "mean |cos(w_i, M_j)| of lucky neurons over eps_min / eps_max",
    "ordinary_over_lucky_at_T2": "largest ratio of an ordinary neuron's projection to the best lucky one's",
    "bias_at_T2": "min_i b_i sqrt(d) / ||w_i||",
    "lucky_focus_at_T": "mean |cos(w_i, M_j)| of lucky neurons",
    "lucky_over_strongest_at_T": "smallest projection of a lucky neuron over the largest of any in M_j",
    "others_small_at_T": "share of neurons outside M_j with |cos(w_i, M_j)| <= eps_j / (eps_max sqrt(d))",
    "largest_norm": "max_i ||w_i|| at T",
    "share_outside": "mean share of ||w_i||^2 outside span(M) at T",
    "outside_per_direction": "max_i of sqrt(d1) times the root mean square of w_i / ||w_i|| over the directions outside span(M)",
    "strength_ratio": "sum_i <w_i, M_j>^2 of the minority feature over the mean of the majority ones",
    "magnitude_ratio": "max_i |<w_i, M_j>| of the minority feature over the mean of the majority ones",
    "alignment_gap": "largest cosine, mean over the majority features less that to the minority one",
    "pure_share": "share of neurons with absolute cosine > 0.9 to any feature",
    "pure_minority_neurons": "their number for the minority feature",
    "pruned_other_features": "largest sqrt(d) |cos| to another feature of the neurons whose largest is the minority one",
    "pruned_outside": "outside_per_direction of these neurons alone",
    "minority_norm_rank": "mean rank by norm, from 0 to 1, of the neurons with absolute cosine >= 0.3 to the minority feature",
}

ONE_STEP = {
    "growth_minority_dense": "relative growth in one step of the pruned neurons along the minority feature, without the mask",
    "growth_minority_masked": "with it",
    "growth_majority_dense": "the same of the neurons pure in a majority feature, along it, without the mask",
    "growth_majority_masked": "with it",
    "growth_minority_gain": "growth_minority_masked - growth_minority_dense",
    "growth_majority_gain": "growth_majority_masked - growth_majority_dense",
    "gain_ratio": "growth_majority_gain / growth_minority_gain",
    "logit_with_minority": "mean change of the positive logit by the mask on samples with the minority feature",
    "logit_without_minority": "on the others",
    "logit_leak": "the latter over the former",
    "similarity_positive": "mean over positive pairs of sum_P h_i(X) h_i(Y)",
    "similarity_negative": "mean over negative pairs, over that",
    "negative_share": "pull of the negatives on the pruned neurons along the minority feature, over that of the positives",
    "pruned_neurons": "neurons that the oracle prunes",
}

AUGMENTED = {
    "share_features": "mean share of ||w_i||^2 in span(M)",
    "share_colour": "in the span of the colour nuisance",
    "share_rest": "elsewhere",
    "bias_share": "mean b_i / ||w_i||",
    "norm": "mean ||w_i||",
    "T1": "the step that ended stage 1",
    "singletons": "neurons with absolute cosine > 0.9 to a feature",
    "covered_features": "share of the features that have one",
    "features_per_neuron": "mean number of features with absolute cosine >= 1/sqrt(d)",
    "minority_alignment": "largest absolute cosine to the last feature",
    "minority_singletons": "neurons with absolute cosine > 0.9 to it",
    "T2": "first recorded step with a neuron grown d-fold in norm^2 since T1",
    "initial_norm_deviation": "max_i | ||w_i(0)||^2 / (sigma_0^2 d1) - 1 | sqrt(d1) / log d1",
    "initial_feature_norm_deviation": "the same of the feature part, with d for d1",
    "lucky_neurons": "mean |M_j^*| at W(0)",
    "ordinary_features": "mean |N_i| at W(0)",
    "shared_ordinary": "largest |M_j n M_k| at W(0), over log d",
    "lucky_above_threshold_at_T1": "share of lucky neurons with |cos(w_i, M_j)| above sqrt(2 log d / d) at T1",
    "others_below_threshold_at_T1": "share of neurons outside M_j below it",
    "few_strong_features_at_T1": "share of neurons with at most d / (2 sqrt(log d)) features of absolute cosine >= log^(1/4) d / sqrt(d)",
    "outside_largest_at_T1": "largest |cos| to a single direction outside span(M) over sqrt(log d / d1)",
    "lucky_focus_at_T2": "mean |cos(w_i, M_j)| of lucky neurons at T2",
    "ordinary_over_lucky_at_T2": "largest ratio of an ordinary neuron's projection to the best lucky one's",
    "cross_talk": "largest |<M_j, (I - 2 D) M_k>| over features and masks D, times sqrt(d1) / log d1",
    "pull_features": "E[h_i(x') <grad h_i(x), v>] over <w_i, v> p at W(0), without a bias, for v in span(M)",
    "pull_rest": "the same off span(M), over <w_i, v> sigma^2",
    "likeness_to_supervised": "mean over the supervised neurons, by squared norm, of the largest |cos| to a neuron",
    "growth_over_closed_form": "growth of the features in the first half of stage 1 over its closed form, both less 1 - eta lambda",
    "activity": "Pr(h_i(x) != 0), mean over neurons",
    "noise_cosine": "mean cosine of f(x) and f(xi), xi the noise of x, where z is not 0",
    "separation": "variance of f(x) between the signed features of samples with one active feature, over all of it",
    "noise_left": "mean ||f(x) - f(Mz)|| over mean ||f(Mz)||, where z is not 0",
    "silent_signals": "share of the samples with z not 0 and f(Mz) = 0",
    "regression_error": "test MSE of a ridge head for <w*, z> over the variance of the label",
    "classification_accuracy": "test accuracy of a logistic head for its sign",
}

IMAGE_VIEWED = {
    "linear_accuracy": "test accuracy of the linear probe fitted on the pretraining images",
    "knn_accuracy": "test accuracy by neighbours among them",
    "separation": "variance of the features between the classes of the test images, over all of it",
    "crop_invariance": "mean cosine of the features of a test image and of a crop of it, less the mean feature of all",
    "intensity_invariance": "the same for a change of brightness and contrast",
}

IMAGE_VIEWS = {
    "study": column(str, None, "", "views_KIND, KIND of augmentation.images.kinds"),
    "network": column(str, pa.Check.isin(["trained", "initial"]), "", "after or before its training"),
}

VERDICTS = ("holds", "holds only under a stated condition", "does not hold here", "not testable here")

INTERVAL = {
    "ci_low": column(
        float, None, "of the estimate", "lower end of the 95 % interval of the mean over seeds (Student)", nullable=True
    ),
    "ci_high": column(float, None, "of the estimate", "upper end", nullable=True),
    "n": column("int64", at_least(0), "replicas", "number of seeds"),
}
PAIRED = {
    "paired_difference": column(
        float,
        None,
        "of the metric",
        "mean over seeds of the difference to `dense` at the same seed; null for dense itself",
        nullable=True,
    ),
    "paired_ci_low": column(float, None, "of the metric", "lower end of its 95 % interval (Student)", nullable=True),
    "paired_ci_high": column(float, None, "of the metric", "upper end", nullable=True),
}
METRIC = {"metric": column(str, None, "", "name of the metric")}

# The image studies.
IMAGE_ARM = {
    "arm": column(str, pa.Check.isin(["dense", "pruned", "self_damaging"]), "", "what was trained (docs/images.md)"),
    "alpha": column(float, at_least(0), "1", "share of the convolutions' weights that is masked"),
    "pruned_update": column(str, pa.Check.isin(["unmasked", "straight_through"]), "", "update under the mask, for `pruned`"),
    "threshold": column(str, pa.Check.isin(["global", "per_layer"]), "", "magnitudes ranked together or by layer"),
}
IMAGE_KEYS = {
    "dataset": column(str, None, "", "image study, as named in the config"),
    "rho": column(float, at_least(1), "1", "images of the largest class over those of the smallest", f"{CORE}, section 4"),
    "split": column(str, pa.Check.isin(["long_tailed", "balanced"]), "", "long-tailed, or as many images in equal classes"),
} | IMAGE_ARM
PROBES = {
    "balanced": "linear probe on every training image",
    "balanced_sgd": "the same by the reference implementations' SGD, where the config asks for it",
    "long_tailed": "linear probe on the pretraining images",
    "few_shot": "linear probe on a few images per class",
    "knn": "nearest neighbours among the pretraining images",
}
GROUPS = {
    "accuracy": "mean accuracy of the classes",
    "delta_20": "accuracy of the 20 % most frequent classes less that of the 20 % rarest",
    "many": "accuracy of the most frequent third of the classes, with the remainder",
    "medium": "of the middle third",
    "few": "of the rarest third",
    "group_std": "standard deviation over these three groups",
}

# Sizes of the scaling study.
SIZES = {
    "d": column("int64", at_least(3), "features", "number of features d", f"{CORE}, Def. 3.1"),
    "C_m": column(float, pa.Check.gt(0), "1", "exponent of m = d^C_m", f"{CORE}, Thm. 3.1"),
    "d1_power": column(float, at_least(1), "1", "exponent of d1 = d^power"),
    "m": column("int64", at_least(1), "neurons", "number of neurons m", f"{CORE}, Thm. 3.1"),
    "d1": column("int64", at_least(3), "1", "input dimension d_1", f"{CORE}, Def. 3.1"),
    "ratio": column(float, pa.Check.in_range(0, 1), "1", "eps_min / eps_max", f"{CORE}, Def. 3.1"),
}


def schema(columns: dict, unique: list[str]) -> pa.DataFrameSchema:
    """A strict, ordered schema with a unique key."""
    return pa.DataFrameSchema(columns, strict=True, ordered=True, unique=unique)


SCHEMAS = {
    "grid": schema(
        POINT
        | {"nsr": column(float, at_least(0), "1", "noise-to-signal ratio sigma^2 d1", f"{CORE}, A.2")}
        | ARM
        | {"simulator": column(str, pa.Check.isin(["direct", "reduced"]), "", "simulator of the training")}
        | SEED
        | METRICS,
        unique=[*KEYS, "seed"],
    ),
    "summary": schema(
        KEYS
        | {"metric": column(str, pa.Check.isin(METRICS), "", "a metric of the grid table")}
        | {
            "mean": column(float, None, "of the metric", "mean over seeds", nullable=True),
            "sd": column(float, None, "of the metric", "standard deviation over seeds", nullable=True),
        }
        | INTERVAL
        | PAIRED,
        unique=[*KEYS, "metric"],
    ),
    "trends": schema(
        {
            "grid": column(str, None, "", "block of the study's grid, as named in the config"),
            "sigma": POINT["sigma"],
        }
        | ARM
        | {"metric": column(str, pa.Check.isin(METRICS), "", "a metric of the grid table")}
        | {
            "slope": column(
                float,
                None,
                "of the metric",
                "mean over seeds of the least-squares slope of the metric in eps_min over the block",
                nullable=True,
            )
        }
        | INTERVAL
        | {
            "at_lowest": column(float, None, "of the metric", "mean at the block's smallest eps_min", nullable=True),
            "at_highest": column(float, None, "of the metric", "mean at the block's largest eps_min", nullable=True),
        }
        | PAIRED,
        unique=["grid", "sigma", *ARM, "metric"],
    ),
    "trajectories": schema(
        KEYS
        | SEED
        | {"step": column("int64", at_least(0), "steps", "training step t")}
        | {
            "metric": column(
                str,
                None,
                "",
                "aligned_neurons ... mask_minority_overlap as in the grid table; loss and loss_floor on the step's own batch; weight_norm: mean ||w_i||; bias_share: mean b_i / ||w_i||; T1: the step that ended stage 1, -1 for none, recorded at the last step",
            )
        }
        | {"value": column(float, None, "of the metric", "value of the metric", nullable=True)},
        unique=[*KEYS, "seed", "step", "metric"],
    ),
    "overlap": schema(
        POINT
        | {
            "step": column("int64", at_least(0), "steps", "training step t"),
            "alpha": column(float, pa.Check.in_range(0, 1), "1", "pruning ratio, k / m for the k smallest neurons"),
            "overlap": column(
                float, pa.Check.in_range(0, 1), "1", "mean share of them with absolute cosine >= 0.3 to the minority feature"
            ),
        }
        | INTERVAL,
        unique=[*POINT, "step", "alpha"],
    ),
    "longtail": schema(
        IMAGE_KEYS
        | SEED
        | {
            "images": column("int64", at_least(2), "images", "pretraining images"),
            "epochs": column("int64", at_least(1), "epochs", "passes over them"),
        }
        | {
            f"{probe}_{metric}": column(float, None, "1", f"{text}: {words}", nullable=True)
            for probe, text in PROBES.items()
            for metric, words in GROUPS.items()
        },
        unique=[*IMAGE_KEYS, "seed"],
    ),
    "longtail_classes": schema(
        IMAGE_KEYS
        | SEED
        | {
            "probe": column(str, pa.Check.isin(PROBES), "", "; ".join(f"{name}: {text}" for name, text in PROBES.items())),
            "class": column("int64", at_least(0), "", "label"),
            "rank": column("int64", at_least(0), "", "its place in the order of decreasing counts of the long-tailed list"),
            "count": column("int64", at_least(0), "images", "its pretraining images"),
            "accuracy": column(float, pa.Check.in_range(0, 1), "1", "share of its test images that the probe gets right"),
        },
        unique=[*IMAGE_KEYS, "seed", "probe", "class"],
    ),
    "longtail_summary": schema(
        IMAGE_KEYS
        | {
            "probe": column(str, pa.Check.isin(PROBES), "", "as in longtail_classes"),
            "metric": column(str, pa.Check.isin(GROUPS), "", "as in longtail"),
            "mean": column(float, None, "1", "mean over seeds"),
            "sd": column(float, None, "1", "standard deviation over seeds", nullable=True),
        }
        | INTERVAL
        | PAIRED,
        unique=[*IMAGE_KEYS, "probe", "metric"],
    ),
    "longtail_trajectories": schema(
        IMAGE_KEYS
        | SEED
        | {
            "epoch": column("int64", at_least(1), "epochs", "passes done"),
            "metric": column(
                str,
                pa.Check.isin(["loss", "learning_rate", "alignment", "uniformity", "knn_accuracy"]),
                "",
                "loss: what the arm descends, of the epoch's last batch; alignment and uniformity (Wang & Isola 2020) of its"
                " projections under the dense weights; knn_accuracy: test images by 5 neighbours among the pretraining images",
            ),
            "value": column(float, None, "of the metric", "value of the metric"),
        },
        unique=[*IMAGE_KEYS, "seed", "epoch", "metric"],
    ),
    "augmentation": schema(
        {"study": column(str, None, "", "study of the section `augmentation`")}
        | KEYS
        | SEED
        | {
            "encoder": column(
                str,
                pa.Check.isin(["trained", "supervised", "raw", "oracle"]),
                "",
                "raw: the input itself; oracle: M^T with a bias, E.10",
            ),
            "labels": column("int64", at_least(0), "labels", "labels of the linear head; 0 for what needs none"),
            "metric": column(
                str, pa.Check.isin(AUGMENTED), "", "; ".join(f"{name}: {text}" for name, text in AUGMENTED.items())
            ),
            "value": column(float, None, "of the metric", "null where the replica has no such thing", nullable=True),
        },
        unique=["study", *KEYS, "seed", "encoder", "labels", "metric"],
    ),
    "augmentation_neurons": schema(
        {"study": column(str, None, "", "study of the section `augmentation`")}
        | KEYS
        | SEED
        | {
            "encoder": column(str, pa.Check.isin(["trained", "supervised"]), "", "whose neuron it is"),
            "neuron": column("int64", at_least(0), "", "index of the neuron"),
            "activity": column(float, pa.Check.in_range(0, 1), "1", "Pr(h_i(x) != 0) over the test samples"),
        },
        unique=["study", *KEYS, "seed", "encoder", "neuron"],
    ),
    "augmentation_embedding": schema(
        {"study": column(str, None, "", "study of the section `augmentation`")}
        | POINT
        | {
            "encoder": column(str, pa.Check.isin(["trained", "supervised"]), "", "whose f it is"),
            "sample": column(
                "int64", at_least(0), "", "test sample with one active feature, of the first seed and the dense arm"
            ),
            "feature": column("int64", at_least(0), "", "its feature"),
            "x": column(float, None, "1", "first principal component of f(x), in units of its standard deviation"),
            "y": column(float, None, "1", "the second"),
        },
        unique=["study", *POINT, "encoder", "sample"],
    ),
    "augmentation_images": schema(
        IMAGE_VIEWS
        | SEED
        | {
            "metric": column(
                str, pa.Check.isin(IMAGE_VIEWED), "", "; ".join(f"{name}: {text}" for name, text in IMAGE_VIEWED.items())
            ),
            "value": column(float, None, "1", "value of the metric"),
        },
        unique=[*IMAGE_VIEWS, "seed", "metric"],
    ),
    "augmentation_images_units": schema(
        IMAGE_VIEWS
        | SEED
        | {
            "layer": column(str, None, "", "stem, or a block by its number"),
            "unit": column("int64", at_least(0), "", "channel"),
            "firing_rate": column(float, pa.Check.in_range(0, 1), "1", "share of test images and places where it is above 0"),
        },
        unique=[*IMAGE_VIEWS, "seed", "layer", "unit"],
    ),
    "augmentation_images_embedding": schema(
        IMAGE_VIEWS
        | {
            "image": column("int64", at_least(0), "", "test image; the network is that of the first seed"),
            "label": column("int64", at_least(0), "", "its label"),
            "x": column(float, None, "1", "first coordinate of t-SNE on the features"),
            "y": column(float, None, "1", "the second"),
        },
        unique=[*IMAGE_VIEWS, "image"],
    ),
    "augmentation_course": schema(
        {"study": column(str, None, "", "study of the section `augmentation`")}
        | KEYS
        | SEED
        | {
            "step": column("int64", at_least(0), "steps", "training step t"),
            "metric": column(str, None, "", "share_features, share_colour, share_rest, bias_share or norm"),
            "value": column(float, None, "of the metric", "value of the metric"),
        },
        unique=["study", *KEYS, "seed", "step", "metric"],
    ),
    "cross_check": schema(
        KEYS
        | {"metric": column(str, pa.Check.isin(METRICS), "", "a metric of the grid table")}
        | {
            "reduced": column(float, None, "of the metric", "mean over seeds under the reduced simulator, study `paper`"),
            "direct": column(float, None, "of the metric", "the same under the direct simulator, study `direct`"),
            "n_reduced": column("int64", at_least(2), "replicas", "number of seeds under the reduced simulator"),
            "n_direct": column("int64", at_least(2), "replicas", "number of seeds under the direct one"),
            "difference": column(float, None, "of the metric", "reduced - direct"),
            "ci_low": column(float, None, "of the metric", "lower end of its 95 % interval (Welch)"),
            "ci_high": column(float, None, "of the metric", "upper end"),
            "p_value": column(
                float, pa.Check.in_range(0, 1), "1", "two-sided Mann-Whitney test; 1 where every replica has the same value"
            ),
            "adjusted_p_value": column(float, pa.Check.in_range(0, 1), "1", "the same, adjusted by Holm over the whole table"),
            "agrees": column(bool, None, "", "adjusted p-value at least 0.01: the level for the whole table"),
        },
        unique=[*KEYS, "metric"],
    ),
    "heatmap": schema(
        KEYS
        | SEED
        | {
            "neuron": column("int64", at_least(0), "", "index i of the neuron, from 0"),
            "feature": column("int64", at_least(0), "", "index j of the feature, from 0; the minority features are the last"),
            "minority": column(bool, None, "", "whether j is a minority feature"),
            "squared_cosine": column(float, SHARE, "1", "<w_i, M_j>^2 / ||w_i||^2", f"{LIAO}, Figure 1"),
        },
        unique=[*KEYS, "seed", "neuron", "feature"],
    ),
    "milestones": schema(
        KEYS
        | SEED
        | {
            "metric": column(
                str, pa.Check.isin(MILESTONES), "", "; ".join(f"{name}: {text}" for name, text in MILESTONES.items())
            ),
            "value": column(float, None, "of the metric", "null where the replica has no such thing", nullable=True),
        },
        unique=[*KEYS, "seed", "metric"],
    ),
    "one_step": schema(
        POINT
        | SEED
        | {
            "metric": column(str, pa.Check.isin(ONE_STEP), "", "; ".join(f"{name}: {text}" for name, text in ONE_STEP.items())),
            "value": column(
                float, None, "of the metric", "null where neurons are silent or no sample has the feature", nullable=True
            ),
        },
        unique=[*POINT, "seed", "metric"],
    ),
    "claims": schema(
        {
            "claim_id": column(str, None, "", "id of the claim"),
            "group": column(str, None, "", "part of the theory that it belongs to"),
            "source": column(str, None, "", "paper and equation"),
            "statement": column(str, None, "", "the statement in one line"),
            "regime": column(str, None, "", "study and point that it was measured at"),
            "quantity": column(str, None, "", "what was measured"),
            "estimate": column(float, None, "of the quantity", "mean over seeds, or a fitted exponent", nullable=True),
            "ci_low": column(float, None, "of the quantity", "lower end of the 95 % interval (Student)", nullable=True),
            "ci_high": column(float, None, "of the quantity", "upper end", nullable=True),
            "n": column("int64", at_least(0), "replicas", "seeds with a value, or points of a fit"),
            "test": column(str, None, "", "what the quantity must be, and the test; empty where none was made"),
            "required_low": column(
                float, None, "of the quantity", "lower end of what it must be; null where open", nullable=True
            ),
            "required_high": column(float, None, "of the quantity", "upper end", nullable=True),
            "p_value": column(
                float, pa.Check.in_range(0, 1), "1", "of the test, before the correction for their number", nullable=True
            ),
            "adjusted_p_value": column(
                float, pa.Check.in_range(0, 1), "1", "adjusted by Holm over the whole table", nullable=True
            ),
            "verdict": column(str, pa.Check.isin(VERDICTS), "", "read off the numbers by rarefeat.claims.claim"),
            "condition": column(
                str, None, "", "the regime for which a claim holds that fails elsewhere; why it fails; why it was not tested"
            ),
        },
        unique=["claim_id", "regime"],
    ),
    "lucky_sets": schema(
        {
            "d": SIZES["d"],
            "ratio": SIZES["ratio"],
            "neurons": column("int64", at_least(1), "neurons", "initial neurons drawn"),
            "lucky_neurons": column("int64", at_least(0), "neurons", "of these, lucky for any feature", f"{CORE}, eq. (27)"),
            "lucky_probability": column(
                float,
                SHARE,
                "1",
                "estimated probability that a neuron is lucky for one given feature: lucky_neurons / neurons / d, as features are exchangeable and exclude each other",
                f"{CORE}, eq. (27), (238)",
            ),
            "lucky_ci_low": column(float, SHARE, "1", "lower end of its 95 % interval (Clopper-Pearson)"),
            "lucky_ci_high": column(float, SHARE, "1", "upper end"),
            "ordinary_features": column(
                float,
                at_least(0),
                "features",
                "mean over neurons of |N_i|, the number of features a neuron is ordinary for",
                f"{CORE}, eq. (26), (247)",
            ),
            "ordinary_ci_low": column(float, at_least(0), "features", "lower end of its 95 % interval (normal)"),
            "ordinary_ci_high": column(float, at_least(0), "features", "upper end"),
        },
        unique=["d", "ratio"],
    ),
    "scaling": schema(
        SIZES
        | SEED
        | {
            "lucky_minority_neurons": column(
                "int64",
                at_least(0),
                "neurons",
                "neurons lucky for the minority feature at this replica's W(0)",
                f"{CORE}, eq. (27)",
            ),
            "pure_minority_neurons": column(
                "int64",
                at_least(0),
                "neurons",
                "neurons with absolute cosine > 0.9 to the minority feature after training",
                f"{CORE}, Thm. 3.1",
            ),
            "single_minority_neurons": column(
                "int64",
                at_least(0),
                "neurons",
                "neurons with N_i = {j*} after training: absolute cosine >= 1/sqrt(d) to the minority feature and to no other",
                f"{CORE}, Thm. 3.1, eq. (13)",
            ),
            "ordinary_features": column(
                float,
                at_least(0),
                "features",
                "mean over neurons of |N_i| at W(0), features ordinary for",
                f"{CORE}, eq. (26), (247)",
            ),
            "learned_features": column(
                float,
                at_least(0),
                "features",
                "mean over neurons of |N_i| after training: features with absolute cosine >= 1/sqrt(d)",
                f"{CORE}, eq. (12)-(14)",
            ),
            "lucky_pure_share": column(
                float,
                SHARE,
                "1",
                "share of the neurons lucky for the minority feature that end pure in it (absolute cosine > 0.9); null where there is none",
                f"{CORE}, Thm. 3.1",
                nullable=True,
            ),
        },
        unique=["d", "m", "d1", "ratio", "seed"],
    ),
    "scaling_exponents": schema(
        {
            "quantity": column(
                str,
                pa.Check.isin(
                    [
                        "lucky_probability",
                        "ordinary_features",
                        "pure_minority_share",
                        "single_minority_share",
                        "learned_features",
                    ]
                ),
                "",
                "what is fitted: columns of the tables above; a share is the number of neurons over m",
            ),
            "ratio": SIZES["ratio"],
            "d1_power": column(float, at_least(1), "1", "exponent of d1 = d^power; null at initialisation", nullable=True),
            "d_low": column("int64", at_least(3), "features", "smallest d of the fit"),
            "d_high": column("int64", at_least(3), "features", "largest d of the fit"),
            "log_power": column(
                float,
                None,
                "1",
                "power of log d divided out before the fit: 0, or -1/2, the factor that eq. (238) has and eq. (239) drops",
                f"{CORE}, eq. (238), (239)",
            ),
            "exponent": column(float, None, "1", "fitted exponent of the quantity in d"),
            "ci_low": column(
                float,
                None,
                "1",
                "lower end of its 95 % interval: random-effects regression of logarithms, Student with n - 2 degrees of freedom",
            ),
            "ci_high": column(float, None, "1", "upper end"),
            "n": column(
                "int64", at_least(3), "points", "points of the fit: a d at initialisation, a size (d, m) after training"
            ),
            "left_out": column("int64", at_least(0), "points", "points left out because nothing was seen there"),
            "bound": column(float, None, "1", "the exponent of the bound", f"{CORE}, Lemma B.2, Thm. 3.1"),
            "bound_side": column(str, pa.Check.isin(["at least", "at most"]), "", "which side the bound allows"),
            "consistent": column(bool, None, "", "false where the whole interval lies on the side that the bound forbids"),
        },
        unique=["quantity", "ratio", "d1_power", "d_low", "log_power"],
    ),
}


def checked(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """The table, its columns in order; RarefeatError naming the first column that breaks the schema."""
    try:
        return SCHEMAS[name].validate(table[list(SCHEMAS[name].columns)], lazy=True)
    except SchemaErrors as error:
        first = error.failure_cases.iloc[0]
        raise RarefeatError(
            f"table {name}: column {first['column']}: {first['check']} fails for {first['failure_case']}"
        ) from error
    except KeyError as error:
        raise RarefeatError(f"table {name}: {error.args[0]}") from error


def ordered(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A checked table in the order of its schema, sorted by its key."""
    schema = SCHEMAS[name]
    return checked(name, table[list(schema.columns)].sort_values(list(schema.unique), ignore_index=True))


def of_studies(name: str, studies: Iterable[str], folder: Path) -> pd.DataFrame:
    """The rows of every study in one table, from the file of that name in each study's folder."""
    parts = [read_table(folder / study / f"{name}.parquet").to_pandas().assign(study=study) for study in studies]
    return ordered(name, pd.concat(parts, ignore_index=True))
