"""Schemas of the tables of an encoder study: type, unit and definition of each column."""

import pandera.pandas as pa

from rarefeat.model.arms import ARMS, is_arm
from rarefeat.workflow.files.schema import (
    COSINE,
    SHARE,
    at_least,
    column,
    metric_descriptions,
    schema,
)

CORE = "imbalance_and_pruning"

POINT = {
    "eps_min": column(
        float,
        pa.Check.in_range(0, 1),
        unit="1",
        description="frequency of the minority features over that of the majority ones",
        source=f"{CORE}, Def. 3.1",
    ),
    "sigma": column(
        float,
        at_least(0),
        unit="1",
        description="standard deviation of the noise per coordinate",
        source=f"{CORE}, A.2",
    ),
}

ARM = {
    "arm": column(
        str,
        pa.Check(is_arm, element_wise=True),
        unit="",
        description="; ".join(
            [
                *(f"{name}: {arm.description}" for name, arm in ARMS.items()),
                "or a rule of a user's own",
            ]
        ),
        source=f"{CORE}, Algorithm 1, Thm. 3.2",
    ),
    "alpha": column(
        float,
        pa.Check.in_range(0, 1),
        unit="1",
        description="pruning ratio; 0 for arms without a ratio",
        source=f"{CORE}, Algorithm 1",
    ),
    "onset": column(
        "int64",
        at_least(0),
        unit="steps",
        description="first step with a mask",
        source=f"{CORE}, A.2",
    ),
    "pruned_update": column(
        str,
        pa.Check.isin(["unmasked", "straight_through"]),
        unit="",
        description="effect of a mask: on the logits alone, or on the whole step, by the gradient"
        " of the masked network",
        source=f"{CORE}, eq. (5)",
    ),
}

KEYS = POINT | ARM

SEED = {"seed": column("int64", at_least(0), unit="", description="seed of the replica")}

METRICS = {
    "aligned_neurons": column(
        float,
        at_least(0),
        unit="neurons",
        description="neurons with absolute cosine >= 0.3 to the minority feature (mean over the"
        " minority features where there are several)",
        source=f"{CORE}, Figure 1",
    ),
    "max_alignment": column(
        float,
        SHARE,
        unit="1",
        description="largest absolute cosine of a neuron to the minority feature (mean over the"
        " minority features where there are several)",
        source=f"{CORE}, Figure 2",
    ),
    "majority_alignment": column(
        float,
        SHARE,
        unit="1",
        description="largest absolute cosine of a neuron to a feature, mean over the majority"
        " features",
    ),
    "pure_neurons": column(
        float,
        at_least(0),
        unit="neurons",
        description="neurons with absolute cosine > 0.9 to any feature",
    ),
    "pure_minority_neurons": column(
        float,
        at_least(0),
        unit="neurons",
        description="neurons with absolute cosine > 0.9 to a minority feature",
    ),
    "feature_share": column(
        float,
        SHARE,
        unit="1",
        description="mean over neurons of ||M^T w||^2 / ||w||^2",
        source=f"{CORE}, eq. (34)",
    ),
    "cosine_similarity_balanced": column(
        float,
        COSINE,
        unit="1",
        description="mean cosine similarity of positive test pairs with every feature at the"
        " majority frequency; a pair with a zero embedding counts as 0",
        source=f"{CORE}, Figure 3",
    ),
    "cosine_similarity_matched": column(
        float,
        COSINE,
        unit="1",
        description="mean cosine similarity of positive test pairs at the training frequencies; a"
        " pair with a zero embedding counts as 0",
        source=f"{CORE}, Figure 3",
    ),
    "cosine_similarity_alive_balanced": column(
        float,
        COSINE,
        unit="1",
        description="mean cosine similarity of the positive test pairs without a zero embedding,"
        " with every feature at the majority frequency; null if there are none",
        nullable=True,
    ),
    "cosine_similarity_alive_matched": column(
        float,
        COSINE,
        unit="1",
        description="mean cosine similarity of the positive test pairs without a zero embedding,"
        " at the training frequencies; null if there are none",
        nullable=True,
    ),
    "regression_mse_balanced": column(
        float,
        at_least(0),
        unit="label^2",
        description="test MSE of the linear head, label <w*, sign sum_l z^(l)> with w* of"
        " independent signs; head fitted and tested with every feature at the majority frequency",
        source=f"{CORE}, Figure 4",
    ),
    "regression_mse_matched": column(
        float,
        at_least(0),
        unit="label^2",
        description="test MSE of the linear head, fitted and tested at the training frequencies",
        source=f"{CORE}, Figure 4",
    ),
    "regression_r2_balanced": column(
        float,
        pa.Check.le(1),
        unit="1",
        description="1 - MSE / variance of the test labels, with every feature at the majority"
        " frequency",
    ),
    "regression_r2_matched": column(
        float,
        pa.Check.le(1),
        unit="1",
        description="1 - MSE / variance of the test labels, at the training frequencies",
    ),
    "final_loss": column(
        float,
        at_least(0),
        unit="nat",
        description="InfoNCE without the l2 term, unmasked, on batches of K held-out pairs at the"
        " training frequencies",
        source=f"{CORE}, eq. (1)",
    ),
    "loss_floor": column(
        float,
        at_least(0),
        unit="nat",
        description="mean log of the number of candidates with the latent sign pattern of the"
        " anchor in the batches of final_loss: no encoder has a lower expected loss",
    ),
    "ideal_loss": column(
        float,
        at_least(0),
        unit="nat",
        description="loss of the ideal encoder, the dictionary without a bias, on the batches of"
        " final_loss, at its best scale",
    ),
    "diverged": column(
        float,
        SHARE,
        unit="1",
        description="1 if the final loss is above twice log K, the loss of an encoder that maps"
        " everything to one embedding: such a training must not be interpreted",
    ),
    "empty_share": column(
        float,
        SHARE,
        unit="1",
        description="share of balanced test pairs with an embedding that is exactly zero",
    ),
    "mask_minority_overlap": column(
        float,
        SHARE,
        unit="1",
        description="share of the pruned neurons (weights, for pruned_weight) that belong to"
        " neurons with absolute cosine >= 0.3 to a minority feature, at the last step; null where"
        " nothing is pruned",
        nullable=True,
    ),
}

INDICATORS = ("diverged",)
"""Metrics that are 0 or 1 for each replica: their mean is a fraction."""

INTERVAL = {
    "ci_low": column(
        float,
        None,
        unit="of the estimate",
        description="lower end of the 95 % interval of the mean over seeds (Student)",
        nullable=True,
    ),
    "ci_high": column(
        float, None, unit="of the estimate", description="upper end of this interval", nullable=True
    ),
    "n": column("int64", at_least(0), unit="replicas", description="number of seeds"),
}

PAIRED = {
    "paired_difference": column(
        float,
        None,
        unit="of the metric",
        description="mean over seeds of the difference to `dense` at the same seed; null for dense"
        " itself",
        nullable=True,
    ),
    "paired_ci_low": column(
        float,
        None,
        unit="of the metric",
        description="lower end of the 95 % interval of this difference (Student)",
        nullable=True,
    ),
    "paired_ci_high": column(
        float, None, unit="of the metric", description="upper end of this interval", nullable=True
    ),
}

GRID = schema(
    "{study}_grid",
    "a row per (eps_min, sigma, arm with its keys, seed)",
    POINT
    | {
        "nsr": column(
            float,
            at_least(0),
            unit="1",
            description="noise-to-signal ratio sigma^2 d1",
            source=f"{CORE}, A.2",
        )
    }
    | ARM
    | {
        "simulator": column(
            str,
            pa.Check.isin(["direct", "reduced"]),
            unit="",
            description="simulator of the training",
        )
    }
    | SEED
    | METRICS,
    unique=[*KEYS, "seed"],
)

SUMMARY = schema(
    "{study}_summary",
    "a row per (eps_min, sigma, arm with its keys, metric)",
    KEYS
    | {
        "metric": column(
            str, pa.Check.isin(METRICS), unit="", description="a metric of the grid table"
        )
    }
    | {
        "mean": column(
            float, None, unit="of the metric", description="mean over seeds", nullable=True
        ),
        "sd": column(
            float,
            None,
            unit="of the metric",
            description="standard deviation over seeds",
            nullable=True,
        ),
    }
    | INTERVAL
    | {
        "ci_low": column(
            float,
            None,
            unit="of the estimate",
            description="lower end of the 95 % interval of the mean over seeds (Student; exact for"
            " the fraction that diverged, Clopper & Pearson 1934)",
            nullable=True,
        )
    }
    | PAIRED,
    unique=[*KEYS, "metric"],
)

TRENDS = schema(
    "{study}_trends",
    "a row per (block of the grid, sigma, arm with its keys, metric); `paired_difference` is the"
    " mean over the block",
    {
        "grid": column(
            str, None, unit="", description="block of the study's grid, as named in the config"
        ),
        "sigma": POINT["sigma"],
    }
    | ARM
    | {
        "metric": column(
            str, pa.Check.isin(METRICS), unit="", description="a metric of the grid table"
        )
    }
    | {
        "slope": column(
            float,
            None,
            unit="of the metric",
            description="mean over seeds of the least-squares slope of the metric in eps_min over"
            " the block",
            nullable=True,
        )
    }
    | INTERVAL
    | {
        "at_lowest": column(
            float,
            None,
            unit="of the metric",
            description="mean at the block's smallest eps_min",
            nullable=True,
        ),
        "at_highest": column(
            float,
            None,
            unit="of the metric",
            description="mean at the block's largest eps_min",
            nullable=True,
        ),
    }
    | PAIRED,
    unique=["grid", "sigma", *ARM, "metric"],
)

TRAJECTORIES = schema(
    "{study}_trajectories",
    "a row per (eps_min, sigma, arm with its keys, seed, step, metric)",
    KEYS
    | SEED
    | {"step": column("int64", at_least(0), unit="steps", description="training step t")}
    | {
        "metric": column(
            str,
            None,
            unit="",
            description="aligned_neurons ... mask_minority_overlap as in the grid table; loss and"
            " loss_floor on the step's own batch; weight_norm: mean ||w_i||; bias_share: mean b_i"
            " / ||w_i||; T1: the step that ended stage 1, -1 for none, recorded at the last step",
        )
    }
    | {
        "value": column(
            float, None, unit="of the metric", description="value of the metric", nullable=True
        )
    },
    unique=[*KEYS, "seed", "step", "metric"],
)

MILESTONES = metric_descriptions(
    initial_norm_deviation="max_i | ||w_i(0)||^2 / (sigma_0^2 d1) - 1 |",
    initial_feature_norm_deviation="max_i | ||M^T w_i(0)||^2 / (sigma_0^2 d) - 1 |",
    strong_features_at_0="largest number of features with |<w_i(0), M_j>| >= sigma_0 log^(1/4) d,"
    " over d / 2^sqrt(log d), (43)",
    tiny_features_at_0="largest number of features with |<w_i(0), M_j>| <= sigma_0 / d, over d /"
    " log d, (72)",
    T1="step that ended stage 1",
    stage1_growth_minority="growth per step of the minority feature while the logits are uniform,"
    " less 1 - eta lambda",
    stage1_growth_majority="growth per step of the majority features while the logits are uniform,"
    " less 1 - eta lambda",
    stage1_growth_over_closed_form="stage1_growth_majority over its closed form"
    " (docs/method/model.md)",
    stage1_decay_outside="decay per step of the part of W outside span(M), over eta lambda",
    stage1_linear_steps="recorded step up to which growth and decay in stage 1 are measured: K p"
    " <= 1.1",
    growth_above_its_bound="largest log of (||M M^T w||^2 / its start - 1/d) over the fastest"
    " growth, t <= T1, (40)",
    growth_below_its_bound="smallest log of (||M M^T w||^2 / its start + 1/d) over the slowest"
    " growth, t <= T1, (41)",
    features_over_initial_norm="largest ||M M^T w(t)||^2 / ||w(0)||^2, t <= T1",
    outside_growth="largest part off the features over that at the start, squared, t <= T1, (42)",
    lucky_above_threshold_at_T1="share of lucky neurons with the bound of Theorem C.1 (b)",
    lucky_above_the_proofs_at_T1="share of lucky neurons with the bound at which its proof ends,"
    " (47)",
    others_below_threshold_at_T1="share of neurons outside M_j with the bound of Theorem C.1 (c)",
    few_strong_features_at_T1="share of neurons with the bound of Theorem C.1 (d)",
    outside_largest_at_T1="largest |cos| to a single direction outside span(M) over sqrt(log d /"
    " d1), (e)",
    T2="step at which a neuron has grown d-fold in norm^2 since T1, eq. (61)",
    lucky_above_bias="share of lucky neurons and recorded steps in (T1, T2] with (66)",
    others_below_bias="share of neurons outside M_j with (67)",
    others_largest="largest |cos| sqrt(d) / log d of neurons outside M_j, (68)",
    features_near_bias="largest number of features with (69), over d / 2^sqrt(log d)",
    outside_largest_in_stage_two="largest |cos| to a direction outside span(M), times sqrt(d1) /"
    " log d1, (70)",
    norm_over_bias="largest ||w||^2 log d / (d b^2), (71)",
    lucky_growth_at_T2="share of lucky neurons with eq. (9)",
    lucky_focus_at_T2="mean |cos(w_i, M_j)| of lucky neurons over eps_min / eps_max",
    ordinary_over_lucky_at_T2="largest ratio of an ordinary neuron's projection to the best lucky"
    " one's",
    bias_at_T2="min_i b_i sqrt(d) / ||w_i||",
    lucky_focus_at_T="mean |cos(w_i, M_j)| of lucky neurons",
    lucky_over_strongest_at_T="smallest projection of a lucky neuron over the largest of any in"
    " M_j",
    others_small_at_T="share of neurons outside M_j with |cos(w_i, M_j)| <= 2 eps_j / (eps_max"
    " sqrt(d))",
    largest_norm="max_i ||w_i|| at T",
    bias_at_T="min_i b_i sqrt(d) / ||w_i|| at T",
    outside_largest_at_T="largest |cos| to a direction outside span(M), times sqrt(d1)",
    strength_ratio="sum over i in M_j of <w_i, M_j>^2, of the minority feature over the mean of"
    " the majority ones, (89)",
    strength_ratio_of_all="strength_ratio over all neurons i instead of those in M_j",
    magnitude_ratio="max_i |<w_i, M_j>| of the minority feature over the mean of the majority ones",
    learned="1 if a neuron has an absolute cosine of at least 0.5 to every minority feature",
    alignment_gap="largest cosine, mean over the majority features less that to the minority one",
    pure_share="share of neurons with absolute cosine > 0.9 to any feature",
    pure_minority_neurons="number of neurons with absolute cosine > 0.9 to the minority feature",
    oracle_neurons="neurons that the oracle would prune",
    pruned_other_features="largest sqrt(d) |cos| of the oracle's neurons to another feature",
    pruned_outside="outside_largest_at_T of the oracle's neurons alone",
    minority_smaller_auc="probability that a neuron pure in the minority feature has a smaller"
    " norm than another one",
    minority_among_smallest="share of aligned neurons among as many smallest neurons as are"
    " aligned with the minority feature, less chance",
    diverged="1 if weights or loss are not finite, or the unmasked loss is above twice log K",
)
