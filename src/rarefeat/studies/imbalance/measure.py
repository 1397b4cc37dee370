"""Tables of several studies, and claims: the trends of Figures 1 to 4, over the imbalance at each
noise level and over the noise.

The cross-check compares the cells that both simulators have run, metric by metric, on different
seeds; the heat map is that of every neuron against every feature (liao_imbalanced_features, Figure
1).
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu, rankdata, ttest_ind

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.stages.aggregate import column_bounds, difference_bounds
from rarefeat.stages.tables import KEYS, METRICS
from rarefeat.statistics import UNBOUNDED, fraction_interval, holm, sign_test
from rarefeat.studies.imbalance import GATE
from rarefeat.workflow.config.study import AXES, Study
from rarefeat.workflow.run.job_inputs import JobInputs

# Written before the first run: the chance of one false alarm or more in the whole table.
LEVEL = 0.01
COMPARED = ["reduced", "direct", "n_reduced", "n_direct", "difference", "ci_low", "ci_high",
            "p_value"]  # fmt: skip


FIGURES = {
    "1": ("aligned_neurons", "figures_1_and_2"),
    "2": ("max_alignment", "figures_1_and_2"),
    "3-balanced": ("cosine_similarity_balanced", "figure_3"),
    "3-matched": ("cosine_similarity_matched", "figure_3"),
    "4-balanced": ("regression_mse_balanced", "figure_4"),
    "4-matched": ("regression_mse_matched", "figure_4"),
}
"""Metric of the grid table, and block of the study `confirmation`, whose range is the figure's."""
BEYOND_IDEAL = "regression_mse_matched beyond the dictionary's"


def compare(
    reduced: np.ndarray, direct: np.ndarray, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, float]:
    """Return difference of the means, its 95 % interval (Welch) and a p-value by ranks."""
    difference, p_value = reduced.mean() - direct.mean(), 1.0
    if np.ptp([*reduced, *direct]):
        p_value = mannwhitneyu(reduced, direct, method="asymptotic").pvalue
    if np.ptp(reduced) == 0 and np.ptp(direct) == 0:
        return difference, difference, difference, p_value
    interval = ttest_ind(reduced, direct, equal_var=False).confidence_interval(0.95)
    low, high = np.clip(interval, *difference_bounds(inside))
    return difference, low, high, p_value


def cross_check(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compare the grids of the reduced and of the direct simulator, in this order."""
    return compare_grids(*tables.values())


def compare_grids(reduced: pd.DataFrame, direct: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell and metric of both grids; p-values are adjusted over all by Holm."""
    keys = list(KEYS)
    cells = [dict(iter(table.groupby(keys))) for table in (reduced, direct)]
    rows = []
    for key in [key for key in cells[0] if key in cells[1]]:
        for metric, column in METRICS.items():
            values = [table[key][metric].dropna().to_numpy(dtype=float) for table in cells]
            counts = [len(replicas) for replicas in values]
            # An arm may lack a metric, and the floor of the loss depends on the latents alone.
            if min(counts) < 2 or metric == "loss_floor":
                continue
            means = [replicas.mean() for replicas in values]
            rows.append((*key, metric, *means, *counts, *compare(*values, column_bounds(column))))
    table = pd.DataFrame(rows, columns=[*keys, "metric", *COMPARED])
    table["adjusted_p_value"] = holm(table["p_value"].to_numpy())
    return table.assign(agrees=table["adjusted_p_value"] >= LEVEL)


def alignment_map(inputs: JobInputs, study: Study) -> pd.DataFrame:
    """Return the squared cosine of every neuron to every feature, by trained arm and seed."""
    from rarefeat.model.neurons import absolute_cosines
    from rarefeat.model.simulators import make_simulator

    data, tables = study.data, []
    for encoders in inputs.files("encoders"):
        cell, seeds = encoders.cell, encoders.seeds
        space = make_simulator(
            study.simulator, study.draws, data.d, data.d1, study.training.m, seeds
        )
        weights = encoders.tensors(*(f"{arm.label}/weights" for arm in cell.trained))
        for arm, of_arm in zip(cell.trained, weights, strict=True):
            squared = absolute_cosines(of_arm, space.dictionary).square().double().numpy()
            index = pd.MultiIndex.from_product(
                [seeds, *map(range, squared.shape[1:])], names=["seed", "neuron", "feature"]
            )
            rows = pd.DataFrame({"squared_cosine": squared.ravel()}, index=index).reset_index()
            tables.append(rows.assign(**arm.model_dump(), **cell.values))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(minority=table["feature"] >= data.d - len(data.minority))


def page_statistic(curves: np.ndarray) -> np.ndarray:
    """Return the rank correlation of each seed's curve with its order: Page's trend by seed."""
    ranks = np.apply_along_axis(rankdata, 0, curves)
    order = np.arange(1, len(curves) + 1) - (len(curves) + 1) / 2
    centred = ranks - ranks.mean(0)
    with np.errstate(invalid="ignore"):
        rho = order @ centred / (np.sqrt((order**2).sum()) * np.sqrt((centred**2).sum(0)))
    # A curve without any change has no trend.
    return np.where(np.isfinite(rho), rho, 0.0)


def measure(
    tables: Mapping[str, pd.DataFrame], regimes: Mapping[str, Study]
) -> Iterator[Measurement]:
    """Yield each study's trends over what it has of the blocks of the first, `confirmation`."""
    blocks, mse = next(iter(regimes.values())).grid, "regression_mse_matched"
    for study in regimes:
        grid = tables[f"{study}_grid"].set_index(["eps_min", "sigma", "seed"])
        dense, ideal = (grid[grid["arm"] == arm] for arm in ("dense", "ideal"))
        dense = dense.assign(**{BEYOND_IDEAL: dense[mse] - ideal[mse]}).reset_index()
        for figure, (metric, block) in FIGURES.items():
            inside = dense[
                np.all([dense[axis].isin(getattr(blocks[block], axis)) for axis in AXES], 0)
            ]
            beside = BEYOND_IDEAL if figure == "4-matched" else metric
            for name, fixed, along, plotted in (
                ("eps_min", "sigma", "eps_min", beside),
                ("NSR", "eps_min", "sigma", metric),
            ):
                for value, level in inside.dropna(subset=plotted).groupby(fixed):
                    curves = level.pivot(index=along, columns="seed", values=plotted).sort_index()
                    if len(curves) > 1:
                        place = {fixed: value, along: (curves.index[0], curves.index[-1])}
                        trend = page_statistic(curves.to_numpy())
                        yield measurement(f"Fig{figure}-{name}", study, place, trend)


def compare_changes(*tables: pd.DataFrame, names: Sequence[str] = tuple(GATE)) -> pd.DataFrame:
    """Compare each study, and Algorithm 1, with the first study at the same seeds.

    `gained` and `lost` count the seeds that learn the feature in one of the two alone, `p_value` is
    of McNemar's exact test, and `others` the mean cosine of the other features.
    """
    # A table of kind `fate` has other names, and no arms.
    columns = {"cosine": "max_alignment", "others": "majority_alignment"}
    ways = {
        name: table if "arm" in table else table.rename(columns=columns).assign(arm="dense")
        for name, table in zip(names, tables, strict=True)
    }
    trained = ways[names[0]]
    pruned = trained[trained["arm"] == "pruned_neuron"].assign(arm="dense")
    runs = pd.concat(
        table[table["arm"] == "dense"].assign(way=way)
        for way, table in (ways | {"pruned": pruned}).items()
    )
    runs["learned"] = runs["max_alignment"] >= HALF_LEARNED
    wide = runs.pivot(index=["eps_min", "seed"], columns="way", values="learned")
    rows = []
    for (way, eps_min), group in runs.groupby(["way", "eps_min"], sort=False):
        here, before = (wide.loc[eps_min, name] for name in (way, names[0]))
        ends = fraction_interval(here.to_numpy(dtype=float))
        changed = sign_test(here.astype(int) - before.astype(int))
        counts = here.mean(), *ends, int(here.sum()), len(here), *changed
        rows.append((way, eps_min, *counts, group["majority_alignment"].mean()))
    return pd.DataFrame(
        rows,
        columns=["way", "eps_min", "mean", "ci_low", "ci_high", "learned", "n", "gained", "lost",
                 "p_value", "others"],
    )  # fmt: skip
