"""Figures of the study of selection."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import EPS, INTERVALS, STEP, n_of, seeds_of, words
from rarefeat.figures.panels import beside, estimate, estimates, handle, key, letter, marks, panels, zero
from rarefeat.figures.style import GREY, LOOKS, PAGE, Look, ordered
from rarefeat.run.job import Job
from rarefeat.studies.selection.changes import changed
from rarefeat.studies.selection.claims import LEAST, MASKS, NEW
from rarefeat.studies.selection.config import SCORES, Selection
from rarefeat.studies.selection.steps import AMONG

OF_SCORE = dict(zip(SCORES, (*LOOKS[1:], LOOKS[0], Look(GREY, "v", (0, (1, 1)))), strict=False))
OF_SCORE["random"] = Look(GREY, "v", (0, (1, 1)))
CHANCE = 0.5
HELPED = {
    "dense": "as trained", "dense-threshold=rate": "bias by rate", "dense-threshold=norm_and_rate": "bias by norm and rate",
    "dense-delay=50": "bias 50 steps later", "dense-delay=200": "bias 200 steps later",
    "dense-reopened": "gates re-opened", "dense-revived": "silent neurons redrawn", "oracle_all-onset=92": "oracle's mask",
    "effective_rate-onset=92": "mask by rate", "norm-onset=92": "mask by norm",
}  # fmt: skip
MEASURED, PREDICTED = r"measured step in $\varepsilon_{\min}$", r"predicted step in $\varepsilon_{\min}$"
LEAD = "minority gain less majority gain"
NONE = f"fewer than {LEAST} replicas\nhave such a neuron"


def name_of(arm: str) -> str:
    """An arm for people."""
    return HELPED.get(arm, words(arm.removeprefix("dense-")).replace("-", ", "))


def share_of(point: str) -> str:
    """The value of the bias's share in a point; empty where it is not varied."""
    return next((part.split("=")[1] for part in point.split(", ") if part.startswith("share=")), "")


def chosen(names: list[str], preferred: str) -> str:
    """A study that a figure shows: the preferred one, or the first that there is."""
    return preferred if preferred in names else names[0]


def selection(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The story: who finds the neurons, what their masks do, what moves the step, and where the law places it."""
    section = job.part("selection", Selection)
    figure, axes = panels(2, 2, 5.6, PAGE)
    letter(axes.flat)
    name = chosen(list(section.of_role("scores")), NEW)
    at_end(axes[0, 0], tables[f"{name}_selection_scores"])
    name = chosen(list(section.of_role("interventions")), MASKS)
    gains(axes[0, 1], tables[f"{name}_selection"])
    entries = sigmoids(axes[1, 0], tables[f"{next(iter(section.of_role('help')))}_selection"])
    against(axes[1, 1], tables["selection_law"])
    key(figure, entries, f"c; in all {INTERVALS}, {seeds_of(*tables_of(tables, section))}")
    return figure


def tables_of(tables: Mapping[str, pd.DataFrame], section: Selection) -> list[pd.DataFrame]:
    """Tables of the sweeps that a figure shows."""
    return [table for name, table in tables.items() if name.partition("_selection")[0] in section.sweeps]


def at_end(ax: Axes, table: pd.DataFrame) -> None:
    """AUC of every rule at the last step, at an eps_min below 1, without and with a bias."""
    below = [eps for eps in sorted(table["eps_min"].unique()) if eps < 1]
    part = table[(table["step"] == table["step"].max()) & (table["source"] == "running")]
    part = part[part["eps_min"] == (0.7 if 0.7 in below else below[-1] if below else 1.0)]
    kept = enough(part, ["point", "score"])
    shares = sorted({share_of(point) for point in kept["point"]}, key=lambda text: float(text or 0))
    for index, (share, look) in enumerate(ordered(shares).items()):
        rows = estimates(kept[kept["point"].map(share_of) == share], "score", "auc", (0, 1)).reindex(SCORES)
        place = beside(range(len(SCORES)), index, len(shares), 0.6)
        marks(ax, place, rows, look, f"share {share}", line=False, across=True)
    ax.axvline(CHANCE, color=GREY, lw=0.7)
    ax.set_yticks(range(len(SCORES)), [words(score) for score in SCORES])
    ax.invert_yaxis()
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("AUC for the neurons pure in the rare feature")
    ax.legend(title="bias", loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=6)


def enough(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Rows of the points at which LEAST replicas have a neuron to find, or as many as any point has."""
    found = scores.groupby(keys)["auc"].transform("count")
    return scores[found >= min(LEAST, found.max())]


def gains(ax: Axes, table: pd.DataFrame) -> None:
    """Minority gain less majority gain of the masks from T3 on, at the point with the smaller bias that is not 0."""
    table = one_point(table)
    changes = changed(table)
    plain = [arm for arm in changes if arm.count("-") == 1 and "onset" in arm and not arm.endswith(("onset=0", "onset=200"))]
    order = sorted(plain, key=lambda arm: changes[arm]["gain"].mean())
    for arms, look, label in (
        (order, LOOKS[0], "mask"),
        ([arm.replace("-onset", "-stop-onset") for arm in order], LOOKS[1].but(filled=False), "with a stop"),
    ):
        rows = {i: estimate(changes[arm]["gain"].to_numpy()) for i, arm in enumerate(arms) if arm in changes}
        if rows:
            frame = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "n"])
            place = frame.index.to_numpy() + (-0.2 if arms is order else 0.2)
            marks(ax, place, frame, look, label, line=False, across=True)
    zero(ax, across=True)
    ax.set_yticks(range(len(order)), [words(arm.split("-")[0]) for arm in order])
    ax.set_xlabel(LEAD)
    ax.legend(loc="lower right", fontsize=6)


def one_point(table: pd.DataFrame) -> pd.DataFrame:
    """Rows at the smallest share that is not 0, and the largest eps_min."""
    shares = sorted({float(share_of(point) or 0) for point in table["point"]})
    share = next((value for value in shares if value > 0), shares[0])
    part = table[table["point"].map(lambda point: float(share_of(point) or 0)) == share]
    return part[part["eps_min"] == part["eps_min"].max()]


def sigmoids(ax: Axes, table: pd.DataFrame) -> dict[str, object]:
    """Share of replicas that have learned over eps_min, at the largest bias; the key's entries."""
    point = max(table["point"].unique(), key=lambda text: float(share_of(text) or 0))
    part = table[(table["point"] == point) & (table["quantity"] == "learned")]
    arms = [arm for arm in part["arm"].unique() if arm.startswith(("dense", "oracle"))]
    looks = dict(zip(arms, (*LOOKS, *(look.but(filled=False) for look in LOOKS)), strict=False))
    for index, (arm, look) in enumerate(looks.items()):
        rows = estimates(part[part["arm"] == arm], "eps_min", "value", (0, 1))
        marks(ax, beside(rows.index, index, len(arms), 0.03), rows, look)
    ax.axhline(CHANCE, color=GREY, lw=0.7)
    ax.set_xlabel(EPS)
    ax.set_ylabel("share of replicas that\nlearn the rare feature")
    ax.set_title(f"share of the bias {share_of(point)}", fontsize=7)
    return {name_of(arm): handle(look) for arm, look in looks.items()}


def against(ax: Axes, table: pd.DataFrame) -> None:
    """Predicted against measured steps, of the regimes that have one among the eps_min."""
    for (role, part), look in zip(table.groupby("study"), (LOOKS[7].but(filled=False), LOOKS[2]), strict=False):
        part = part[part["place"] == AMONG]
        spread = np.abs([part["step"] - part["ci_low"], part["ci_high"] - part["step"]])
        ax.errorbar(
            part["step"], part["predicted"], xerr=spread, label=words(role), **look.line | {"ls": "none", "elinewidth": 0.6}
        )
    ax.plot([0, 1], [0, 1], color=GREY, lw=0.7)
    ax.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel=MEASURED, ylabel=PREDICTED)
    ax.legend(loc="upper left", fontsize=6)


def selection_scores(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """AUC of every rule over training step, a panel for each share of the bias, a row for each study at its middle lambda."""
    names = {table.removesuffix("_selection_scores"): rows for table, rows in tables.items()}
    found = {name: at_middle(rows) for name, rows in names.items()}
    d_of = {name: sweep.data.d for name, sweep in job.part("selection", Selection).sweeps.items()}
    kept = enough(pd.concat([rows.assign(study=name) for name, rows in found.items()]), ["study", "point", "step", "score"])
    shares = sorted({share_of(point) for point in kept["point"]}, key=lambda text: float(text or 0))
    figure, axes = panels(len(found), len(shares), 0.6 + 1.7 * len(found), PAGE, sharey=True, sharex="row")
    for row, (name, rows) in zip(axes, found.items(), strict=True):
        for ax, share in zip(row, shares, strict=True):
            part = kept[(kept["study"] == name) & (kept["point"].map(share_of) == share)]
            for score, of_score in part.groupby("score"):
                curve = estimates(of_score, "step", "auc", (0, 1))
                marks(ax, curve.index, curve, OF_SCORE[score])
            if part.empty:
                ax.text(0.5, 0.7, NONE, transform=ax.transAxes, ha="center", fontsize=6)
            ax.axhline(CHANCE, color=GREY, lw=0.7)
            ax.set_title(f"$d$ = {d_of[name]}, share of the bias {share}", fontsize=6)
            ax.set_ylim(-0.03, 1.03)
            ax.set_visible(share in set(rows["point"].map(share_of)))
        row[0].set_ylabel("AUC")
    for ax in axes[-1]:
        ax.set_xlabel(STEP)
    key(figure, {words(score): handle(look) for score, look in OF_SCORE.items()}, f"{INTERVALS}, {seeds_of(*found.values())}")
    return figure


def at_middle(table: pd.DataFrame) -> pd.DataFrame:
    """Running scores at the middle lambda where it is varied, and at eps_min = 0.7 or the largest below 1."""
    part = table[table["source"] == "running"]
    values = sorted(
        {text for point in part["point"] for text in point.split(", ") if text.startswith("lambda=")},
        key=lambda text: float(text[7:]),
    )
    if values:
        part = part[part["point"].str.contains(values[len(values) // 2], regex=False)]
    eps = sorted(part["eps_min"].unique())
    below = [value for value in eps if value < 1] or eps
    return part[part["eps_min"] == (0.7 if 0.7 in below else below[-1])]


PANELS = {
    "gain": LEAD.replace(" less ", "\nless "), "balanced_mse": "change of the\nbalanced test MSE", 
    "pure_minority_neurons": "more neurons pure\nin the rare feature",
    "largest_norm": r"$\log_2$ of the largest" "\nnorm over dense's",
}  # fmt: skip


def selection_interventions(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Every intervention less dense, at one point: a row for each, a panel for each quantity."""
    table = one_point(next(iter(tables.values())))
    changes = changed(table)
    order = sorted(changes, key=lambda arm: changes[arm]["gain"].mean())
    figure, axes = panels(1, len(PANELS), 1.0 + 0.125 * len(order), PAGE, sharey=True)
    for ax, (quantity, label) in zip(axes[0], PANELS.items(), strict=True):
        if quantity in changes[order[0]]:
            rows = {i: estimate(changes[arm][quantity].to_numpy()) for i, arm in enumerate(order)}
            frame = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "n"])
            marks(ax, frame.index, frame, LOOKS[0].but(marker="."), line=False, across=True)
        zero(ax, across=True)
        ax.set_xlabel(label)
    axes[0, 0].set_yticks(range(len(order)), [name_of(arm) for arm in order], fontsize=5)
    axes[0, 0].set_ylim(-1, len(order))
    # A blow-up's change is a hundred times that of anything else.
    for ax, linear in zip(axes[0], (0.01, 0.002), strict=False):
        ax.set_xscale("symlog", linthresh=linear)
        ax.tick_params(axis="x", labelrotation=45)
    letter(axes.flat)
    key(figure, {"less dense": handle(LOOKS[0].but(marker="."), line=False)}, f"{INTERVALS}, {seeds_of(table)}")
    return figure


def selection_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The step by arm and point; arrows where it lies beyond the eps_min."""
    studies = job.part("selection", Selection).of_role("help")
    table = tables["selection_steps"]
    table = table[table["study"].isin(studies)]
    arms, points = list(dict.fromkeys(table["arm"])), sorted(table["point"].unique())
    figure, axes = panels(1, 1, 0.9 + 0.25 * len(arms), PAGE * 0.6)
    ax = axes[0, 0]
    for index, point in enumerate(points):
        look, part = LOOKS[index], table[table["point"] == point].set_index("arm").reindex(arms)
        place = beside(range(len(arms)), index, len(points), 0.5)
        spread = np.abs([part["step"] - part["ci_low"], part["ci_high"] - part["step"]])
        ax.errorbar(
            part["step"], place, xerr=spread, label=point, **look.line | {"ls": "none", "capsize": 1.6, "elinewidth": 0.8}
        )
        for y, beyond in zip(place, part["place"], strict=True):
            if beyond in ("below", "above"):
                ax.plot(0.0 if beyond == "below" else 1.02, y, marker="<" if beyond == "below" else ">", color=look.colour)
    ax.set_yticks(range(len(arms)), [name_of(arm) for arm in arms])
    ax.invert_yaxis()
    ax.set(xlim=(-0.03, 1.05), xlabel=r"$\varepsilon_{\min}$ at which half of the replicas learn")
    key(
        figure,
        {f"share of the bias {share_of(point)}": handle(LOOKS[index], line=False) for index, point in enumerate(points)},
        f"{INTERVALS.replace('mean', 'step')}, {n_of(*table['n'])}",
    )
    return figure


def selection_law(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The law against what replicas did."""
    law, fate = tables["selection_law"], tables["selection_fate"]
    test = law[law["study"].map(lambda name: "test" in name)] if law["study"].nunique() > 1 else law
    figure, axes = panels(2, 2, 5.2, PAGE)
    letter(axes.flat)
    against(axes[0, 0], law)
    among = test[test["place"] == AMONG]
    spread = np.abs([among["ci_high"] - among["step"], among["step"] - among["ci_low"]])
    off = among["predicted"] - among["step"]
    axes[0, 1].errorbar(among["share"], off, yerr=spread, **LOOKS[2].line | {"ls": "none", "elinewidth": 0.6})
    zero(axes[0, 1])
    axes[0, 1].set(xlabel="share of the bias", ylabel="predicted less measured")
    own = fate[fate["study"].isin(test["study"])]
    bins = np.clip((own["probability"] * 10).astype(int), 0, 9)
    by_regime = own.assign(bin=(bins + 0.5) / 10).groupby(["bin", "point"])["learned"].mean().reset_index()
    rows = estimates(by_regime, "bin", "learned", (0, 1))
    marks(axes[1, 0], rows.index, rows, LOOKS[2], line=False)
    axes[1, 0].plot([0, 1], [0, 1], color=GREY, lw=0.7)
    axes[1, 0].set(xlabel="probability by the law", ylabel="share that learned", xlim=(0, 1), ylim=(-0.02, 1.02))
    axes[1, 1].scatter(test["auc_of_ratio"], test["auc"], c=LOOKS[2].colour, s=12)
    axes[1, 1].plot([0, 1], [0, 1], color=GREY, lw=0.7)
    low = test[["auc", "auc_of_ratio"]].min().min()
    ends = (low - 0.1 * (1 - low), 1 + 0.1 * (1 - low)) if low < 1 else (0, 1.02)
    axes[1, 1].set(xlabel="AUC of the ratio at $T_1$", ylabel="AUC from the initial weights", xlim=ends, ylim=ends)
    return figure


def selection_digits(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """What every rule changes of the accuracies on rare and frequent digits."""
    (table,) = tables.values()
    wide = table.pivot(index=["rho", "group", "seed"], columns="rule", values="accuracy")
    rules = [rule for rule in dict.fromkeys(table["rule"]) if rule != "dense"]
    rhos = sorted(table["rho"].unique())
    figure, axes = panels(1, len(rhos), 2.4, PAGE * 0.5 * max(1, len(rhos)), sharey=True, sharex=True)
    looks = {"tail": LOOKS[1], "head": LOOKS[2].but(filled=False)}
    for ax, rho in zip(axes[0], rhos, strict=True):
        for index, (group, look) in enumerate(looks.items()):
            part = wide.loc[(rho, group)]
            rows = {rule: estimate((part[rule] - part["dense"]).to_numpy()) for rule in rules}
            frame = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "n"])
            marks(ax, beside(range(len(rules)), index, 2, 0.4), frame, look, line=False, across=True)
        zero(ax, across=True)
        # A mask that ruins the training changes a hundred times what the others do.
        ax.set_xscale("symlog", linthresh=0.02)
        ax.set(title=rf"$\rho$ = {rho:g}", xlabel="accuracy less that of dense")
    axes[0, 0].set_yticks(range(len(rules)), [words(rule) for rule in rules])
    axes[0, 0].invert_yaxis()
    key(
        figure,
        {"rare digits": handle(looks["tail"], line=False), "frequent digits": handle(looks["head"], line=False)},
        f"{INTERVALS}, {seeds_of(table)}",
    )
    return figure
