"""The figure of the toy study."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job


def learning_curve(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Accuracy against samples, mean over seeds with its 95 % interval, a line for each study."""
    figure, ax = plt.subplots(figsize=(3.3, 2.4))
    for name, table in tables.items():
        rows = pd.DataFrame(
            {samples: student_interval(part["accuracy"].to_numpy()) for samples, part in table.groupby("samples")},
            index=["mean", "sd", "low", "high", "n"],
        ).T
        half = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
        label = f"{name.removesuffix('_accuracy')} ({rows['n'].max():.0f} seeds)"
        ax.errorbar(rows.index, rows["mean"], yerr=half, marker="o", capsize=2, label=label)
    ax.set(xscale="log", xlabel="number of samples", ylabel="test accuracy")
    ax.legend(frameon=False)
    return figure
