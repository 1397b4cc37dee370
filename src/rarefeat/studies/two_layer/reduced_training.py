"""Every method of A.7 in the D coordinates M^T W, exact for any input dimension d.

See docs/method/two_layer.md. Inputs are x = M phi, so that gradients of w lie in the span of M and
rotations of R^d change nothing: a neuron is its D coordinates A = W M and what lies outside, which
every step only multiplies by 1 - 2 eta lambda_w. One replica at a time: the products of one
replica, batch x D x 2m, already fill the cores, and a batch of them would only leave the cache.
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
        """Return ||w_i||, of shape (N,)."""
        return (self.w.square().sum(1) + self.outside.square().sum(1)).sqrt()

    def select(self, index: Tensor) -> "TwoLayerNetwork":
        """Return the neurons of an index or a mask."""
        return TwoLayerNetwork(*(field[index] for field in self))


class StepSizes(NamedTuple):
    """Step sizes of theta <- theta - eta (gradient of L + gradient of R) (eq. 2.4).

    The factor that a step keeps of w and a is 1 - 2 eta lambda.
    """

    eta: float
    keep_w: float = 1.0
    keep_a: float = 1.0
    sigma_xi: float = 0.0


class HingeGradient(NamedTuple):
    """A gradient of the hinge loss with respect to w (N, D), b (N,) and a (N,)."""

    w: Tensor
    b: Tensor
    a: Tensor


def initial(
    m: int, d: int, D: int, k: int, sigma_a: float, random: torch.Generator
) -> TwoLayerNetwork:
    """Draw the unbiased initialisation of section 2.3.1, for which g = 0: m neurons and the same
    with -a, 2m in all.
    """
    w = torch.randn(m, d, generator=random) / k
    b = torch.randn(m, generator=random) / k**2
    a = sigma_a * torch.randn(m, generator=random)
    return TwoLayerNetwork(
        torch.cat([w, w])[:, :D], torch.cat([b, b]), torch.cat([a, -a]), torch.cat([w, w])[:, D:]
    )


def gaussian(m: int, d: int, D: int, random: torch.Generator) -> TwoLayerNetwork:
    """Draw m neurons as typical practice does (A.7.3): w ~ N(0, 1/d), a ~ N(0, 1/m), b = 0."""
    w = torch.randn(m, d, generator=random) / d**0.5
    return TwoLayerNetwork(
        w[:, :D], torch.zeros(m), torch.randn(m, generator=random) / m**0.5, w[:, D:]
    )


def erasing_steps(
    k: int, m: int, gamma: float, sigma: float, noise: bool, p_min: float | None = None
) -> tuple[StepSizes, StepSizes]:
    """Return steps 1 and 2 of Theorem A.20.

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
    """Apply the activation to pre-activations."""
    if sigma_xi:
        return _smooth_relu(z, sigma_xi) - _smooth_relu(z - 1, sigma_xi)
    return z.clamp(0, 1) if activation == "clipped" else z.clamp(min=0)


def slope(z: Tensor, h: Tensor, sigma_xi: float = 0.0) -> Tensor:
    """Return the derivative of `activate` with respect to z."""
    if sigma_xi:
        return torch.special.ndtr(z / sigma_xi) - torch.special.ndtr((z - 1) / sigma_xi)
    return (z == h).to(z.dtype)


def _smooth_relu(z: Tensor, sigma: float) -> Tensor:
    u = z / sigma
    return z * torch.special.ndtr(u) + sigma / math.sqrt(2 * math.pi) * torch.exp(-u.square() / 2)


def pre_activations(neurons: TwoLayerNetwork, x: Tensor) -> Tensor:
    """Return <w_i, x> + b_i, (n, D) -> (n, N)."""
    return torch.addmm(neurons.b, x, neurons.w.T)


def scores(neurons: TwoLayerNetwork, x: Tensor, activation: Activation = "clipped") -> Tensor:
    """Return g(x) of a network in passes of `CHUNK` samples.

    x (n, D) -> (n,).
    """
    return torch.cat(
        [
            activate(pre_activations(neurons, chunk), activation) @ neurons.a
            for chunk in x.split(CHUNK)
        ]
    )


def hinge_slope(y: Tensor, g: Tensor) -> Tensor:
    """Return -y I[y g <= 1], the derivative of max(1 - y g, 0) by g as section 2.5.1 has it."""
    return torch.where(y * g <= 1, -y, 0.0)


def gradient(
    neurons: TwoLayerNetwork,
    x: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    activation: Activation = "clipped",
    sigma_xi: float = 0.0,
) -> HingeGradient:
    """Compute the gradient of the mean hinge loss over n samples, in passes of `CHUNK`.

    x (n, D), y (n,), weights (n,).
    """
    total = None
    for rows in torch.arange(len(x)).split(CHUNK):
        z = pre_activations(neurons, x[rows[0] : rows[-1] + 1])
        inputs, labels = x[rows[0] : rows[-1] + 1], y[rows[0] : rows[-1] + 1]
        h = activate(z, activation, sigma_xi)
        c = hinge_slope(labels, h @ neurons.a) / len(x)
        if weights is not None:
            c = c * weights[rows[0] : rows[-1] + 1]
        on = slope(z, h, sigma_xi).T
        # c goes to the samples, D numbers each, rather than to the N neurons.
        chunk = HingeGradient(on @ (c[:, None] * inputs), on @ c, h.T @ c)
        total = (
            chunk
            if total is None
            else HingeGradient(*(old + new for old, new in zip(total, chunk, strict=True)))
        )
    return HingeGradient(neurons.a[:, None] * total.w, neurons.a * total.b, total.a)


def descend(neurons: TwoLayerNetwork, gradient: HingeGradient, step: StepSizes) -> TwoLayerNetwork:
    """Take one step of all parameters (eq. 2.4). Biases have no regulariser."""
    return TwoLayerNetwork(
        step.keep_w * neurons.w - step.eta * gradient.w,
        neurons.b - step.eta * gradient.b,
        step.keep_a * neurons.a - step.eta * gradient.a,
        step.keep_w * neurons.outside,
    )


class Adam:
    """An Adam optimiser that commutes with rotations of R^d.

    The moments of a and b are by entry, the second moment of w is by neuron. Entry-wise second
    moments of w would depend on the basis of R^d, and with it on more than the D coordinates.
    """

    betas = (0.9, 0.999)
    tiny = 1e-12

    def __init__(self, rates: HingeGradient):
        """Begin with one rate for each of w, b and a, and without moments."""
        self.rates = rates
        self.steps = 0
        self.first: list[Tensor] = []
        self.second: list[Tensor] = []

    def descend(
        self, neurons: TwoLayerNetwork, gradient: HingeGradient, share: float
    ) -> TwoLayerNetwork:
        """Take one step with a fraction of the rates."""
        if not self.first:
            self.first = [torch.zeros_like(entries) for entries in gradient]
            self.second = [
                torch.zeros_like(entries[:, :1]) if entries.ndim == 2 else torch.zeros_like(entries)
                for entries in gradient
            ]
        self.steps += 1
        beta, beta_2 = self.betas
        change = []
        for i, (entries, rate) in enumerate(zip(gradient, self.rates, strict=True)):
            square = (
                entries.square().sum(1, keepdim=True) if entries.ndim == 2 else entries.square()
            )
            self.first[i].mul_(beta).add_(entries, alpha=1 - beta)
            self.second[i].mul_(beta_2).add_(square, alpha=1 - beta_2)
            size = (self.second[i] / (1 - beta_2**self.steps)).sqrt_().add_(self.tiny)
            change.append(share * rate / (1 - beta**self.steps) * self.first[i] / size)
        return TwoLayerNetwork(
            neurons.w - change[0], neurons.b - change[1], neurons.a - change[2], neurons.outside
        )


Update = Callable[[int, TwoLayerNetwork, HingeGradient], TwoLayerNetwork]
"""(step counted from 1, neurons, gradient) -> neurons."""


def printed_update(k: int, m: int, T: int) -> Update:
    """Return plain gradient descent with eta = k^2 / (T m^{1/3}) for all parameters (A.276).

    lambda = 0 is the weakest that the theorem allows.
    """
    step = StepSizes(k**2 / (T * m ** (1 / 3)))
    return lambda _, neurons, gradient: descend(neurons, gradient, step)


def chosen_update(head: float, first: float, steps: int) -> Update:
    """Return Adam with rates that fall linearly to 0 at `steps`."""
    adam = Adam(HingeGradient(first, first, head))
    return lambda t, neurons, gradient: adam.descend(neurons, gradient, 1 - (t - 1) / steps)


def train(
    neurons: TwoLayerNetwork,
    x: Tensor,
    y: Tensor,
    order: Tensor,
    update: Update,
    activation: Activation = "clipped",
) -> Iterator[TwoLayerNetwork]:
    """Train a network and yield it after each step.

    Neurons that no input can switch on (w = 0, b < 0) have no gradient ever; they are left out of
    the products and put back.

    x (n, D), y (n,), order (steps, batch).
    """
    live = ((neurons.w != 0).any(1) | (neurons.b >= 0)).nonzero()[:, 0]
    # No step after the second multiplies what lies outside the span.
    active = neurons._replace(outside=neurons.outside[:, :0]).select(live)
    for t, rows in enumerate(order, start=1):
        active = update(t, active, gradient(active, x[rows], y[rows], activation=activation))
        updated = (
            before.index_copy(0, live, new)
            for before, new in zip(neurons[:3], active[:3], strict=True)
        )
        yield TwoLayerNetwork(*updated, neurons.outside)


def group_scores(neurons: TwoLayerNetwork, x: Tensor, groups: int) -> Tensor:
    """Return g(x) of each of several networks of equal size.

    x (n, D) -> (n, groups).
    """
    h = activate(pre_activations(neurons, x))
    return (h * neurons.a).unflatten(1, (groups, -1)).sum(2)


def train_groups(
    neurons: TwoLayerNetwork, groups: int, x: Tensor, y: Tensor, order: Tensor, update: Update
) -> TwoLayerNetwork:
    """Train several small networks of equal size in common products, each on its own loss.

    Each is trained as by `train`.

    x (n, D), y (n,), order (steps, batch).
    """
    size = len(neurons.b) // groups
    for t, rows in enumerate(order, start=1):
        inputs, labels = x[rows], y[rows, None]
        z = pre_activations(neurons, inputs)
        h = activate(z)
        g = (h * neurons.a).unflatten(1, (groups, size)).sum(2)
        c = hinge_slope(labels, g).repeat_interleave(size, dim=1) / len(rows)
        on = slope(z, h) * c
        gradients = HingeGradient(
            neurons.a[:, None] * (on.T @ inputs), neurons.a * on.sum(0), (h * c).sum(0)
        )
        neurons = update(t, neurons, gradients)
    return neurons


def frozen_features(
    neurons: TwoLayerNetwork, x: Tensor, activation: Activation = "clipped"
) -> Tensor:
    """Compute the features h = sigma(<w_i, x> + b_i).

    x (n, D) -> (n, N).
    """
    h = x.new_empty(len(x), len(neurons.b))
    for rows, chunk in zip(h.split(CHUNK), x.split(CHUNK), strict=True):
        rows.copy_(activate(pre_activations(neurons, chunk), activation))
    return h


def train_head(
    h: Tensor, y: Tensor, order: Tensor, rate: float, momentum: float
) -> Iterator[Tensor]:
    """Train a head on frozen features by stochastic gradient descent on the hinge loss.

    The head begins at 0. The step size is rate / E||h||^2: in these units pairs of equal features
    count once, since two with half the step each are one.

    h (n, N), y (n,), order (steps, batch) -> (N,).
    """
    size = float(h.square().sum(1).mean())
    eta = rate / size if size else 0.0
    a, velocity = h.new_zeros(h.shape[1]), h.new_zeros(h.shape[1])
    for rows in order:
        features, labels = h[rows], y[rows]
        velocity = momentum * velocity + features.T @ hinge_slope(labels, features @ a) / len(rows)
        a = a - eta * velocity
        yield a


def least_squares(h: Tensor, y: Tensor) -> Tensor:
    """Return the head (N,) of least squared error on frozen features (n, N).

    It is exact within the precision of the features' type: directions of the Gram matrix below its
    rounding, N eps times the largest eigenvalue, carry no information and are left out.
    """
    gram, moment = (h.T @ h).double(), (h.T @ y).double()
    values, vectors = torch.linalg.eigh(gram)
    floor = len(values) * torch.finfo(h.dtype).eps * values[-1]
    inverse = torch.where(values > floor, 1 / values.clamp(min=1e-300), 0.0)
    return (vectors @ (inverse * (vectors.T @ moment))).to(h.dtype)


class LinearisedNetwork(NamedTuple):
    """The NTK's model f(x) = <gradient of g at initialisation, parameters>.

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
        """Return f(x), (n, D) -> (n,)."""
        return torch.cat([self._scores(*self.features(chunk), chunk) for chunk in x.split(CHUNK)])

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return sigma and its slope at initialisation, (n, m) each."""
        z = pre_activations(self.start, x)
        h = activate(z)
        return h, slope(z, h)

    def _scores(self, h: Tensor, on: Tensor, x: Tensor) -> Tensor:
        return (on * torch.addmm(self.b, x, self.w.T)).sum(1) + h @ self.a

    def descend(self, x: Tensor, y: Tensor, eta: float) -> "LinearisedNetwork":
        """Return the model after a gradient step on the mean hinge loss of a batch.

        x (n, D), y (n,).
        """
        h, on = self.features(x)
        c = hinge_slope(y, self._scores(h, on, x)) / len(x)
        weight = self.start.a.square()
        return self._replace(
            w=self.w - eta * weight[:, None] * (on.T @ (c[:, None] * x)),
            b=self.b - eta * weight * (on.T @ c),
            a=self.a - eta * (h.T @ c),
        )


def linearised(neurons: TwoLayerNetwork) -> LinearisedNetwork:
    """Return the model f = 0 at an unbiased initialisation of 2m neurons."""
    m = len(neurons.b) // 2
    start = neurons.select(torch.arange(m))
    return LinearisedNetwork(
        start, torch.zeros_like(start.w), torch.zeros_like(start.b), torch.zeros_like(start.a)
    )


def train_linearised(
    model: LinearisedNetwork, x: Tensor, y: Tensor, order: Tensor, rate: float
) -> Iterator[LinearisedNetwork]:
    """Train the linearised network by stochastic gradient descent.

    Its step size is rate / E||gradient of g||^2.

    x (n, D), y (n,), order (steps, batch).
    """
    size = 0.0
    for chunk in x.split(CHUNK):
        h, on = model.features(chunk)
        size += float(
            h.square().sum() + (on @ model.start.a.square() * (chunk.square().sum(1) + 1)).sum()
        ) / len(x)
    for rows in order:
        model = model.descend(x[rows], y[rows], rate / size)
        yield model
