"""Figures of the study of fine labels; their captions are in `declaration.py`.

Each shows means over seeds with their 95 % intervals.
"""

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
"""Range of an error."""
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1))
LABEL_STYLES = {"coarse": STYLES[0], "fine": STYLES[1]}
CLOSED = SeriesStyle(GREY, "x")
SUBCLASSES = "subclasses of a superclass, $k$"


def select_labels(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Select the rows of coarse or of fine labels, whose ids are 1 or k."""
    ids = "1" if name == "coarse" else table["k"].astype(str)
    return table[table["labels"] == "subclass-" + ids]


def set_subclass_axis(ax: Axes, k: list[int]) -> None:
    """Make the x axis one of numbers of subclasses."""
    ax.set(xscale="log", xlabel=SUBCLASSES)
    ax.set_xticks(k, k)
    ax.minorticks_off()


def set_error_axis(ax: Axes, label: str) -> None:
    """Make the y axis one of errors."""
    ax.set(ylabel=label, ylim=(-0.03, 1.03))


def errors(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw errors on easy and hard samples against k, and on hard samples against R.

    Inputs: `fine_labels_errors`. Config: `fine_labels`.
    """
    (final,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    k = sorted(study.k)
    figure, axes = panels(1, 2, height=3.0, sharey=True)
    primary = final[final["s_dag"] == study.hierarchy.s_dag]
    entries = {}
    for name, style in LABEL_STYLES.items():
        rows = select_labels(primary, name)
        easy = style.replace(marker="^", dash=DOTTED, filled=False)
        metric_styles = {"hard_error": style, "easy_error": easy}
        plot_lines(
            axes[0, 0], rows, "k", "value", metric_styles, series_column="metric", bounds=ERROR
        )
        predicted = {"predicted_hard_error": CLOSED.without_line}
        plot_lines(axes[0, 0], rows, "k", "value", predicted, series_column="metric", bounds=ERROR)
        entries |= {f"{name} labels, hard samples": style, f"{name}, easy": easy}
    equal = [theory.coarse_hard_error(study.data_at(value), study.learner.kappa_b) for value in k]
    axes[0, 0].plot(k, equal, color=GREY, ls=DASHED)
    set_subclass_axis(axes[0, 0], k)
    set_error_axis(axes[0, 0], "error")

    wide = final.pivot_table(
        index=["labels", "k", "s_dag", "seed"], columns="metric", values="value"
    ).reset_index()
    k_styles = sequential_styles(k)
    for name in LABEL_STYLES:
        rows = select_labels(wide, name)
        marks = {
            k: style.replace(dash="none", filled=name == "coarse") for k, style in k_styles.items()
        }
        plot_lines(axes[0, 1], rows, "R", "hard_error", marks, series_column="k", bounds=ERROR)
        lines = {k: style.replace(marker="") for k, style in k_styles.items()}
        plot_lines(
            axes[0, 1],
            rows,
            "R",
            "predicted_hard_error",
            lines,
            series_column="k",
            estimator="plain",
        )
    axes[0, 1].set(xscale="log", xlabel="$R$, by which the theory orders coarse labels")
    axes[0, 1].axvline(1, color=GREY, lw=0.7, zorder=0.5)
    entries |= {
        "closed form, given the detectors": CLOSED.without_line,
        "ratio $1/k$, equal detectors": SeriesStyle(GREY, dash=DASHED),
    }
    entries |= {f"b: $k$ = {value}": style.without_line for value, style in k_styles.items()}
    note = (
        f"{INTERVALS}, {seeds_of(final)}; b: hard samples, open for fine labels, lines for the"
        " closed form"
    )
    return finish_figure(figure, axes.flat, entries, note, columns=3)


def growth(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the ratio of displacements, the displacements, and bias over displacement by step.

    Inputs: `fine_labels_trajectories`. Config: `fine_labels`.
    """
    (trajectories,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    figure, axes = panels(1, 3, height=2.9)
    trajectories = trajectories[trajectories["step"] > 0]
    common, subclass = (trajectories[f"{name}_displacement"] for name in ("common", "subclass"))
    trajectories = trajectories.assign(
        ratio=subclass / common, bias=trajectories["common_decrement"] / common
    )
    k_styles, dashes = sequential_styles(sorted(study.k)), {"coarse": "-", "fine": DASHED}
    for name, dash in dashes.items():
        rows = select_labels(trajectories, name)
        styles = {k: style.replace(dash=dash) for k, style in k_styles.items()}
        for ax, column in ((axes[0, 0], "ratio"), (axes[0, 2], "bias")):
            plot_lines(ax, rows, "step", column, styles, series_column="k", band=True, mark_every=4)
        for value in k_styles:
            first = theory.first_step_ratio(value, name)
            axes[0, 0].plot(1, first, color="black", marker="_", ms=11, zorder=3)
    k = study.hierarchy.k
    displacements = {"common": SeriesStyle("black"), "subclass": SeriesStyle("0.55")}
    for name, dash in dashes.items():
        rows = select_labels(trajectories[trajectories["k"] == k], name)
        for column, style in displacements.items():
            plot_lines(
                axes[0, 1],
                rows.assign(series=column),
                "step",
                f"{column}_displacement",
                {column: style.replace(dash=dash)},
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
    entries = {f"$k$ = {value}": style for value, style in k_styles.items()}
    entries |= {f"{name} labels": SeriesStyle("0.3", dash=dash) for name, dash in dashes.items()}
    entries |= {"first step, by theory": SeriesStyle("black", "_").without_line}
    entries |= {f"b: {name}": style for name, style in displacements.items()}
    entries |= {"b: closed form, $s^*$ patches a sample": closed}
    note = f"{INTERVALS}, {seeds_of(trajectories)}"
    return finish_figure(figure, axes.flat, entries, note, columns=5)


def name_of(labels: Labels, k: int) -> str:
    """Return the name of a kind of labels for readers."""
    if labels in (COARSE, fine(k)):
        return "coarse labels" if labels == COARSE else "fine labels"
    if labels.kind == "sample":
        return "one class a sample"
    return f"{labels.ids} {labels.kind} classes"


def probes(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw errors of linear heads against their penalty, a panel for each kind of labels.

    Inputs: `fine_labels_heads`. Config: `fine_labels`. Lines are fractions of hard samples.
    """
    (heads,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    k, penalties = study.hierarchy.k, sorted(study.heads.ridge)
    rows = heads[(heads["k"] == k) & (heads["features"] == "detectors")]
    other = [
        next((labels for labels in study.labels if labels.kind == kind), None)
        for kind in ("random", "sample")
    ]
    kinds = [COARSE, fine(k), *filter(None, other)]
    styles = sequential_styles(sorted(study.heads.hard_share))
    figure, axes = panels(1, len(kinds), height=2.6, sharey=True)
    for ax, labels in zip(axes[0], kinds, strict=True):
        chosen = rows[rows["labels"] == labels.label]
        chosen = chosen.assign(place=chosen["penalty"].map(penalties.index))
        for metric, changes in (("hard", {}), ("easy", {"dash": DOTTED, "filled": False})):
            metric_styles = {share: style.replace(**changes) for share, style in styles.items()}
            plot_lines(
                ax, chosen, "place", metric, metric_styles, series_column="hard_share", bounds=ERROR
            )
        ax.set_title(name_of(labels, k), fontsize=7)
        ax.set_xticks(range(len(penalties)), [f"{penalty:g}" for penalty in penalties], rotation=45)
        ax.set_xlabel("penalty of the head")
    set_error_axis(axes[0, 0], f"error of a linear head, $k$ = {k}")
    entries = {
        f"{share:.0%} hard samples in its training": style for share, style in styles.items()
    }
    entries |= {"error on easy samples": SeriesStyle("0.3", "o", DOTTED, filled=False)}
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS} of the error on hard samples, {seeds_of(rows)}"
    )


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw errors on hard samples against the number of classes of a superclass (Figure 5).

    By the maximum rule and by linear heads. Inputs: `fine_labels_errors`, `fine_labels_heads`.
    Config: `fine_labels`.
    """
    (final, heads), study = tables.values(), job.config_section("fine_labels", FineLabels)
    k = study.hierarchy.k
    by_label = {labels.label: labels for labels in (COARSE, fine(k), *study.labels)}
    kind_of = {name: labels.kind for name, labels in by_label.items()}
    # Misaligned classes are of both superclasses.
    superclasses = {name: 1 if kind == "misaligned" else 2 for name, kind in kind_of.items()}
    count = {
        name: labels.classes(k, study.learner.N) / superclasses[name]
        for name, labels in by_label.items()
    }
    head_rows = heads[
        (heads["k"] == k) & (heads["features"] == "detectors") & (heads["hard_share"] == 0)
    ]
    rule_rows = final[
        (final["k"] == k)
        & (final["metric"] == "hard_error")
        & (final["s_dag"] == study.hierarchy.s_dag)
    ]
    penalties = sorted(penalty for penalty in study.heads.ridge if penalty)
    rows_of = {"maximum rule": rule_rows.assign(hard=rule_rows["value"])}
    of_claims = [penalty for penalty in penalties if penalty == RIDGE]
    for penalty in dict.fromkeys([*penalties[:1], *of_claims]):
        rows_of[f"linear head, penalty {penalty:g}"] = head_rows[head_rows["penalty"] == penalty]
    figure, axes = panels(1, len(rows_of), height=2.6, sharey=True)
    kinds = {
        "subclass": "unions and parts of subclasses",
        "random": "random within a superclass",
        "misaligned": "across superclasses",
        "sample": "one class a sample",
    }
    points = (style.without_line for style in STYLES[1:])
    styles = dict(zip(kinds, (STYLES[0], *points), strict=False))
    floor = theory.fine_floor(study.hierarchy.P, study.hierarchy.s_star)
    for ax, (title, table) in zip(axes[0], rows_of.items(), strict=True):
        rows = table[table["labels"].isin(list(by_label))]
        rows = rows.assign(classes=rows["labels"].map(count), kind=rows["labels"].map(kind_of))
        plot_lines(ax, rows, "classes", "hard", styles, series_column="kind", bounds=ERROR)
        ax.axvline(k, color=GREY, lw=0.7, zorder=0.5)
        ax.axhline(floor, color=GREY, lw=0.8, ls=DOTTED)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_title(title, fontsize=7)
        ax.set_xlabel("classes of a superclass")
    set_error_axis(axes[0, 0], f"error on hard samples, $k$ = {k}")
    entries = {kinds[kind]: style for kind, style in styles.items()}
    entries |= {
        "subclasses of the data": SeriesStyle(GREY),
        "floor of fine labels": SeriesStyle(GREY, dash=DOTTED),
    }
    note = f"{INTERVALS}, {seeds_of(rule_rows)}"
    return finish_figure(figure, axes.flat, entries, note, columns=3)


PAIR_NAMES = {
    "views": "views of a sample",
    "subclass": "of a subclass",
    "superclass": "of a superclass",
}


def name_of_arm(arm: str) -> str:
    """Return the name of an arm for readers: its mask, pruning ratio and bias."""
    mask, *keys = arm.split("-")
    values = dict(key.split("=") for key in keys)
    texts = {"alpha": r"$\alpha$ = {}", "bias": "bias {}"}
    return ", ".join(
        [
            display_name(mask),
            *(texts.get(key, key + " = {}").format(value) for key, value in values.items()),
        ]
    )


COSINES = {
    "within_subclass": "same\nsubclass",
    "within_superclass": "same\nsuperclass",
    "across": "another\nsuperclass",
}


def crossing(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw errors of contrastive encoders on hard samples against k, and mean cosines.

    Inputs: `fine_labels_heads`, `fine_labels_crossing` and `fine_labels_crossing_heads`, or the
    published means. Config: `fine_labels`.
    """
    rows = crossing_rows(*tables.values()) if len(tables) > 1 else next(iter(tables.values()))
    study = job.config_section("fine_labels", FineLabels)
    k = study.hierarchy.k
    strongest = max((arm.bias for arms in study.crossing.arms.values() for arm in arms), default=0)
    biased = f"dense-bias={strongest:g}"
    # A series for each positive pair, or for each mask, between those of both kinds of labels.
    ends = {"coarse": SeriesStyle(GREY, "v"), "fine": SeriesStyle(GREY, "^", DASHED)}
    pair_styles = dict(zip(PAIR_NAMES, STYLES[1:], strict=False))
    masks = sorted({arm for arm in rows["arm"] if not arm.startswith(("dense", "coarse", "fine"))})
    variants = (style.replace(filled=filled) for style in STYLES[4:6] for filled in (False, True))
    mask_styles = dict(zip(masks, variants, strict=False))
    rows = rows.assign(series=rows["pair"].where(rows["pair"] != "labels", rows["arm"]))

    figure, axes = panels(2, 2, height=4.8)
    hard = rows[rows["quantity"] == "hard"]
    titles = {biased: f"pairs, with a bias of {strongest:g}", "dense": "pairs, without a bias"}
    for ax, arm in zip(axes[0], (biased, "dense"), strict=True):
        chosen = hard[hard["arm"].isin([arm, *ends])]
        plot_lines(ax, chosen, "k", "value", ends | pair_styles, bounds=ERROR)
        ax.set_title(titles[arm])
    masked = hard[hard["pair"].isin(["views", "labels"])]
    masked = masked.assign(series=masked["arm"])
    plot_lines(axes[1, 0], masked, "k", "value", ends | mask_styles, bounds=ERROR)
    axes[1, 0].set_title("masks, pairs of views of a sample")
    for ax in axes.flat[:3]:
        set_subclass_axis(ax, sorted(study.k))
        set_error_axis(ax, f"error on hard samples,\npenalty {RIDGE:g}")
    cosines = rows[
        rows["quantity"].isin(list(COSINES)) & (rows["k"] == k) & (rows["arm"] == biased)
    ]
    cosines = cosines.assign(quantity=cosines["quantity"].map(COSINES))
    order = list(COSINES.values())
    plot_points(axes[1, 1], cosines, "quantity", "value", pair_styles, bounds=(-1, 1), order=order)
    axes[1, 1].set(
        ylabel=f"mean cosine of two\nsamples, $k$ = {k}",
        title=f"embeddings, with a bias of {strongest:g}",
    )
    draw_zero_line(axes[1, 1])
    entries = {f"{name} labels": style for name, style in ends.items()}
    pairs = set(rows["pair"])
    entries |= {PAIR_NAMES[pair]: style for pair, style in pair_styles.items() if pair in pairs}
    entries |= {f"c: {name_of_arm(arm)}": style for arm, style in mask_styles.items()}
    note = f"{INTERVALS}, {seeds_of(rows[rows['pair'] != 'labels'])}"
    return finish_figure(figure, axes.flat, entries, note=note, columns=3)
