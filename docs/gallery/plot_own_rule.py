"""
A pruning rule of your own
==========================

The neurons whose embeddings agree least over positive pairs, against dense training and against as many neurons at random.
"""

import torch

import rarefeat
from rarefeat.core.pruning import mask_smallest


def disagreeing(seen: rarefeat.Seen) -> torch.Tensor:
    """The share alpha of the neurons with the smallest agreement E h(X) h(Y)."""
    return mask_smallest(seen.moments.agreement, seen.alpha)


# %%
# A rule returns what it prunes at a step, bool (S, m) for S replicas of m neurons. All seeds train at once.
found = rarefeat.sweep(
    eps_min=[0.3, 0.5, 0.7],
    arm=["dense", "random_neuron", disagreeing],
    alpha=0.2,
    seed=range(10),
    progress=False,
)

# %%
# Means and 95 % intervals. What a mask adds is the difference to dense at the same seed:
found.plot("max_alignment")

# %%
summary = found.summary().query("metric == 'max_alignment' and arm != 'dense'")
print(
    summary[["eps_min", "arm", "paired_difference", "paired_ci_low", "paired_ci_high"]].to_string(
        index=False
    )
)
