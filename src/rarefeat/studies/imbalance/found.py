"""What the report's first page says of this kind of study, from the tables of its run."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.markdown import interval
from rarefeat.studies.imbalance.config import Imbalance

TABLES = ("paper_summary", "paper_trends")
BLOCK, METRIC = "arms", "max_alignment"


def found(section: Imbalance, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The best neuron's alignment with the rare feature, dense, at both ends of the block of all arms; what masks change."""
    summary, trends = tables.values()
    study = section.studies["paper"]
    sigma = study.grid[BLOCK].sigma[0]
    at = summary[(summary["metric"] == METRIC) & (summary["arm"] == "dense") & (summary["sigma"] == sigma)]
    at = at[at["eps_min"].isin(study.grid[BLOCK].eps_min)].set_index("eps_min").sort_index()
    ends = [
        f"{interval(row['mean'], row.ci_low, row.ci_high)} at eps_min = {eps_min:g}"
        for eps_min, row in at.iloc[[0, -1]].iterrows()
    ]
    block = study.of_block(BLOCK)
    lines = [f"{block.in_words}. The best neuron's cosine with the rare feature is {' and '.join(ends)} in dense training."]
    arms = trends[(trends["grid"] == BLOCK) & (trends["metric"] == METRIC) & (trends["sigma"] == sigma)]
    arms = arms[arms["paired_difference"].notna()]
    changes = [
        f"{row.arm} by {interval(row.paired_difference, row.paired_ci_low, row.paired_ci_high)}" for row in arms.itertuples()
    ]
    if changes:
        lines.append(f"Masks change it, seed by seed and over all frequencies: {', '.join(changes)}.")
    return lines
