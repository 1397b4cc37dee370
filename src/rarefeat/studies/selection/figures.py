"""Figures of the study of selection."""

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
from rarefeat.studies.selection.claims import LEAST, MASKS, NEW
from rarefeat.studies.selection.config import SCORES, Selection
from rarefeat.studies.selection.critical_frequency import AMONG
from rarefeat.studies.selection.doc_tables import digits_changes
from rarefeat.studies.selection.paired_changes import begins_first, changed, share_of

OF_SCORE = dict(
    zip(SCORES, (*STYLES[1:], STYLES[0], SeriesStyle(GREY, "v", (0, (1, 1)))), strict=False)
)
OF_SCORE["random"] = SeriesStyle(GREY, "v", (0, (1, 1)))
CHANCE = 0.5
HELPED = {
    "dense": "as trained", "dense-threshold=rate": "bias by rate", "dense-threshold=norm_and_rate": "bias by norm and rate",
    "dense-delay=50": "bias 50 steps later", "dense-delay=200": "bias 200 steps later",
    "dense-reopened": "gates re-opened", "dense-revived": "silent neurons redrawn", "oracle_all-onset=92": "oracle's mask",
    "effective_rate-onset=92": "mask by rate", "norm-onset=92": "mask by norm",
}  # fmt: skip
MEASURED, PREDICTED = (
    r"measured step in $\varepsilon_{\min}$",
    r"predicted step in $\varepsilon_{\min}$",
)
LEAD = "minority gain \N{MINUS SIGN} majority gain"
MASKED = {
    "mask": STYLES[0],
    "with a stop": STYLES[1].replace(filled=False),
    "keys masked too": STYLES[2],
}
"""Of masks that begin at T3: as they are, without a gradient to what is masked, and also where samples are keys."""
MOVED = ("dense", "dense-delay=50", "dense-delay=200")
"""What moves the step, drawn as it is; any other help is grey."""


def name_of(arm: str) -> str:
    """An arm for people."""
    return HELPED.get(arm, display_name(arm.removeprefix("dense-")).replace("-", ", "))


def chosen(names: list[str], preferred: str) -> str:
    """A study that a figure shows: the preferred one, or the first that there is."""
    return preferred if preferred in names else names[0]


def selection(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The story: who finds the neurons, what their masks do, what moves the step, and where the law places it."""
    section = job.config_section("selection", Selection)
    figure, axes = panels(2, 2, 5.6)
    name = chosen(list(section.studies_with_role("scores")), NEW)
    entries = at_end(axes[0, 0], tables[f"{name}_selection_scores"])
    name = chosen(list(section.studies_with_role("interventions")), MASKS)
    entries |= gains(axes[0, 1], tables[f"{name}_selection"])
    entries |= sigmoids(
        axes[1, 0], tables[f"{next(iter(section.studies_with_role('help')))}_selection"]
    )
    entries |= against(axes[1, 1], tables["selection_law"])
    of_sweeps = (
        table for name, table in tables.items() if name.partition("_selection")[0] in section.sweeps
    )
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(*of_sweeps)}", columns=5
    )


def at_end(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """AUC of every rule at the last step, at an eps_min below 1, without and with a bias; the key's entries."""
    below = [eps for eps in sorted(table["eps_min"].unique()) if eps < 1]
    part = table[(table["step"] == table["step"].max()) & (table["source"] == "running")]
    part = part[part["eps_min"] == (0.7 if 0.7 in below else below[-1] if below else 1.0)]
    kept = enough(part, ["point", "score"])
    kept = kept.assign(share=kept["point"].map(share_of), score=kept["score"].map(display_name))
    shares = sequential_styles(sorted(set(kept["share"]), key=lambda text: float(text or 0)))
    order = [display_name(score) for score in SCORES]
    plot_points(
        ax, kept, "auc", "score", shares, by="share", inside=(0, 1), order=order, across=True
    )
    ax.axvline(CHANCE, color=GREY, lw=0.7)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("AUC for the neurons pure in the rare feature")
    return {f"a: share of the bias {share}": look.without_line for share, look in shares.items()}


def enough(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Rows of the points at which LEAST replicas have a neuron to find, or as many as any point has."""
    found = scores.groupby(keys)["auc"].transform("count")
    return scores[found >= min(LEAST, found.max())]


def gains(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Minority gain less majority gain of the masks from T3 on, at the point with the smaller bias that is not 0."""
    rows = of_masks(table)
    rows = rows[rows["quantity"] == "gain"]
    shown = {kind: MASKED[kind] for kind in ("mask", "with a stop")}
    plot_points(ax, rows, "value", "rule", shown, by="kind", order=by_size(rows), across=True)
    draw_zero_line(ax, across=True)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel(LEAD)
    return {f"b: {kind}": look.without_line for kind, look in shown.items()}


def of_masks(table: pd.DataFrame) -> pd.DataFrame:
    """What masks change at one point, from replicas or from means: columns `rule` and `kind`, a key of MASKED."""
    rows = one_point(table)
    if "seed" in rows:
        less = pd.concat(change.assign(arm=arm) for arm, change in changed(rows).items())
        rows = less.reset_index().melt(["arm", "seed"], var_name="quantity")
    rows = rows[begins_first(rows["arm"])]
    rule, _, rest = (rows["arm"].str.partition("-")[part] for part in range(3))
    kinds = {"": "mask", "stop": "with a stop", "masked_keys": "keys masked too"}
    return rows.assign(
        rule=rule.map(display_name),
        kind=rest.str.replace(r"-?onset=\d+$", "", regex=True).map(kinds),
    )


def by_size(rows: pd.DataFrame) -> list[str]:
    """Rules by the mean gain of their plain masks."""
    plain = rows[rows["kind"] == "mask"]
    return list(
        plain.groupby("rule")["value" if "value" in plain else "mean"]
        .mean()
        .sort_values(ascending=False)
        .index
    )


def one_point(table: pd.DataFrame) -> pd.DataFrame:
    """Rows at the smallest share that is not 0, and the largest eps_min."""
    shares = sorted({float(share_of(point) or 0) for point in table["point"]})
    share = next((value for value in shares if value > 0), shares[0])
    part = table[table["point"].map(lambda point: float(share_of(point) or 0)) == share]
    return part[part["eps_min"] == part["eps_min"].max()]


def sigmoids(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Share of replicas that have learned over eps_min, at the largest bias; the key's entries."""
    point = max(table["point"].unique(), key=lambda text: float(share_of(text) or 0))
    part = table[(table["point"] == point) & (table["quantity"] == "learned")]
    others = [
        arm
        for arm in part["arm"].unique()
        if arm.startswith(("dense", "oracle")) and arm not in MOVED
    ]
    grey = SeriesStyle(GREY)
    plot_lines(ax, part, "eps_min", "value", dict.fromkeys(others, grey), by="arm", of="plain")
    moved = {arm: look for arm, look in zip(MOVED, STYLES, strict=False) if arm in set(part["arm"])}
    plot_lines(ax, part, "eps_min", "value", moved, by="arm", of="share")
    ax.axhline(CHANCE, color=GREY, lw=0.7)
    ax.set_xlabel(EPS)
    ax.set_ylabel("share of replicas that\nlearn the rare feature")
    ax.set_title(f"share of the bias {share_of(point)}")
    entries = {f"c: {name_of(arm)}": look for arm, look in moved.items()}
    return entries | ({f"c: {len(others)} other ways to help": grey} if others else {})


def against(ax: Axes, table: pd.DataFrame) -> dict[str, SeriesStyle]:
    """Predicted against measured steps, of the regimes that have one among the eps_min; the key's entries."""
    among = table[table["place"] == AMONG].rename(columns={"step": "mean"})
    shown = dict(
        zip(
            sorted(set(table["study"])),
            (SeriesStyle(GREY, "<", filled=False), STYLES[2]),
            strict=False,
        )
    )
    plot_points(ax, among, "value", "predicted", shown, by="study", across=True, dodge=0)
    ax.plot([0, 1], [0, 1], color=GREY, lw=0.7)
    ax.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=MEASURED, ylabel=PREDICTED)
    return {f"d: {display_name(study)}": look.without_line for study, look in shown.items()}


FAMILIES = {
    "rates of firing": ("firing_rate", "growth", "effective_rate", "hoyer_rate", "paired_rate"),
    "other rules": ("norm", "contribution", "residual", "random"),
}


def selection_scores(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """AUC of every rule over training step, a panel for each share of the bias, a row for each study at its middle lambda."""
    names = {table.removesuffix("_selection_scores"): rows for table, rows in tables.items()}
    found = {name: at_middle(rows) for name, rows in names.items()}
    d_of = {
        name: sweep.data.d
        for name, sweep in job.config_section("selection", Selection).sweeps.items()
    }
    kept = pd.concat([rows.assign(study=name) for name, rows in found.items()])
    kept = enough(kept, ["study", "point", "step", "score"])
    kept = kept.assign(share=kept["point"].map(share_of))
    # A row for each study and share of the bias at which replicas have neurons to find.
    places = list(kept.groupby(["study", "share"], sort=False).groups)
    figure, axes = panels(len(places), 2, 0.9 + 1.4 * len(places), sharey=True, sharex="row")
    for row, (name, share) in zip(axes, places, strict=True):
        part = kept[(kept["study"] == name) & (kept["share"] == share)]
        for ax, scores in zip(row, FAMILIES.values(), strict=True):
            plot_lines(
                ax,
                part,
                "step",
                "auc",
                {score: OF_SCORE[score] for score in scores},
                by="score",
                inside=(0, 1),
            )
            ax.axhline(CHANCE, color=GREY, lw=0.7)
            ax.set_ylim(-0.03, 1.03)
        row[0].set_ylabel(f"AUC, $d$ = {d_of[name]},\nshare of the bias {share}")
    for ax, family in zip(axes[0], FAMILIES, strict=True):
        ax.set_title(family)
    for ax in axes[-1]:
        ax.set_xlabel(STEP)
    names = [score for scores in FAMILIES.values() for score in scores]
    entries = {display_name(score): OF_SCORE[score] for score in names}
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(*found.values())}", columns=5
    )


def at_middle(table: pd.DataFrame) -> pd.DataFrame:
    """Running scores at the middle lambda where it is varied, and at eps_min = 0.7 or the largest below 1."""
    part = table[table["source"] == "running"]
    found = {
        text for point in part["point"] for text in point.split(", ") if text.startswith("lambda=")
    }
    values = sorted(found, key=lambda text: float(text[7:]))
    if values:
        part = part[part["point"].str.contains(values[len(values) // 2], regex=False)]
    eps = sorted(part["eps_min"].unique())
    below = [value for value in eps if value < 1] or eps
    return part[part["eps_min"] == (0.7 if 0.7 in below else below[-1])]


PANELS = {
    "gain": LEAD.replace(" \N{MINUS SIGN} ", "\n\N{MINUS SIGN} "), "balanced_mse": "change of the\nbalanced test MSE", 
    "pure_minority_neurons": "more neurons pure\nin the rare feature",
    "largest_norm": r"$\log_2$ of the largest" "\nnorm over dense's",
}  # fmt: skip


def selection_interventions(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Every mask less dense, at one point: a row for each rule, a panel for each quantity; replicas, or the published means."""
    rows = of_masks(next(iter(tables.values())))
    order = by_size(rows[rows["quantity"] == "gain"])
    figure, axes = panels(1, len(PANELS), 1.2 + 0.24 * len(order), sharey=True)
    for ax, (quantity, label) in zip(axes[0], PANELS.items(), strict=True):
        part = rows[rows["quantity"] == quantity]
        plot_points(
            ax, part, "value", "rule", MASKED, by="kind", order=order, across=True, dodge=0.6
        )
        draw_zero_line(ax, across=True)
        ax.set_xlabel(label)
        ax.grid(axis="y", lw=0.3)
    # A blow-up's change is a hundred times that of anything else.
    for ax, linear, ticks in zip(
        axes[0], (0.01, 0.002), ((-0.1, 0, 0.1), (-0.01, 0, 0.01)), strict=False
    ):
        ax.set_xscale("symlog", linthresh=linear)
        ax.set_xlim(*(2 * end for end in ax.get_xlim()))
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.xaxis.set_minor_locator(FixedLocator([-linear, linear]))
    entries = {
        kind: look.without_line for kind, look in MASKED.items() if kind in set(rows["kind"])
    }
    return finish_figure(
        figure, axes.flat, entries, f"minus dense at the same seed, {INTERVALS}, {seeds_of(rows)}"
    )


def selection_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The step by arm and point; arrows where it lies beyond the eps_min."""
    studies = job.config_section("selection", Selection).studies_with_role("help")
    table = tables["selection_steps"]
    table = table[table["study"].isin(studies)]
    names = {arm: name_of(arm) for arm in dict.fromkeys(table["arm"])}
    table = table.assign(arm=table["arm"].map(names)).rename(columns={"step": "mean"})
    shown = dict(zip(sorted(table["point"].unique()), STYLES, strict=False))
    figure, axes = panels(1, 1, 0.9 + 0.22 * len(names), COLUMN)
    ax = axes[0, 0]
    plot_points(
        ax,
        table,
        "value",
        "arm",
        shown,
        by="point",
        order=list(names.values()),
        across=True,
        dodge=0,
    )
    for (point, beyond), part in table[table["place"] != AMONG].groupby(["point", "place"]):
        place, marker = (0.0, "<") if beyond == "below" else (1.02, ">")
        ax.plot(
            [place] * len(part), part["arm"], ls="none", marker=marker, color=shown[point].colour
        )
    ax.set(xlim=(-0.03, 1.05), xlabel=r"$\varepsilon_{\min}$ at which half of the replicas learn")
    entries = {
        f"share of the bias {share_of(point)}": look.without_line for point, look in shown.items()
    }
    return finish_figure(
        figure, (), entries, f"{INTERVALS.replace('mean', 'step')}, {n_of(*table['n'])}"
    )


def selection_law(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The law against what replicas did."""
    law, fate = tables["selection_law"], tables["selection_fate"]
    test = law[law["study"].map(lambda name: "test" in name)] if law["study"].nunique() > 1 else law
    figure, axes = panels(2, 2, 5.2)
    entries = against(axes[0, 0], law)
    among = test[test["place"] == AMONG].rename(columns={"step": "mean"})
    off = among.assign(
        **{name: among["predicted"] - among[name] for name in ("mean", "ci_low", "ci_high")}
    )
    plot_points(axes[0, 1], off, "share", "value", STYLES[2])
    draw_zero_line(axes[0, 1])
    axes[0, 1].set(xlabel="share of the bias", ylabel="predicted \N{MINUS SIGN} measured")
    own = fate[fate["study"].isin(test["study"])]
    bins = np.clip((own["probability"] * 10).astype(int), 0, 9)
    by_regime = (
        own.assign(bin=(bins + 0.5) / 10).groupby(["bin", "point"])["learned"].mean().reset_index()
    )
    plot_points(axes[1, 0], by_regime, "bin", "learned", STYLES[2], inside=(0, 1))
    axes[1, 0].plot([0, 1], [0, 1], color=GREY, lw=0.7)
    axes[1, 0].set(
        xlabel="probability by the law",
        ylabel="share that learned",
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
    entries = {name.replace("d: ", "a: "): look for name, look in entries.items()}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {n_of(*law['n'])} a regime")


def selection_digits(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """What every rule changes of the accuracies on rare and frequent digits."""
    (table,) = tables.values()
    less = digits_changes(table) if "seed" in table else table
    names = {rule: arm_name(rule) for rule in dict.fromkeys(less["rule"])}
    means = less.groupby(["rho", "rule", "group"])["value" if "value" in less else "mean"].mean()
    # A mask that ruins the training changes a hundred times what the others do: it is said in words.
    ruined = means.unstack()[lambda wide: wide.abs().max(axis=1) > 10 * means.abs().median()]
    rhos = sorted(less["rho"].unique())
    figure, axes = panels(
        1, len(rhos), 2.4, PAGE if len(rhos) > 1 else COLUMN, sharey=True, sharex=True
    )
    looks = {"tail": STYLES[1].without_line, "head": STYLES[2].replace(filled=False).without_line}
    said = "$\\leftarrow$ rare ${tail:.2f}$, frequent ${head:.2f}$"
    for ax, rho in zip(axes[0], rhos, strict=True):
        far = ruined[ruined.index.get_level_values("rho") == rho].droplevel("rho")
        part = less[(less["rho"] == rho) & ~less["rule"].isin(far.index)].assign(
            rule=lambda rows: rows["rule"].map(names)
        )
        plot_points(
            ax,
            part,
            "value",
            "rule",
            looks,
            by="group",
            order=list(names.values()),
            across=True,
            dodge=0.3,
        )
        draw_zero_line(ax, across=True)
        ax.locator_params(axis="x", nbins=5)
        for rule, change in far.iterrows():
            at = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7}
            ax.text(0.02, list(names).index(rule), said.format(**change), **at)
        ax.set(title=rf"$\rho$ = {rho:g}", xlabel="change of the accuracy")
    entries = {"rare digits": looks["tail"], "frequent digits": looks["head"]}
    return finish_figure(
        figure, (), entries, f"minus dense at the same seed,\n{INTERVALS}, {seeds_of(table)}"
    )
