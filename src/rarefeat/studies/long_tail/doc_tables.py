"""Tables from which docs/studies/long_tail.md is filled in."""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from rarefeat.figures.labels import quantity
from rarefeat.stages.aggregate import column_bounds, paired_interval
from rarefeat.stages.tables import PAIRED
from rarefeat.statistics import minimum_detectable_mean, student_interval
from rarefeat.studies.long_tail import staged_protocol
from rarefeat.studies.long_tail.paper_values import printed_gain
from rarefeat.studies.long_tail.tables import IMAGE_KEYS, VALUES
from rarefeat.workflow.config.images import ImageArm

METRICS = ["accuracy", "delta_20"]
JUDGED = [
    *(
        f"{probe}_{metric}"
        for probe in ("balanced", "few_shot", "knn")
        for metric in (*METRICS, "many", "few")
    ),
    "effective_rank",
]
CELL = ["rho", "split", "width", "arm", "alpha"]
ESTIMATE = ["mean", "ci_low", "ci_high", *PAIRED, "n"]


def table2(summary: pd.DataFrame, replicas: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and Delta_20 of the balanced linear probe, differences to dense, and the
    epochs and images of pretraining.
    """
    keys = list(IMAGE_KEYS)
    sizes = replicas.groupby(keys)[["epochs", "images"]].mean().round().astype(int)
    chosen = summary[(summary["probe"] == "balanced") & summary["metric"].isin(METRICS)]
    rows = chosen.join(sizes, on=keys)
    # The arm has its name of Table 2: a pruned one says with which update.
    update = rows["pruned_update"].where(rows["arm"] == "pruned")
    rows["arm"] = rows["arm"].str.cat(update, sep="_", na_rep="").str.rstrip("_")
    return rows[
        ["dataset", "rho", "split", "width", "arm", "alpha", "metric", "mean", "ci_low", "ci_high",
         "paired_difference", "paired_ci_low", "paired_ci_high", "n", "epochs", "images"]
    ].reset_index(drop=True)  # fmt: skip


def beside_dense(
    table: pd.DataFrame, value: str
) -> Iterator[tuple[tuple, pd.Series, pd.Series | None]]:
    """Return the values of each arm by seed with those of dense on long-tailed images at the same
    rho and width.

    Dense itself has None beside it.
    """
    arms = {
        key: arm_values.set_index("seed")[value] for key, arm_values in table.groupby([*IMAGE_KEYS])
    }
    dense = {
        (key[1], key[3]): arm_values
        for key, arm_values in arms.items()
        if (key[2], key[4]) == ("long_tailed", "dense")
    }
    for (_, rho, split, width, *arm), values in arms.items():
        other = dense[rho, width]
        named = ImageArm(**dict(zip(staged_protocol.ARM, arm, strict=True)))
        yield (
            (rho, split, width, named.label, named.alpha),
            values,
            None if other is values else other,
        )


def estimated(values: pd.Series, dense: pd.Series | None, metric: str) -> tuple:
    """Estimate mean, interval, paired difference with its interval, and n."""
    inside = column_bounds(VALUES[metric]) if metric in VALUES else quantity(metric).range
    mean, _, low, high, n = student_interval(values.to_numpy(), inside=inside)
    return mean, low, high, *paired_interval(values, dense, inside), n


def gains(replicas: pd.DataFrame, dataset: str = "CIFAR10-LT") -> pd.DataFrame:
    """Return every arm under every probe, with its gain over dense and the smallest gain that its
    class orders could have shown.
    """
    rows = []
    for metric in JUDGED:
        for key, values, dense in beside_dense(replicas, metric):
            sd = np.nan if dense is None else (values - dense).std()
            rows.append(
                (
                    *key,
                    metric,
                    *estimated(values, dense, metric),
                    minimum_detectable_mean(sd, len(values)),
                )
            )
    table = pd.DataFrame(rows, columns=[*CELL, "metric", *ESTIMATE, "smallest_seen"])
    masked = (table["metric"] == "balanced_accuracy") & (table["alpha"] > 0)
    printed = table["rho"].map(lambda rho: printed_gain(dataset, rho)).where(masked)
    return table.assign(
        printed=printed, images=int(replicas["images"].max()), epochs=int(replicas["epochs"].max())
    )


def courses(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Return few-shot, neighbours' accuracy and effective rank over epochs, with gains."""
    rows = []
    for metric in ("few_shot_accuracy", "knn_accuracy", "effective_rank"):
        for epoch, at_epoch in trajectories[trajectories["metric"] == metric].groupby("epoch"):
            rows += [
                (*key, metric, epoch, *estimated(*pair, metric))
                for key, *pair in beside_dense(at_epoch, "value")
            ]
    return pd.DataFrame(rows, columns=[*CELL, "metric", "epoch", *ESTIMATE])


def by_class(classes: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy of the balanced probe on the class of each rank, with the gain and the
    class's images in pretraining.
    """
    rows = []
    for rank, at_rank in classes[classes["probe"] == "balanced"].groupby("rank"):
        images = at_rank[at_rank["split"] == "long_tailed"]["count"].mean()
        rows += [
            (*key, rank, images, *estimated(*pair, "accuracy"))
            for key, *pair in beside_dense(at_rank, "accuracy")
        ]
    return pd.DataFrame(rows, columns=[*CELL, "rank", "images", *ESTIMATE])


def imbalance(replicas: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of imbalance to dense in a candidate for the regime, with the class orders
    that its spread asks for.
    """
    metrics = ["balanced_few", "balanced_accuracy", "few_shot_accuracy"]
    rows = [
        (metric, *(cost := staged_protocol.gap(replicas, metric)), cost.visible)
        for metric in metrics
    ]
    table = pd.DataFrame(rows, columns=["metric", "mean", "ci_low", "ci_high", "n", "visible"])
    return table.assign(
        images=int(replicas["images"].max()), class_orders=staged_protocol.class_orders(replicas)
    )


def screened(replicas: pd.DataFrame) -> pd.DataFrame:
    """Return the means that the screen decides on.

    They are the gains in accuracy and in tail less head of each update and ratio.
    """
    keys = [*staged_protocol.UPDATE, "alpha"]
    means = (
        staged_protocol.gains(replicas)
        .groupby(keys)[["accuracy", "tail_less_head"]]
        .mean()
        .reset_index()
    )
    picked = staged_protocol.pick_ratios(replicas)
    return means.assign(
        picked=[
            picked[arm, update] == alpha
            for arm, update, alpha in means[keys].itertuples(index=False)
        ]
    )


def controlled(replicas: pd.DataFrame) -> pd.DataFrame:
    """Compare each masked arm with the random mask of its ratio, by class order."""
    masked = replicas[(replicas["split"] == "long_tailed") & (replicas["alpha"] > 0)]
    rows = []
    for key, pairs in masked.groupby([*staged_protocol.UPDATE, "alpha"]):
        for metric in ("balanced_accuracy", "balanced_few", "few_shot_accuracy"):
            values = pairs.pivot(index="seed", columns="threshold", values=metric)
            if "random" in values:
                mean, sd, low, high, n = student_interval(
                    (values["global"] - values["random"]).to_numpy()
                )
                rows.append((*key, metric, mean, low, high, n, minimum_detectable_mean(sd, n)))
    columns = [
        *staged_protocol.UPDATE,
        "alpha",
        "metric",
        "mean",
        "ci_low",
        "ci_high",
        "n",
        "smallest_seen",
    ]
    return pd.DataFrame(rows, columns=columns)


def by_width(screen: pd.DataFrame, widths: pd.DataFrame) -> pd.DataFrame:
    """Fit how the gain at Jiang et al.'s ratio changes with the width of the network.

    Least squares of gain = (one constant for each class order) + slope * log2(width), the mean of
    these for the line.
    """
    gained = staged_protocol.gains(pd.concat([screen, widths]))
    gained = gained[gained["alpha"] == staged_protocol.REFERENCE_RATIO]
    rows = []
    for update, of_update in gained.groupby(staged_protocol.UPDATE):
        orders = pd.get_dummies(of_update["seed"]).to_numpy(dtype=float)
        slope_of = np.column_stack([orders, np.log2(of_update["width"])])
        fitted, *_ = np.linalg.lstsq(slope_of, of_update["accuracy"], rcond=None)
        freedom = len(of_update) - slope_of.shape[1]
        variance = ((of_update["accuracy"] - slope_of @ fitted) ** 2).sum() / freedom
        # The line is (constant, slope): the mean over class orders, and the last coefficient.
        line = np.zeros((2, slope_of.shape[1]))
        line[0, :-1], line[1, -1] = 1 / orders.shape[1], 1
        constant, slope = line @ fitted
        covariance = line @ np.linalg.inv(slope_of.T @ slope_of) @ line.T * variance
        t = stdtrit(freedom, 0.975)
        half = t * np.sqrt(covariance[1, 1])
        # The band holds zero where (constant + slope x)^2 <= t^2 var(constant + slope x), a
        # quadratic in x = log2(width).
        crossing = np.full(3, np.nan)
        if slope > half:
            of_x = np.outer([constant, slope], [constant, slope]) - t**2 * covariance
            roots = np.roots([of_x[1, 1], 2 * of_x[0, 1], of_x[0, 0]]).real
            crossing = 2.0 ** np.array([-constant / slope, *sorted(roots)])
        rows.append(
            (*update, slope, slope - half, slope + half, *crossing, gained["seed"].nunique())
        )
    columns = ["slope", "ci_low", "ci_high", "crossing", "crossing_low", "crossing_high", "n"]
    return pd.DataFrame(rows, columns=[*staged_protocol.UPDATE, *columns])


TABLES = {"table2": (("longtail_summary", "longtail"), table2)}
for name in (staged_protocol.FORMER, *staged_protocol.STAGES):
    TABLES[f"{name}_gains"] = ((f"{name}.longtail",), gains)
    TABLES[f"{name}_courses"] = ((f"{name}.longtail_trajectories",), courses)
    TABLES[f"{name}_classes"] = ((f"{name}.longtail_classes",), by_class)
TABLES["cifar10_resnet18_courses"] = (("cifar10_resnet18.longtail_trajectories",), courses)
TABLES |= {
    f"{name}_imbalance": ((f"{name}.longtail",), imbalance)
    for name in (staged_protocol.FORMER, *staged_protocol.REGIMES)
}
TABLES["cifar10_screened"] = ((f"{staged_protocol.SCREEN}.longtail",), screened)
TABLES["cifar10_controlled"] = ((f"{staged_protocol.CONFIRM}.longtail",), controlled)
TABLES["cifar10_by_width"] = (
    (f"{staged_protocol.SCREEN}.longtail", f"{staged_protocol.WIDTHS}.longtail"),
    by_width,
)
TABLES["cifar100_two_cores_gains"] = (
    ("cifar100_two_cores.longtail",),
    functools.partial(gains, dataset="CIFAR100-LT"),
)
