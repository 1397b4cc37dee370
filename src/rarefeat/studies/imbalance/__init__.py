"""Imbalance and pruning: synthetic experiments of the core paper, and a cross-check."""
