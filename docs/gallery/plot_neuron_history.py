"""
The history of a neuron
=======================

At first a neuron takes up all features, then one. Its cosine with each feature, while the encoder
is trained.
"""

import rarefeat

encoder = rarefeat.train(eps_min=1.0, T=300, history=True, progress=False)
best = int(encoder.cosines[:, encoder.rare_features[0]].argmax())
ax = encoder.plot(neuron=best)
ax.set_ylabel("|cos| of the neuron with a feature")

# %%
# A table has its projections on all features, its norm and its bias at the recorded steps:
print(encoder.neuron_history(best)[[0, *encoder.rare_features, "norm", "bias"]].iloc[::6].round(3))

# %%
# All cosines rise at first. After about fifty steps the neuron keeps one feature, and lets go of the
# others.
