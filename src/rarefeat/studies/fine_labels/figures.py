"""Figures of the study from its tables; each shows means over seeds with their 95 % intervals."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, STEP, seeds_of, words
from rarefeat.figures.panels import band, beside, estimates, handle, key, letter, marks, panels, zero
from rarefeat.figures.style import GREY, LOOKS, Look, ordered
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import COARSE, FineLabels, Labels, fine
from rarefeat.studies.fine_labels.metrics import RIDGE

ERROR = (0.0, 1.0)
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1))
OF_LABELS = {"coarse": LOOKS[0], "fine": LOOKS[1]}
CLOSED = Look(GREY, "x")
SUBCLASSES = "subclasses of a superclass, $k$"


def of_labels(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of coarse or of fine labels, whose ids are 1 or k."""
    ids = "1" if name == "coarse" else table["k"].astype(str)
    return table[table["labels"] == "subclass-" + ids]


def over_subclasses(ax: Axes, k: list[int]) -> None:
    """An axis of k."""
    ax.set(xscale="log", xlabel=SUBCLASSES)
    ax.set_xticks(k, k)
    ax.minorticks_off()


def shares(ax: Axes, label: str) -> None:
    """An axis of errors."""
    ax.set(ylabel=label, ylim=(-0.03, 1.03))


def errors(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Errors on easy and hard samples over k, and of hard ones over R, with the closed form."""
    (final,), study = tables.values(), job.part("fine_labels", FineLabels)
    k = sorted(study.k)
    figure, axes = panels(1, 2, height=3.0, sharey=True)
    primary = final[final["s_dag"] == study.hierarchy.s_dag]
    entries = {}
    for index, (name, look) in enumerate(OF_LABELS.items()):
        rows = of_labels(primary, name)
        easy = look.but(marker="^", dash=DOTTED, filled=False)
        for of_metric, metric in ((look, "hard_error"), (easy, "easy_error")):
            found = estimates(rows[rows["metric"] == metric], "k", "value", ERROR)
            marks(axes[0, 0], found.index * 1.03 ** (index - 0.5), found, of_metric)
        predicted = estimates(rows[rows["metric"] == "predicted_hard_error"], "k", "value", ERROR)
        axes[0, 0].plot(predicted.index * 1.03 ** (index - 0.5), predicted["mean"], **CLOSED.line | {"ls": "none", "ms": 7})
        entries |= {f"{name} labels, hard samples": handle(look), f"{name}, easy": handle(easy)}
    equal = [theory.coarse_hard_error(study.at(value), study.learner.kappa_b) for value in k]
    axes[0, 0].plot(k, equal, color=GREY, ls=DASHED)
    over_subclasses(axes[0, 0], k)
    shares(axes[0, 0], "error")

    wide = final.pivot_table(index=["labels", "k", "s_dag", "seed"], columns="metric", values="value").reset_index()
    of_k = ordered(k)
    for name in OF_LABELS:
        for value, look in of_k.items():
            rows = of_labels(wide, name)
            rows = rows[rows["k"] == value]
            found, predicted = (estimates(rows, "R", metric, ERROR) for metric in ("hard_error", "predicted_hard_error"))
            marks(axes[0, 1], found.index, found, look.but(filled=name == "coarse"), line=False)
            axes[0, 1].plot(predicted.index, predicted["mean"], color=look.colour, lw=0.8)
    axes[0, 1].set(xscale="log", xlabel="$R$, by which the theory orders coarse labels")
    axes[0, 1].axvline(1, color=GREY, lw=0.7, zorder=0.5)
    letter(axes.flat)
    entries |= {
        "closed form, given the detectors": handle(CLOSED, line=False),
        "ratio $1/k$, equal detectors": handle(Look(GREY, dash=DASHED)),
    }
    entries |= {f"b: $k$ = {value}": handle(look, line=False) for value, look in of_k.items()}
    note = f"{INTERVALS}, {seeds_of(final)}; b: hard samples, open for fine labels, lines for the closed form"
    key(figure, entries, note, columns=3)
    return figure


def growth(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The ratio of subclass to common displacement over time, the displacements, and biases over displacements."""
    (course,), study = tables.values(), job.part("fine_labels", FineLabels)
    figure, axes = panels(1, 3, height=2.9)
    course = course[course["step"] > 0].copy()
    course["ratio"] = course["subclass_displacement"] / course["common_displacement"]
    course["bias"] = course["common_decrement"] / course["common_displacement"]
    of_k, dashes = ordered(sorted(study.k)), {"coarse": "-", "fine": DASHED}
    for value, look in of_k.items():
        for name, dash in dashes.items():
            rows = of_labels(course[course["k"] == value], name)
            for ax, column in ((axes[0, 0], "ratio"), (axes[0, 2], "bias")):
                band(ax, estimates(rows, "step", column), look.but(dash=dash), every=4)
            axes[0, 0].plot(1, theory.first_step_ratio(value, name), color="black", marker="_", ms=11, zorder=3)
    k = study.hierarchy.k
    displaced = {"common": Look("black"), "subclass": Look("0.55")}
    for name, dash in dashes.items():
        rows = of_labels(course[course["k"] == k], name)
        for column, look in displaced.items():
            band(axes[0, 1], estimates(rows, "step", f"{column}_displacement"), look.but(dash=dash))
    t = np.geomspace(1, study.coarse.T, 50)
    number = theory.expected_detectors(study.coarse, study.hierarchy.iota)
    closed = Look(LOOKS[1].colour, dash=DOTTED)
    axes[0, 1].plot(t, theory.coarse_growth(t, study.hierarchy, study.learner, number), **closed.line)
    axes[0, 0].set(yscale="log", ylabel="subclass over common displacement")
    axes[0, 1].set_ylabel(f"displacement $A$ of a detector, $k$ = {k}")
    axes[0, 2].axhline(1 / study.learner.kappa_b, color=GREY, lw=0.7)
    axes[0, 2].set(ylabel="bias decrement over displacement\nof common detectors", ylim=(0, None))
    for ax in axes.flat:
        ax.set(xscale="log", xlabel=STEP)
    letter(axes.flat)
    entries = {f"$k$ = {value}": handle(look) for value, look in of_k.items()}
    entries |= {f"{name} labels": handle(Look("0.3", dash=dash)) for name, dash in dashes.items()}
    entries |= {"first step, by theory": handle(Look("black", "_"), line=False)}
    entries |= {f"b: {name}": handle(look) for name, look in displaced.items()}
    entries |= {"b: closed form, $s^*$ patches a sample": handle(closed)}
    key(figure, entries, f"{INTERVALS}, {seeds_of(course)}", columns=5)
    return figure


def name_of(labels: Labels, k: int) -> str:
    """Labels for people."""
    if labels in (COARSE, fine(k)):
        return "coarse labels" if labels == COARSE else "fine labels"
    if labels.kind == "sample":
        return "one class a sample"
    return f"{labels.ids} {labels.kind} classes"


def probes(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Linear heads over their penalty, by the share of hard samples in their training: a panel for each kind of labels."""
    (heads,), study = tables.values(), job.part("fine_labels", FineLabels)
    k, penalties = study.hierarchy.k, sorted(study.heads.ridge)
    rows = heads[(heads["k"] == k) & (heads["features"] == "detectors")]
    other = [next((labels for labels in study.labels if labels.kind == kind), None) for kind in ("random", "sample")]
    shown = [COARSE, fine(k), *filter(None, other)]
    of_share = ordered(sorted(study.heads.hard_share))
    figure, axes = panels(1, len(shown), height=2.6, sharey=True)
    for ax, labels in zip(axes[0], shown, strict=True):
        part = rows[rows["labels"] == labels.label]
        for index, (share, look) in enumerate(of_share.items()):
            for metric, of_metric in (("hard", look), ("easy", look.but(dash=DOTTED, filled=False))):
                found = estimates(part[part["hard_share"] == share], "penalty", metric, ERROR)
                marks(ax, beside([penalties.index(x) for x in found.index], index, len(of_share), 0.36), found, of_metric)
        ax.set_title(name_of(labels, k), fontsize=7)
        ax.set_xticks(range(len(penalties)), [f"{penalty:g}" for penalty in penalties], rotation=45)
        ax.set_xlabel("penalty of the head")
    shares(axes[0, 0], f"error of a linear head, $k$ = {k}")
    letter(axes.flat)
    entries = {f"{share:.0%} hard samples in its training": handle(look) for share, look in of_share.items()}
    entries |= {"error on easy samples": handle(Look("0.3", "o", DOTTED, filled=False))}
    key(figure, entries, f"{INTERVALS} of the error on hard samples, {seeds_of(rows)}")
    return figure


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Error on hard samples over the number of classes of a superclass, by the maximum rule and by linear heads (Figure 5)."""
    (final, heads), study = tables.values(), job.part("fine_labels", FineLabels)
    k = study.hierarchy.k
    by_label = {labels.label: labels for labels in (COARSE, fine(k), *study.labels)}
    of_head = heads[(heads["k"] == k) & (heads["features"] == "detectors") & (heads["hard_share"] == 0)]
    of_rule = final[(final["k"] == k) & (final["metric"] == "hard_error") & (final["s_dag"] == study.hierarchy.s_dag)]
    penalties = sorted(penalty for penalty in study.heads.ridge if penalty)
    shown = {"maximum rule": of_rule.assign(hard=of_rule["value"])}
    claimed = [penalty for penalty in penalties if penalty == RIDGE]
    for penalty in dict.fromkeys([*penalties[:1], *claimed]):
        shown[f"linear head, penalty {penalty:g}"] = of_head[of_head["penalty"] == penalty]
    figure, axes = panels(1, len(shown), height=2.6, sharey=True)
    kinds = {"subclass": "unions and parts of subclasses", "random": "random within a superclass",
             "misaligned": "across superclasses", "sample": "one class a sample"}  # fmt: skip
    of_kind = dict(zip(kinds, (LOOKS[0], *(look.but(dash="none") for look in LOOKS[1:])), strict=False))
    floor = theory.fine_floor(study.hierarchy.P, study.hierarchy.s_star)
    for ax, (title, table) in zip(axes[0], shown.items(), strict=True):
        for kind, look in of_kind.items():
            part = table[[name in by_label and by_label[name].kind == kind for name in table["labels"]]]
            if part.empty:
                continue
            # Classes of a superclass; misaligned ones are of both.
            count = {
                name: labels.classes(k, study.learner.N) / (1 if kind == "misaligned" else 2)
                for name, labels in by_label.items()
            }
            found = estimates(part.assign(classes=part["labels"].map(count)), "classes", "hard", ERROR)
            marks(ax, found.index, found, look)
        ax.axvline(k, color=GREY, lw=0.7, zorder=0.5)
        ax.axhline(floor, color=GREY, lw=0.8, ls=DOTTED)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_title(title, fontsize=7)
        ax.set_xlabel("classes of a superclass")
    shares(axes[0, 0], f"error on hard samples, $k$ = {k}")
    letter(axes.flat)
    entries = {kinds[kind]: handle(look) for kind, look in of_kind.items()}
    entries |= {"subclasses of the data": handle(Look(GREY)), "floor of fine labels": handle(Look(GREY, dash=DOTTED))}
    key(figure, entries, f"{INTERVALS}, {seeds_of(of_rule)}", columns=3)
    return figure


OF_PAIR = {"views": "views of a sample", "subclass": "of a subclass", "superclass": "of a superclass"}


def name_of_arm(arm: str) -> str:
    """A masked arm for people: its mask, the share of its bias where it has one, and what it prunes."""
    mask, *keys = arm.split("-")
    values = dict(key.split("=") for key in keys)
    said = {"alpha": r"$\alpha$ = {}", "bias": "bias {}"}
    return ", ".join([words(mask), *(said.get(key, key + " = {}").format(value) for key, value in values.items())])


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
    of_mask = dict(zip(dict.fromkeys(arm.split("-")[0] for arm in masked), LOOKS[4:], strict=False))
    of_views = easy_only[easy_only["pair"] == "views"]
    masks = {
        name_of_arm(arm): (of_views[of_views["arm"] == arm], of_mask[arm.split("-")[0]].but(filled="bias" in arm))
        for arm in masked
    }
    ends = {f"{name} labels": (of_labels(supervised, name), Look(GREY, mark, dash)) for name, mark, dash in
            (("coarse", "v", "-"), ("fine", "^", DASHED))}  # fmt: skip

    figure, axes = panels(2, 2, height=5.0)
    for ax, chosen in ((axes[0, 0], ends | series), (axes[0, 1], ends | masks)):
        for index, (table, look) in enumerate(chosen.values()):
            curve = estimates(table[table["penalty"] == penalty], "k", "hard", ERROR)
            marks(ax, curve.index * 1.02 ** (index - len(chosen) / 2), curve, look)
        over_subclasses(ax, sorted(study.k))
        shares(ax, f"error on hard samples,\npenalty {penalty:g}")
    for index, (table, look) in enumerate((ends | series).values()):
        curve = estimates(table[table["k"] == k], "penalty", "hard", ERROR)
        places = np.array([penalties.index(value) for value in curve.index])
        marks(axes[1, 0], places + 0.05 * (index - len(ends | series) / 2), curve, look)
    axes[1, 0].set_xlabel("penalty of the head")
    shares(axes[1, 0], f"error on hard samples, $k$ = {k}")
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
    axes[1, 1].set(xlabel=f"cosine within less across superclasses, $k$ = {k}", ylabel="cosine within less across\nsubclasses")
    zero(axes[1, 1])
    zero(axes[1, 1], across=True)
    letter(axes.flat)
    entries = {name: handle(look) for name, (_, look) in (ends | series | masks).items()}
    key(figure, entries, note=f"{INTERVALS}, {seeds_of(heads)}", columns=3)
    return figure
