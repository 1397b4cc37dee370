"""Every method of A.7 in the D coordinates M^T W, exact for any input dimension d (docs/method/two_layer.md).

Inputs are x = M phi, so that gradients of w lie in the span of M and rotations of R^d change
nothing: a neuron is its D coordinates A = W M and what lies outside, which every step only
multiplies by 1 - 2 eta lambda_w. One replica at a time: the
products of one replica, batch x D x 2m, already fill the cores, and a batch of them would only
leave the cache.
"""

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Activation = Literal["clipped", "relu"]
CHUNK = 2000
"""Samples of one product in passes over a whole sample: its pre-activations stay in the cache."""


class TwoLayerNetwork(NamedTuple):
    """g(x) = sum_i a_i sigma(<w_i, x> + b_i) over N = 2m neurons (eq. 2.2)."""

    w: Tensor
    """M^T w_i, (N, D)."""
    b: Tensor
    """(N,)."""
    a: Tensor
    """(N,)."""
    outside: Tensor
    """w_i in an orthonormal basis of the complement of the span of M, (N, d - D)."""

    def norm(self) -> Tensor:
        """||w_i||, (N,)."""
        return (self.w.square().sum(1) + self.outside.square().sum(1)).sqrt()

    def at(self, index: Tensor) -> "TwoLayerNetwork":
        """The neurons of an index or a mask."""
        return TwoLayerNetwork(*(part[index] for part in self))


class StepSizes(NamedTuple):
    """theta <- theta - eta (gradient of L + gradient of R).

    What it keeps of w and a is 1 - 2 eta lambda (eq. 2.4).
    """

    eta: float
    keep_w: float = 1.0
    keep_a: float = 1.0
    sigma_xi: float = 0.0


class HingeGradient(NamedTuple):
    """Of the hinge loss: by w (N, D), b (N,) and a (N,)."""

    w: Tensor
    b: Tensor
    a: Tensor


def initial(
    m: int, d: int, D: int, k: int, sigma_a: float, random: torch.Generator
) -> TwoLayerNetwork:
    """The unbiased initialisation of section 2.3.1, g = 0.

    M neurons and the same with -a, 2m in all.
    """
    w = torch.randn(m, d, generator=random) / k
    b = torch.randn(m, generator=random) / k**2
    a = sigma_a * torch.randn(m, generator=random)
    return TwoLayerNetwork(
        torch.cat([w, w])[:, :D], torch.cat([b, b]), torch.cat([a, -a]), torch.cat([w, w])[:, D:]
    )


def gaussian(m: int, d: int, D: int, random: torch.Generator) -> TwoLayerNetwork:
    """Typical practice (A.7.3): w ~ N(0, 1/d), a ~ N(0, 1/m), b = 0, m neurons."""
    w = torch.randn(m, d, generator=random) / d**0.5
    return TwoLayerNetwork(
        w[:, :D], torch.zeros(m), torch.randn(m, generator=random) / m**0.5, w[:, D:]
    )


def erasing_steps(
    k: int, m: int, gamma: float, sigma: float, noise: bool, p_min: float | None = None
) -> tuple[StepSizes, StepSizes]:
    """Steps 1 and 2 of Theorem A.20.

    With the share p_min of the rarer class, the first rate of A.28's weighted loss.

    lambda = 1 / (2 eta) keeps nothing of what it is for: w after step 1, w and a after step 2.
    """
    eta = (
        gamma**2 * sigma**2 / (k * m**3) if p_min is None else gamma**2 * p_min * sigma / (k * m**3)
    )
    sigma_xi = 1 / k**2 if noise else 0.0
    return StepSizes(eta, keep_w=0.0, sigma_xi=sigma_xi), StepSizes(
        1.0, keep_w=0.0, keep_a=0.0, sigma_xi=sigma_xi
    )


def activate(z: Tensor, activation: Activation = "clipped", sigma_xi: float = 0.0) -> Tensor:
    """sigma(z) = min(1, max(z, 0)), or E sigma(z + xi) for xi ~ N(0, sigma_xi^2); or max(z, 0)."""
    if sigma_xi:
        return _smooth_relu(z, sigma_xi) - _smooth_relu(z - 1, sigma_xi)
    return z.clamp(0, 1) if activation == "clipped" else z.clamp(min=0)


def slope(z: Tensor, h: Tensor, sigma_xi: float = 0.0) -> Tensor:
    """The derivative of `activate` at z, where it is h: 1 on the slope, its ends included.

    0 elsewhere; smoothed alike.
    """
    if sigma_xi:
        return torch.special.ndtr(z / sigma_xi) - torch.special.ndtr((z - 1) / sigma_xi)
    return (z == h).to(z.dtype)


def _smooth_relu(z: Tensor, sigma: float) -> Tensor:
    u = z / sigma
    return z * torch.special.ndtr(u) + sigma / math.sqrt(2 * math.pi) * torch.exp(-u.square() / 2)


def pre_activations(neurons: TwoLayerNetwork, x: Tensor) -> Tensor:
    """<w_i, x> + b_i, (n, D) -> (n, N)."""
    return torch.addmm(neurons.b, x, neurons.w.T)


def scores(neurons: TwoLayerNetwork, x: Tensor, activation: Activation = "clipped") -> Tensor:
    """g(x), (n, D) -> (n,)."""
    return torch.cat(
        [
            activate(pre_activations(neurons, part), activation) @ neurons.a
            for part in x.split(CHUNK)
        ]
    )


def hinge_slope(y: Tensor, g: Tensor) -> Tensor:
    """-y I[y g <= 1], the derivative of max(1 - y g, 0) by g as section 2.5.1 has it."""
    return torch.where(y * g <= 1, -y, 0.0)


def gradient(
    neurons: TwoLayerNetwork,
    x: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    activation: Activation = "clipped",
    sigma_xi: float = 0.0,
) -> HingeGradient:
    """Of the mean hinge loss over n samples, each weighed by `weights` (n,) if given."""
    total = None
    for rows in torch.arange(len(x)).split(CHUNK):
        z = pre_activations(neurons, x[rows[0] : rows[-1] + 1])
        part, labels = x[rows[0] : rows[-1] + 1], y[rows[0] : rows[-1] + 1]
        h = activate(z, activation, sigma_xi)
        c = hinge_slope(labels, h @ neurons.a) / len(x)
        if weights is not None:
            c = c * weights[rows[0] : rows[-1] + 1]
        on = slope(z, h, sigma_xi).T
        # c goes to the samples, D numbers each, rather than to the N neurons.
        found = HingeGradient(on @ (c[:, None] * part), on @ c, h.T @ c)
        total = (
            found
            if total is None
            else HingeGradient(*(old + new for old, new in zip(total, found, strict=True)))
        )
    return HingeGradient(neurons.a[:, None] * total.w, neurons.a * total.b, total.a)


def descend(neurons: TwoLayerNetwork, by: HingeGradient, step: StepSizes) -> TwoLayerNetwork:
    """One update of all parameters (eq. 2.4). Biases have no regulariser."""
    return TwoLayerNetwork(
        step.keep_w * neurons.w - step.eta * by.w,
        neurons.b - step.eta * by.b,
        step.keep_a * neurons.a - step.eta * by.a,
        step.keep_w * neurons.outside,
    )


class Adam:
    """Adam that commutes with rotations of R^d.

    Moments of a and b by entry, the second moment of w by neuron.

    Entry-wise second moments of w would depend on the basis of R^d, and with it on more than the D
    coordinates.
    """

    betas = (0.9, 0.999)
    tiny = 1e-12

    def __init__(self, rates: HingeGradient):
        """One rate for each of w, b and a."""
        self.rates = rates
        self.steps = 0
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []

    def descend(self, neurons: TwoLayerNetwork, by: HingeGradient, share: float) -> TwoLayerNetwork:
        """One update with `share` of the rates."""
        if not self.first:
            self.first = [torch.zeros_like(part) for part in by]
            self.second = [
                torch.zeros_like(part[:, :1]) if part.ndim == 2 else torch.zeros_like(part)
                for part in by
            ]
        self.steps += 1
        beta, beta_2 = self.betas
        moved = []
        for i, (part, rate) in enumerate(zip(by, self.rates, strict=True)):
            square = part.square().sum(1, keepdim=True) if part.ndim == 2 else part.square()
            self.first[i].mul_(beta).add_(part, alpha=1 - beta)
            self.second[i].mul_(beta_2).add_(square, alpha=1 - beta_2)
            size = (self.second[i] / (1 - beta_2**self.steps)).sqrt_().add_(self.tiny)
            moved.append(share * rate / (1 - beta**self.steps) * self.first[i] / size)
        return TwoLayerNetwork(
            neurons.w - moved[0], neurons.b - moved[1], neurons.a - moved[2], neurons.outside
        )


Update = Callable[[int, TwoLayerNetwork, HingeGradient], TwoLayerNetwork]
"""(step counted from 1, neurons, gradient) -> neurons."""


def printed_update(k: int, m: int, T: int) -> Update:
    """eta = k^2 / (T m^{1/3}) for all parameters (A.276), with lambda = 0, the weakest that the theorem allows."""
    step = StepSizes(k**2 / (T * m ** (1 / 3)))
    return lambda _, neurons, by: descend(neurons, by, step)


def chosen_update(head: float, first: float, steps: int) -> Update:
    """Adam, its rates falling linearly to 0 at `steps`."""
    adam = Adam(HingeGradient(first, first, head))
    return lambda t, neurons, by: adam.descend(neurons, by, 1 - (t - 1) / steps)


def train(
    neurons: TwoLayerNetwork,
    x: Tensor,
    y: Tensor,
    order: Tensor,
    update: Update,
    activation: Activation = "clipped",
) -> Iterator[TwoLayerNetwork]:
    """The network after each of the steps whose samples are order[t], (steps, batch).

    Neurons that no input can switch on (w = 0, b < 0) have no gradient ever; they are left out of
    the products and put back.
    """
    live = ((neurons.w != 0).any(1) | (neurons.b >= 0)).nonzero()[:, 0]
    # No step after the second multiplies what lies outside the span.
    part = neurons._replace(outside=neurons.outside[:, :0]).at(live)
    for t, rows in enumerate(order, start=1):
        part = update(t, part, gradient(part, x[rows], y[rows], activation=activation))
        moved = (
            whole.index_copy(0, live, new) for whole, new in zip(neurons[:3], part[:3], strict=True)
        )
        yield TwoLayerNetwork(*moved, neurons.outside)


def group_scores(neurons: TwoLayerNetwork, x: Tensor, groups: int) -> Tensor:
    """g(x) of each of several networks of equal size, whose neurons follow one another.

    (n, D) -> (n, groups).
    """
    h = activate(pre_activations(neurons, x))
    return (h * neurons.a).unflatten(1, (groups, -1)).sum(2)


def train_groups(
    neurons: TwoLayerNetwork, groups: int, x: Tensor, y: Tensor, order: Tensor, update: Update
) -> TwoLayerNetwork:
    """Several small networks of equal size, each trained on its own loss as by `train`, in common products."""
    size = len(neurons.b) // groups
    for t, rows in enumerate(order, start=1):
        part, labels = x[rows], y[rows, None]
        z = pre_activations(neurons, part)
        h = activate(z)
        g = (h * neurons.a).unflatten(1, (groups, size)).sum(2)
        c = hinge_slope(labels, g).repeat_interleave(size, dim=1) / len(rows)
        on = slope(z, h) * c
        by = HingeGradient(
            neurons.a[:, None] * (on.T @ part), neurons.a * on.sum(0), (h * c).sum(0)
        )
        neurons = update(t, neurons, by)
    return neurons


def frozen_features(
    neurons: TwoLayerNetwork, x: Tensor, activation: Activation = "clipped"
) -> Tensor:
    """h = sigma(<w_i, x> + b_i), (n, D) -> (n, N)."""
    h = x.new_empty(len(x), len(neurons.b))
    for rows, part in zip(h.split(CHUNK), x.split(CHUNK), strict=True):
        rows.copy_(activate(pre_activations(neurons, part), activation))
    return h


def train_head(
    h: Tensor, y: Tensor, order: Tensor, rate: float, momentum: float
) -> Iterator[Tensor]:
    """Heads (N,) on frozen features (n, N) after each step of stochastic gradient descent on the hinge loss, from 0 on.

    The step size is rate / E||h||^2. In these units pairs of equal features count once: two with
    half the step each are one.
    """
    size = float(h.square().sum(1).mean())
    eta = rate / size if size else 0.0
    a, velocity = h.new_zeros(h.shape[1]), h.new_zeros(h.shape[1])
    for rows in order:
        part, labels = h[rows], y[rows]
        velocity = momentum * velocity + part.T @ hinge_slope(labels, part @ a) / len(rows)
        a = a - eta * velocity
        yield a


def least_squares(h: Tensor, y: Tensor) -> Tensor:
    """The head (N,) of least squared error on frozen features (n, N), within the precision of the features' type.

    Directions of the Gram matrix below its rounding, N eps times the largest eigenvalue, carry no
    information and are left out.
    """
    gram, moment = (h.T @ h).double(), (h.T @ y).double()
    values, vectors = torch.linalg.eigh(gram)
    floor = len(values) * torch.finfo(h.dtype).eps * values[-1]
    inverse = torch.where(values > floor, 1 / values.clamp(min=1e-300), 0.0)
    return (vectors @ (inverse * (vectors.T @ moment))).to(h.dtype)


class LinearisedNetwork(NamedTuple):
    """f(x) = <gradient of g at initialisation, parameters>: the NTK's model.

    Of a pair (w, b, a), (w, b, -a) the gradients are equal or opposite, so that one stands for both
    with twice the step.
    """

    start: TwoLayerNetwork
    """The first m neurons at initialisation."""
    w: Tensor
    """a_i times the parameters of w_i, (m, D)."""
    b: Tensor
    """a_i times those of b_i, (m,)."""
    a: Tensor
    """(m,)."""

    def scores(self, x: Tensor) -> Tensor:
        """f(x), (n, D) -> (n,)."""
        return torch.cat([self._scores(*self.features(part), part) for part in x.split(CHUNK)])

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """sigma and its slope at initialisation, (n, m) each."""
        z = pre_activations(self.start, x)
        h = activate(z)
        return h, slope(z, h)

    def _scores(self, h: Tensor, on: Tensor, x: Tensor) -> Tensor:
        return (on * torch.addmm(self.b, x, self.w.T)).sum(1) + h @ self.a

    def moved(self, x: Tensor, y: Tensor, eta: float) -> "LinearisedNetwork":
        """After a gradient step on the mean hinge loss of a batch."""
        h, on = self.features(x)
        c = hinge_slope(y, self._scores(h, on, x)) / len(x)
        weight = self.start.a.square()
        return self._replace(
            w=self.w - eta * weight[:, None] * (on.T @ (c[:, None] * x)),
            b=self.b - eta * weight * (on.T @ c),
            a=self.a - eta * (h.T @ c),
        )


def linearised(neurons: TwoLayerNetwork) -> LinearisedNetwork:
    """f = 0 at an unbiased initialisation of 2m neurons."""
    m = len(neurons.b) // 2
    start = neurons.at(torch.arange(m))
    return LinearisedNetwork(
        start, torch.zeros_like(start.w), torch.zeros_like(start.b), torch.zeros_like(start.a)
    )


def train_linearised(
    model: LinearisedNetwork, x: Tensor, y: Tensor, order: Tensor, rate: float
) -> Iterator[LinearisedNetwork]:
    """The linearised network after each step of stochastic gradient descent, of size rate / E||gradient of g||^2."""
    size = 0.0
    for part in x.split(CHUNK):
        h, on = model.features(part)
        size += float(
            h.square().sum() + (on @ model.start.a.square() * (part.square().sum(1) + 1)).sum()
        ) / len(x)
    for rows in order:
        model = model.moved(x[rows], y[rows], rate / size)
        yield model
