"""Thresholds of the figures and definitions of imbalance_and_pruning, and our own."""

ALIGNED_COSINE = 0.3
"""Absolute cosine from which a neuron is aligned with a feature, as in Figure 1."""
PURE_COSINE = 0.9
"""Absolute cosine above which a neuron is pure in a feature."""
HALF_LEARNED = 0.5
"""Absolute cosine of the best neuron from which a feature counts as learned."""
GAMMA = 0.01
"""gamma of eq. (28), "a small constant"."""
DIVERGED_LOSS_RATIO = 2.0
"""Loss in units of log K above which a training has diverged."""
