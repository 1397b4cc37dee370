"""The parts every study shares: data, encoder, objective, masks, neuron sets, probe. Pure functions on tensors.

Axes, in this order, in every docstring: S replicas (one per seed), n samples, 2 views, L tokens, d1 inputs; m neurons and
d features.
"""
