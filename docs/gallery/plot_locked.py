"""
At once or locked out
=====================

A rare feature at half the others' frequency: some seeds learn it early, some late or not within these steps. A line is a seed.
"""

import seaborn as sns

import rarefeat

found = rarefeat.sweep(eps_min=0.5, T=400, seed=range(12), progress=False)
rows = found.trajectories.query("metric == 'max_alignment'")
ax = sns.lineplot(
    rows, x="step", y="value", units="seed", estimator=None, color="0.3", linewidth=0.8
)
ax.set(xlabel="training step", ylabel="largest |cos| with the rare feature", ylim=(0, 1.03))

# %%
# Of these seeds, the share that has a neuron of the rare feature in the end:
print((found.table["max_alignment"] > 0.9).mean())
