"""Tables of the study of imbalance beside those of the chain."""

import pandera.pandas as pa

from rarefeat.stages.tables import KEYS, METRICS, SEED
from rarefeat.workflow.files.schema import SHARE, at_least, column, schema

LIAO = "liao_imbalanced_features"

CROSS_CHECK = schema(
    "cross_check",
    "a row per (eps_min, sigma, arm with its keys, metric) that both simulators have run",
    KEYS
    | {
        "metric": column(
            str, pa.Check.isin(METRICS), unit="", description="a metric of the grid table"
        )
    }
    | {
        "reduced": column(
            float,
            None,
            unit="of the metric",
            description="mean over seeds under the reduced simulator, study `paper`",
        ),
        "direct": column(
            float,
            None,
            unit="of the metric",
            description="the same under the direct simulator, study `direct`",
        ),
        "n_reduced": column(
            "int64",
            at_least(2),
            unit="replicas",
            description="number of seeds under the reduced simulator",
        ),
        "n_direct": column(
            "int64",
            at_least(2),
            unit="replicas",
            description="number of seeds under the direct one",
        ),
        "difference": column(float, None, unit="of the metric", description="reduced - direct"),
        "ci_low": column(
            float, None, unit="of the metric", description="lower end of its 95 % interval (Welch)"
        ),
        "ci_high": column(float, None, unit="of the metric", description="upper end"),
        "p_value": column(
            float,
            pa.Check.in_range(0, 1),
            unit="1",
            description="two-sided Mann-Whitney test; 1 where every replica has the same value",
        ),
        "adjusted_p_value": column(
            float,
            pa.Check.in_range(0, 1),
            unit="1",
            description="the same, adjusted by Holm over the whole table",
        ),
        "agrees": column(
            bool,
            None,
            unit="",
            description="adjusted p-value at least 0.01: the level for the whole table",
        ),
    },
    unique=[*KEYS, "metric"],
)

HEATMAP = schema(
    "alignment_heatmap",
    "a row per (eps_min, sigma, arm with its keys, seed, neuron, feature) of the study `heatmap`",
    KEYS
    | SEED
    | {
        "neuron": column(
            "int64", at_least(0), unit="", description="index i of the neuron, from 0"
        ),
        "feature": column(
            "int64",
            at_least(0),
            unit="",
            description="index j of the feature, from 0; the minority features are the last",
        ),
        "minority": column(bool, None, unit="", description="whether j is a minority feature"),
        "squared_cosine": column(
            float,
            SHARE,
            unit="1",
            description="<w_i, M_j>^2 / ||w_i||^2",
            source=f"{LIAO}, Figure 1",
        ),
    },
    unique=[*KEYS, "seed", "neuron", "feature"],
)
