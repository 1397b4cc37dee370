"""Imbalance and pruning: the synthetic experiments of the core paper, and the cross-check of the two simulators."""
