"""Pictures that are drawn from the published tables when pages are rendered: heat maps, what is printed beside ours, the mosaic."""

import html
import io
import math
from collections.abc import Callable

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rarefeat.figures.labels import arm_name
from rarefeat.figures.panels import draw_zero_line, finish_figure, panels, plot_points
from rarefeat.figures.style import STYLES, project_style
from rarefeat.project import load
from rarefeat.registry import kinds
from rarefeat.report.figures_from_published import iter_figures
from rarefeat.report.published_tables import PublishedTables
from rarefeat.storage.markdown import interval, records, select_rows
from rarefeat.studies.long_tail.paper_values import TABLE_2, printed_gain

PAPERS = {
    "imbalance_and_pruning": "Imbalance and pruning",
    "wen_li_feature_decoupling": "Augmentation (Wen and Li 2021)",
    "shi_feature_learning": "Feature learning (Shi 2024)",
    "hong_fine_grained_labels": "Fine-grained labels (Hong et al. 2024)",
    "beyond_the_papers": "Beyond the papers",
    "fate_over_time": "At once, late or never",
}
"""Papers whose claims are measured, for people; another one has the title of the kind that has its claims."""


def papers() -> dict[str, str]:
    """Every paper that some kind has claims of, with its name."""
    others = {paper: kinds()[first].title for paper, (first, *_) in load().papers.items()}
    return PAPERS | {paper: title for paper, title in others.items() if paper not in PAPERS}


COLOURS = {
    "supported": "#0072B2",
    "contradicted": "#D55E00",
    "undecided": "#C8C8C8",
    "diverged": "#5C2A6B",
    "not testable": "none",
}
"""Of verdicts; all but the last are told apart in greyscale."""
LEAST = 5
"""Replicas below which a mean is not shown."""


def score_heatmap(tables: PublishedTables) -> Figure:
    """AUC of every rule for the neurons of the rare feature at the end of training, a panel for each share of the bias."""
    table = tables["selection_scores_at_end"]
    table = table[table["n"] >= LEAST]
    places = list(table["point"].unique())
    figure, (axes,) = panels(1, len(places), 2.7, sharey=True)
    order = table.groupby("score")["mean"].mean().sort_values(ascending=False).index
    for ax, point in zip(axes, places, strict=True):
        wide = (
            select_rows(table, point=point)
            .pivot(index="score", columns="eps_min", values="mean")
            .reindex(order)
        )
        wide.index = [arm_name(name) for name in wide.index]
        last = point == places[-1]
        sns.heatmap(
            wide, ax=ax, vmin=0, vmax=1, center=0.5, cmap="RdBu", annot=True, fmt=".2f", annot_kws={"size": 7}, linewidths=0.5,
            cbar=last, cbar_kws={"label": "AUC"},
        )  # fmt: skip
        ax.set(
            title=f"share of the bias {point.removeprefix('share=')}",
            xlabel="frequency of the rare feature",
            ylabel="",
        )
    return figure


def table_2(tables: PublishedTables) -> Figure:
    """The gain that Table 2 prints for pruning beside what each masked arm gains here, on CIFAR10-LT."""
    entries = []
    for name in ("cifar10_confirm_gains", "cifar10_milder_gains"):
        found = select_rows(tables[name], metric="balanced_accuracy", split="long_tailed")
        for row in records(found[found["alpha"] > 0]):
            values = (
                100 * row[key] for key in ("paired_difference", "paired_ci_low", "paired_ci_high")
            )
            entries.append(
                (f"{arm_name(row['arm'])}   ρ = {row['rho']:g}", *values, "here, 95 % interval")
            )
        rho = float(found["rho"].max())
        gain, spread = printed_gain("CIFAR10-LT", rho), spread_of("CIFAR10-LT", rho)
        entries.append(
            (
                f"the paper   ρ = {rho:g}",
                gain,
                gain - spread,
                gain + spread,
                "printed, ± both standard deviations",
            )
        )
    table = pd.DataFrame(entries, columns=["place", "mean", "ci_low", "ci_high", "from"])
    figure, ((panel,),) = panels(height=0.21 * len(table) + 0.9)
    shown = {
        "here, 95 % interval": STYLES[2].without_line,
        "printed, ± both standard deviations": STYLES[1].without_line,
    }
    plot_points(
        panel, table, "gain", "place", shown, by="from", order=table["place"], across=True, dodge=0
    )
    draw_zero_line(panel, across=True)
    panel.set(xlabel="gain in accuracy over dense, points")
    return finish_figure(figure, (), shown)


def spread_of(dataset: str, rho: float) -> float:
    """Both printed standard deviations of a row of Table 2, added as those of independent numbers."""
    row = TABLE_2[dataset, rho]
    with_, without = (float(text.split("±")[1]) for text in (row.accuracy_pruned, row.accuracy))
    return (with_**2 + without**2) ** 0.5


def verdict_mosaic(tables: PublishedTables) -> str:
    """Every claim as a square by paper and part, as SVG: its colour is the verdict, what it says shows under the pointer."""
    width, side, gap, left, y = 640, 15, 3, 178, 30
    step = side + gap
    in_a_row = (width - left) // step
    parts = []
    for x, (verdict, colour) in zip((0, 96, 208, 306, 388), COLOURS.items(), strict=True):
        parts.append(
            f'<rect x="{x}" y="4" width="{side}" height="{side}" fill="{colour}" stroke="#888"/>'
        )
        parts.append(f'<text x="{x + side + 5}" y="16">{verdict}</text>')
    for paper, title in papers().items():
        if f"verdicts_{paper}" not in tables:
            continue
        claims = tables[f"verdicts_{paper}"]
        counts = claims["verdict"].value_counts()
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in COLOURS if verdict in counts)
        y += 24
        parts.append(
            f'<text x="0" y="{y}" font-weight="600">{html.escape(title)}: {len(claims)} claims</text>'
        )
        parts.append(f'<text x="0" y="{y + 14}" font-size="11">{said}</text>')
        y += 22
        for group, part in claims.groupby("group", sort=False):
            parts.append(f'<text x="0" y="{y + 12}" font-size="11">{html.escape(group)}</text>')
            for i, row in enumerate(records(part)):
                told = f"{row['statement']} ({row['source']}): {row['verdict']} {interval(row, 'estimate', 2)}"
                parts.append(
                    f'<rect x="{left + i % in_a_row * step}" y="{y + i // in_a_row * step}" width="{side}" height="{side}"'
                    f' fill="{COLOURS[row["verdict"]]}" stroke="#888"><title>{html.escape(told)}</title></rect>'
                )
            y += step * math.ceil(len(part) / in_a_row) + 1
    return svg(width, y + 8, parts, "Every claim of the papers with its verdict")


STEPS = (
    ("data", "tokens hold a few of d features,", "one of them rarely"),
    ("encoder", "pairs of views pull, others push;", "frequent features grow first"),
    ("gate", "the bias rises with the norm;", "weak features stay below it"),
    ("mask", "pruned neurons leave the loss,", "and are still updated"),
)
RULES = ("synthesise", "pretrain", "probe", "aggregate", "plot, claims, report")


def pipeline(tables: PublishedTables) -> str:
    """What happens to a rare feature in four boxes, and below it the stages of the workflow that measures it, as SVG."""
    width, height, gap = 190, 74, 26
    parts = []
    for i, (title, *lines) in enumerate(STEPS):
        x = i * (width + gap)
        parts.append(
            f'<rect x="{x + 1}" y="1" width="{width}" height="{height}" rx="6" fill="none" stroke="currentColor"/>'
        )
        parts.append(f'<text x="{x + 12}" y="22" font-weight="600">{i + 1}. {title}</text>')
        parts += [
            f'<text x="{x + 12}" y="{42 + 17 * j}" font-size="11">{line}</text>'
            for j, line in enumerate(lines)
        ]
        if i:
            parts.append(arrow(x - gap + 3, x - 2, 1 + height / 2))
    full = 4 * width + 3 * gap
    each_wide = (full - 4 * gap) / 5
    parts.append(
        f'<text x="0" y="{height + 34}" font-size="11">measured by a workflow, for every seed and point of the grid:</text>'
    )
    top = height + 44
    for i, rule in enumerate(RULES):
        x = i * (each_wide + gap)
        parts.append(
            f'<rect x="{x + 1}" y="{top}" width="{each_wide:g}" height="30" rx="15" fill="#0072B2" fill-opacity="0.15" stroke="#0072B2"/>'
        )
        parts.append(
            f'<text x="{x + 1 + each_wide / 2:g}" y="{top + 19}" text-anchor="middle">{rule}</text>'
        )
        if i:
            parts.append(arrow(x - gap + 3, x - 2, top + 15))
    return svg(
        full + 2, top + 34, parts, "Data, encoder, gate and mask, and the stages of the workflow"
    )


def arrow(start: float, end: float, y: float) -> str:
    """From left to right."""
    return f'<path d="M{start:g} {y:g} H{end:g} m-6 -4 l6 4 l-6 4" fill="none" stroke="currentColor" stroke-width="1.5"/>'


def svg(width: float, height: float, parts: list[str], title: str) -> str:
    """A picture of these parts; text in the colour of what is around it."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" color="#1f2933" fill="currentColor"'
        f' font-family="system-ui, sans-serif" font-size="12.5" role="img" aria-label="{html.escape(title)}">\n{body}\n</svg>\n'
    )


DRAWN: dict[str, tuple[tuple[str, ...], Callable[[PublishedTables], Figure | str]]] = {
    "selection_auc.png": (("selection_scores_at_end",), score_heatmap),
    "table_2_beside.png": (("cifar10_confirm_gains", "cifar10_milder_gains"), table_2),
    "verdicts.svg": ((), verdict_mosaic),
    "pipeline.svg": ((), pipeline),
}
"""By file, the published tables that a picture needs and what draws it."""


def render_doc_figures(tables: PublishedTables) -> dict[str, bytes]:
    """Every picture whose tables are there, by its file in docs/figures."""
    made = {}
    with project_style():
        for name, (needed, draw) in DRAWN.items():
            if all(table in tables for table in needed):
                picture = draw(tables)
                made[name] = picture.encode() if isinstance(picture, str) else to_png(picture)
        return made | {f"{name}.png": to_png(draw()) for name, draw in iter_figures(tables)}


def to_png(figure: Figure) -> bytes:
    """A figure as PNG, without a date."""
    kept = io.BytesIO()
    # Ticks are known once there is a layout, and the layout once the ticks are known.
    figure.draw_without_rendering()
    figure.savefig(kept, dpi=200, metadata={"Software": None})
    return kept.getvalue()
