"""The same methods in R^d, literally and slowly: whole networks, automatic derivatives.

The oracle of the tests.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Parameters = dict[str, Tensor]
"""w (N, d), b (N,), a (N,)."""


def network(parameters: Parameters, x: Tensor, sigma_xi: float = 0.0, nodes: int = 0) -> Tensor:
    """g(x) of eq. (2.2), (n, d) -> (n,).

    With noise its mean by Gauss-Hermite quadrature of that many nodes (eq. 2.3).
    """
    z = x @ parameters["w"].T + parameters["b"]
    if not sigma_xi:
        return z.clamp(0, 1) @ parameters["a"]
    at, weight = (torch.as_tensor(part, dtype=z.dtype) for part in _hermite(nodes))
    return (
        torch.einsum("nmq,q->nm", (z[..., None] + sigma_xi * at).clamp(0, 1), weight)
        @ parameters["a"]
    )


def _hermite(nodes: int) -> tuple:
    import numpy as np

    at, weight = np.polynomial.hermite_e.hermegauss(nodes)
    return at, weight / weight.sum()


def hinge(y: Tensor, g: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean of max(1 - y g, 0), weighed by class if asked for."""
    loss = (1 - y * g).clamp(min=0)
    return (loss if weights is None else weights * loss).mean()


def gradient(
    parameters: Parameters,
    x: Tensor,
    y: Tensor,
    lambda_w: float = 0.0,
    lambda_a: float = 0.0,
    weights: Tensor | None = None,
) -> Parameters:
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
    """Train by Adam with one second moment for each neuron's w.

    The rates fall linearly to 0 after the last step.
    """
    first = {name: torch.zeros_like(value) for name, value in parameters.items()}
    second = {name: 0.0 for name in parameters}
    for t, rows in enumerate(order, start=1):
        by = gradient(parameters, x[rows], y[rows])
        after = {}
        for name, part in by.items():
            first[name] = 0.9 * first[name] + 0.1 * part
            square = part.norm(dim=1, keepdim=True) ** 2 if name == "w" else part**2
            second[name] = 0.999 * second[name] + 0.001 * square
            size = (second[name] / (1 - 0.999**t)).sqrt() + 1e-12
            after[name] = (
                parameters[name]
                - rates[name] * (1 - (t - 1) / len(order)) * first[name] / (1 - 0.9**t) / size
            )
        parameters = after
    return parameters


def head(
    features: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    order: Tensor,
    rate: float,
    momentum: float,
) -> Tensor:
    """Train a linear head on frozen features by stochastic gradient with momentum.

    Its step is in units of 1 / E||h||^2.
    """
    h = features(x)
    eta = rate / h.square().sum(1).mean()
    a = torch.zeros(h.shape[1], dtype=h.dtype, requires_grad=True)
    optimiser = torch.optim.SGD([a], lr=float(eta), momentum=momentum)
    for rows in order:
        optimiser.zero_grad()
        hinge(y[rows], h[rows] @ a).backward()
        optimiser.step()
    return a.detach()


def linearised(
    parameters: Parameters, x: Tensor, y: Tensor, order: Tensor, rate: float
) -> Callable[[Tensor], Tensor]:
    """The linearisation of all 2m neurons at these parameters, trained by stochastic gradient.

    Returns f.

    Its step is in units of 1 / E||gradient of g||^2.
    """

    def jacobian(points: Tensor) -> Tensor:
        """(n, number of parameters)."""
        of = torch.func.vmap(
            torch.func.grad(lambda p, point: network(p, point[None])[0]), in_dims=(None, 0)
        )(parameters, points)
        return torch.cat([of[name].flatten(1) for name in parameters], dim=1)

    J = jacobian(x)
    eta = rate / J.square().sum(1).mean()
    theta = torch.zeros(J.shape[1], dtype=x.dtype)
    for rows in order:
        g = J[rows] @ theta
        theta = theta + eta * J[rows].T @ torch.where(y[rows] * g <= 1, y[rows], 0.0) / len(rows)
    return lambda points: jacobian(points) @ theta
