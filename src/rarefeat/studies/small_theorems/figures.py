"""The figure of Theorems 7.1 and 7.2."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import finish_figure, panels, plot_lines, plot_points
from rarefeat.figures.style import GREY, STYLES
from rarefeat.run.job import Job

SHARE = (0.0, 1.0)


def invariant_features(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot the identity of Theorem 7.1, and what the optimum encodes over its norm."""
    table = tables["theorem_numbers"]
    table = table[table["result"] == "invariant_features"]
    table = table.assign(norm=table["point"].astype(float))
    losses = {"loss": "independent", "loss_tied": "one is tied"}
    identity = table[table["quantity"].isin(losses)]
    identity = identity.assign(
        series=identity["quantity"].map(losses), ratio=identity["value"] / identity["stated"]
    )
    bits = table[table["quantity"] == "encoded"]
    names = {bit: f"invariant bit {bit:g}" for bit in sorted(bits["at"].unique())}
    series = [bits.assign(series=bits["at"].map(names))]
    for quantity, name in (
        ("spurious", "spurious, transformed"),
        ("spurious_shared", "spurious, shared by the pair"),
    ):
        series.append(table[table["quantity"] == quantity].assign(series=name))
    figure, axes = panels(1, 2, 2.8)
    left, right = axes[0]
    order = sorted(table["norm"].unique())
    styles = dict(zip(losses.values(), STYLES, strict=False))
    plot_points(left, identity, "norm", "ratio", styles, order=order)
    left.axhline(1, color=GREY, lw=0.7)
    left.set(
        xlabel="norm $B$", ylabel="sampled loss over minus the\nvariance given $z_R$, eq. (7.5)"
    )
    shown = dict(
        zip(
            [*names.values(), *(rows["series"].iloc[0] for rows in series[1:])],
            STYLES,
            strict=False,
        )
    )
    plot_lines(right, pd.concat(series), "norm", "value", shown, bounds=SHARE)
    right.set(xscale="log", xlabel="norm $B$", ylim=(-0.03, 1.03))
    right.set_xticks(order, [f"{norm:g}" for norm in order])
    right.minorticks_off()
    right.set_ylabel("squared distance by a change\nof the feature, over $4 B^2$")
    entries = {f"(a) spurious bits: {name}": look.without_line for name, look in styles.items()}
    entries |= {f"(b) {name}": look for name, look in shown.items()}
    note = f"{INTERVALS}, {seeds_of(table)}"
    return finish_figure(figure, axes.flat, entries, note, columns=3)
