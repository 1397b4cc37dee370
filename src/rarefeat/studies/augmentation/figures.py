"""What neurons become along the dial of augmentations, and under a rare feature."""

import math
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job

MARKERS = "osD^vPX*<>"
DIAL = (
    "random_mask",
    "mask=0.25",
    "mask=0.1",
    "independent_noise",
    "rho=0.5",
    "rho=0.9",
    "identical",
    "identical_without_bias",
)


def styles(names: list[str]) -> dict[str, tuple]:
    """Colour and marker of each name: dark to light, so that order survives greyscale."""
    return dict(zip(names, zip(sns.color_palette("cividis", len(names)), MARKERS, strict=False), strict=True))


def means(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Mean over seeds with its 95 % interval, a row for each value of `by`."""
    rows = [(key, *student_interval(part["value"].to_numpy())) for key, part in table.groupby(by)]
    return pd.DataFrame(rows, columns=[by, "mean", "sd", "low", "high", "n"]).set_index(by)


def band(ax: plt.Axes, course: pd.DataFrame, style: tuple, label: str) -> None:
    """A course over steps with its interval."""
    found = means(course[course["step"] > 0], "step")
    ax.plot(found.index, found["mean"], color=style[0], marker=style[1], ms=3, markevery=3, lw=1, label=label.replace("_", " "))
    ax.fill_between(found.index, found["low"], found["high"], color=style[0], alpha=0.2, lw=0)


def augmentation_stages(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Over training: features and colour in the weights, a learned bias; and at its end heads against the number of labels."""
    final, course, _neurons, _embedding = tables.values()
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 6.0))
    pairs = ["random_mask", "independent_noise", "identical", "identical_without_bias"]
    colours = ["colour_identical", "colour_mask", "colour_mask_and_redrawn"]
    learned = [f"{name}_learned_bias" for name in ("random_mask", "independent_noise", "identical")]
    for ax, names, metric, label in (
        (axes[0, 0], pairs, "share_features", r"share of $\|w_i\|^2$ in span$(M)$"),
        (axes[0, 1], colours, "share_colour", r"share of $\|w_i\|^2$ in the colour's span"),
        (axes[1, 0], learned, "bias_share", r"learned bias, mean $b_i/\|w_i\|$"),
    ):
        names = [name for name in names if name in set(course["study"])]
        style = styles(names)
        for name in names:
            band(ax, course[(course["study"] == name) & (course["metric"] == metric)], style[name], name)
        ax.set(xscale="log", xlabel="training step $t$", ylabel=label)
        if names:
            ax.legend(fontsize=6)
    axes[1, 0].axhline(0, color="0.5", lw=0.8)
    heads = final[final["metric"] == "regression_error"]
    lines = {
        name: heads[(heads["study"] == name) & (heads["encoder"] == "trained")] for name in pairs if name in set(heads["study"])
    }
    lines |= {name: heads[heads["encoder"] == name] for name in ("raw", "oracle")}
    style = styles(list(lines))
    for name, part in lines.items():
        found = means(part, "labels")
        spread = [found["mean"] - found["low"], found["high"] - found["mean"]]
        axes[1, 1].errorbar(
            found.index, found["mean"], yerr=spread, color=style[name][0], marker=style[name][1], ms=4, lw=1, capsize=2,
            ls="--" if name in ("raw", "oracle") else "-", label=name.replace("_", " "),
        )  # fmt: skip
    # Heads that no label saw most features of may be worse than the mean by any factor: what is above 2 is cut.
    axes[1, 1].set(xscale="log", ylim=(0, 2), xlabel="labels $n$", ylabel="test MSE / variance of the label")
    axes[1, 1].set_xticks(sorted(heads["labels"].unique()), sorted(heads["labels"].unique()))
    axes[1, 1].minorticks_off()
    axes[1, 1].legend(fontsize=6)
    figure.tight_layout()
    return figure


def augmentation_dial(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The end of training by kind of pair: neurons, coverage, activity, and what noise does."""
    final, _course, _neurons, _embedding = tables.values()
    shown = {
        "singletons": "singletons",
        "covered_features": "share of features with a singleton",
        "features_per_neuron": "features per neuron",
        "activity": r"$\Pr(h_i(x) \neq 0)$",
        "noise_cosine": r"$\cos(f(x), f(\xi))$",
        "noise_left": r"$\|f(x) - f(Mz)\|\,/\,\|f(Mz)\|$",
    }
    names = [name for name in DIAL if name in set(final["study"])]
    figure, axes = plt.subplots(2, 3, figsize=(7.6, 5.2), sharey=True)
    for ax, (metric, label) in zip(axes.flat, shown.items(), strict=True):
        part = final[(final["metric"] == metric) & (final["encoder"] == "trained") & (final["study"].isin(names))]
        found = means(part, "study").reindex(names)
        spread = [found["mean"] - found["low"], found["high"] - found["mean"]]
        ax.errorbar(
            found["mean"], range(len(names)), xerr=spread, fmt="o", color=sns.color_palette("cividis", 3)[0], ms=4, capsize=2
        )
        oracle = final[(final["metric"] == metric) & (final["encoder"] == "oracle")]["value"]
        if len(oracle):
            ax.axvline(oracle.mean(), color="0.5", ls="--", lw=1)
        ax.set_xlabel(label, fontsize=8)
        ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], fontsize=7)
    axes[0, 0].invert_yaxis()
    figure.tight_layout()
    return figure


def augmentation_imbalance(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """The fate of a rare feature under a mask and under noise of its own, with and without a bias, by arm."""
    final, _course, _neurons, _embedding = tables.values()
    names = [f"imbalance_{pair}{bias}" for bias in ("", "_without_bias") for pair in ("random_mask", "independent_noise")]
    studies = [name for name in names if name in set(final["study"])]
    chosen = final[final["study"].isin(studies) & (final["encoder"] == "trained")]
    arms = sorted(chosen["arm"].unique())
    style = styles(arms)
    rows = math.ceil(len(studies) / 2)
    figure, axes = plt.subplots(rows, 2, figsize=(7.2, 0.4 + 2.6 * rows), sharex=True, sharey=True, squeeze=False)
    for ax, study in zip(axes.flat, studies, strict=False):
        for index, arm in enumerate(arms):
            part = chosen[(chosen["study"] == study) & (chosen["arm"] == arm) & (chosen["metric"] == "minority_alignment")]
            found = means(part, "eps_min")
            spread = [found["mean"] - found["low"], found["high"] - found["mean"]]
            x = found.index + 0.01 * (index - 1)
            colour, marker = style[arm]
            ax.errorbar(
                x, found["mean"], yerr=spread, color=colour, marker=marker, ms=4, lw=1, capsize=2, label=arm.replace("_", " ")
            )
        ax.set_title(study.removeprefix("imbalance_").replace("_", " "), fontsize=9)
    for ax in axes.flat[len(studies) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel(r"frequency ratio $\varepsilon_{\min}/\varepsilon_{\max}$")
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\max_i\ |\cos(w_i, M_{j^\star})|$")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def augmentation_representations(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """How often neurons fire, and where samples with one feature lie: Wen & Li's Figures 3 and 4 on synthetic data."""
    _final, _course, neurons, embedding = tables.values()
    wanted = ("identical_without_bias", "random_mask_without_bias", "identical", "independent_noise", "random_mask")
    names = [(name, "trained") for name in wanted if name in set(neurons["study"])]
    names += [(name, "supervised") for name in neurons[neurons["encoder"] == "supervised"]["study"].unique()]
    figure, axes = plt.subplots(2, len(names), figsize=(1.5 * len(names) + 0.6, 3.8), squeeze=False)
    bins = np.linspace(0, 1, 26)
    for (top, bottom), (name, encoder) in zip(axes.T, names, strict=True):
        chosen = neurons[(neurons["study"] == name) & (neurons["encoder"] == encoder)]
        rates = [part["activity"].to_numpy() for _, part in chosen.groupby("seed")]
        counts = np.array([np.histogram(part, bins)[0] / len(part) for part in rates])
        top.stairs(counts.mean(0), bins, color="0.2", fill=True, alpha=0.4)
        half = [student_interval(column)[3] - column.mean() for column in counts.T]
        top.errorbar((bins[1:] + bins[:-1]) / 2, counts.mean(0), yerr=half, fmt="none", ecolor="0.2", lw=0.8)
        top.set_title("supervised" if encoder == "supervised" else name.replace("_", " "), fontsize=7)
        top.set_xlabel(r"$\Pr(h_i(x) \neq 0)$", fontsize=7)
        # A few features are told apart by colour and marker; all of them would be a cloud.
        part = embedding[(embedding["study"] == name) & (embedding["encoder"] == encoder)]
        shown = sorted(part["feature"].unique())[:5]
        rest = part[~part["feature"].isin(shown)]
        bottom.scatter(rest["x"], rest["y"], s=2, color="0.85")
        for feature, colour, marker in zip(shown, sns.color_palette("cividis", len(shown)), MARKERS, strict=False):
            of = part[part["feature"] == feature]
            bottom.scatter(of["x"], of["y"], s=8, color=colour, marker=marker)
        bottom.set_xlabel("first component of $f(x)$", fontsize=7)
    axes[0, 0].set_ylabel("share of neurons", fontsize=7)
    axes[1, 0].set_ylabel("second component", fontsize=7)
    for ax in axes.flat:
        ax.tick_params(labelsize=6)
    figure.tight_layout()
    return figure
