"""Tables from which docs/studies/long_tail.md is filled in, and Table 2 as printed."""

import functools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

import staged_protocol
from rarefeat.figures.labels import quantity
from rarefeat.stages.tables import PAIRED
from rarefeat.statistics import student_interval
from rarefeat.studies.long_tail import IMAGE_KEYS, VALUES
from rarefeat.studies.long_tail.aggregate import estimate, range_of
from rarefeat.workflow.config.images import ImageArm
from staged_protocol import ARM, UPDATE, minimum_detectable_mean

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
    """Return accuracy and Delta_20 of the balanced probe, their change, and what was trained on."""
    keys = list(IMAGE_KEYS)
    sizes = replicas.groupby(keys)[["epochs", "images"]].mean().round().astype(int)
    chosen = summary[(summary["probe"] == "balanced") & summary["metric"].isin(METRICS)]
    rows = chosen.join(sizes, on=keys)
    # The arm has its name of Table 2: a pruned one says with which update.
    update = rows["pruned_update"].where(rows["arm"] == "pruned")
    rows["arm"] = rows["arm"].str.cat(update, sep="_", na_rep="").str.rstrip("_")
    columns = ["dataset", *CELL, "metric", *ESTIMATE, "epochs", "images"]
    return rows[columns].reset_index(drop=True)


def beside_dense(table: pd.DataFrame, value: str, metric: str = "") -> Iterator[dict]:
    """Yield the estimate of each arm, paired with dense on long-tailed images at its rho and width.

    `smallest_seen` is the smallest difference that its class orders could have shown.
    """
    metric = metric or value
    inside = range_of(metric) if metric in VALUES else quantity(metric).range
    arms = {key: rows.set_index("seed")[value] for key, rows in table.groupby(list(IMAGE_KEYS))}
    dense = {
        (rho, width): values
        for (_, rho, split, width, arm, *_), values in arms.items()
        if (split, arm) == ("long_tailed", "dense")
    }
    for (_, rho, split, width, *key), values in arms.items():
        other, arm = dense[rho, width], ImageArm(**dict(zip(ARM, key, strict=True)))
        other = None if other is values else other
        sd = np.nan if other is None else (values - other).std()
        seen = {"smallest_seen": minimum_detectable_mean(sd, len(values))}
        cell = dict(zip(CELL, (rho, split, width, arm.label, arm.alpha), strict=True))
        yield cell | estimate(values, other, inside) | seen


def tabulate(parts: Iterable[tuple[dict, Iterator[dict]]], *columns: str) -> pd.DataFrame:
    """Return the rows of several places, with the columns of these."""
    rows = [place | row for place, of_place in parts for row in of_place]
    return pd.DataFrame(rows)[[*CELL, *columns]]


def gains(replicas: pd.DataFrame, dataset: str = "CIFAR10-LT") -> pd.DataFrame:
    """Return every arm under every probe, with its gain over dense, and what Table 2 prints."""
    parts = (({"metric": metric}, beside_dense(replicas, metric)) for metric in JUDGED)
    table = tabulate(parts, "metric", *ESTIMATE, "smallest_seen")
    masked = (table["metric"] == "balanced_accuracy") & (table["alpha"] > 0)
    printed = table["rho"].map(lambda rho: printed_gain(dataset, rho)).where(masked)
    sizes = {name: int(replicas[name].max()) for name in ("images", "epochs")}
    return table.assign(printed=printed, **sizes)


def courses(trajectories: pd.DataFrame) -> pd.DataFrame:
    """Return few-shot, neighbours' accuracy and effective rank over epochs, with gains."""
    parts = (
        ({"metric": metric, "epoch": epoch}, beside_dense(rows, "value", metric))
        for metric in ("few_shot_accuracy", "knn_accuracy", "effective_rank")
        for epoch, rows in trajectories[trajectories["metric"] == metric].groupby("epoch")
    )
    return tabulate(parts, "metric", "epoch", *ESTIMATE)


def by_class(classes: pd.DataFrame) -> pd.DataFrame:
    """Return the balanced probe's accuracy on the class of each rank, with its images."""
    ranks = classes[classes["probe"] == "balanced"].groupby("rank")
    images = classes[classes["split"] == "long_tailed"].groupby(["probe", "rank"])["count"].mean()
    parts = (
        ({"rank": rank, "images": images["balanced", rank]}, beside_dense(rows, "accuracy"))
        for rank, rows in ranks
    )
    return tabulate(parts, "rank", "images", *ESTIMATE)


def imbalance(replicas: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of imbalance to dense in a candidate for the regime, with the class orders
    that its spread asks for.
    """
    metrics = ("balanced_few", "balanced_accuracy", "few_shot_accuracy")
    costs = [staged_protocol.gap(replicas, metric) for metric in metrics]
    table = pd.DataFrame(costs, columns=["mean", "ci_low", "ci_high", "n"])
    table.insert(0, "metric", metrics)
    return table.assign(
        visible=[cost.visible for cost in costs],
        images=int(replicas["images"].max()),
        class_orders=staged_protocol.class_orders(replicas),
    )


def screened(replicas: pd.DataFrame) -> pd.DataFrame:
    """Return mean gains in accuracy and in tail less head, by which the screen picks a ratio."""
    means, picked = staged_protocol.mean_gains(replicas), staged_protocol.pick_ratios(replicas)
    keys = means[[*UPDATE, "alpha"]].itertuples(index=False)
    return means.assign(picked=[picked[arm, update] == alpha for arm, update, alpha in keys])


def controlled(replicas: pd.DataFrame) -> pd.DataFrame:
    """Compare each masked arm with the random mask of its ratio, by class order."""
    masked = replicas[(replicas["split"] == "long_tailed") & (replicas["alpha"] > 0)]
    keys, rows = [*UPDATE, "alpha"], []
    for key, pairs in masked.groupby(keys):
        for metric in ("balanced_accuracy", "balanced_few", "few_shot_accuracy"):
            values = pairs.pivot(index="seed", columns="threshold", values=metric)
            if "random" in values:
                change = (values["global"] - values["random"]).to_numpy()
                mean, sd, low, high, n = student_interval(change)
                rows.append((*key, metric, mean, low, high, n, minimum_detectable_mean(sd, n)))
    columns = [*keys, "metric", "mean", "ci_low", "ci_high", "n", "smallest_seen"]
    return pd.DataFrame(rows, columns=columns)


def by_width(screen: pd.DataFrame, widths: pd.DataFrame) -> pd.DataFrame:
    """Fit gain = (a constant for each class order) + slope * log2(width), at REFERENCE_RATIO."""
    gained = staged_protocol.gains(pd.concat([screen, widths]))
    gained = gained[gained["alpha"] == staged_protocol.REFERENCE_RATIO]
    rows = []
    for update, of_update in gained.groupby(UPDATE):
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
        ends = slope, slope - half, slope + half
        rows.append((*update, *ends, *crossing, gained["seed"].nunique()))
    columns = ["slope", "ci_low", "ci_high", "crossing", "crossing_low", "crossing_high", "n"]
    return pd.DataFrame(rows, columns=[*UPDATE, *columns])


def of_study(name: str, table: str = "longtail") -> tuple[str, ...]:
    """Return the only table of a study that a published one is made of."""
    return (f"{name}.{table}",)


class PaperRow(NamedTuple):
    """A printed row of Table 2, in per cent with the printed spread, without and with pruning."""

    accuracy: str
    accuracy_pruned: str
    delta_20: str
    delta_20_pruned: str


TABLE_2 = {
    ("CIFAR10-LT", 10.0): PaperRow("79.25 ± 1.03", "84.92 ± 0.67", "3.42 ± 1.02", "2.99 ± 0.92"),
    ("CIFAR10-LT", 50.0): PaperRow("75.58 ± 0.84", "83.60 ± 1.02", "3.92 ± 1.21", "3.35 ± 0.76"),
    ("CIFAR10-LT", 100.0): PaperRow("74.24 ± 0.82", "81.31 ± 0.94", "5.69 ± 1.35", "5.62 ± 0.99"),
    ("CIFAR100-LT", 10.0): PaperRow("51.21 ± 1.21", "56.33 ± 1.51", "2.45 ± 0.57", "1.37 ± 0.46"),
    ("CIFAR100-LT", 50.0): PaperRow("49.32 ± 0.45", "56.12 ± 0.32", "4.95 ± 1.02", "2.57 ± 0.92"),
    ("CIFAR100-LT", 100.0): PaperRow("47.12 ± 0.51", "54.93 ± 0.50", "7.11 ± 0.45", "4.38 ± 0.22"),
    ("ImageNet-LT", 256.0): PaperRow("63.21", "65.12", "8.47", "7.21"),
}


def printed_gain(dataset: str, rho: float) -> float:
    """Return the accuracy with pruning less that without, in points; NaN for an unprinted row."""
    row = TABLE_2.get((dataset, rho))
    if row is None:
        return math.nan
    return round(float(row.accuracy_pruned.split()[0]) - float(row.accuracy.split()[0]), 2)


def printed_spread(dataset: str, rho: float) -> float:
    """Return the root sum of squares of the accuracies' standard deviations, in points."""
    row = TABLE_2[dataset, rho]
    return math.hypot(*(float(t.split("±")[1]) for t in (row.accuracy, row.accuracy_pruned)))


SCREEN, WIDTHS, CONFIRM = (
    of_study(name)
    for name in (staged_protocol.SCREEN, staged_protocol.WIDTHS, staged_protocol.CONFIRM)
)
TABLES = {
    "table2": (("longtail_summary", "longtail"), table2),
    "digits_declared": (("digits.longtail_summary", "digits.longtail"), table2),
}
for name in (staged_protocol.FORMER, *staged_protocol.STAGES, "cifar10_longer"):
    TABLES[f"{name}_gains"] = of_study(name), gains
    TABLES[f"{name}_courses"] = of_study(name, "longtail_trajectories"), courses
    TABLES[f"{name}_classes"] = of_study(name, "longtail_classes"), by_class
for name in (staged_protocol.FORMER, *staged_protocol.REGIMES):
    TABLES[f"{name}_imbalance"] = of_study(name), imbalance
TABLES |= {
    "cifar10_resnet18_courses": (of_study("cifar10_resnet18", "longtail_trajectories"), courses),
    "cifar10_screened": (SCREEN, screened),
    "cifar10_controlled": (CONFIRM, controlled),
    "cifar10_longer_controlled": (of_study("cifar10_longer"), controlled),
    "cifar10_by_width": (SCREEN + WIDTHS, by_width),
    "cifar100_two_cores_gains": (
        of_study("cifar100_two_cores"),
        functools.partial(gains, dataset="CIFAR100-LT"),
    ),
}
