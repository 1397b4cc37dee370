"""
Predict the step, and see
=========================

A law with two fitted constants says at which frequency half of the seeds learn the rare feature, here beside trainings.
"""

from pathlib import Path

import pandas as pd

import rarefeat

# The constants as they were published, of a checkout's docs/tables.
constants = pd.read_csv(Path("../tables/selection_law_constants.csv")).iloc[0]
print(constants)

# %%
# The dashed line is the prediction, the marks are the share of the seeds that learned the feature.
predicted = rarefeat.predict_step(constants["kappa"], constants["gamma"])
found = rarefeat.sweep(eps_min=[0.3, 0.4, 0.5, 0.6, 0.7], seed=range(8), progress=False)
learned = (
    found.table.assign(learned=found.table["max_alignment"] > 0.9)
    .groupby("eps_min")["learned"]
    .mean()
)
ax = learned.plot(marker="o", xlabel="eps_min", ylabel="share of seeds that learn it")
ax.axvline(predicted, color="k", ls="--")
