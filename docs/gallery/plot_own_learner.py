"""
A row of the table of learners
==============================

From which frequency on does your own loss learn the rare feature, and what does it keep of a feature
that it never sees? One call measures a row of the [table of learners](../studies/learners.md).
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import normalize

import rarefeat


def decoupled(f_x, f_y, tau=0.5):
    """Decoupled contrastive loss (Yeh et al. 2022)."""
    logits = normalize(f_x, dim=-1) @ normalize(f_y, dim=-1).mT / tau
    itself = torch.eye(len(f_x), dtype=torch.bool)
    return (logits.masked_fill(itself, -torch.inf).logsumexp(-1) - logits.diagonal()).mean()


# %%
# The setting of the study, with fewer seeds and frequencies. The first row is the paper's learner.
setting = {"sigma": 0.14, "d1": 64, "sigma_0": 0.014, "bias": {"T1": 50}, "T": 300, "eta": 0.3}
rows = rarefeat.critical_frequency(
    [0.1, 0.2, 0.3, 0.5], seed=range(5), loss=["infonce", decoupled], progress=False, **setting
)
print(rows[["loss", "n", "frequency", "ci_low", "ci_high", "bound", "kept"]].to_string(index=False))

# %%
# The frequency from which half of the seeds learn the feature; intervals end at frequencies that were
# tried, and half of the seeds or more learn it at the lowest one where `bound` is "at most".
figure, ax = plt.subplots(figsize=(4.3, 1.6), layout="constrained")
ax.hlines(rows["loss"], rows["ci_low"], rows["ci_high"], color="black")
ax.plot(rows["frequency"], rows["loss"], "o", color="black")
ax.set(xlim=(0, 0.5), xlabel="learned from this relative frequency on")
ax.margins(y=0.4)

# %%
# At this rate and temperature the decoupled loss learns the feature at the lowest frequency tried,
# and keeps all that random weights hold of a feature that never occurs; the paper's learner erases it.
