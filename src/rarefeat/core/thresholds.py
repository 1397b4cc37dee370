"""Thresholds by which the papers' figures and definitions count."""

ALIGNED_COSINE = 0.3
"""Absolute cosine from which a neuron is aligned with a feature (imbalance_and_pruning, Figure 1)."""
PURE_COSINE = 0.9
"""Absolute cosine above which it is pure in it; a feature is learned where its best neuron is."""
HALF_LEARNED = 0.5
"""Absolute cosine from which the stored columns `learned` and `learned_at` count."""
GAMMA = 0.01
"""gamma of eq. (28), "a small constant"."""
DIVERGED_LOSS_RATIO = 2.0
"""log K times this is the loss above which a training has diverged."""
