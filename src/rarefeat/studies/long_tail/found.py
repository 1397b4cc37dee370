"""What the report's first page says of this kind of study, from the tables of its run."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.studies.long_tail.config import LongTail

TABLES = ("longtail_summary",)


def found(section: LongTail, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Of each study in how many arms and ratios pruning gains or loses accuracy, by the interval of the paired difference."""
    (summary,) = tables.values()
    chosen = summary[(summary["probe"] == "balanced") & (summary["metric"] == "accuracy") & (summary["split"] == "long_tailed")]
    lines = []
    for name, study in section.studies.items():
        part = chosen[(chosen["dataset"] == name) & (chosen["arm"] != "dense")]
        dense = chosen[(chosen["dataset"] == name) & (chosen["arm"] == "dense")]["mean"]
        gains, losses = int((part["paired_ci_low"] > 0).sum()), int((part["paired_ci_high"] < 0).sum())
        lines.append(
            f"{name}, {study.in_words}: a linear probe on dense features is right on {100 * dense.min():.1f} to"
            f" {100 * dense.max():.1f} %; of {len(part)} pruned arms and ratios {gains} have an interval of their gain above"
            f" zero, {losses} below."
        )
    return lines
