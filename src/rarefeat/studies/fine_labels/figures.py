"""Figures of the study from its tables; each shows means over seeds with their 95 % intervals."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rarefeat.core.statistics import ANYWHERE, student_interval
from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import estimates, handle, key, letter, marks, panels, zero
from rarefeat.figures.style import LOOKS, Look
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import COARSE, FineLabels, Labels, fine
from rarefeat.studies.fine_labels.metrics import RIDGE

MARKERS = "osD^vPX*<>"
ERROR = (0.0, 1.0)
COLOURS = {"coarse": "#333333", "fine": "#c98500"}


def means(table: pd.DataFrame, by: str, value: str = "value", inside: tuple[float, float] = ANYWHERE) -> pd.DataFrame:
    """Mean over seeds with its 95 % interval within a range, a row for each value of `by`."""
    rows = [(key, *student_interval(part[value].to_numpy(), inside=inside)) for key, part in table.groupby(by)]
    return pd.DataFrame(rows, columns=[by, "mean", "sd", "low", "high", "n"]).set_index(by)


def spread(found: pd.DataFrame) -> np.ndarray:
    """The two lengths of an error bar."""
    return np.abs(np.stack([found["mean"] - found["low"], found["high"] - found["mean"]]))


def palette(values: list) -> dict:
    """Colour and marker of each value, dark to light, so that their order survives greyscale."""
    return dict(zip(values, zip(sns.color_palette("cividis", len(values)), MARKERS, strict=False), strict=True))


def of_labels(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of coarse or of fine labels, whose ids are 1 or k."""
    ids = "1" if name == "coarse" else table["k"].astype(str)
    return table[table["labels"] == "subclass-" + ids]


def errors(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Errors on easy and hard samples over k, and of hard ones over R, with the closed form."""
    (final,), study = tables.values(), job.part("fine_labels", FineLabels)
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.3), sharey=True)
    primary = final[final["s_dag"] == study.hierarchy.s_dag]
    for name in ("coarse", "fine"):
        rows = of_labels(primary, name)
        for metric, style, marker in (("hard_error", "-", "o"), ("easy_error", ":", "^")):
            found = means(rows[rows["metric"] == metric], "k", inside=ERROR)
            label = f"{name} labels, {metric.split('_')[0]} samples"
            axes[0].errorbar(
                found.index,
                found["mean"],
                spread(found),
                color=COLOURS[name],
                ls=style,
                marker=marker,
                ms=4,
                capsize=2,
                label=label,
            )
        found = means(rows[rows["metric"] == "predicted_hard_error"], "k")
        axes[0].plot(found.index, found["mean"], color=COLOURS[name], marker="x", ms=9, ls="", label=f"closed form, {name}")
    k = np.array(sorted(study.k))
    equal = [theory.coarse_hard_error(study.at(int(value)), study.learner.kappa_b) for value in k]
    axes[0].plot(k, equal, color="0.6", lw=1, ls="--", label="ratio 1/k, equal detectors")
    axes[0].axhline(theory.fine_floor(study.hierarchy.P, study.hierarchy.s_star), color="0.6", lw=0.8, ls=":")
    axes[0].set(xscale="log", xlabel="subclasses of a superclass, $k$", ylabel="error", ylim=(-0.03, 1.03))
    axes[0].set_xticks(k, k)
    axes[0].minorticks_off()
    axes[0].legend(fontsize=6.5, frameon=False)

    wide = final.pivot_table(index=["labels", "k", "s_dag", "seed"], columns="metric", values="value").reset_index()
    for name, face in (("coarse", None), ("fine", "white")):
        for value, (colour, marker) in palette(sorted(study.k)).items():
            rows = of_labels(wide, name)
            rows = rows[rows["k"] == value]
            found, predicted = means(rows, "R", "hard_error", ERROR), means(rows, "R", "predicted_hard_error")
            label = f"$k={value}$" if name == "coarse" else None
            style = {"color": colour, "marker": marker, "mfc": face or colour, "ms": 4, "ls": "", "capsize": 2}
            axes[1].errorbar(found.index, found["mean"], spread(found), label=label, **style)
            axes[1].plot(predicted.index, predicted["mean"], color=colour, lw=0.8)
    axes[1].set(xscale="log", xlabel="$R$", title="hard samples; open: fine labels; lines: closed form")
    axes[1].title.set_fontsize(8)
    axes[1].axvline(1, color="0.8", lw=0.8, zorder=0)
    axes[1].legend(fontsize=7, frameon=False)
    figure.tight_layout()
    return figure


def growth(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The ratio of subclass to common displacement over time, the displacements, and biases over displacements."""
    (course,), study = tables.values(), job.part("fine_labels", FineLabels)
    figure, axes = plt.subplots(1, 3, figsize=(10.2, 3.3))
    course = course[course["step"] > 0].copy()
    course["ratio"] = course["subclass_displacement"] / course["common_displacement"]
    course["bias"] = course["common_decrement"] / course["common_displacement"]
    for value, (colour, marker) in palette(sorted(study.k)).items():
        for name, style in (("coarse", "-"), ("fine", "--")):
            rows = of_labels(course[course["k"] == value], name)
            for ax, column in ((axes[0], "ratio"), (axes[2], "bias")):
                found = means(rows, "step", column)
                ax.plot(
                    found.index, found["mean"], color=colour, ls=style, marker=marker, ms=3, markevery=4, lw=1,
                    label=f"$k={value}$" if name == "coarse" else None,
                )  # fmt: skip
                ax.fill_between(found.index, found["low"], found["high"], color=colour, alpha=0.2, lw=0)
            axes[0].plot(1, theory.first_step_ratio(value, name), color="black", marker="_", ms=11, zorder=3)
    k = study.hierarchy.k
    for name, style in (("coarse", "-"), ("fine", "--")):
        rows = of_labels(course[course["k"] == k], name)
        for column, shade in (("common", "black"), ("subclass", "0.55")):
            found = means(rows, "step", f"{column}_displacement")
            axes[1].plot(found.index, found["mean"], color=shade, ls=style, lw=1.2, label=f"{column}, {name} labels")
            axes[1].fill_between(found.index, found["low"], found["high"], color=shade, alpha=0.25, lw=0)
    t = np.geomspace(1, study.coarse.T, 50)
    number = theory.expected_detectors(study.coarse, study.hierarchy.iota)
    predicted = theory.coarse_growth(t, study.hierarchy, study.learner, number)
    axes[1].plot(t, predicted, color="0.3", lw=1, ls=":", label="closed form, $s^*$ patches a sample")
    axes[0].set(xscale="log", yscale="log", xlabel="step $t$", ylabel="$A$ subclass / $A$ common")
    axes[1].set(xscale="log", xlabel="step $t$", ylabel=f"displacement $A$, $k={k}$")
    axes[2].axhline(1 / study.learner.kappa_b, color="0.6", lw=0.8)
    axes[2].set(xscale="log", xlabel="step $t$", ylabel="bias decrement / displacement, common", ylim=(0, None))
    axes[0].set_ylim(bottom=0.3 / max(study.k))
    legend = {"fontsize": 7, "frameon": False, "ncols": 2, "loc": "lower center"}
    axes[0].legend(title="solid: coarse; dashed: fine; bars: first step", title_fontsize=7, **legend)
    axes[1].legend(fontsize=6.5, frameon=False)
    figure.tight_layout()
    return figure


def name_of(labels: Labels, k: int) -> str:
    """Labels for people."""
    if labels in (COARSE, fine(k)):
        return "coarse" if labels == COARSE else "fine"
    if labels.kind == "sample":
        return "one class a sample"
    return f"{labels.ids} {labels.kind} classes"


def probes(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Linear heads over their penalty, by the share of hard samples in their training: a panel for each kind of labels."""
    (heads,), study = tables.values(), job.part("fine_labels", FineLabels)
    k, shares = study.hierarchy.k, sorted(study.heads.hard_share)
    rows = heads[(heads["k"] == k) & (heads["features"] == "detectors")]
    other = [next((labels for labels in study.labels if labels.kind == kind), None) for kind in ("random", "sample")]
    shown = [COARSE, fine(k), *filter(None, other)]
    figure, axes = plt.subplots(1, len(shown), figsize=(2.5 * len(shown) + 0.4, 3.0), sharey=True, squeeze=False)
    penalties = sorted(study.heads.ridge)
    place = {penalty: at for at, penalty in enumerate(penalties)}
    for ax, labels in zip(axes[0], shown, strict=True):
        part = rows[rows["labels"] == labels.label]
        for (share, (colour, marker)), shift in zip(
            palette(shares).items(), np.linspace(-0.12, 0.12, len(shares)), strict=True
        ):
            of_share = part[part["hard_share"] == share]
            for kind, style, face in (("hard", "-", colour), ("easy", ":", "white")):
                found = means(of_share, "penalty", kind, ERROR)
                ax.errorbar(
                    [place[penalty] + shift for penalty in found.index], found["mean"], spread(found), color=colour, ls=style,
                    marker=marker, mfc=face, ms=4, lw=1, capsize=2, label=f"{share:.0%}" if kind == "hard" else None,
                )  # fmt: skip
        ax.set_title(name_of(labels, k), fontsize=9)
        ax.set_xticks(range(len(penalties)), [f"{penalty:g}" for penalty in penalties], fontsize=7, rotation=45)
        ax.set_xlabel("penalty")
    axes[0, 0].set(ylabel=f"error of a linear head, $k={k}$", ylim=(-0.03, 1.03))
    axes[0, -1].legend(
        title="hard samples in training;\nsolid: error on hard samples,\ndotted: on easy ones", title_fontsize=7, fontsize=7,
        frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), alignment="left",
    )  # fmt: skip
    figure.tight_layout()
    return figure


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Error on hard samples over the number of classes of a superclass, by the maximum rule and by linear heads (Figure 5)."""
    (final, heads), study = tables.values(), job.part("fine_labels", FineLabels)
    k = study.hierarchy.k
    by_label = {labels.label: labels for labels in (COARSE, fine(k), *study.labels)}
    of_head = heads[(heads["k"] == k) & (heads["features"] == "detectors") & (heads["hard_share"] == 0)]
    of_rule = final[(final["k"] == k) & (final["metric"] == "hard_error") & (final["s_dag"] == study.hierarchy.s_dag)]
    penalties = sorted(penalty for penalty in study.heads.ridge if penalty)
    panels = {"maximum rule": of_rule.assign(hard=of_rule["value"])}
    claimed = [penalty for penalty in penalties if penalty == RIDGE]
    for penalty in dict.fromkeys([*penalties[:1], *claimed]):
        panels[f"linear head, penalty {penalty:g}"] = of_head[of_head["penalty"] == penalty]
    figure, axes = plt.subplots(1, len(panels), figsize=(2.8 * len(panels) + 0.6, 3.1), sharey=True, squeeze=False)
    kinds = {"subclass": "unions and parts of subclasses", "random": "random within a superclass",
             "misaligned": "across superclasses", "sample": "one class a sample"}  # fmt: skip
    floor = theory.fine_floor(study.hierarchy.P, study.hierarchy.s_star)
    for ax, (title, table) in zip(axes[0], panels.items(), strict=True):
        for kind, (colour, marker) in palette(list(kinds)).items():
            part = table[[by_label.get(name, COARSE).kind == kind and name in by_label for name in table["labels"]]]
            if part.empty:
                continue
            # Classes of a superclass; misaligned ones are of both.
            count = {
                name: labels.classes(k, study.learner.N) / (1 if kind == "misaligned" else 2)
                for name, labels in by_label.items()
            }
            found = means(part.assign(classes=part["labels"].map(count)), "classes", "hard", ERROR)
            ax.errorbar(
                found.index, found["mean"], spread(found), color=colour, marker=marker, ms=5, lw=1, capsize=2,
                ls="-" if kind == "subclass" else "", label=kinds[kind],
            )  # fmt: skip
        ax.axvline(k, color="0.8", lw=0.8, zorder=0)
        ax.axhline(floor, color="0.6", lw=0.8, ls=":")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("classes of a superclass")
    axes[0, 0].set(ylabel=f"error on hard samples, $k={k}$", ylim=(-0.03, 1.03))
    axes[0, -1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    return figure


OF_PAIR = {"views": "views of a sample", "subclass": "of a subclass", "superclass": "of a superclass"}


def crossing(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Contrastive encoders between coarse and fine labels: hard error over k and penalty, and what embeddings tell apart."""
    supervised, encoders, heads = tables.values()
    study = job.part("fine_labels", FineLabels)
    k, plain = study.hierarchy.k, sorted(arm.label for arms in study.crossing.arms.values() for arm in arms)
    strongest = max((arm.bias for arms in study.crossing.arms.values() for arm in arms), default=0)
    biased = "dense" if not strongest else f"dense-bias={strongest:g}"
    supervised = supervised[(supervised["features"] == "detectors") & (supervised["hard_share"] == 0)]
    easy_only = heads[heads["hard_share"] == 0]
    penalties = sorted(study.heads.ridge)
    penalty = RIDGE if RIDGE in penalties else penalties[-1]

    # One look for each positive pair, open without a bias; the masks have those of their arms.
    found = {f"{OF_PAIR[pair]}, {name}": (pair, arm) for pair in study.crossing.arms for arm, name in
             ((biased, "bias"), ("dense", "no bias")) if arm in plain}  # fmt: skip
    shades = dict(zip(OF_PAIR, LOOKS[1:], strict=False))
    series = {
        label: (easy_only[(easy_only["pair"] == pair) & (easy_only["arm"] == arm)], shades[pair].but(filled=arm != "dense"))
        for label, (pair, arm) in found.items()
    }
    masked = [arm.label for arm in study.crossing.arms.get("views", []) if arm.arm != "dense"]
    of_arm = dict(
        zip(
            masked,
            [look.but(filled=bool("bias" in arm)) for arm, look in zip(masked, LOOKS[4:] * 2, strict=False)],
            strict=True,
        )
    )
    masks = {arm: (easy_only[(easy_only["pair"] == "views") & (easy_only["arm"] == arm)], look) for arm, look in of_arm.items()}
    ends = {f"{name} labels": (of_labels(supervised, name), Look("0.45", mark, dash)) for name, mark, dash in
            (("coarse", "v", "-"), ("fine", "^", (0, (4, 1.5))))}  # fmt: skip

    figure, axes = panels(2, 2, height=5.0)
    for ax, chosen in ((axes[0, 0], ends | series), (axes[0, 1], ends | masks)):
        for index, (table, look) in enumerate(chosen.values()):
            curve = estimates(table[table["penalty"] == penalty], "k", "hard", (0, 1))
            marks(ax, curve.index * 1.02 ** (index - len(chosen) / 2), curve, look)
        ax.set(xscale="log", xlabel="subclasses of a superclass, $k$", ylabel=f"error on hard samples,\npenalty {penalty:g}")
        ax.set_xticks(sorted(study.k), sorted(study.k))
        ax.minorticks_off()
    for index, (table, look) in enumerate((ends | series).values()):
        curve = estimates(table[table["k"] == k], "penalty", "hard", (0, 1))
        places = np.array([penalties.index(value) for value in curve.index])
        marks(axes[1, 0], places + 0.05 * (index - len(ends | series) / 2), curve, look)
    axes[1, 0].set(xlabel="penalty of the head", ylabel=f"error on hard samples, $k={k}$")
    axes[1, 0].set_xticks(range(len(penalties)), [f"{value:g}" for value in penalties])
    wide = encoders.pivot_table(index=["k", "pair", "arm", "seed"], columns="metric", values="value").reset_index()
    wide["subclasses"], wide["superclasses"] = (
        wide["within_subclass"] - wide["within_superclass"], wide["within_superclass"] - wide["across"],
    )  # fmt: skip
    for label, (pair, arm) in found.items():
        rows = wide[(wide["k"] == k) & (wide["pair"] == pair) & (wide["arm"] == arm)]
        x, y = (estimates(rows, "arm", name) for name in ("superclasses", "subclasses"))
        spread = np.abs([[x["mean"] - x["low"], x["high"] - x["mean"]], [y["mean"] - y["low"], y["high"] - y["mean"]]])
        axes[1, 1].errorbar(x["mean"], y["mean"], spread[1], spread[0], capsize=1.6, elinewidth=0.8, **series[label][1].line)
    axes[1, 1].set(xlabel=f"cosine within less across superclasses, $k={k}$", ylabel="cosine within less across subclasses")
    zero(axes[1, 1])
    zero(axes[1, 1], across=True)
    letter(axes.flat)
    entries = {name: handle(look) for name, (_, look) in (ends | series | masks).items()}
    key(figure, entries, note=f"{INTERVALS}, {seeds_of(heads)}", columns=3)
    return figure
