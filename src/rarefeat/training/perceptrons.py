"""Perceptrons of S replicas at once, whose numbers do not depend on the other replicas."""

import itertools
import math

import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.model.batch_invariant import matmul
from rarefeat.model.randomness import draw

Parameters = list[Tensor]
"""Weights (S, in, out) and biases (S, 1, out) of each layer in turn."""


def initial_parameters(sizes: list[int], generators: list[torch.Generator]) -> Parameters:
    """Draw He's normal weights, one generator for each replica; biases are 0."""
    parameters = []
    for n_in, n_out in itertools.pairwise(sizes):
        weights = draw(torch.randn, generators, n_in, n_out) * math.sqrt(2 / n_in)
        parameters += [weights, torch.zeros(len(generators), 1, n_out)]
    return parameters


def forward(parameters: Parameters, x: Float[Tensor, "S n in"]) -> Float[Tensor, "S n out"]:
    """Compute the outputs, with ReLU between layers."""
    *inner, (weights, bias) = zip(parameters[::2], parameters[1::2], strict=True)
    for layer_weights, layer_bias in inner:
        x = torch.relu(matmul(x, layer_weights) + layer_bias)
    return matmul(x, weights) + bias
