"""Findings of the study of long-tailed images."""

from collections.abc import Mapping

import pandas as pd

from answers.words import (
    count_text,
    enumerate_words,
)
from rarefeat.figures.labels import arm_name
from rarefeat.studies.long_tail.config import LongTail
from rarefeat.studies.long_tail.paper_values import printed_gain
from rarefeat.workflow.files.markdown import interval, records, select_rows

TABLES = ("table2",)


def findings(section: LongTail, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say how often pruning gains or loses accuracy on each data set, and the best method.

    Gains and losses are those whose interval of the paired difference leaves zero.
    """
    accuracy = select_rows(tables["table2"], metric="accuracy", split="long_tailed")
    sentences = []
    for name, rows in accuracy.groupby("dataset", sort=False):
        pruned, dense = rows[rows["alpha"] > 0], select_rows(rows, arm="dense")
        gains, losses = (
            int((pruned["paired_ci_low"] > 0).sum()),
            int((pruned["paired_ci_high"] < 0).sum()),
        )
        sentence = (
            f"On {name} ({count_text(int(rows['n'].max()), 'run')} each) a linear probe on dense"
            f" features is right on {100 * dense['mean'].min():.1f} to"
            f" {100 * dense['mean'].max():.1f} % of the test images. Of {len(pruned)} comparisons"
            f" of a pruned network with it, {gains or 'none'} {'shows' if gains < 2 else 'show'} a"
            f" gain and {losses or 'none'} {'shows' if losses < 2 else 'show'} a loss."
        )
        if len(pruned):
            best = max(records(pruned), key=lambda row: row["paired_difference"])
            sentence += (
                f" The best is {arm_name(best['arm'])} at ρ = {best['rho']:g}:"
                f" {interval(best, 'paired_difference', 1, '+', 100)} points."
            )
        resampled = records(select_rows(rows, arm="resampled").sort_values("rho"))
        if resampled:
            sentence += " Batches that the labels balance change it by "
            sentence += enumerate_words(
                f"{interval(row, 'paired_difference', 1, '+', 100)} points at ρ = {row['rho']:g}"
                for row in resampled
            )
            sentence += "."
        table2 = section.studies[name].table2 if section else ""
        printed = {rho: printed_gain(table2, rho) for rho in sorted(set(rows["rho"]))}
        printed = {rho: gain for rho, gain in printed.items() if gain == gain}
        if printed:
            sentence += (
                " The paper prints "
                + ", ".join(f"{gain:+g} at ρ = {rho:g}" for rho, gain in printed.items())
                + "."
            )
        sentences.append(sentence)
    return sentences
