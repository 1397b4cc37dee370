"""Figures of the study from its tables; each shows means over seeds with their 95 % intervals."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, STEP, display_name, seeds_of
from rarefeat.figures.panels import draw_zero_line, finish_figure, panels, plot_lines, plot_points
from rarefeat.figures.style import GREY, STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import COARSE, RIDGE, FineLabels, Labels, fine
from rarefeat.studies.fine_labels.doc_tables import crossing_rows

ERROR = (0.0, 1.0)
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1))
OF_LABELS = {"coarse": STYLES[0], "fine": STYLES[1]}
CLOSED = SeriesStyle(GREY, "x")
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
    (final,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    k = sorted(study.k)
    figure, axes = panels(1, 2, height=3.0, sharey=True)
    primary = final[final["s_dag"] == study.hierarchy.s_dag]
    entries = {}
    for name, look in OF_LABELS.items():
        rows = of_labels(primary, name)
        of_metric = {
            "hard_error": look,
            "easy_error": look.replace(marker="^", dash=DOTTED, filled=False),
        }
        plot_lines(axes[0, 0], rows, "k", "value", of_metric, by="metric", inside=ERROR)
        plot_lines(
            axes[0, 0],
            rows,
            "k",
            "value",
            {"predicted_hard_error": CLOSED.without_line},
            by="metric",
            inside=ERROR,
        )
        entries |= {f"{name} labels, hard samples": look, f"{name}, easy": of_metric["easy_error"]}
    equal = [theory.coarse_hard_error(study.at(value), study.learner.kappa_b) for value in k]
    axes[0, 0].plot(k, equal, color=GREY, ls=DASHED)
    over_subclasses(axes[0, 0], k)
    shares(axes[0, 0], "error")

    wide = final.pivot_table(
        index=["labels", "k", "s_dag", "seed"], columns="metric", values="value"
    ).reset_index()
    of_k = sequential_styles(k)
    for name in OF_LABELS:
        rows = of_labels(wide, name)
        marks = {k: look.replace(dash="none", filled=name == "coarse") for k, look in of_k.items()}
        plot_lines(axes[0, 1], rows, "R", "hard_error", marks, by="k", inside=ERROR)
        plain = {k: look.replace(marker="") for k, look in of_k.items()}
        plot_lines(axes[0, 1], rows, "R", "predicted_hard_error", plain, by="k", of="plain")
    axes[0, 1].set(xscale="log", xlabel="$R$, by which the theory orders coarse labels")
    axes[0, 1].axvline(1, color=GREY, lw=0.7, zorder=0.5)
    entries |= {
        "closed form, given the detectors": CLOSED.without_line,
        "ratio $1/k$, equal detectors": SeriesStyle(GREY, dash=DASHED),
    }
    entries |= {f"b: $k$ = {value}": look.without_line for value, look in of_k.items()}
    note = f"{INTERVALS}, {seeds_of(final)}; b: hard samples, open for fine labels, lines for the closed form"
    return finish_figure(figure, axes.flat, entries, note, columns=3)


def growth(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The ratio of subclass to common displacement over time, the displacements, and biases over displacements."""
    (course,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    figure, axes = panels(1, 3, height=2.9)
    course = course[course["step"] > 0].copy()
    course["ratio"] = course["subclass_displacement"] / course["common_displacement"]
    course["bias"] = course["common_decrement"] / course["common_displacement"]
    of_k, dashes = sequential_styles(sorted(study.k)), {"coarse": "-", "fine": DASHED}
    for name, dash in dashes.items():
        rows = of_labels(course, name)
        for ax, column in ((axes[0, 0], "ratio"), (axes[0, 2], "bias")):
            plot_lines(
                ax,
                rows,
                "step",
                column,
                {k: look.replace(dash=dash) for k, look in of_k.items()},
                by="k",
                band=True,
                every=4,
            )
        for value in of_k:
            axes[0, 0].plot(
                1, theory.first_step_ratio(value, name), color="black", marker="_", ms=11, zorder=3
            )
    k = study.hierarchy.k
    displaced = {"common": SeriesStyle("black"), "subclass": SeriesStyle("0.55")}
    for name, dash in dashes.items():
        for column, look in displaced.items():
            own = of_labels(course[course["k"] == k], name).assign(series=column)
            plot_lines(
                axes[0, 1],
                own,
                "step",
                f"{column}_displacement",
                {column: look.replace(dash=dash)},
                band=True,
            )
    t = np.geomspace(1, study.coarse.T, 50)
    number = theory.expected_detectors(study.coarse, study.hierarchy.iota)
    closed = SeriesStyle(STYLES[1].colour, dash=DOTTED)
    axes[0, 1].plot(
        t, theory.coarse_growth(t, study.hierarchy, study.learner, number), **closed.line
    )
    axes[0, 0].set(yscale="log", ylabel="subclass over common displacement")
    axes[0, 1].set_ylabel(f"displacement $A$ of a detector, $k$ = {k}")
    axes[0, 2].axhline(1 / study.learner.kappa_b, color=GREY, lw=0.7)
    axes[0, 2].set(ylabel="bias decrement over displacement\nof common detectors", ylim=(0, None))
    for ax in axes.flat:
        ax.set(xscale="log", xlabel=STEP)
    entries = {f"$k$ = {value}": look for value, look in of_k.items()}
    entries |= {f"{name} labels": SeriesStyle("0.3", dash=dash) for name, dash in dashes.items()}
    entries |= {"first step, by theory": SeriesStyle("black", "_").without_line}
    entries |= {f"b: {name}": look for name, look in displaced.items()}
    entries |= {"b: closed form, $s^*$ patches a sample": closed}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(course)}", columns=5)


def name_of(labels: Labels, k: int) -> str:
    """Labels for people."""
    if labels in (COARSE, fine(k)):
        return "coarse labels" if labels == COARSE else "fine labels"
    if labels.kind == "sample":
        return "one class a sample"
    return f"{labels.ids} {labels.kind} classes"


def probes(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Linear heads over their penalty, by the share of hard samples in their training: a panel for each kind of labels."""
    (heads,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    k, penalties = study.hierarchy.k, sorted(study.heads.ridge)
    rows = heads[(heads["k"] == k) & (heads["features"] == "detectors")]
    other = [
        next((labels for labels in study.labels if labels.kind == kind), None)
        for kind in ("random", "sample")
    ]
    shown = [COARSE, fine(k), *filter(None, other)]
    of_share = sequential_styles(sorted(study.heads.hard_share))
    figure, axes = panels(1, len(shown), height=2.6, sharey=True)
    for ax, labels in zip(axes[0], shown, strict=True):
        part = rows[rows["labels"] == labels.label]
        part = part.assign(place=part["penalty"].map(penalties.index))
        for metric, change in (("hard", {}), ("easy", {"dash": DOTTED, "filled": False})):
            of_metric = {share: look.replace(**change) for share, look in of_share.items()}
            plot_lines(ax, part, "place", metric, of_metric, by="hard_share", inside=ERROR)
        ax.set_title(name_of(labels, k), fontsize=7)
        ax.set_xticks(range(len(penalties)), [f"{penalty:g}" for penalty in penalties], rotation=45)
        ax.set_xlabel("penalty of the head")
    shares(axes[0, 0], f"error of a linear head, $k$ = {k}")
    entries = {
        f"{share:.0%} hard samples in its training": look for share, look in of_share.items()
    }
    entries |= {"error on easy samples": SeriesStyle("0.3", "o", DOTTED, filled=False)}
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS} of the error on hard samples, {seeds_of(rows)}"
    )


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Error on hard samples over the number of classes of a superclass, by the maximum rule and by linear heads (Figure 5)."""
    (final, heads), study = tables.values(), job.config_section("fine_labels", FineLabels)
    k = study.hierarchy.k
    by_label = {labels.label: labels for labels in (COARSE, fine(k), *study.labels)}
    kind_of = {name: labels.kind for name, labels in by_label.items()}
    # Classes of a superclass; misaligned ones are of both.
    parts = {name: 1 if kind == "misaligned" else 2 for name, kind in kind_of.items()}
    count = {
        name: labels.classes(k, study.learner.N) / parts[name] for name, labels in by_label.items()
    }
    of_head = heads[
        (heads["k"] == k) & (heads["features"] == "detectors") & (heads["hard_share"] == 0)
    ]
    of_rule = final[
        (final["k"] == k)
        & (final["metric"] == "hard_error")
        & (final["s_dag"] == study.hierarchy.s_dag)
    ]
    penalties = sorted(penalty for penalty in study.heads.ridge if penalty)
    shown = {"maximum rule": of_rule.assign(hard=of_rule["value"])}
    claimed = [penalty for penalty in penalties if penalty == RIDGE]
    for penalty in dict.fromkeys([*penalties[:1], *claimed]):
        shown[f"linear head, penalty {penalty:g}"] = of_head[of_head["penalty"] == penalty]
    figure, axes = panels(1, len(shown), height=2.6, sharey=True)
    kinds = {"subclass": "unions and parts of subclasses", "random": "random within a superclass",
             "misaligned": "across superclasses", "sample": "one class a sample"}  # fmt: skip
    of_kind = dict(
        zip(kinds, (STYLES[0], *(look.without_line for look in STYLES[1:])), strict=False)
    )
    floor = theory.fine_floor(study.hierarchy.P, study.hierarchy.s_star)
    for ax, (title, table) in zip(axes[0], shown.items(), strict=True):
        part = table[table["labels"].isin(list(by_label))]
        part = part.assign(classes=part["labels"].map(count), kind=part["labels"].map(kind_of))
        plot_lines(ax, part, "classes", "hard", of_kind, by="kind", inside=ERROR)
        ax.axvline(k, color=GREY, lw=0.7, zorder=0.5)
        ax.axhline(floor, color=GREY, lw=0.8, ls=DOTTED)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_title(title, fontsize=7)
        ax.set_xlabel("classes of a superclass")
    shares(axes[0, 0], f"error on hard samples, $k$ = {k}")
    entries = {kinds[kind]: look for kind, look in of_kind.items()}
    entries |= {
        "subclasses of the data": SeriesStyle(GREY),
        "floor of fine labels": SeriesStyle(GREY, dash=DOTTED),
    }
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(of_rule)}", columns=3)


OF_PAIR = {
    "views": "views of a sample",
    "subclass": "of a subclass",
    "superclass": "of a superclass",
}


def name_of_arm(arm: str) -> str:
    """A masked arm for people: its mask, the share of its bias where it has one, and what it prunes."""
    mask, *keys = arm.split("-")
    values = dict(key.split("=") for key in keys)
    said = {"alpha": r"$\alpha$ = {}", "bias": "bias {}"}
    return ", ".join(
        [
            display_name(mask),
            *(said.get(key, key + " = {}").format(value) for key, value in values.items()),
        ]
    )


COSINES = {
    "within_subclass": "same\nsubclass",
    "within_superclass": "same\nsuperclass",
    "across": "another\nsuperclass",
}


def crossing(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Contrastive encoders between coarse and fine labels: hard error over k, and the mean cosine of two samples' embeddings.

    From the tables of replicas, or from the published one of means.
    """
    rows = crossing_rows(*tables.values()) if len(tables) > 1 else next(iter(tables.values()))
    study = job.config_section("fine_labels", FineLabels)
    k = study.hierarchy.k
    strongest = max((arm.bias for arms in study.crossing.arms.values() for arm in arms), default=0)
    biased = f"dense-bias={strongest:g}"
    # A series for each positive pair, or for each mask; labels are the ends that they lie between.
    ends = {"coarse": SeriesStyle(GREY, "v"), "fine": SeriesStyle(GREY, "^", DASHED)}
    of_pair = dict(zip(OF_PAIR, STYLES[1:], strict=False))
    masks = sorted({arm for arm in rows["arm"] if not arm.startswith(("dense", "coarse", "fine"))})
    of_mask = dict(
        zip(
            masks,
            (look.replace(filled=filled) for look in STYLES[4:6] for filled in (False, True)),
            strict=False,
        )
    )
    rows = rows.assign(series=rows["pair"].where(rows["pair"] != "labels", rows["arm"]))

    figure, axes = panels(2, 2, height=4.8)
    hard = rows[rows["quantity"] == "hard"]
    titles = {biased: f"pairs, with a bias of {strongest:g}", "dense": "pairs, without a bias"}
    for ax, arm in zip(axes[0], (biased, "dense"), strict=True):
        plot_lines(
            ax, hard[hard["arm"].isin([arm, *ends])], "k", "value", ends | of_pair, inside=ERROR
        )
        ax.set_title(titles[arm])
    masked = hard[hard["pair"].isin(["views", "labels"])]
    plot_lines(
        axes[1, 0], masked.assign(series=masked["arm"]), "k", "value", ends | of_mask, inside=ERROR
    )
    axes[1, 0].set_title("masks, pairs of views of a sample")
    for ax in axes.flat[:3]:
        over_subclasses(ax, sorted(study.k))
        shares(ax, f"error on hard samples,\npenalty {RIDGE:g}")
    cosines = rows[
        rows["quantity"].isin(list(COSINES)) & (rows["k"] == k) & (rows["arm"] == biased)
    ]
    cosines = cosines.assign(quantity=cosines["quantity"].map(COSINES))
    plot_points(
        axes[1, 1],
        cosines,
        "quantity",
        "value",
        of_pair,
        inside=(-1, 1),
        order=list(COSINES.values()),
    )
    axes[1, 1].set(
        ylabel=f"mean cosine of two\nsamples, $k$ = {k}",
        title=f"embeddings, with a bias of {strongest:g}",
    )
    draw_zero_line(axes[1, 1])
    entries = {f"{name} labels": look for name, look in ends.items()}
    entries |= {OF_PAIR[pair]: look for pair, look in of_pair.items() if pair in set(rows["pair"])}
    entries |= {f"c: {name_of_arm(arm)}": look for arm, look in of_mask.items()}
    return finish_figure(
        figure,
        axes.flat,
        entries,
        note=f"{INTERVALS}, {seeds_of(rows[rows['pair'] != 'labels'])}",
        columns=3,
    )
