"""Stage 5 of the claims: minority alignment over training, and what magnitude pruning changes, as maps."""

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from rarefeat.claims.pruning import gains
from rarefeat.command import run, section
from rarefeat.config import Claims, Study
from rarefeat.core.statistics import student_interval
from rarefeat.core.theory import stage1_growth
from rarefeat.drawing import save
from rarefeat.figures import CLAIMS_MAPS
from rarefeat.files import read_table

EPS = r"frequency ratio $\varepsilon_{\min}/\varepsilon_{\max}$"


def onset(study: Study, eps_min: float, sigma: float) -> float:
    """Predicted step at which the minority feature takes off; infinite where it does not grow in stage 1.

    The strongest of m Gaussian neurons starts at sigma_0 sqrt(2 log m) and grows by the closed form of stage 1 until its
    projection is as large as the whole neuron was at first, sigma_0 sqrt(d1).
    """
    data, training = study.data, study.training
    eps = torch.full((data.d,), eps_min, dtype=torch.float64)
    rates = training.K, training.tau, training.eta, training.lambda_
    growth = stage1_growth(eps, data.C, data.L, sigma**2 * data.d1, *rates)[-1].item()
    if growth <= 1:
        return math.inf
    return math.log(math.sqrt(data.d1 / (2 * math.log(training.m)))) / math.log(growth)


def phase(claims: Claims, tables: dict[str, pd.DataFrame]) -> Figure:
    """Mean max_alignment over step and eps_min, a panel for each study, with the predicted onset drawn in."""
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.2), sharex=True, sharey=True)
    for ax, (name, table) in zip(axes.flat, tables.items(), strict=True):
        study = claims.studies[name]
        chosen = table[(table["metric"] == "max_alignment") & (table["step"] > 0)]
        wide = chosen.pivot_table(index="eps_min", columns="step", values="value")
        mesh = ax.pcolormesh(wide.columns, wide.index, wide, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True)
        low, high = ax.get_ylim()
        eps = np.linspace(wide.index.min(), wide.index.max(), 200)
        predicted = [onset(study, value, chosen["sigma"].iloc[0]) for value in eps]
        ax.plot(predicted, eps, color="white", ls="--", lw=1.5, label="predicted onset of stage 1")
        training = study.training
        bias = f"bias share {training.bias.share:g}" if training.bias.share else "no bias"
        ax.set(xscale="log", xlim=(1, wide.columns.max()), ylim=(low, high), title=rf"$\lambda$ = {training.lambda_:g}, {bias}")
    for ax in axes[1]:
        ax.set_xlabel("training step $t$")
    for ax in axes[:, 0]:
        ax.set_ylabel(EPS)
    axes[0, 0].legend(fontsize=6, loc="lower left", facecolor="0.3", labelcolor="white")
    figure.tight_layout()
    figure.colorbar(mesh, ax=axes, label=r"mean $\max_i\ |\cos(w_i, M_{j^\star})|$")
    return figure


def pruning(claims: Claims, tables: dict[str, pd.DataFrame]) -> Figure:
    """Paired gain in max_alignment against dense by ratio and onset; a dot where its 95 % interval holds 0."""
    differences = gains(tables["pruning"]).reset_index()
    seeds = [column for column in differences.columns if isinstance(column, int)]
    intervals = [student_interval(values) for values in differences[seeds].to_numpy()]
    differences["mean"] = [interval[0] for interval in intervals]
    differences["unsure"] = [interval[2] <= 0 <= interval[3] for interval in intervals]
    updates, levels = sorted(differences["pruned_update"].unique(), reverse=True), sorted(differences["eps_min"].unique())
    reach = max(differences["mean"].abs().max(), 1e-9)
    figure, axes = plt.subplots(len(updates), len(levels), figsize=(7.6, 4.6), sharex=True, sharey=True, squeeze=False)
    for line, update in zip(axes, updates, strict=True):
        for ax, eps_min in zip(line, levels, strict=True):
            part = differences[(differences["pruned_update"] == update) & (differences["eps_min"] == eps_min)]
            wide = part.pivot(index="onset", columns="alpha", values="mean")
            mesh = ax.imshow(wide, cmap="PuOr", vmin=-reach, vmax=reach, aspect="auto", origin="lower")
            unsure = part.pivot(index="onset", columns="alpha", values="unsure").to_numpy().astype(bool)
            for (row, column), value in np.ndenumerate(wide.to_numpy()):
                text = f"{value:+.2f}" + ("\n(n.s.)" if unsure[row, column] else "")
                ax.text(column, row, text, ha="center", va="center", fontsize=5)
            ax.set_title(rf"{update}, $\varepsilon$ ratio {eps_min:g}", fontsize=7)
            ax.set_xticks(range(wide.shape[1]), [f"{alpha:g}" for alpha in wide.columns], fontsize=6)
            ax.set_yticks(range(wide.shape[0]), wide.index, fontsize=6)
    for ax in axes[-1]:
        ax.set_xlabel(r"pruning ratio $\alpha$", fontsize=7)
    for ax in axes[:, 0]:
        ax.set_ylabel("onset (step)", fontsize=7)
    figure.tight_layout()
    figure.colorbar(mesh, ax=axes, label=r"change of $\max_i\ |\cos(w_i, M_{j^\star})|$")
    return figure


def overlap(claims: Claims, tables: dict[str, pd.DataFrame]) -> Figure:
    """Share of the neurons of smallest norm that are aligned with the minority feature, over training step and pruning ratio.

    A line of panels for each study, a panel for each eps_min.
    """
    levels = sorted(next(iter(tables.values()))["eps_min"].unique())
    size = (1.5 * len(levels) + 1.0, 1.5 * len(tables) + 0.6)
    figure, axes = plt.subplots(len(tables), len(levels), figsize=size, sharex=True, sharey=True, squeeze=False)
    for line, (name, table) in zip(axes, tables.items(), strict=True):
        for ax, eps_min in zip(line, levels, strict=True):
            part = table[(table["eps_min"] == eps_min) & (table["step"] > 0)]
            wide = part.pivot(index="alpha", columns="step", values="overlap")
            mesh = ax.pcolormesh(wide.columns, wide.index, wide, cmap="cividis", vmin=0, vmax=1, rasterized=True)
            lambda_ = claims.studies[name].training.lambda_
            ax.set_title(rf"$\lambda$ = {lambda_:g}, $\varepsilon$ ratio {eps_min:g}", fontsize=6)
            ax.set(xscale="log")
            ax.tick_params(labelsize=6)
        line[0].set_ylabel(r"pruning ratio $\alpha$", fontsize=7)
    for ax in axes[-1]:
        ax.set_xlabel("training step $t$", fontsize=7)
    figure.tight_layout()
    figure.colorbar(mesh, ax=axes, label="mean share of the smallest neurons\naligned with the minority feature")
    return figure


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("map", choices=list(CLAIMS_MAPS))
    parser.add_argument("--claims", type=section(Claims), required=True, help="the section `claims`, as YAML or JSON")
    parser.add_argument("--tables", nargs="+", type=Path, required=True, help="the tables of its studies, STUDY_KIND.parquet")
    parser.add_argument("--output", nargs="+", type=Path, required=True, help="files to write; the suffix says the format")
    args = parser.parse_args()
    kind = CLAIMS_MAPS[args.map][0]
    tables = {path.name.removesuffix(f"_{kind}.parquet"): read_table(path).to_pandas() for path in args.tables}
    figure = {"phase": phase, "pruning": pruning, "overlap": overlap}[args.map](args.claims, tables)
    save(figure, args.output, "claims_map", args.tables)


if __name__ == "__main__":
    run(main)
