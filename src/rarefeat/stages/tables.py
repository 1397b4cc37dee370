"""Schemas of the tables of an encoder study: type, bounds, unit and meaning of each column."""

from functools import partial

import pandera.pandas as pa

from rarefeat.model.arms import ARMS, is_arm
from rarefeat.workflow.files.schema import COSINE, SHARE, at_least, column, schema

CORE = "imbalance_and_pruning"
FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4 = (f"{CORE}, Figure {number}" for number in (1, 2, 3, 4))
SIZE, FRACTION = at_least(0), pa.Check.in_range(0, 1)

number, whole, text = (partial(column, kind) for kind in (float, "int64", str))
neurons = partial(number, SIZE, "neurons")
share = partial(number, SHARE, "1")
cosine = partial(number, COSINE, "1")
error = partial(number, SIZE, "label^2")
r2 = partial(number, pa.Check.le(1), "1")
loss = partial(number, SIZE, "nat")
of_metric = partial(number, None, "of the metric", nullable=True)

POINT = {
    "eps_min": number(
        FRACTION, "1", "frequency of the rare features over the others'", f"{CORE}, Def. 3.1"
    ),
    "sigma": number(SIZE, "1", "standard deviation of the noise per coordinate", f"{CORE}, A.2"),
}
ARM = {
    "arm": text(
        pa.Check(is_arm, element_wise=True),
        "",
        "; ".join([*(f"{name}: {arm.description}" for name, arm in ARMS.items()),
                   "or a rule of a user's own"]),
        f"{CORE}, Algorithm 1, Thm. 3.2",
    ),
    "alpha": number(
        FRACTION, "1", "pruning ratio; 0 for arms without a ratio", f"{CORE}, Algorithm 1"
    ),
    "onset": whole(SIZE, "steps", "first step with a mask", f"{CORE}, A.2"),
    "pruned_update": text(
        pa.Check.isin(["unmasked", "straight_through"]),
        "",
        "effect of a mask: on the logits alone, or by the gradient of the masked network",
        f"{CORE}, eq. (5)",
    ),
}  # fmt: skip
KEYS = POINT | ARM
SEED = {"seed": whole(SIZE, "", "seed of the replica")}

MINORITY = "the minority feature, mean over the minority features if there are several"
BALANCED = "with every feature at the majority frequency"
MATCHED = "at the training frequencies"
SIMILARITY = "mean cosine similarity of the positive test pairs"
ZERO_IS_0, WITHOUT_ZERO = "a zero embedding counts as 0", "null if each has a zero embedding"
METRICS = {
    "aligned_neurons": neurons(f"neurons with |cos| >= 0.3 to {MINORITY}", FIGURE_1),
    "max_alignment": share(f"largest |cos| of a neuron to {MINORITY}", FIGURE_2),
    "majority_alignment": share("largest |cos| of a neuron to a majority feature, mean over them"),
    "pure_neurons": neurons("neurons with |cos| > 0.9 to any feature"),
    "pure_minority_neurons": neurons("neurons with |cos| > 0.9 to a minority feature"),
    "feature_share": share("mean over neurons of ||M^T w||^2 / ||w||^2", f"{CORE}, eq. (34)"),
    "energy_ratio": number(
        SIZE, "1", f"sum over neurons of <w, M_j>^2 of {MINORITY}; over that of the majority ones"
    ),
    "cosine_similarity_balanced": cosine(f"{SIMILARITY}, {BALANCED}; {ZERO_IS_0}", FIGURE_3),
    "cosine_similarity_matched": cosine(f"{SIMILARITY}, {MATCHED}; {ZERO_IS_0}", FIGURE_3),
    "cosine_similarity_alive_balanced": cosine(
        f"{SIMILARITY} without a zero embedding, {BALANCED}; {WITHOUT_ZERO}", nullable=True
    ),
    "cosine_similarity_alive_matched": cosine(
        f"{SIMILARITY} without a zero embedding, {MATCHED}; {WITHOUT_ZERO}", nullable=True
    ),
    "regression_mse_balanced": error(
        "test MSE of the linear head, label <w*, sign sum_l z^(l)> with w* of independent signs;"
        f" head fitted and tested {BALANCED}",
        FIGURE_4,
    ),
    "regression_mse_matched": error(f"the same, fitted and tested {MATCHED}", FIGURE_4),
    "regression_r2_balanced": r2(f"1 - MSE / variance of the test labels, {BALANCED}"),
    "regression_r2_matched": r2(f"1 - MSE / variance of the test labels, {MATCHED}"),
    "final_loss": loss(
        f"InfoNCE without the l2 term, unmasked, on batches of K held-out pairs {MATCHED}",
        f"{CORE}, eq. (1)",
    ),
    "loss_floor": loss(
        "mean log of the number of candidates with the latent sign pattern of the anchor in the"
        " batches of final_loss: no encoder has a lower expected loss"
    ),
    "ideal_loss": loss(
        "loss of the ideal encoder, the dictionary without a bias, on the batches of final_loss,"
        " at its best scale"
    ),
    "diverged": share(
        "1 if the final loss is above twice log K, the loss of an encoder that maps everything to"
        " one embedding: such a training must not be interpreted"
    ),
    "empty_share": share("share of balanced test pairs with an embedding that is exactly zero"),
    "mask_minority_overlap": share(
        "share of the pruned neurons (weights, for pruned_weight) that belong to neurons with"
        " |cos| >= 0.3 to a minority feature, at the last step; null where nothing is pruned",
        nullable=True,
    ),
}
INDICATORS = ("diverged", "learned", "aligned", "learned_untrained", "aligned_untrained")
"""Metrics that are 0 or 1 for each replica: their mean is a fraction."""

INTERVAL = {
    "ci_low": number(
        None, "of the estimate", "lower end of its 95 % interval (Student)", nullable=True
    ),
    "ci_high": number(None, "of the estimate", "upper end of this interval", nullable=True),
    "n": whole(SIZE, "replicas", "number of seeds"),
}
PAIRED = {
    "paired_difference": of_metric(
        "mean over seeds of the difference to `dense` at the same seed; null for dense itself"
    ),
    "paired_ci_low": of_metric("lower end of the 95 % interval of this difference (Student)"),
    "paired_ci_high": of_metric("upper end of this interval"),
}
METRIC = {"metric": text(pa.Check.isin(METRICS), "", "a metric of the grid table")}

GRID = schema(
    "{study}_grid",
    "a row per (eps_min, sigma, arm with its keys, seed)",
    {
        **POINT,
        "nsr": number(SIZE, "1", "noise-to-signal ratio sigma^2 d1", f"{CORE}, A.2"),
        **ARM,
        "simulator": text(pa.Check.isin(["direct", "reduced"]), "", "simulator of the training"),
        **SEED,
        **METRICS,
    },
    unique=[*KEYS, "seed"],
)
SUMMARY = schema(
    "{study}_summary",
    "a row per (eps_min, sigma, arm with its keys, metric)",
    {
        **KEYS,
        **METRIC,
        "mean": of_metric("mean over seeds"),
        "sd": of_metric("standard deviation over seeds"),
        **INTERVAL,
        "ci_low": number(
            None,
            "of the estimate",
            "lower end of the 95 % interval of the mean over seeds (Student; exact for the fraction"
            " that diverged, Clopper & Pearson 1934)",
            nullable=True,
        ),
        **PAIRED,
    },
    unique=[*KEYS, "metric"],
)
TRENDS = schema(
    "{study}_trends",
    "a row per (block of the grid, sigma, arm with its keys, metric); `paired_difference` is the"
    " mean over the block",
    {
        "grid": text(None, "", "block of the study's grid, as named in the config"),
        "sigma": POINT["sigma"],
        **ARM,
        **METRIC,
        "slope": of_metric(
            "mean over seeds of the least-squares slope of the metric in eps_min over the block"
        ),
        **INTERVAL,
        "at_lowest": of_metric("mean at the block's smallest eps_min"),
        "at_highest": of_metric("mean at the block's largest eps_min"),
        **PAIRED,
    },
    unique=["grid", "sigma", *ARM, "metric"],
)
TRAJECTORIES = schema(
    "{study}_trajectories",
    "a row per (eps_min, sigma, arm with its keys, seed, step, metric)",
    {
        **KEYS,
        **SEED,
        "step": whole(SIZE, "steps", "training step t"),
        "metric": text(
            None,
            "",
            "aligned_neurons ... mask_minority_overlap as in the grid table; loss and loss_floor on"
            " the step's own batch; weight_norm: mean ||w_i||; bias_share: mean b_i / ||w_i||; T1:"
            " the step that ended stage 1, -1 for none, recorded at the last step",
        ),
        "value": of_metric("value of the metric"),
    },
    unique=[*KEYS, "seed", "step", "metric"],
)

MILESTONES = {
    "initial_norm_deviation": "max_i | ||w_i(0)||^2 / (sigma_0^2 d1) - 1 |",
    "initial_feature_norm_deviation": "max_i | ||M^T w_i(0)||^2 / (sigma_0^2 d) - 1 |",
    "strong_features_at_0": "largest number of features with |<w_i(0), M_j>| >= sigma_0 log^(1/4)"
    " d, over d / 2^sqrt(log d), (43)",
    "tiny_features_at_0": "largest number of features with |<w_i(0), M_j>| <= sigma_0 / d, over d"
    " / log d, (72)",
    "T1": "step that ended stage 1",
    "stage1_growth_minority": "growth per step of the minority feature while the logits are"
    " uniform, less 1 - eta lambda",
    "stage1_growth_majority": "the same of the majority features",
    "stage1_growth_over_closed_form": "stage1_growth_majority over its closed form"
    " (docs/method/model.md)",
    "stage1_decay_outside": "decay per step of the part of W outside span(M), over eta lambda",
    "stage1_linear_steps": "recorded step up to which growth and decay in stage 1 are measured: K"
    " p <= 1.1",
    "growth_above_its_bound": "largest log of (||M M^T w||^2 / its start - 1/d) over the fastest"
    " growth, t <= T1, (40)",
    "growth_below_its_bound": "smallest log of (||M M^T w||^2 / its start + 1/d) over the slowest"
    " growth, t <= T1, (41)",
    "features_over_initial_norm": "largest ||M M^T w(t)||^2 / ||w(0)||^2, t <= T1",
    "outside_growth": "largest part off the features over that at the start, squared, t <= T1,"
    " (42)",
    "lucky_above_threshold_at_T1": "share of lucky neurons with the bound of Theorem C.1 (b)",
    "lucky_above_the_proofs_at_T1": "share of lucky neurons with the bound at which its proof"
    " ends, (47)",
    "others_below_threshold_at_T1": "share of neurons outside M_j with the bound of Theorem C.1"
    " (c)",
    "few_strong_features_at_T1": "share of neurons with the bound of Theorem C.1 (d)",
    "outside_largest_at_T1": "largest |cos| to a single direction outside span(M) over sqrt(log d"
    " / d1), (e)",
    "T2": "step at which a neuron has grown d-fold in norm^2 since T1, eq. (61)",
    "lucky_above_bias": "share of lucky neurons and recorded steps in (T1, T2] with (66)",
    "others_below_bias": "share of neurons outside M_j with (67)",
    "others_largest": "largest |cos| sqrt(d) / log d of neurons outside M_j, (68)",
    "features_near_bias": "largest number of features with (69), over d / 2^sqrt(log d)",
    "outside_largest_in_stage_two": "largest |cos| to a direction outside span(M), times sqrt(d1)"
    " / log d1, (70)",
    "norm_over_bias": "largest ||w||^2 log d / (d b^2), (71)",
    "lucky_growth_at_T2": "share of lucky neurons with eq. (9)",
    "lucky_focus_at_T2": "mean |cos(w_i, M_j)| of lucky neurons over eps_min / eps_max",
    "ordinary_over_lucky_at_T2": "largest ratio of an ordinary neuron's projection to the best"
    " lucky one's",
    "bias_at_T2": "min_i b_i sqrt(d) / ||w_i||",
    "lucky_focus_at_T": "mean |cos(w_i, M_j)| of lucky neurons",
    "lucky_over_strongest_at_T": "smallest projection of a lucky neuron over the largest of any"
    " in M_j",
    "others_small_at_T": "share of neurons outside M_j with |cos(w_i, M_j)| <= 2 eps_j / (eps_max"
    " sqrt(d))",
    "largest_norm": "max_i ||w_i|| at T",
    "bias_at_T": "min_i b_i sqrt(d) / ||w_i|| at T",
    "outside_largest_at_T": "largest |cos| to a direction outside span(M), times sqrt(d1)",
    "strength_ratio": "sum over i in M_j of <w_i, M_j>^2, of the minority feature over the mean of"
    " the majority ones, (89)",
    "strength_ratio_of_all": "strength_ratio over all neurons i instead of those in M_j",
    "magnitude_ratio": "max_i |<w_i, M_j>| of the minority feature over the mean of the majority"
    " ones",
    "learned": "1 if a neuron has |cos| >= 0.5 to every minority feature",
    "alignment_gap": "largest cosine, mean over the majority features less that to the minority"
    " one",
    "pure_share": "share of neurons with |cos| > 0.9 to any feature",
    "pure_minority_neurons": "number of neurons with |cos| > 0.9 to the minority feature",
    "oracle_neurons": "neurons that the oracle would prune",
    "pruned_other_features": "largest sqrt(d) |cos| of the oracle's neurons to another feature",
    "pruned_outside": "outside_largest_at_T of the oracle's neurons alone",
    "minority_smaller_auc": "probability that a neuron pure in the minority feature has a smaller"
    " norm than another one",
    "minority_among_smallest": "share of aligned neurons among as many smallest neurons as are"
    " aligned with the minority feature, less chance",
    "diverged": "1 if weights or loss are not finite, or the unmasked loss is above twice log K",
}
"""Metrics of the theory's statements for one replica (milestones.py)."""
MILESTONE = {
    "metric": text(
        pa.Check.isin(MILESTONES),
        "",
        "; ".join(f"{name}: {meaning}" for name, meaning in MILESTONES.items()),
    )
}
