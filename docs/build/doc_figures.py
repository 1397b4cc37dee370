"""Figures of docs/ that are drawn from the published tables when pages are rendered.

Figures of studies that published tables suffice for are in figures_from_published.py.
"""

import html
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from claims_forest import COLOURS, claims_forest, svg, text
from figures_from_published import iter_figures
from formatting import interval, records, select_rows
from published_claims import published_claims
from rarefeat.claims.page import anchor
from rarefeat.claims.verdict import WORDS
from rarefeat.figures.labels import FREQUENCY, INTERVALS, arm_name, n_of
from rarefeat.figures.panels import (
    ESTIMATED,
    add_legend,
    draw_zero_line,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.save import png_bytes
from rarefeat.figures.style import (
    COLUMN,
    GREY,
    MANY,
    MASKED,
    NARROW,
    STYLES,
    SeriesStyle,
    project_style,
)
from rarefeat.stages.tables import PAIRED
from rarefeat.statistics import fraction_interval
from rarefeat.studies.augmentation.figures import augmentation_images
from rarefeat.studies.imbalance.figures import gate
from rarefeat.studies.long_tail.doc_tables import printed_gain, printed_spread
from rarefeat.studies.long_tail.figures import longtail
from rarefeat.studies.selection.figures import law_errors_by_third
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds

PAPERS = {
    "imbalance_and_pruning": "Imbalance and pruning",
    "wen_li_feature_decoupling": "Augmentation (Wen and Li 2021)",
    "shi_feature_learning": "Feature learning (Shi 2024)",
    "hong_fine_grained_labels": "Fine-grained labels (Hong et al. 2024)",
    "beyond_the_papers": "Beyond the papers",
    "fate_over_time": "Late learning",
}
"""Names of papers with claims; any other has the title of the kind that has its claims."""


def papers() -> dict[str, str]:
    """Return the name of every paper that some kind has claims of."""
    others = {paper: kinds()[first].title for paper, (first, *_) in load().papers.items()}
    names = PAPERS | {paper: title for paper, title in others.items() if paper not in PAPERS}
    return names | {f"beyond {paper}": f"Beyond: {title}" for paper, title in names.items()}


MIN_REPLICAS = 5
"""Smallest number of replicas of a mean that is shown."""
CLASSES = {verdict: COLOURS[verdict] for verdict in ("supported", "contradicted")} | {
    "open": "none"
}
"""Colours of the squares of claims, by what is shown."""


def score_heatmap(tables: PublishedTables) -> Figure:
    """Draw the AUC of every pruning rule at the end of training, a panel for each bias scale."""
    table = tables["selection_scores_at_end"]
    table = table[table["n"] >= MIN_REPLICAS]
    points = list(table["point"].unique())
    figure, (axes,) = panels(1, len(points), 2.9, NARROW, sharey=True)
    order = table.groupby("score")["mean"].mean().sort_values(ascending=False).index
    for ax, point in zip(axes, points, strict=True):
        wide = (
            select_rows(table, point=point)
            .pivot(index="score", columns="eps_min", values="mean")
            .reindex(order)
        )
        wide.index = [arm_name(name) for name in wide.index]
        sns.heatmap(
            wide,
            ax=ax,
            # Up to 1.3, so that black is readable on the darkest.
            vmin=0,
            vmax=1.3,
            cmap="Blues",
            annot=True,
            fmt=".2f",
            annot_kws={"size": 7, "color": "black"},
            linewidths=0.5,
            cbar=False,
        )
        ax.set(
            title=f"bias scale {point.removeprefix('share=')}",
            xlabel="relative frequency",
            ylabel="",
        )
        ax.tick_params(length=0)
    figure.suptitle("How well each rule finds the neurons of the rare feature (AUC)")
    figure.supxlabel(f"mean over {n_of(*table['n'])}; 0.5 is chance", size=7)
    return figure


def algorithm_1(tables: PublishedTables) -> Figure:
    """Draw the share of runs that learn the feature with Algorithm 1, and with random masks."""
    names = {"dense": "no mask", "pruned_neuron": "smallest", "random_neuron": "random"}
    looks = (SeriesStyle("black", "o"), SeriesStyle(MASKED, "s"), SeriesStyle(GREY, "D"))
    styles = {name: look.without_line for name, look in zip(names.values(), looks, strict=True)}
    table = tables["algorithm_1"]
    onset = table["onset"].map("from step {}".format).where(table["arm"] != "dense", "")
    ends = [
        fraction_interval(np.repeat([1.0, 0.0], [row.learned, row.n - row.learned]))
        for row in table.itertuples()
    ]
    table = table.assign(
        series=table["arm"].map(names),
        place=(table["arm"].map(names) + " neurons " + onset).replace(
            "no mask neurons ", "no mask"
        ),
        mean=table["learned"] / table["n"],
        ci_low=[low for low, _ in ends],
        ci_high=[high for _, high in ends],
    )
    levels = sorted(set(table["eps_min"]))
    order = list(dict.fromkeys(table.sort_values(["arm", "onset"])["place"]))
    figure, (axes,) = panels(1, len(levels), 2.2, NARROW, sharey=True)
    for ax, eps_min in zip(axes, levels, strict=True):
        rows = table[table["eps_min"] == eps_min]
        plot_points(ax, rows, "share", "place", styles, order=order, horizontal=True, dodge=0)
        ax.set(title=f"frequency {eps_min:g}", xlim=(-0.05, 1.05))
        ax.xaxis.set_major_formatter(PercentFormatter(1))
        ax.set_xticks([0, 0.5, 1])
    figure.suptitle("Runs that learn the rare feature, with neurons masked and without")
    figure.supxlabel(f"exact 95 % intervals, {n_of(*table['n'])}", size=7)
    return figure


def table_2(tables: PublishedTables) -> Figure:
    """Draw what pruning changes in Table 2 next to every masked arm here, on CIFAR10-LT."""
    gains = tables["cifar10_confirm_gains"]
    gains = select_rows(gains, metric="balanced_accuracy", split="long_tailed")
    gains = gains[gains["alpha"] > 0].sort_values("paired_difference", ascending=False)
    rho = float(gains["rho"].max())
    gain, spread = (
        value("CIFAR10-LT", rho, "accuracy") for value in (printed_gain, printed_spread)
    )
    printed = ("the paper, Table 2", "the paper", gain, gain - spread, gain + spread)
    rows = [
        (
            arm_name(row["arm"]).replace(" masked", ""),
            "random" if "threshold=random" in row["arm"] else "smallest",
            *(100 * row[key] for key in PAIRED),
        )
        for row in records(gains)
    ]
    table = pd.DataFrame([printed, *rows], columns=["place", "masked", *ESTIMATED])
    styles = {
        "the paper": STYLES[4].replace(marker="s", filled=False),
        "smallest": SeriesStyle(MASKED, "D"),
        "random": SeriesStyle(GREY, "D", filled=False),
    }
    figure, ((ax,),) = panels(height=0.9 + 0.22 * len(table), width=NARROW)
    plot_points(
        ax, table, "gain", "place", styles, series_column="masked", order=list(table["place"]),
        horizontal=True, dodge=0,
    )  # fmt: skip
    draw_zero_line(ax, vertical=True)
    ax.set_xlabel("change of accuracy (points)")
    figure.suptitle("Change of accuracy by pruning a share of the weights, on CIFAR10-LT")
    note = f"imbalance ρ = {rho:g}; here {INTERVALS}, {n_of(*gains['n'])};\nthe paper ± both standard deviations"
    figure.supxlabel(note)
    return figure


def figures_by_bias(tables: PublishedTables) -> Figure:
    """Draw the runs that learn the rare feature and its energy, under our bias and as printed."""
    table = tables["bias_levels"]
    names = {"confirmation": "bias 0.2\n(ours)", "printed_71": "0.71", "printed_100": "1"}
    looks = (STYLES[0], STYLES[4], STYLES[5].replace(colour=MANY[4]))
    styles = dict(zip(names, looks, strict=True))
    shown = {
        "learned": "runs that learn the rare feature",
        "energy_ratio": "its energy, as a share of a frequent one's",
    }
    figure, axes = panels(2, 1, 4.4, COLUMN, sharex=True, sharey=True)
    for ax, (metric, title) in zip(axes[:, 0], shown.items(), strict=True):
        rows = table[table["metric"] == metric]
        plot_lines(ax, rows, "eps_min", "value", styles, "study", (0, math.inf), band=True)
        for study, name in names.items():
            curve = rows[rows["study"] == study]
            x = float(np.interp(0.62, curve["mean"], curve["eps_min"]))
            offset = 22 if study == "printed_100" else -15
            ax.annotate(
                name, (x, 0.62), (offset, 0), textcoords="offset points", va="center",
                ha="left" if offset > 0 else "right", color=styles[study].colour,
            )  # fmt: skip
        ax.set(title=title)
        ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set_xlabel(FREQUENCY)
    figure.suptitle("The rare feature under three strengths of the bias")
    figure.supxlabel(f"{INTERVALS}, {n_of(*rows['n'])}", size=7)
    return figure


def photograph_views(tables: PublishedTables) -> Figure:
    """Draw what is read from features of images, by what the two views differ in."""
    order = ("none", "crops", "crops_and_intensity", "colours", "crops_and_colours")
    shown = {"digits": "image_views", "photographs": "photograph_views"}
    found = {title: tables[name] for title, name in shown.items()}
    return augmentation_images(found, [f"views_{kind}" for kind in order])


def verdict_mosaic(tables: PublishedTables) -> str:
    """Draw every claim as a square by paper and group, as SVG.

    It is filled if the claim is supported, crossed if it is contradicted, and empty if neither is
    shown; the statement is a tooltip.
    """
    width, side, gap, left, y = 460, 13, 3, 165, 6
    step = side + gap
    per_row = (width - left) // step
    items = []
    rows = published_claims(tables, load())
    rows = rows[rows["primary"] & ~rows["check"]]
    shown = rows["verdict"].where(rows["verdict"].isin(list(CLASSES)), "open")
    rows = rows.assign(
        shown=shown,
        ours=rows["paper"].str.startswith("beyond "),
        paper=rows["paper"].str.removeprefix("beyond "),
    )
    for i, verdict in enumerate(CLASSES):
        items += [square(120 * i, y, side, verdict), text(120 * i + side + 5, y + 11, verdict)]
    for paper, claims in rows.groupby("paper", sort=False):
        counts = claims["shown"].value_counts()
        summary = ", ".join(f"{counts[name]} {name}" for name in CLASSES if name in counts)
        y += step + 24
        items.append(text(0, y, papers().get(paper, paper), bold=True))
        items.append(text(0, y + 15, f"{len(claims)} claims: {summary}", 11))
        y += 22
        for (ours, group), members in claims.groupby(["ours", "group"], sort=False):
            name = f"beyond: {group}" if ours else group
            items.append(text(0, y + 11, name, 11))
            # A long name has a line of its own.
            y += step * (len(name) > 27)
            for i, row in enumerate(records(members)):
                statement = f"{row['statement']} ({row['source']})"
                verdict = WORDS.get(row["verdict"], row["verdict"])
                tooltip = f"{statement}: {verdict} {interval(row, 'estimate', 2)}"
                place = left + i % per_row * step, y + i // per_row * step
                drawn = square(*place, side, row["shown"], tooltip)
                items.append(f'<a href="#{anchor(row["claim_id"])}">{drawn}</a>')
            y += step * math.ceil(len(members) / per_row) + 1
        y -= step
    return svg(width, y + step + 8, items, "Every claim of the papers with its verdict")


def square(x: float, y: float, side: int, verdict: str, tooltip: str = "") -> str:
    """Return the square of a claim, as SVG."""
    cross = f"M{x},{y} l{side},{side} M{x},{y + side} l{side},-{side}"
    return (
        f'<g stroke="#777"><rect x="{x}" y="{y}" width="{side}" height="{side}"'
        f' fill="{CLASSES[verdict]}"/>'
        + (
            f'<path d="{cross}" stroke="#fff" stroke-width="1.6"/>'
            if verdict == "contradicted"
            else ""
        )
        + f"<title>{html.escape(tooltip)}</title></g>"
    )


DOC_FIGURES: dict[str, tuple[tuple[str, ...], Callable[[PublishedTables], Figure | str]]] = {
    "algorithm_1.png": (("algorithm_1",), algorithm_1),
    "selection_auc.png": (("selection_scores_at_end",), score_heatmap),
    "table_2_beside.png": (("cifar10_confirm_gains",), table_2),
    "verdicts.svg": ((), verdict_mosaic),
    "claims_forest.svg": ((), claims_forest),
    "gate.png": (("gate",), lambda tables: gate({"gate": tables["gate"]})),
    "selection_law_errors.png": (
        ("selection_law_errors",),
        lambda tables: law_errors_by_third(tables["selection_law_errors"]),
    ),
    "longtail_cifar10_confirm.png": (
        ("cifar10_confirm_gains",),
        lambda tables: longtail(
            {"gains": tables["cifar10_confirm_gains"].assign(dataset="CIFAR10-LT")}
        ),
    ),
    "figures_by_bias.png": (("bias_levels",), figures_by_bias),
    "photograph_views.png": (("image_views", "photograph_views"), photograph_views),
}
"""Published tables that each figure needs, and the function that draws it, by file."""


def render_doc_figures(tables: PublishedTables) -> dict[str, bytes]:
    """Render every figure whose tables are published, by its file in docs/figures."""
    contents = {}
    with project_style():
        for name, (needed, draw) in DOC_FIGURES.items():
            if all(table in tables for table in needed):
                picture = draw(tables)
                contents[name] = picture.encode() if isinstance(picture, str) else to_png(picture)
        return contents | {f"{name}.png": to_png(draw()) for name, draw in iter_figures(tables)}


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG, without a date."""
    # Ticks are known once there is a layout, and the layout once the ticks are known.
    figure.draw_without_rendering()
    return png_bytes(figure, {}, dpi=200)
