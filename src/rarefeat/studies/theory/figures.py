"""Maps of minority alignment over training, and of neurons that magnitude pruning takes."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import INTERVALS, PARAMETER_WORDS, STEP, n_of, seeds_of
from rarefeat.figures.panels import finish_figure, panels, plot_effects, plot_lines
from rarefeat.figures.style import GREY, NARROW, STYLES, SeriesStyle, sequential_styles
from rarefeat.model.theory import stage1_growth
from rarefeat.studies.theory import TheoryStudy

Tables = Mapping[str, pd.DataFrame]
ALPHA = 0.1
"""Pruning ratio at which overlaps are shown."""


FACTORS = {0.5: "half", 2.0: "double"}
"""Names of factors; others are told as numbers."""
FACTOR_STYLES = (
    STYLES[4].replace(marker="<").without_line,
    STYLES[0].replace(marker=">").without_line,
    *(style.without_line for style in STYLES[1:4]),
)


def by_study(
    tables: Tables, studies: dict[str, TheoryStudy]
) -> list[tuple[TheoryStudy, pd.DataFrame]]:
    """Return each table with the study that its name begins with, in the order of the tables."""
    return [(studies[name.rpartition("_")[0]], table) for name, table in tables.items()]


def onset(study: TheoryStudy, eps_min: float, sigma: float) -> float:
    """Return the predicted step at which the minority feature takes off.

    The strongest of m neurons, sigma_0 sqrt(2 log m), grows as in stage 1 to sigma_0 sqrt(d1).
    """
    data, training = study.data, study.training
    eps = np.full(data.d, eps_min)
    rates = training.K, training.tau, training.eta, training.lambda_
    scale = training.logit_scale(data.d1)
    growth = stage1_growth(eps, data.C, data.L, sigma**2 * data.d1, *rates, scale)[-1]
    if growth <= 1:
        return math.inf
    return math.log(math.sqrt(data.d1 / (2 * math.log(training.m)))) / math.log(growth)


def phase(tables: Tables, studies: dict[str, TheoryStudy]) -> Figure:
    """Plot mean max_alignment over step and eps_min, a panel for each study, and the onset."""
    chosen = [
        (study, table[(table["metric"] == "max_alignment") & (table["step"] > 0)])
        for study, table in by_study(tables, studies)
    ]
    columns = 2 if len(chosen) > 1 else 1
    rows = math.ceil(len(chosen) / columns)
    figure, axes = panels(rows, columns, 0.9 + 1.5 * rows, NARROW, sharex=True, sharey=True)
    for ax, (study, table) in zip(axes.flat, chosen, strict=False):
        wide = table.pivot_table(index="eps_min", columns="step", values="value")
        mesh = ax.pcolormesh(
            wide.columns, wide.index, wide, vmin=0, vmax=1, shading="nearest", rasterized=True
        )
        limits = ax.get_ylim()
        eps = np.linspace(wide.index.min(), wide.index.max(), 200)
        predicted = [onset(study, value, table["sigma"].iloc[0]) for value in eps]
        # White on black is visible on the dark and on the light part of the map.
        ax.plot(predicted, eps, color="black", lw=2)
        ax.plot(predicted, eps, color="white", ls=(0, (3, 1.5)), lw=1.2)
        share = study.training.bias.share
        bias = f"bias scale {share:g}" if share else "no bias"
        ax.set_title(f"decay {study.training.lambda_:g}, {bias}")
        ax.set(xscale="log", xlim=(1, table["step"].max()), ylim=limits)
        ax.set(xlabel=STEP, ylabel="relative frequency")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.label_outer()
    figure.colorbar(mesh, ax=list(axes.flat), label="largest cosine, mean", aspect=24)
    figure.suptitle("The largest cosine with the rare feature, by its frequency and step")
    entries = {"predicted onset of stage 1": SeriesStyle("black", dash=(0, (3, 1.5)))}
    return finish_figure(figure, (), entries, seeds_of(*(table for _, table in chosen)))


def half_and_double(tables: Tables) -> Figure:
    """Plot the share that learns the rare feature at half and double each hyper-parameter."""
    (table,) = tables.values()
    # A published table has no value where a run's has an empty text.
    table = table.fillna({"setting": ""}).rename(columns={"learned_share": "mean"})
    levels = sorted(table["eps_min"].unique())
    eps_min = levels[len(levels) // 2]
    table = table[table["eps_min"] == eps_min]
    base, varied = table[table["setting"] == ""], table[table["setting"] != ""]
    places = varied["setting"].map(lambda name: PARAMETER_WORDS.get(name, name))
    names = {factor: FACTORS.get(factor, f"{factor:g}") for factor in sorted(set(varied["factor"]))}
    varied = varied.assign(place=places, series=varied["factor"].map(names))
    figure, ((ax,),) = panels(height=1.1 + 0.22 * places.nunique(), width=NARROW)
    for study in base.itertuples():
        ax.axvspan(study.ci_low, study.ci_high, color="0.92", lw=0, zorder=0)
        ax.axvline(study.mean, color=GREY, lw=0.7, zorder=0.5)
    plot_effects(ax, varied, dict(zip(names.values(), FACTOR_STYLES, strict=False)))
    title = f"runs that learn it at a frequency of {eps_min:g} (band: nothing changed)"
    ax.set(xlim=(-0.04, 1.04), ylabel="")
    ax.set_xlabel(title, ha="right", x=1)
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    figure.suptitle("Runs that learn the rare feature, each setting halved or doubled")
    figure.supxlabel(f"exact 95 % intervals, {seeds_of(varied)} (band: {n_of(*base['n'])})")
    return figure


def overlap(tables: Tables, studies: dict[str, TheoryStudy]) -> Figure:
    """Plot by step the share of the smallest neurons, about ALPHA, that are aligned with it."""
    shown = by_study(tables, studies)
    alpha = min(shown[0][1]["alpha"].unique(), key=lambda ratio: abs(ratio - ALPHA))
    figure, axes = panels(1, len(shown), 2.3, sharey=True)
    for ax, (study, table) in zip(axes[0], shown, strict=True):
        rows = table[(table["alpha"] == alpha) & (table["step"] > 0)]
        rows = rows.rename(columns={"overlap": "mean"}).assign(series=rows["eps_min"])
        styles = sequential_styles(sorted(set(rows["series"])))
        plot_lines(ax, rows, "step", "overlap", styles, bounds=(0, 1), band=True, mark_every=3)
        ax.set(xscale="log", xlabel=STEP, title=rf"$\lambda$ = {study.training.lambda_:g}")
    axes[0, 0].set_ylabel(f"share of the {100 * alpha:.2g} % smallest\nneurons that are aligned")
    entries = {f"relative frequency {level:g}": look for level, look in styles.items()}
    every = pd.concat(tables.values())
    return finish_figure(figure, (), entries, f"{INTERVALS}, {n_of(*every['n'])}")
