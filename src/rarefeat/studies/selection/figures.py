"""Figures of the study of selection, of tables of replicas or of the published means."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, arm_name, n_of, seeds_of
from rarefeat.figures.panels import draw_zero_line, panels, plot_points, title_with_key, titled
from rarefeat.figures.style import (
    FREQUENT,
    MASKED,
    NARROW,
    RARE,
    SeriesStyle,
    sequential_styles,
)
from rarefeat.model.arms import display_name
from rarefeat.studies.selection.changes import digits_changes, masks, share_of
from rarefeat.studies.selection.config import Selection
from rarefeat.studies.selection.critical_frequency import AMONG, BELOW

Tables = Mapping[str, pd.DataFrame]
RANDOM = arm_name("random")
HELP_NAMES = {
    "dense": "as trained",
    "dense-threshold=rate": "bias by rate",
    "dense-threshold=norm_and_rate": "bias by norm and rate",
    "dense-delay=50": "bias 50 steps later",
    "dense-delay=200": "bias 200 steps later",
    "dense-reopened": "gates re-opened",
    "dense-revived": "silent neurons redrawn",
    "oracle_all-onset=92": "oracle's mask",
    "effective_rate-onset=92": "mask by rate",
    "norm-onset=92": "mask by norm",
}


def name_of(arm: str) -> str:
    """Return the name of an intervention for readers."""
    return HELP_NAMES.get(arm, display_name(arm.removeprefix("dense-")).replace("-", ", "))


def name_mask(arm: str) -> str:
    """Return the name of a mask as the page has it."""
    return "oracle with a stop" if arm == "oracle_gated" else arm_name(arm)


def select_point(table: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the smallest bias scale above 0 and the largest eps_min."""
    scales = table["point"].map(lambda point: float(share_of(point) or 0))
    scale = next((value for value in sorted(set(scales)) if value > 0), min(scales))
    rows = table[scales == scale]
    return rows[rows["eps_min"] == rows["eps_min"].max()]


def selection_interventions(tables: Tables) -> Figure:
    """Draw the change of the cosine, rare minus frequent, by mask at one point; who diverges."""
    table = next(iter(tables.values()))
    rows = select_point(masks(table) if "seed" in table else table)
    arms = rows["arm"].str.replace(r"-onset=\d+", "", regex=True)
    shown = (rows["quantity"] == "gain") & arms.str.fullmatch(r"\w+|effective_rate-stop")
    rows = rows.assign(place=arms.map(name_mask), series=rows["diverged"] > 0)[shown]
    rows = rows.sort_values("mean", ascending=False)
    figure, ((ax,),) = panels(height=1.0 + 0.21 * len(rows), width=NARROW)
    styles = {False: SeriesStyle(MASKED, "D"), True: SeriesStyle(RARE, "o", filled=False)}
    order = list(rows["place"])
    plot_points(ax, rows, "gain", "place", styles, order=order, horizontal=True, dodge=0)
    draw_zero_line(ax, vertical=True)
    ax.locator_params(axis="x", steps=[5, 10])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xlabel("change of the largest cosine,\nrare minus frequent features")
    for y, row in enumerate(rows.itertuples()):
        colour = styles[row.series].colour
        ax.text(
            1.03, y, f"{row.diverged} of {row.n}", color=colour, va="center",
            transform=ax.get_yaxis_transform(),
        )  # fmt: skip
    head, look = "runs that\ndiverge", {"color": RARE, "va": "bottom"}
    ax.text(1.03, -0.7, head, transform=ax.get_yaxis_transform(), **look)
    title = "Change of the largest cosine, rare minus frequent features, by mask"
    note = "against no mask at the same seed; open: some runs diverge"
    return titled(figure, title, f"{note};\n{INTERVALS}, {n_of(*rows['n'])}")


def selection_steps(tables: Tables, selection: Selection) -> Figure:
    """Draw the critical frequency by arm and point; arrows where it lies beyond the eps_min."""
    table = tables["selection_steps"].rename(columns={"step": "mean", "place": "side"})
    table = table[table["study"].isin(selection.studies_with_role("help"))]
    table = table.assign(place=table["arm"].map(name_of))
    styles = sequential_styles(sorted(table["point"].unique()))
    # Beyond the frequencies there is no estimate, only a side.
    known = table["mean"].fillna((table["side"] != BELOW).astype(float))
    means = table.assign(known=known).pivot_table("known", "place", "point")
    means = means.loc[means.mean(axis=1).sort_values(kind="stable").index]
    figure, ((ax,),) = panels(height=0.9 + 0.22 * len(means), width=NARROW)
    plot_points(
        ax, table, "value", "place", styles, series_column="point", order=list(means.index),
        horizontal=True, dodge=0,
    )  # fmt: skip
    for (point, side), rows in table[table["side"] != AMONG].groupby(["point", "side"]):
        x, marker = (0.0, "<") if side == BELOW else (1.02, ">")
        colour = styles[point].colour
        ax.plot([x] * len(rows), rows["place"], ls="none", marker=marker, color=colour)
    for point, x in means.loc[name_of("dense")].items():
        colour, name = styles[point].colour, f"bias scale {share_of(point)}"
        ax.axvline(x, color=colour, lw=0.7, ls=":", zorder=0.5)
        ax.text(x, -0.5, name, color=colour, ha="center", va="bottom")
    ax.set(xlim=(-0.03, 1.05), xlabel="relative frequency")
    return titled(
        figure,
        "Frequency from which on half of the runs learn the rare feature",
        f"95 % intervals, {n_of(*table['n'])}; dotted: as trained",
    )


def selection_digits(tables: Tables) -> Figure:
    """Draw the changes of the accuracies on rare and frequent digits at the largest imbalance."""
    (table,) = tables.values()
    rows = digits_changes(table) if "seed" in table else table
    value = "value" if "value" in rows else "mean"
    scaled = [name for name in (value, "ci_low", "ci_high") if name in rows]
    rows = rows[rows["rho"] == rows["rho"].max()]
    rows = rows.assign(rule=rows["rule"].map(arm_name), **100 * rows[scaled])
    means = rows.groupby(["rule", "group"])[value].mean().unstack()
    # The change by a mask that ruins the training is a hundred times that of others: a number.
    ruined = means[means.abs().max(axis=1) > 10 * means.stack().abs().median()]
    means = means.sort_values("tail", ascending=False)
    order = sorted(means.index, key=lambda rule: (rule in ruined.index, rule != RANDOM))
    styles = {
        "tail": SeriesStyle(RARE, "s").without_line,
        "head": SeriesStyle(FREQUENT, "D", filled=False).without_line,
    }
    figure, ((ax,),) = panels(height=1.0 + 0.26 * len(order), width=NARROW)
    near = rows[~rows["rule"].isin(ruined.index)]
    plot_points(
        ax, near, "value", "rule", styles, series_column="group", order=order,
        horizontal=True, dodge=0.3,
    )  # fmt: skip
    draw_zero_line(ax, vertical=True)
    ax.locator_params(axis="x", nbins=5)
    for rule, change in ruined.iterrows():
        text = "$\\leftarrow$ rare digits ${tail:.0f}$, frequent ${head:.0f}$".format(**change)
        ax.text(0.02, order.index(rule), text, transform=ax.get_yaxis_transform(), va="center")
    ax.set(ylim=(len(order) - 0.5, -0.5), xlabel="change of accuracy (points)", ylabel="")
    key = {"rare digits": styles["tail"], "frequent digits": styles["head"]}
    title_with_key(figure, "Change of the accuracy on digits by each mask, against no mask", key)
    figure.supxlabel(rf"imbalance $\rho$ = {rows['rho'].max():g}; {INTERVALS}, {seeds_of(rows)}")
    return figure
