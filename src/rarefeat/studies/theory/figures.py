"""The figure of the study that is varied, a hyper-parameter at a time."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import PARAMETER_WORDS, n_of, seeds_of
from rarefeat.figures.panels import panels, plot_effects, titled
from rarefeat.figures.style import GREY, NARROW, STYLES

FACTORS = {0.5: "half", 2.0: "double"}
"""Names of factors; others are told as numbers."""
FACTOR_STYLES = (
    STYLES[4].replace(marker="<").without_line,
    STYLES[0].replace(marker=">").without_line,
    *(style.without_line for style in STYLES[1:4]),
)


def half_and_double(tables: Mapping[str, pd.DataFrame]) -> Figure:
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
    return titled(
        figure,
        "Runs that learn the rare feature, each setting halved or doubled",
        f"exact 95 % intervals, {seeds_of(varied)} (band: {n_of(*base['n'])})",
    )
