"""Schemas of the tables that the claims of the theory are read from."""

import pandera.pandas as pa

from rarefeat.stages.tables import INTERVAL, KEYS, MILESTONES, POINT, SEED
from rarefeat.workflow.files.schema import (
    SHARE,
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

ONE_STEP = metric_descriptions(
    growth_minority_dense="relative growth in one step of the pruned neurons along the minority"
    " feature, without the mask",
    growth_minority_masked="with it",
    growth_majority_dense="the same of the neurons pure in a majority feature, along it, without"
    " the mask",
    growth_majority_masked="with it",
    growth_minority_gain="growth_minority_masked - growth_minority_dense",
    growth_majority_gain="growth_majority_masked - growth_majority_dense",
    gain_ratio="growth_majority_gain / growth_minority_gain",
    gain_in_alpha="exponent of the gain in the number of pruned neurons: a quarter, a half, all",
    logit_with_minority="mean change of the positive logit by the mask on samples with the"
    " minority feature",
    logit_without_minority="on the others",
    logit_leak="the latter over the former",
    logit_drop="its mean drop over all samples",
    logit_in_alpha="exponent of that in the number of pruned neurons",
    similarity_positive="mean over positive pairs of sum_P h_i(X) h_i(Y)",
    similarity_negative="mean over negative pairs, over that",
    negative_share="pull of the negatives on the pruned neurons along the minority feature, over"
    " that of the positives",
    pruned_neurons="neurons that the oracle prunes",
    fires_with_its_features="of the times that neurons fire, the share with a feature of their"
    " N_i, (94)",
    fires_at_most="largest Pr(h_i != 0) over C loglog d / d, (95)",
)

MILESTONE_ROWS = schema(
    "{study}_milestones",
    "a row per (eps_min, sigma, arm with its keys, seed, metric) of a study of the claims",
    KEYS
    | SEED
    | {
        "metric": column(
            str, pa.Check.isin(MILESTONES), unit="", description=format_descriptions(MILESTONES)
        ),
        "value": column(
            float,
            None,
            unit="of the metric",
            description="null where the replica has no such thing",
            nullable=True,
        ),
    },
    unique=[*KEYS, "seed", "metric"],
)

HALF_AND_DOUBLE = schema(
    "half_and_double",
    "a row per (hyper-parameter, factor, eps_min) of the study that the sensitivity varies",
    {
        "setting": column(str, None, unit="", description="hyper-parameter; empty for the study"),
        "factor": column(float, at_least(0), unit="1", description="multiple of its value"),
        "value": column(str, None, unit="", description="its value"),
        "eps_min": POINT["eps_min"],
        "learned_share": column(
            float,
            SHARE,
            unit="1",
            description="fraction of replicas with an absolute cosine of at least 0.5 to the"
            " minority feature",
        ),
        "ci_low": column(
            float, SHARE, unit="1", description="lower end of its exact 95 % interval"
        ),
        "ci_high": column(float, SHARE, unit="1", description="upper end"),
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "more": column(
            "int64", at_least(0), unit="seeds", description="seeds that learn it here alone"
        ),
        "fewer": column(
            "int64", at_least(0), unit="seeds", description="seeds that learn it in the study alone"
        ),
        "p_value": column(
            float, SHARE, unit="1", description="McNemar's exact test of these two, two-sided"
        ),
    },
    unique=["setting", "factor", "eps_min"],
)

ONE_STEP_ROWS = schema(
    "{study}_one_step",
    "a row per (eps_min, sigma, seed, metric) of a study of the claims, dense arm",
    POINT
    | SEED
    | {
        "metric": column(
            str, pa.Check.isin(ONE_STEP), unit="", description=format_descriptions(ONE_STEP)
        ),
        "value": column(
            float,
            None,
            unit="of the metric",
            description="null where neurons are silent or no sample has the feature",
            nullable=True,
        ),
    },
    unique=[*POINT, "seed", "metric"],
)

OVERLAP = schema(
    "{study}_overlap",
    "a row per (eps_min, sigma, step, alpha) of a study of the claims, dense arm",
    POINT
    | {
        "step": column("int64", at_least(0), unit="steps", description="training step t"),
        "alpha": column(
            float,
            pa.Check.in_range(0, 1),
            unit="1",
            description="pruning ratio, k / m for the k smallest neurons",
        ),
        "overlap": column(
            float,
            pa.Check.in_range(0, 1),
            unit="1",
            description="mean share of them with absolute cosine >= 0.3 to the minority feature",
        ),
    }
    | INTERVAL,
    unique=[*POINT, "step", "alpha"],
)
