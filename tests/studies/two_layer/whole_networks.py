"""The same methods in R^d, literally and slowly: whole networks, automatic derivatives.

The oracle of the tests.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Parameters = dict[str, Tensor]
"""w (N, d), b (N,), a (N,)."""


def network(parameters: Parameters, x: Tensor, sigma_xi: float = 0.0, nodes: int = 1) -> Tensor:
    """g(x) of eq. (2.2), (n, d) -> (n,); with noise its mean by Gauss-Hermite quadrature (2.3)."""
    z = x @ parameters["w"].T + parameters["b"]
    at, weight = map(torch.as_tensor, np.polynomial.hermite_e.hermegauss(nodes))
    h = (z[..., None] + sigma_xi * at).clamp(0, 1) @ (weight / weight.sum())
    return h @ parameters["a"]


def hinge(y: Tensor, g: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean of max(1 - y g, 0), weighed by class if asked for."""
    loss = (1 - y * g).clamp(min=0)
    return (loss if weights is None else weights * loss).mean()


def gradient(
    parameters: Parameters, x: Tensor, y: Tensor, lambda_w: float = 0.0, lambda_a: float = 0.0,
    weights: Tensor | None = None,
) -> Parameters:  # fmt: skip
    """Of the mean hinge loss with lambda_a |a|^2 + lambda_w ||w||^2."""
    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    loss = hinge(y, network(leaves, x), weights)
    loss = loss + lambda_w * leaves["w"].square().sum() + lambda_a * leaves["a"].square().sum()
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))


def update(parameters: Parameters, x: Tensor, y: Tensor, eta: float, *regulariser) -> Parameters:
    """Eq. (2.4): one step on what `gradient` has the gradient of."""
    by = gradient(parameters, x, y, *regulariser)
    return {name: value - eta * by[name] for name, value in parameters.items()}


def adam(
    parameters: Parameters, x: Tensor, y: Tensor, order: Tensor, rates: dict[str, float]
) -> Parameters:
    """Train by Adam with one second moment for each neuron's w; rates fall linearly to 0."""
    first, second = dict.fromkeys(parameters, 0.0), dict.fromkeys(parameters, 0.0)
    for t, rows in enumerate(order, start=1):
        by, after = gradient(parameters, x[rows], y[rows]), {}
        for name, part in by.items():
            first[name] = 0.9 * first[name] + 0.1 * part
            square = part.norm(dim=1, keepdim=True) ** 2 if name == "w" else part**2
            second[name] = 0.999 * second[name] + 0.001 * square
            size = (second[name] / (1 - 0.999**t)).sqrt() + 1e-12
            rate = rates[name] * (1 - (t - 1) / len(order))
            after[name] = parameters[name] - rate * first[name] / (1 - 0.9**t) / size
        parameters = after
    return parameters


def head(h: Tensor, y: Tensor, order: Tensor, rate: float, momentum: float) -> Tensor:
    """Train a linear head on features by torch's gradient with momentum, steps of 1 / E||h||^2."""
    a = torch.zeros(h.shape[1], dtype=h.dtype, requires_grad=True)
    eta = float(rate / h.square().sum(1).mean())
    optimiser = torch.optim.SGD([a], lr=eta, momentum=momentum)
    for rows in order:
        optimiser.zero_grad()
        hinge(y[rows], h[rows] @ a).backward()
        optimiser.step()
    return a.detach()


def linearised(
    parameters: Parameters, x: Tensor, y: Tensor, order: Tensor, rate: float
) -> Callable[[Tensor], Tensor]:
    """Train the linearisation of all 2m neurons, steps of 1 / E||gradient of g||^2; return f."""

    def jacobian(points: Tensor) -> Tensor:
        """(n, number of parameters)."""
        g = torch.func.grad(lambda p, point: network(p, point[None])[0])
        of = torch.func.vmap(g, in_dims=(None, 0))(parameters, points)
        return torch.cat([of[name].flatten(1) for name in parameters], dim=1)

    J = jacobian(x)
    eta, theta = rate / J.square().sum(1).mean(), torch.zeros(J.shape[1], dtype=x.dtype)
    for rows in order:
        slope = torch.where(y[rows] * (J[rows] @ theta) <= 1, y[rows], 0.0)
        theta = theta + eta * J[rows].T @ slope / len(rows)
    return lambda points: jacobian(points) @ theta
