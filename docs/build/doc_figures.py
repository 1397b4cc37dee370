"""Figures of docs/ that are drawn from the published tables when pages are rendered.

Figures of studies that published tables suffice for are in figures_from_published.py.
"""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from claims_forest import (
    COLOURS,
    TESTED,
    WIDTH,
    claim_mark,
    claims_forest,
    shown_claims,
    svg,
    text,
)
from figures_from_published import iter_figures
from formatting import records, select_rows
from rarefeat.figures.labels import INTERVALS, PARAMETER_WORDS, arm_name, n_of
from rarefeat.figures.panels import (
    ESTIMATED,
    draw_zero_line,
    panels,
    plot_lines,
    plot_points,
    title_with_key,
    titled,
)
from rarefeat.figures.save import png_bytes
from rarefeat.figures.style import (
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
from rarefeat.studies.long_tail.figures import longtail
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds
from tables_long_tail import printed_gain, printed_spread

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


def score_board(tables: PublishedTables) -> Figure:
    """Draw the AUC of every pruning rule at the end of training by bias, at one frequency.

    Rules are in the order of their AUC at the smaller bias.
    """
    eps_min = 0.7
    table = select_rows(tables["selection_scores_at_end"], eps_min=eps_min)
    table = table[table["n"] >= MIN_REPLICAS]
    table = table.assign(
        place=table["score"].map(arm_name),
        series=table["point"].str.replace("share=", "bias scale "),
    )
    looks = STYLES[2].without_line, STYLES[1].replace(filled=False).without_line
    styles = dict(zip(sorted(set(table["series"])), looks, strict=True))
    ranked = table.sort_values(["series", "mean"], ascending=[True, False])
    order = list(dict.fromkeys(ranked["place"]))
    figure, ((ax,),) = panels(1, 1, 3.9, NARROW)
    plot_points(ax, table, "auc", "place", styles, order=order, horizontal=True, dodge=0.4)
    ax.vlines(0.5, -0.5, len(order) - 0.5, color=GREY, lw=0.7, zorder=0.5)
    ax.text(0.5, len(order) - 0.5, "chance", color="0.35", ha="center", va="top")
    ax.set(xlim=(0, 1.05), ylim=(len(order), -0.5), xlabel="AUC: 1 if the rule ranks them first")
    title_with_key(figure, "How well each rule finds the neurons of the rare feature", styles)
    counts = table.groupby("point")["n"].max()
    seeds = (f"{n_of(n)} at {point.removeprefix('share=')}" for point, n in counts.items())
    figure.supxlabel(f"relative frequency {eps_min:g}; {INTERVALS},\n{', '.join(seeds)}")
    return figure


THIRDS = {
    "lower third": STYLES[4].replace(marker="<"),
    "upper third": STYLES[0].replace(marker=">"),
}


def law_errors(tables: PublishedTables) -> Figure:
    """Draw the signed errors of the critical frequency by the model, where thirds differ."""
    table = tables["selection_law_errors"]
    rows = table.rename(columns={"bias": "mean", "bias_low": "ci_low", "bias_high": "ci_high"})
    rows = rows.assign(series=rows["third"] + " third")[rows["third"].isin(["lower", "upper"])]
    pairs = rows.groupby("parameter")
    apart = pairs["ci_low"].transform("max") > pairs["ci_high"].transform("min")
    shown = rows.assign(place=rows["parameter"].map(PARAMETER_WORDS))[apart]
    order = list(dict.fromkeys(shown["place"]))
    figure, ((ax,),) = panels(height=1.2 + 0.4 * len(order), width=NARROW)
    plot_points(ax, shown, "estimate", "place", THIRDS, order=order, horizontal=True, dodge=0)
    for row in shown.itertuples():
        look, y = THIRDS[row.series], order.index(row.place) - 0.15
        ax.text(row.mean, y, row.series, color=look.colour, ha="center", va="bottom")
    draw_zero_line(ax, vertical=True)
    ax.set(ylim=(len(order) - 0.5, -0.7), xlabel="predicted minus measured", ylabel="")
    ax.locator_params(axis="x", nbins=5)
    note = f"{INTERVALS}, {n_of(*rows['regimes']).replace('seed', 'new setting')} each"
    others = f"{rows['parameter'].nunique() - len(order)} other hyper-parameters"
    return titled(
        figure,
        "Error of the predicted critical frequency where a hyper-parameter\n"
        "is in its lower and in its upper third",
        f"{note};\nthe intervals of {others} overlap",
    )


def algorithm_1(tables: PublishedTables) -> Figure:
    """Draw the share of runs that learn the feature with Algorithm 1, and with random masks."""
    names = {"dense": "no mask", "pruned_neuron": "Algorithm 1", "random_neuron": "random mask"}
    looks = (SeriesStyle("black", "o"), SeriesStyle(MASKED, "s"), SeriesStyle(GREY, "D"))
    styles = {name: look.without_line for name, look in zip(names.values(), looks, strict=True)}
    table = tables["algorithm_1"]
    onset = table["onset"].map(" from step {}".format).where(table["arm"] != "dense", "")
    ends = [
        fraction_interval(np.repeat([1.0, 0.0], [row.learned, row.n - row.learned]))
        for row in table.itertuples()
    ]
    series = table["arm"].map(names)
    table = table.assign(
        series=series,
        place=series + onset,
        mean=table["learned"] / table["n"],
        ci_low=[low for low, _ in ends],
        ci_high=[high for _, high in ends],
    )
    order = list(dict.fromkeys(table.sort_values(["arm", "onset"])["place"]))
    figure, ((ax,),) = panels(1, 1, 2.3, NARROW)
    for eps_min, rows in table.groupby("eps_min"):
        plot_points(ax, rows, "share", "place", styles, order=order, horizontal=True, dodge=0)
        ax.text(rows["mean"].mean(), -0.5, f"{eps_min:g}", ha="center", va="bottom")
    ax.set(xlim=(0, 1.02), ylim=(len(order) - 0.5, -0.5))
    ax.set_xlabel(f"share of runs\nexact 95 % intervals, {n_of(*table['n'])}")
    ax.set_title("at a relative frequency of", pad=14)
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    figure.suptitle("Runs that learn the rare feature, with Algorithm 1 and without a mask")
    return figure


def table_2(tables: PublishedTables) -> Figure:
    """Draw what pruning changes in Table 2 next to every masked arm here, on CIFAR10-LT."""
    runs = {"": tables["cifar10_confirm_gains"], ", longer": tables["cifar10_longer_gains"]}
    gains = pd.concat(rows.assign(run=run) for run, rows in runs.items())
    gains = select_rows(gains, metric="balanced_accuracy", split="long_tailed")
    gains = gains[gains["alpha"] > 0].sort_values("paired_difference", ascending=False)
    rho = float(gains["rho"].max())
    gain, spread = (value("CIFAR10-LT", rho) for value in (printed_gain, printed_spread))
    printed = ("the paper, Table 2", "the paper", gain, gain - spread, gain + spread)
    rows = [
        (
            arm_name(row["arm"]).replace(" masked", "") + row["run"],
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
    here = f"here a small network, {INTERVALS}, {n_of(*gains['n'])}"
    figure.supxlabel(f"imbalance ρ = {rho:g}; the paper's bar: standard deviation;\n{here}")
    return figure


def figures_by_bias(tables: PublishedTables) -> Figure:
    """Draw Figures 1 to 4, the runs that learn the rare feature and its energy, by the bias."""
    table = tables["bias_levels"]
    names = {"confirmation": "0.2", "printed_71": "0.71", "printed_100": "1"}
    looks = (
        STYLES[0], STYLES[4].replace(marker="^", filled=False, dash=(0, (4, 1.5))),
        SeriesStyle(MANY[4], "v", (0, (1, 1))),
    )  # fmt: skip
    styles = dict(zip(names, looks, strict=True))
    shown = {
        "aligned_neurons": "Figure 1: aligned neurons",
        "max_alignment": "Figure 2: largest cosine",
        "cosine_similarity_balanced": "Figure 3: pairs' similarity",
        "regression_mse_balanced": "Figure 4: error of a head",
        "learned": "share of runs that learn it",
        "energy_ratio": "energy over a frequent one's",
    }
    figure, axes = panels(3, 2, 5.6, NARROW, sharex=True)
    for ax, (metric, title) in zip(axes.flat, shown.items(), strict=True):
        rows = table[table["metric"] == metric]
        plot_lines(
            ax, rows, "eps_min", "value", styles, "study", (0, math.inf), band=True, mark_every=2
        )
        ax.set_title(title)
        for band in ax.collections:
            band.set_alpha(0.12)
    for ax in axes[-1]:
        ax.set_xlabel("relative frequency")
    title = "The rare feature by its relative frequency, under three bias scales"
    title_with_key(figure, title, {f"scale {names[study]}": styles[study] for study in names})
    steps = "steps: 500 at 0.2, 2,000 at 0.71, 8,000 at 1"
    figure.supxlabel(f"{steps}\n{INTERVALS}, {n_of(*rows['n'])}")
    return figure


def photograph_views(tables: PublishedTables) -> Figure:
    """Draw the accuracy of a linear probe of images, by the augmentation of the views."""
    order = ("none", "crops", "crops_and_intensity", "colours", "crops_and_colours")
    shown = {"digits": "image_views", "CIFAR-10": "photograph_views"}
    found = {title: tables[name] for title, name in shown.items()}
    return augmentation_images(found, [f"views_{kind}" for kind in order])


def verdict_bars(tables: PublishedTables) -> str:
    """Draw how many of each paper's claims are supported, open and contradicted, as SVG.

    A claim is a part of the bar of its paper; a hatch tells contradicted ones apart in grey.
    """
    rows = shown_claims(tables)
    rows = rows.assign(paper=rows["paper"].str.removeprefix("beyond "))
    shares = rows["shown"].eq("supported").groupby(rows["paper"]).mean()
    step, y = WIDTH / rows["paper"].value_counts().max(), 26
    title = "Claims of each paper or topic, by verdict"
    hatch = 'width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    items = [
        f'<pattern id="claims-hatch" {hatch}><path d="M0 0 V5" stroke="#fff" stroke-width="3"/>'
    ]
    items += ["</pattern>", text(WIDTH / 2, 14, title, "middle", True)]

    def hatched(x: float, y: float, width: float, height: float) -> str:
        place = f'x="{x:.2f}" y="{y}" width="{width:.2f}" height="{height}"'
        return f'<rect {place} fill="url(#claims-hatch)" pointer-events="none"/>'

    untested = f" ({(~rows['verdict'].isin(TESTED)).sum()} untested)"
    for left, (verdict, colour) in zip((1, 132, 324), COLOURS.items(), strict=True):
        look = f'width="12" height="12" stroke="#777" fill="{colour}"'
        words = f"{(rows['shown'] == verdict).sum()} {verdict}" + untested * (verdict == "open")
        items += [f'<rect x="{left}" y="{y}" {look}/>', text(left + 17, y + 11, words)]
    items.append(hatched(324, y, 12, 12))
    for paper in shares.sort_values(ascending=False).index:
        claims, x, y = rows[rows["paper"] == paper], 0.0, y + 46
        supported = f"{(claims['shown'] == 'supported').sum()} of {len(claims)} supported"
        items += [
            text(0, y - 6, papers().get(paper, paper)),
            text(WIDTH, y - 6, f"{supported}: {shares[paper]:.0%}", "end"),
        ]
        for verdict in COLOURS:
            members = records(claims[claims["shown"] == verdict])
            for i, row in enumerate(members):
                cell = f'x="{x + step * i:.2f}" y="{y}" width="{step:.2f}" height="20"'
                items.append(claim_mark(row, "rect", cell))
            if verdict == "contradicted" and members:
                items.append(hatched(x, y, step * len(members), 20))
            x += step * len(members)
        look = f'width="{x:.2f}" height="20" stroke="#777" fill="none"'
        items.append(f'<rect x="0" y="{y}" {look}/>')
    return svg(WIDTH, y + 22, items, title)


DOC_FIGURES: dict[str, tuple[tuple[str, ...], Callable[[PublishedTables], Figure | str]]] = {
    "algorithm_1.png": (("algorithm_1",), algorithm_1),
    "selection_auc.png": (("selection_scores_at_end",), score_board),
    "table_2_beside.png": (("cifar10_confirm_gains", "cifar10_longer_gains"), table_2),
    "verdicts.svg": ((), verdict_bars),
    "claims_forest.svg": ((), claims_forest),
    "gate.png": (("gate",), lambda tables: gate({"gate": tables["gate"]})),
    "selection_law_errors.png": (("selection_law_errors",), law_errors),
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
