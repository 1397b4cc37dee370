"""Maps of minority alignment over training, and of neurons that magnitude pruning takes."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from rarefeat.figures.labels import (
    EPS,
    INTERVALS,
    PARAMETER_WORDS,
    STEP,
    n_of,
    quantity,
    seeds_of,
)
from rarefeat.figures.panels import (
    finish_figure,
    panels,
    plot_lines,
    plot_points,
    set_y_range,
)
from rarefeat.figures.style import STYLES, SeriesStyle, sequential_styles
from rarefeat.model.theory import stage1_growth
from rarefeat.studies.theory.config import TheoryStudy
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job import Job

Tables = Mapping[str, pd.DataFrame]
ALPHA = 0.1
"""Pruning ratio at which overlaps are shown."""


def of_studies(tables: Tables, job: Job) -> list[tuple[Study, pd.DataFrame]]:
    """Return each table with the study that its name begins with, in the order of the tables."""
    studies = job.config_section("studies", dict[str, TheoryStudy])
    return [(studies[name.rpartition("_")[0]], table) for name, table in tables.items()]


def onset(study: Study, eps_min: float, sigma: float) -> float:
    """Compute the predicted step at which the minority feature takes off.

    The strongest of m Gaussian neurons starts at sigma_0 sqrt(2 log m) and grows by the closed
    form of stage 1 until its projection is as large as the whole neuron was at first, sigma_0
    sqrt(d1).
    """
    data, training = study.data, study.training
    eps = np.full(data.d, eps_min)
    rates = training.K, training.tau, training.eta, training.lambda_
    scale = training.logit_scale(data.d1)
    growth = stage1_growth(eps, data.C, data.L, sigma**2 * data.d1, *rates, scale)[-1]
    if growth <= 1:
        return math.inf
    return math.log(math.sqrt(data.d1 / (2 * math.log(training.m)))) / math.log(growth)


def bias_of(study: Study) -> str:
    """Return the weight decay and bias of a study, the settings in which maps differ."""
    training = study.training
    bias = f"bias scale {training.bias.share:g}" if training.bias.share else "no bias"
    return f"weight decay {training.lambda_:g}, {bias}"


def phase(tables: Tables, job: Job) -> Figure:
    """Plot mean max_alignment over step and eps_min, a panel for each study.

    The predicted onset is drawn in. A map has no place for intervals: the trajectories of a low,
    a middle and a high eps_min below it have them.
    """
    studies = of_studies(tables, job)
    plotted = quantity("max_alignment")
    figure, axes = panels(2, len(studies), 3.6, sharex="col", sharey="row", height_ratios=[1.3, 1])
    chosen = [
        table[(table["metric"] == "max_alignment") & (table["step"] > 0)] for _, table in studies
    ]
    every = pd.concat(chosen)
    levels = sorted(every["eps_min"].unique())
    shown = sequential_styles(sorted({levels[0], levels[len(levels) // 2], levels[-1]}))
    for (upper, lower), (study, _), table in zip(axes.T, studies, chosen, strict=True):
        wide = table.pivot_table(index="eps_min", columns="step", values="value")
        if len(wide) > 1:
            mesh = upper.pcolormesh(
                wide.columns, wide.index, wide, vmin=0, vmax=1, shading="nearest", rasterized=True
            )
            low, high = upper.get_ylim()
            eps = np.linspace(wide.index.min(), wide.index.max(), 200)
            predicted = [onset(study, value, table["sigma"].iloc[0]) for value in eps]
            # White on black is visible on the dark and on the light part of the map.
            upper.plot(predicted, eps, color="black", lw=2)
            upper.plot(predicted, eps, color="white", ls=(0, (3, 1.5)), lw=1.2)
            upper.set_ylim(low, high)
        plot_lines(
            lower,
            table,
            "step",
            "value",
            shown,
            series_column="eps_min",
            bounds=plotted.range,
            band=True,
            mark_every=5,
        )
        upper.set(
            xscale="log", xlim=(1, table["step"].max()), title=bias_of(study).replace(", ", ",\n")
        )
        lower.set(xscale="log", xlabel=STEP)
    set_y_range(axes[1, 0], plotted)
    axes[0, 0].set_ylabel(EPS)
    axes[1, 0].set_ylabel(plotted.symbol)
    if len(levels) > 1:
        figure.colorbar(mesh, ax=list(axes[0]), label="largest cosine, mean", aspect=14)
    figure.suptitle("The largest cosine with the rare feature over training")
    entries = {f"relative frequency {level:g}": look for level, look in shown.items()}
    entries |= {"predicted onset of stage 1": SeriesStyle("black", dash=(0, (3, 1.5)))}
    return finish_figure(figure, (), entries, f"{INTERVALS}, {seeds_of(*chosen)}")


def half_and_double(tables: Tables, job: Job) -> Figure:
    """Plot the share that learns the rare feature at half and double each hyper-parameter."""
    (table,) = tables.values()
    # A published table has no value where a run's has an empty text.
    table = table.fillna({"setting": ""}).rename(columns={"learned_share": "mean"})
    base, varied = table[table["setting"] == ""], table[table["setting"] != ""]
    words = {name: PARAMETER_WORDS.get(name, name) for name in varied["setting"].unique()}
    varied = varied.assign(
        place=varied["setting"].map(words), series=varied["factor"].map(FACTORS), learned_share=0
    )
    levels = sorted(table["eps_min"].unique())
    figure, axes = panels(1, len(levels), 1.0 + 0.24 * len(words), sharex=True, sharey=True)
    for ax, eps_min in zip(axes[0], levels, strict=True):
        (study,) = base[base["eps_min"] == eps_min].itertuples()
        ax.axvspan(study.ci_low, study.ci_high, color="0.9", lw=0, zorder=0)
        ax.axvline(study.mean, color="0.5", lw=0.8, zorder=0.5)
        plot_points(
            ax,
            varied[varied["eps_min"] == eps_min].drop(columns="learned_share"),
            "learned_share",
            "place",
            FACTOR_STYLES,
            bounds=(0, 1),
            order=list(words.values()),
            horizontal=True,
        )
        ax.set(xlim=(-0.04, 1.04), xlabel="share of runs that\nlearn the rare feature", ylabel="")
        ax.set_title(f"relative frequency {eps_min:g}")
    figure.suptitle("Runs that learn the rare feature, by half and double each hyper-parameter")
    entries = dict(FACTOR_STYLES) | {"the study as it is": Patch(color="0.9")}
    note = f"share and exact 95 % interval, {seeds_of(varied)}, {n_of(*base['n'])} as it is"
    return finish_figure(figure, axes[0], entries, note)


FACTORS = {0.5: "half its value", 2.0: "double its value"}
FACTOR_STYLES = {
    FACTORS[0.5]: STYLES[4].replace(marker="<", filled=False).without_line,
    FACTORS[2.0]: STYLES[0].replace(marker=">").without_line,
}


def overlap(tables: Tables, job: Job) -> Figure:
    """Plot the share of the smallest neurons that are aligned with the minority feature over
    training step.

    Each study has a panel and each eps_min a line, at the pruning ratio next to ALPHA.
    """
    studies = of_studies(tables, job)
    ratios = studies[0][1]["alpha"].unique()
    alpha = min(ratios, key=lambda ratio: abs(ratio - ALPHA))
    figure, axes = panels(1, len(studies), 2.3, sharey=True)
    for ax, (study, table) in zip(axes[0], studies, strict=True):
        rows = table[(table["alpha"] == alpha) & (table["step"] > 0)]
        rows = rows.assign(mean=rows["overlap"], series=rows["eps_min"])
        styles = sequential_styles(sorted(set(rows["series"])))
        plot_lines(
            ax, rows.drop(columns="overlap"), "step", "overlap", styles, bounds=(0, 1), band=True,
            mark_every=3,
        )  # fmt: skip
        ax.set(xscale="log", xlabel=STEP, title=rf"$\lambda$ = {study.training.lambda_:g}")
    axes[0, 0].set_ylabel(f"share of the {100 * alpha:.2g} % smallest\nneurons that are aligned")
    entries = {f"relative frequency {level:g}": look for level, look in styles.items()}
    every = pd.concat([table for _, table in studies])
    return finish_figure(figure, (), entries, f"{INTERVALS}, {n_of(*every['n'])}")
