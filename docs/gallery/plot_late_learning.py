"""
Learned early, late or never
============================

A rare feature at half the frequency of the others. Some seeds learn it early, some late, some not
within these steps. A line is a seed.
"""

import seaborn as sns

import rarefeat

runs = rarefeat.sweep(eps_min=0.5, T=400, seed=range(12), progress=False)
rows = runs.trajectories.query("metric == 'max_alignment'")
ax = sns.lineplot(
    rows, x="step", y="value", units="seed", estimator=None, color="0.3", linewidth=0.8
)
ax.set(xlabel="training step", ylabel="largest |cos| with the rare feature", ylim=(0, 1.03))

# %%
# The fraction of these seeds that has learned the rare feature in the end:
print((runs.table["max_alignment"] >= 0.5).mean())

# %%
# The lines part. Some rise within 150 steps, some only towards the end, and the others stay where a
# random neuron is.
