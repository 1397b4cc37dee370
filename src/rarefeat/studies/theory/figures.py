"""Minority alignment over training, and which neurons magnitude pruning takes, as maps."""

import math
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from rarefeat.config.study import Study
from rarefeat.core.theory import stage1_growth
from rarefeat.run.job import Job
from rarefeat.studies.theory.config import TheoryStudy

Tables = Mapping[str, pd.DataFrame]
EPS = r"frequency ratio $\varepsilon_{\min}/\varepsilon_{\max}$"


def of_studies(tables: Tables, job: Job) -> list[tuple[Study, pd.DataFrame]]:
    """Each table with its study, in order."""
    return list(zip(job.part("studies", dict[str, TheoryStudy]).values(), tables.values(), strict=True))


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


def phase(tables: Tables, job: Job) -> Figure:
    """Mean max_alignment over step and eps_min, a panel for each study, with the predicted onset drawn in."""
    figure, axes = plt.subplots(2, 2, figsize=(7.2, 5.2), sharex=True, sharey=True)
    for ax, (study, table) in zip(axes.flat, of_studies(tables, job), strict=True):
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


def overlap(tables: Tables, job: Job) -> Figure:
    """Share of the neurons of smallest norm that are aligned with the minority feature, over training step and pruning ratio.

    A line of panels for each study, a panel for each eps_min.
    """
    levels = sorted(next(iter(tables.values()))["eps_min"].unique())
    size = (1.5 * len(levels) + 1.0, 1.5 * len(tables) + 0.6)
    figure, axes = plt.subplots(len(tables), len(levels), figsize=size, sharex=True, sharey=True, squeeze=False)
    for line, (study, table) in zip(axes, of_studies(tables, job), strict=True):
        for ax, eps_min in zip(line, levels, strict=True):
            part = table[(table["eps_min"] == eps_min) & (table["step"] > 0)]
            wide = part.pivot(index="alpha", columns="step", values="overlap")
            mesh = ax.pcolormesh(wide.columns, wide.index, wide, cmap="cividis", vmin=0, vmax=1, rasterized=True)
            lambda_ = study.training.lambda_
            ax.set_title(rf"$\lambda$ = {lambda_:g}, $\varepsilon$ ratio {eps_min:g}", fontsize=6)
            ax.set(xscale="log")
            ax.tick_params(labelsize=6)
        line[0].set_ylabel(r"pruning ratio $\alpha$", fontsize=7)
    for ax in axes[-1]:
        ax.set_xlabel("training step $t$", fontsize=7)
    figure.tight_layout()
    figure.colorbar(mesh, ax=axes, label="mean share of the smallest neurons\naligned with the minority feature")
    return figure
