"""
Read a published table
======================

The numbers on the pages of this site are in small tables of the checkout, docs/tables. A file there
says where each table comes from.
"""

import json
from pathlib import Path

import pandas as pd
import seaborn as sns

folder = Path("../tables")
origins = json.loads((folder / "origin.json").read_text(encoding="utf-8"))
print(len(origins), "tables; paper_trends is of", origins["paper_trends"]["run"])

# %%
# Paired differences to dense training, over each block of the grid:
trends = pd.read_csv(folder / "paper_trends.csv").query(
    "metric == 'max_alignment' and paired_difference.notna()"
)
names = {
    "pruned_neuron": "smallest neurons",
    "oracle_all": "oracle",
    "oracle_gated": "oracle with a stop",
}
trends = trends[trends["arm"].isin(list(names))].replace({"arm": names})
ax = sns.scatterplot(trends, x="paired_difference", y="arm", hue="sigma", palette="viridis")
ax.hlines(trends["arm"], trends["paired_ci_low"], trends["paired_ci_high"], color="0.5", zorder=0)
ax.axvline(0, color="0.7", lw=0.8)
ax.set(xlabel="largest cosine with the rare feature, minus dense", ylabel="mask")
ax.get_legend().set_title("noise σ")
ax.figure.set_size_inches(6, 2.6)
ax.figure.tight_layout()

# %%
# The masks that know the rare feature's neurons (oracles) raise the cosine by some thousandths, and
# pruning by the norm lowers it by as much.
#
# `rarefeat.read_table("results", "paper_trends")` reads that of your own run, and checks it.
