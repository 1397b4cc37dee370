"""
The course of a neuron
======================

What one neuron does with every feature while the encoder is trained: at first it takes up all of them, then one.
"""

import rarefeat

encoder = rarefeat.train(eps_min=1.0, T=300, history=True, progress=False)
best = int(encoder.cosines[:, encoder.rare_features[0]].argmax())
encoder.plot(neuron=best)

# %%
# With a history, a table has its projections on all features, its norm and its bias at the recorded steps:
print(encoder.neuron_history(best)[[0, *encoder.rare_features, "norm", "bias"]].iloc[::6].round(3))
