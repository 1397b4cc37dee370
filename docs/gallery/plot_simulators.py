"""
The reduced simulator against the direct one
============================================

The direct simulator draws every token in R^d1. The reduced one has the same distribution, at a cost
that does not depend on d1.
"""

import time

import rarefeat

started = time.monotonic()
for simulator in ("reduced", "direct"):
    rarefeat.train(simulator=simulator, T=100, progress=False)
    print(f"{simulator}: {time.monotonic() - started:.1f} s")
    started = time.monotonic()

# %%
# The same training with both:
runs = rarefeat.sweep(
    eps_min=[0.3, 1.0], simulator=["reduced", "direct"], seed=range(6), T=100, progress=False
)
runs.plot("max_alignment", hue="simulator")

# %%
# The draws differ, and the means agree within their intervals.
