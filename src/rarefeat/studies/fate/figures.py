"""The figure of the fate over time."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.run.job import Job
from rarefeat.studies.fate.config import AXES

PANELS = {
    "(a) by training pairs": ({"study": ["reuse"]}, "N"),
    "(b) without ties or noise": ({"study": ["untied", "noiseless"]}, "latents"),
    "(c) more frequent": ({"study": ["leak", "leak_noiseless"]}, "N"),
    "(d) stronger decay, or rarer": ({"study": ["strong", "rarest"]}, "eps_min"),
}


def fate_over_time(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Shares with exact intervals against step, a panel for each question."""
    table = tables["fate_shares"]
    drawn = Figure(figsize=(11, 3.2), layout="constrained")
    axes = drawn.subplots(1, len(PANELS), sharey=True)
    for ax, (title, (where, _)) in zip(axes, PANELS.items(), strict=True):
        for cell, part in table[table["study"].isin(where["study"])].groupby(["study", *AXES]):
            ax.plot(part["step"], part["learned_share"], label=named(dict(zip(["study", *AXES], cell, strict=True))))
            ax.fill_between(part["step"], part["ci_low"], part["ci_high"], alpha=0.15, linewidth=0)
        ax.set(xscale="log", xlim=(100, None), ylim=(-0.02, 1.02), xlabel="training step", title=title)
        if ax.has_data():
            ax.legend(fontsize=6)
    axes[0].set_ylabel("share of replicas that have learned")
    return drawn


def named(cell: Mapping[str, object]) -> str:
    """A point, in a few words."""
    pairs = f"N = {cell['N']:,}" if cell["N"] else "fresh"
    others = "" if cell["latents"] == "plain" else f", {cell['latents']}"
    return f"eps {cell['eps_min']:g}, lambda {cell['lambda']:g}, {pairs}{others}{'' if cell['sigma'] else ', no noise'}"
