"""
The history of a neuron
=======================

At first a neuron takes up all features, then one. Its cosine with each feature, while the encoder
is trained.
"""

import rarefeat

encoder = rarefeat.train(eps_min=1.0, T=300, history=True, progress=False)
best = int(encoder.cosines[:, encoder.rare_features[0]].argmax())
encoder.plot(neuron=best)

# %%
# A table has its projections on all features, its norm and its bias at the recorded steps:
print(encoder.neuron_history(best)[[0, *encoder.rare_features, "norm", "bias"]].iloc[::6].round(3))
