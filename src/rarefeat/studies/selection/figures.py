"""Figures of the study of selection; their captions are in `declaration.py`."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from rarefeat.figures.labels import EPS, INTERVALS, STEP, arm_name, display_name, n_of, seeds_of
from rarefeat.figures.panels import draw_zero_line, finish_figure, panels, plot_lines, plot_points
from rarefeat.figures.style import COLUMN, GREY, PAGE, STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.selection.claims import MASKS, MIN_REPLICAS, NEW
from rarefeat.studies.selection.config import SCORES, Selection
from rarefeat.studies.selection.critical_frequency import AMONG
from rarefeat.studies.selection.doc_tables import digits_changes
from rarefeat.studies.selection.paired_changes import begins_first, changes_from_dense, share_of

SCORE_STYLES = dict(zip(SCORES, (*STYLES[1:], STYLES[0]), strict=False))
SCORE_STYLES["random"] = SeriesStyle(GREY, "v", (0, (1, 1)))
CHANCE = 0.5
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
MEASURED_LABEL = r"measured critical $\varepsilon_{\min}$"
PREDICTED_LABEL = r"predicted critical $\varepsilon_{\min}$"
LEAD = "minority gain \N{MINUS SIGN} majority gain"
MASK_STYLES = {
    "mask": STYLES[0],
    "with a stop": STYLES[1].replace(filled=False),
    "keys masked too": STYLES[2],
}
"""Styles of masks that begin at T3: plain, with a stop, and with masked keys."""
COLOURED = ("dense", "dense-delay=50", "dense-delay=200")
"""Interventions with a colour of their own; the curves of others are grey."""


def name_of(arm: str) -> str:
    """Return the name of an intervention for readers."""
    return HELP_NAMES.get(arm, display_name(arm.removeprefix("dense-")).replace("-", ", "))


def select_study(names: list[str], preferred: str) -> str:
    """Return the preferred study, or the first if it is not there."""
    return preferred if preferred in names else names[0]


def selection(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw AUCs, gains, learning curves and predictions, one panel each.

    Inputs: the tables of the sweeps. Config: `selection`.
    """
    section = job.config_section("selection", Selection)
    figure, axes = panels(2, 2, 5.6)
    name = select_study(list(section.studies_with_role("scores")), NEW)
    entries = plot_last_scores(axes[0, 0], tables[f"{name}_selection_scores"])
    name = select_study(list(section.studies_with_role("interventions")), MASKS)
    entries |= plot_gains(axes[0, 1], tables[f"{name}_selection"])
    name = next(iter(section.studies_with_role("help")))
    entries |= plot_learning_curves(axes[1, 0], tables[f"{name}_selection"])
    entries |= plot_predictions(axes[1, 1], tables["selection_law"])
    sweep_tables = (
        table for name, table in tables.items() if name.partition("_selection")[0] in section.sweeps
    )
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(*sweep_tables)}", columns=5
    )


def plot_last_scores(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Plot the AUC of every rule at the last step, by bias scale; return the legend's entries.

    At eps_min = 0.7, or at the largest below 1.
    """
    below = [eps for eps in sorted(table["eps_min"].unique()) if eps < 1]
    rows = table[(table["step"] == table["step"].max()) & (table["source"] == "running")]
    rows = rows[rows["eps_min"] == (0.7 if 0.7 in below else below[-1] if below else 1.0)]
    rows = select_measured(rows, ["point", "score"])
    rows = rows.assign(share=rows["point"].map(share_of), score=rows["score"].map(display_name))
    styles = sequential_styles(sorted(set(rows["share"]), key=lambda text: float(text or 0)))
    order = [display_name(score) for score in SCORES]
    plot_points(
        ax,
        rows,
        "auc",
        "score",
        styles,
        series_column="share",
        bounds=(0, 1),
        order=order,
        horizontal=True,
    )
    ax.axvline(CHANCE, color=GREY, lw=0.7)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("AUC for the neurons pure in the rare feature")
    return {f"a: bias scale {share}": style.without_line for share, style in styles.items()}


def select_measured(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Select the points at which enough replicas have a neuron to find.

    Enough are MIN_REPLICAS, or as many as any point has.
    """
    n = scores.groupby(keys)["auc"].transform("count")
    return scores[n >= min(MIN_REPLICAS, n.max())]


def plot_gains(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Plot minority gain minus majority gain of masks from T3 on; return the legend's entries.

    At the point of `select_point`.
    """
    rows = mask_changes(table)
    rows = rows[rows["quantity"] == "gain"]
    styles = {kind: MASK_STYLES[kind] for kind in ("mask", "with a stop")}
    order = order_by_gain(rows)
    plot_points(
        ax, rows, "value", "rule", styles, series_column="kind", order=order, horizontal=True
    )
    draw_zero_line(ax, vertical=True)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(LEAD)
    return {f"b: {kind}": style.without_line for kind, style in styles.items()}


def mask_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes from dense by masks that begin at T3, at one point.

    From a table of replicas or from the published means, with the columns `rule` and `kind`, a key
    of MASK_STYLES.
    """
    rows = select_point(table)
    if "seed" in rows:
        changes = changes_from_dense(rows)
        rows = pd.concat(change.assign(arm=arm) for arm, change in changes.items())
        rows = rows.reset_index().melt(["arm", "seed"], var_name="quantity")
    rows = rows[begins_first(rows["arm"])]
    rule, _, rest = (rows["arm"].str.partition("-")[column] for column in range(3))
    kinds = {"": "mask", "stop": "with a stop", "masked_keys": "keys masked too"}
    return rows.assign(
        rule=rule.map(display_name),
        kind=rest.str.replace(r"-?onset=\d+$", "", regex=True).map(kinds),
    )


def order_by_gain(rows: pd.DataFrame) -> list[str]:
    """Return the rules by the mean gain of their plain masks, the largest first."""
    plain = rows[rows["kind"] == "mask"]
    means = plain.groupby("rule")["value" if "value" in plain else "mean"].mean()
    return list(means.sort_values(ascending=False).index)


def select_point(table: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the smallest bias scale above 0 and the largest eps_min."""
    scales = table["point"].map(lambda point: float(share_of(point) or 0))
    scale = next((value for value in sorted(set(scales)) if value > 0), min(scales))
    rows = table[scales == scale]
    return rows[rows["eps_min"] == rows["eps_min"].max()]


def plot_learning_curves(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Plot the fraction of learned replicas against eps_min; return the legend's entries.

    At the largest bias scale.
    """
    point = max(table["point"].unique(), key=lambda text: float(share_of(text) or 0))
    rows = table[(table["point"] == point) & (table["quantity"] == "learned")]
    others = [
        arm
        for arm in rows["arm"].unique()
        if arm.startswith(("dense", "oracle")) and arm not in COLOURED
    ]
    grey = SeriesStyle(GREY)
    plot_lines(
        ax,
        rows,
        "eps_min",
        "value",
        dict.fromkeys(others, grey),
        series_column="arm",
        estimator="plain",
    )
    arms = set(rows["arm"])
    styles = {arm: style for arm, style in zip(COLOURED, STYLES, strict=False) if arm in arms}
    plot_lines(ax, rows, "eps_min", "value", styles, series_column="arm", estimator="share")
    ax.axhline(CHANCE, color=GREY, lw=0.7)
    ax.set_xlabel(EPS)
    ax.set_ylabel("fraction of replicas that\nlearn the rare feature")
    ax.set_title(f"bias scale {share_of(point)}")
    entries = {f"c: {name_of(arm)}": style for arm, style in styles.items()}
    return entries | ({f"c: {len(others)} other ways to help": grey} if others else {})


def plot_predictions(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Plot predicted against measured critical frequencies; return the legend's entries.

    Regimes without a critical frequency among the eps_min are left out.
    """
    among = table[table["place"] == AMONG].rename(columns={"step": "mean"})
    styles = dict(
        zip(
            sorted(set(table["study"])),
            (SeriesStyle(GREY, "<", filled=False), STYLES[2]),
            strict=False,
        )
    )
    plot_points(
        ax, among, "value", "predicted", styles, series_column="study", horizontal=True, dodge=0
    )
    ax.plot([0, 1], [0, 1], color=GREY, lw=0.7)
    ax.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=MEASURED_LABEL, ylabel=PREDICTED_LABEL)
    return {f"d: {display_name(study)}": style.without_line for study, style in styles.items()}


FAMILIES = {
    "rates of firing": ("firing_rate", "growth", "effective_rate", "hoyer_rate", "paired_rate"),
    "other rules": ("norm", "contribution", "residual", "random"),
}


def selection_scores(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the AUC of every rule against training step, a row for each study and bias scale.

    Inputs: `STUDY_selection_scores`. Config: `selection`. A study is drawn at its middle lambda.
    """
    scores_of = {
        table.removesuffix("_selection_scores"): select_middle(rows)
        for table, rows in tables.items()
    }
    sweeps = job.config_section("selection", Selection).sweeps
    rows = pd.concat([rows.assign(study=name) for name, rows in scores_of.items()])
    rows = select_measured(rows, ["study", "point", "step", "score"])
    rows = rows.assign(share=rows["point"].map(share_of))
    # A row for each study and bias scale at which replicas have neurons to find.
    places = list(rows.groupby(["study", "share"], sort=False).groups)
    figure, axes = panels(len(places), 2, 0.9 + 1.4 * len(places), sharey=True, sharex="row")
    for line, (name, share) in zip(axes, places, strict=True):
        chosen = rows[(rows["study"] == name) & (rows["share"] == share)]
        for ax, scores in zip(line, FAMILIES.values(), strict=True):
            styles = {score: SCORE_STYLES[score] for score in scores}
            plot_lines(ax, chosen, "step", "auc", styles, series_column="score", bounds=(0, 1))
            ax.axhline(CHANCE, color=GREY, lw=0.7)
            ax.set_ylim(-0.03, 1.03)
        line[0].set_ylabel(f"AUC, $d$ = {sweeps[name].data.d},\nbias scale {share}")
    for ax, family in zip(axes[0], FAMILIES, strict=True):
        ax.set_title(family)
    for ax in axes[-1]:
        ax.set_xlabel(STEP)
    names = [score for scores in FAMILIES.values() for score in scores]
    entries = {display_name(score): SCORE_STYLES[score] for score in names}
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(*scores_of.values())}", columns=5
    )


def select_middle(table: pd.DataFrame) -> pd.DataFrame:
    """Select scores of running moments at the middle lambda, where it is varied.

    At eps_min = 0.7, or at the largest below 1.
    """
    rows = table[table["source"] == "running"]
    texts = {
        text for point in rows["point"] for text in point.split(", ") if text.startswith("lambda=")
    }
    decays = sorted(texts, key=lambda text: float(text[7:]))
    if decays:
        rows = rows[rows["point"].str.contains(decays[len(decays) // 2], regex=False)]
    eps = sorted(rows["eps_min"].unique())
    below = [value for value in eps if value < 1] or eps
    return rows[rows["eps_min"] == (0.7 if 0.7 in below else below[-1])]


PANELS = {
    "gain": LEAD.replace(" \N{MINUS SIGN} ", "\n\N{MINUS SIGN} "),
    "balanced_mse": "change of the\nbalanced test MSE",
    "pure_minority_neurons": "more neurons pure\nin the rare feature",
    "largest_norm": "$\\log_2$ of the largest\nnorm over dense's",
}


def selection_interventions(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the changes from dense by every mask, at one point.

    A row for each rule and a panel for each quantity. Inputs: one table `STUDY_selection`, or the
    published means. Config: none.
    """
    rows = mask_changes(next(iter(tables.values())))
    order = order_by_gain(rows[rows["quantity"] == "gain"])
    figure, axes = panels(1, len(PANELS), 1.2 + 0.24 * len(order), sharey=True)
    for ax, (quantity, label) in zip(axes[0], PANELS.items(), strict=True):
        values = rows[rows["quantity"] == quantity]
        plot_points(
            ax,
            values,
            "value",
            "rule",
            MASK_STYLES,
            series_column="kind",
            order=order,
            horizontal=True,
            dodge=0.6,
        )
        draw_zero_line(ax, vertical=True)
        ax.set_xlabel(label)
        ax.grid(axis="y", lw=0.3)
    # The change of a training that diverges is a hundred times that of any other.
    for ax, linear, ticks in zip(
        axes[0], (0.01, 0.002), ((-0.1, 0, 0.1), (-0.01, 0, 0.01)), strict=False
    ):
        ax.set_xscale("symlog", linthresh=linear)
        ax.set_xlim(*(2 * end for end in ax.get_xlim()))
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(FixedLocator([-linear, linear]))
    kinds = set(rows["kind"])
    entries = {kind: style.without_line for kind, style in MASK_STYLES.items() if kind in kinds}
    return finish_figure(
        figure, axes.flat, entries, f"minus dense at the same seed, {INTERVALS}, {seeds_of(rows)}"
    )


def selection_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the critical frequency by arm and point; arrows where it lies beyond the eps_min.

    Inputs: `selection_steps`. Config: `selection`.
    """
    studies = job.config_section("selection", Selection).studies_with_role("help")
    table = tables["selection_steps"]
    table = table[table["study"].isin(studies)]
    names = {arm: name_of(arm) for arm in dict.fromkeys(table["arm"])}
    table = table.assign(arm=table["arm"].map(names)).rename(columns={"step": "mean"})
    styles = dict(zip(sorted(table["point"].unique()), STYLES, strict=False))
    figure, axes = panels(1, 1, 0.9 + 0.22 * len(names), COLUMN)
    ax = axes[0, 0]
    order = list(names.values())
    plot_points(
        ax,
        table,
        "value",
        "arm",
        styles,
        series_column="point",
        order=order,
        horizontal=True,
        dodge=0,
    )
    for (point, side), rows in table[table["place"] != AMONG].groupby(["point", "place"]):
        x, marker = (0.0, "<") if side == "below" else (1.02, ">")
        colour = styles[point].colour
        ax.plot([x] * len(rows), rows["arm"], ls="none", marker=marker, color=colour)
    ax.set(xlim=(-0.03, 1.05), xlabel=r"$\varepsilon_{\min}$ at which half of the replicas learn")
    entries = {
        f"bias scale {share_of(point)}": style.without_line for point, style in styles.items()
    }
    return finish_figure(
        figure,
        (),
        entries,
        f"{INTERVALS.replace('mean', 'critical frequency')}, {n_of(*table['n'])}",
    )


def selection_law(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw predictions of the critical-frequency model against the outcomes of replicas.

    Inputs: `selection_law`, `selection_fate`. Config: none.
    """
    law, outcomes = tables["selection_law"], tables["selection_fate"]
    test = law[law["study"].map(lambda name: "test" in name)] if law["study"].nunique() > 1 else law
    figure, axes = panels(2, 2, 5.2)
    entries = plot_predictions(axes[0, 0], law)
    among = test[test["place"] == AMONG].rename(columns={"step": "mean"})
    errors = among.assign(
        **{name: among["predicted"] - among[name] for name in ("mean", "ci_low", "ci_high")}
    )
    plot_points(axes[0, 1], errors, "share", "value", STYLES[2])
    draw_zero_line(axes[0, 1])
    axes[0, 1].set(xlabel="bias scale", ylabel="predicted \N{MINUS SIGN} measured")
    replicas = outcomes[outcomes["study"].isin(test["study"])]
    bins = np.clip((replicas["probability"] * 10).astype(int), 0, 9)
    replicas = replicas.assign(bin=(bins + 0.5) / 10)
    by_regime = replicas.groupby(["bin", "point"])["learned"].mean().reset_index()
    plot_points(axes[1, 0], by_regime, "bin", "learned", STYLES[2], bounds=(0, 1))
    axes[1, 0].plot([0, 1], [0, 1], color=GREY, lw=0.7)
    axes[1, 0].set(
        xlabel="predicted probability",
        ylabel="fraction that learned",
        xlim=(0, 1),
        ylim=(-0.02, 1.02),
    )
    axes[1, 1].scatter(test["auc_of_ratio"], test["auc"], c=STYLES[2].colour, s=12)
    axes[1, 1].plot([0, 1], [0, 1], color=GREY, lw=0.7)
    low = test[["auc", "auc_of_ratio"]].min().min()
    ends = (low - 0.1 * (1 - low), 1 + 0.1 * (1 - low)) if low < 1 else (0, 1.02)
    axes[1, 1].set(
        xlabel="AUC of the ratio at $T_1$",
        ylabel="AUC from the initial weights",
        xlim=ends,
        ylim=ends,
    )
    entries = {name.replace("d: ", "a: "): style for name, style in entries.items()}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {n_of(*law['n'])} a regime")


def selection_digits(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the changes of the accuracies on rare and frequent digits by every rule.

    Inputs: `selection_digits`, or the published means. Config: none.
    """
    (table,) = tables.values()
    rows = digits_changes(table) if "seed" in table else table
    names = {rule: arm_name(rule) for rule in dict.fromkeys(rows["rule"])}
    means = rows.groupby(["rho", "rule", "group"])["value" if "value" in rows else "mean"].mean()
    # The change by a mask that ruins the training is a hundred times that of others: a number.
    ruined = means.unstack()[lambda wide: wide.abs().max(axis=1) > 10 * means.abs().median()]
    rhos = sorted(rows["rho"].unique())
    figure, axes = panels(
        1, len(rhos), 2.4, PAGE if len(rhos) > 1 else COLUMN, sharey=True, sharex=True
    )
    styles = {"tail": STYLES[1].without_line, "head": STYLES[2].replace(filled=False).without_line}
    text = "$\\leftarrow$ rare ${tail:.2f}$, frequent ${head:.2f}$"
    order = list(names.values())
    for ax, rho in zip(axes[0], rhos, strict=True):
        far = ruined[ruined.index.get_level_values("rho") == rho].droplevel("rho")
        near = rows[(rows["rho"] == rho) & ~rows["rule"].isin(far.index)]
        near = near.assign(rule=near["rule"].map(names))
        plot_points(
            ax,
            near,
            "value",
            "rule",
            styles,
            series_column="group",
            order=order,
            horizontal=True,
            dodge=0.3,
        )
        draw_zero_line(ax, vertical=True)
        ax.locator_params(axis="x", nbins=5)
        options = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7}
        for rule, change in far.iterrows():
            ax.text(0.02, list(names).index(rule), text.format(**change), **options)
        ax.set(title=rf"$\rho$ = {rho:g}", xlabel="change of the accuracy")
    entries = {"rare digits": styles["tail"], "frequent digits": styles["head"]}
    return finish_figure(
        figure, (), entries, f"minus dense at the same seed,\n{INTERVALS}, {seeds_of(table)}"
    )
