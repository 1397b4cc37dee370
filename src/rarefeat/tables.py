"""Schemas of every table: type, bounds, unit, definition and source of each column. docs/tables.md is rendered from here."""

# ruff: noqa: E501 - a definition reads best on its own line

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from rarefeat.files import RarefeatError

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


def schema(columns: dict, unique: list[str]) -> pa.DataFrameSchema:
    """A strict, ordered schema with a unique key."""
    return pa.DataFrameSchema(columns, strict=True, ordered=True, unique=unique)


SCHEMAS = {
    "grid": schema(
        POINT
        | {"nsr": column(float, at_least(0), "1", "noise-to-signal ratio sigma^2 d1", f"{CORE}, A.2")}
        | ARM
        | {"simulator": column(str, pa.Check.isin(["direct"]), "", "simulator of the training")}
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
