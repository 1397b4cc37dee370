"""Every method of A.7 in the D coordinates M^T W, exact for any input dimension d.

See docs/method/two_layer.md. Inputs are x = M phi, so that gradients of w lie in the span of M and
rotations of R^d change nothing: a neuron is its D coordinates and what lies outside, which every
step only multiplies by 1 - 2 eta lambda_w. One replica at a time: its products, batch x D x 2m,
already fill the cores, and a batch of replicas would only leave the cache.
Axes: n samples, N neurons (N = 2m of a whole network), D patterns, T steps, K samples of a batch.
"""

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

Activation = Literal["clipped", "relu"]
Inputs = Float[Tensor, "n D"]
Values = Float[Tensor, " n"]
"""A number of each sample: a label y, a score g, or a weight in the loss."""
Batches = Int[Tensor, "T K"]
"""The samples of every step."""
CHUNK = 2000
"""Samples of one product in passes over a whole sample: its pre-activations stay in the cache."""


class TwoLayerNetwork(NamedTuple):
    """g(x) = sum_i a_i sigma(<w_i, x> + b_i) (eq. 2.2)."""

    w: Float[Tensor, "N D"]
    """M^T w_i."""
    b: Float[Tensor, " N"]
    a: Float[Tensor, " N"]
    outside: Float[Tensor, "N d-D"]
    """w_i in an orthonormal basis of the complement of the span of M."""

    def norm(self) -> Float[Tensor, " N"]:
        """Return ||w_i||."""
        return (self.w.square().sum(1) + self.outside.square().sum(1)).sqrt()

    def select(self, index: Tensor) -> "TwoLayerNetwork":
        """Return the neurons of an index or a mask."""
        return TwoLayerNetwork(*(field[index] for field in self))


class StepSizes(NamedTuple):
    """Step sizes of eq. (2.4), and the factors 1 - 2 eta lambda that a step keeps of w and a."""

    eta: float
    keep_w: float = 1.0
    keep_a: float = 1.0
    sigma_xi: float = 0.0


class HingeGradient(NamedTuple):
    """A gradient of the hinge loss; biases have no regulariser."""

    w: Float[Tensor, "N D"]
    b: Float[Tensor, " N"]
    a: Float[Tensor, " N"]


def initial(
    m: int, d: int, D: int, k: int, sigma_a: float, random: torch.Generator
) -> TwoLayerNetwork:
    """Draw the unbiased initialisation of section 2.3.1: m neurons, and the same with -a."""
    w = torch.randn(m, d, generator=random) / k
    b = torch.randn(m, generator=random) / k**2
    a = sigma_a * torch.randn(m, generator=random)
    w, b, a = torch.cat([w, w]), torch.cat([b, b]), torch.cat([a, -a])
    return TwoLayerNetwork(w[:, :D], b, a, w[:, D:])


def gaussian(m: int, d: int, D: int, random: torch.Generator) -> TwoLayerNetwork:
    """Draw m neurons as typical practice does (A.7.3): w ~ N(0, 1/d), a ~ N(0, 1/m), b = 0."""
    w = torch.randn(m, d, generator=random) / d**0.5
    a = torch.randn(m, generator=random) / m**0.5
    return TwoLayerNetwork(w[:, :D], torch.zeros(m), a, w[:, D:])


def erasing_steps(
    k: int, m: int, gamma: float, sigma: float, noise: bool, p_min: float | None = None
) -> tuple[StepSizes, StepSizes]:
    """Return steps 1 and 2 of Theorem A.20, or with class weights those of A.28.

    lambda = 1 / (2 eta) keeps nothing of what it is for: w after step 1, w and a after step 2.
    """
    scale = sigma**2 if p_min is None else p_min * sigma
    eta = gamma**2 * scale / (k * m**3)
    sigma_xi = 1 / k**2 if noise else 0.0
    return StepSizes(eta, 0.0, 1.0, sigma_xi), StepSizes(1.0, 0.0, 0.0, sigma_xi)


def activate(z: Tensor, activation: Activation = "clipped", sigma_xi: float = 0.0) -> Tensor:
    """Apply the activation, or its mean over noise, to pre-activations."""
    if sigma_xi:
        return _smooth_relu(z, sigma_xi) - _smooth_relu(z - 1, sigma_xi)
    return z.clamp(0, 1) if activation == "clipped" else z.clamp(min=0)


def slope(z: Tensor, h: Tensor, sigma_xi: float = 0.0) -> Tensor:
    """Return the derivative of h = activate(z) with respect to z."""
    if sigma_xi:
        return torch.special.ndtr(z / sigma_xi) - torch.special.ndtr((z - 1) / sigma_xi)
    return (z == h).to(z.dtype)


def _smooth_relu(z: Tensor, sigma: float) -> Tensor:
    u = z / sigma
    return z * torch.special.ndtr(u) + sigma / math.sqrt(2 * math.pi) * torch.exp(-u.square() / 2)


def pre_activations(neurons: TwoLayerNetwork, x: Inputs) -> Float[Tensor, "n N"]:
    """Return <w_i, x> + b_i."""
    return torch.addmm(neurons.b, x, neurons.w.T)


def frozen_features(neurons: TwoLayerNetwork, x: Inputs) -> Float[Tensor, "n N"]:
    """Return the features h = sigma(<w_i, x> + b_i) of the clipped activation."""
    h = x.new_empty(len(x), len(neurons.b))
    for rows, chunk in zip(h.split(CHUNK), x.split(CHUNK), strict=True):
        rows.copy_(activate(pre_activations(neurons, chunk)))
    return h


def scores(neurons: TwoLayerNetwork, x: Inputs, activation: Activation = "clipped") -> Values:
    """Return g(x) of a network."""
    chunks = (activate(pre_activations(neurons, chunk), activation) for chunk in x.split(CHUNK))
    return torch.cat([h @ neurons.a for h in chunks])


def hinge_slope(y: Tensor, g: Tensor) -> Tensor:
    """Return -y I[y g <= 1], the derivative of max(1 - y g, 0) by g as section 2.5.1 has it."""
    return torch.where(y * g <= 1, -y, 0.0)


def gradient(
    neurons: TwoLayerNetwork, x: Inputs, y: Values, weights: Values | None = None,
    activation: Activation = "clipped", sigma_xi: float = 0.0,
) -> HingeGradient:  # fmt: skip
    """Return the gradient of the mean hinge loss over n samples, each with its weight."""
    weights = torch.ones_like(y) if weights is None else weights
    parts = []
    for inputs, labels, weight in zip(
        *(part.split(CHUNK) for part in (x, y, weights)), strict=True
    ):
        z = pre_activations(neurons, inputs)
        h = activate(z, activation, sigma_xi)
        c = hinge_slope(labels, h @ neurons.a) / len(x) * weight
        on = slope(z, h, sigma_xi).T
        # c goes to the samples, D numbers each, rather than to the N neurons.
        parts.append((on @ (c[:, None] * inputs), on @ c, h.T @ c))
    w, b, a = map(sum, zip(*parts, strict=True))
    return HingeGradient(neurons.a[:, None] * w, neurons.a * b, a)


def descend(neurons: TwoLayerNetwork, gradient: HingeGradient, step: StepSizes) -> TwoLayerNetwork:
    """Take one step of all parameters (eq. 2.4)."""
    return TwoLayerNetwork(
        step.keep_w * neurons.w - step.eta * gradient.w,
        neurons.b - step.eta * gradient.b,
        step.keep_a * neurons.a - step.eta * gradient.a,
        step.keep_w * neurons.outside,
    )


Update = Callable[[int, TwoLayerNetwork, HingeGradient], TwoLayerNetwork]
"""(step counted from 1, neurons, gradient) -> neurons."""


def printed_update(k: int, m: int, T: int) -> Update:
    """Return gradient descent with eta = k^2 / (T m^{1/3}) and no decay for all (A.276)."""
    step = StepSizes(k**2 / (T * m ** (1 / 3)))
    return lambda _, neurons, gradient: descend(neurons, gradient, step)


def chosen_update(head: float, first: float, steps: int) -> Update:
    """Return Adam with rates that fall linearly to 0 at `steps`.

    The second moment of w is by neuron: by entry it would depend on the basis of R^d, and with it
    on more than the D coordinates.
    """
    beta, beta_2, tiny = 0.9, 0.999, 1e-12
    moments: list[tuple[Tensor, Tensor]] = []

    def update(t: int, neurons: TwoLayerNetwork, gradient: HingeGradient) -> TwoLayerNetwork:
        squares = [part.square() for part in gradient]
        squares[0] = squares[0].sum(-1, keepdim=True)
        if t == 1:
            pairs = zip(gradient, squares, strict=True)
            moments[:] = [(torch.zeros_like(mean), torch.zeros_like(sq)) for mean, sq in pairs]
        changed = []
        for i, rate in enumerate((first, first, head)):
            mean, second = moments[i]
            mean.mul_(beta).add_(gradient[i], alpha=1 - beta)
            second.mul_(beta_2).add_(squares[i], alpha=1 - beta_2)
            size = (second / (1 - beta_2**t)).sqrt_().add_(tiny)
            changed.append(neurons[i] - (1 - (t - 1) / steps) * rate / (1 - beta**t) * mean / size)
        return TwoLayerNetwork(*changed, neurons.outside)

    return update


def train(
    neurons: TwoLayerNetwork, x: Inputs, y: Values, order: Batches, update: Update,
    activation: Activation = "clipped",
) -> Iterator[TwoLayerNetwork]:  # fmt: skip
    """Train a network and yield it after each step.

    Neurons that no input can switch on (w = 0, b < 0) have no gradient ever; they are left out of
    the products and put back.
    """
    live = ((neurons.w != 0).any(1) | (neurons.b >= 0)).nonzero()[:, 0]
    # No step after the second multiplies what lies outside the span.
    active = neurons._replace(outside=neurons.outside[:, :0]).select(live)
    for t, rows in enumerate(order, start=1):
        active = update(t, active, gradient(active, x[rows], y[rows], activation=activation))
        pairs = zip(neurons[:3], active[:3], strict=True)
        all_neurons = (before.index_copy(0, live, new) for before, new in pairs)
        yield TwoLayerNetwork(*all_neurons, neurons.outside)


def group_scores(neurons: TwoLayerNetwork, x: Inputs, groups: int) -> Float[Tensor, "n groups"]:
    """Return g(x) of each of several networks of equal size."""
    h = activate(pre_activations(neurons, x))
    return (h * neurons.a).unflatten(1, (groups, -1)).sum(2)


def train_groups(
    neurons: TwoLayerNetwork, groups: int, x: Inputs, y: Values, order: Batches, update: Update
) -> TwoLayerNetwork:
    """Train several small networks of equal size in common products, each on its own loss."""
    size = len(neurons.b) // groups
    for t, rows in enumerate(order, start=1):
        inputs = x[rows]
        z = pre_activations(neurons, inputs)
        h = activate(z)
        g = (h * neurons.a).unflatten(1, (groups, size)).sum(2)
        c = hinge_slope(y[rows, None], g).repeat_interleave(size, dim=1) / len(rows)
        on = slope(z, h) * c
        w, b = neurons.a[:, None] * (on.T @ inputs), neurons.a * on.sum(0)
        neurons = update(t, neurons, HingeGradient(w, b, (h * c).sum(0)))
    return neurons


def train_head(
    h: Float[Tensor, "n N"], y: Values, order: Batches, rate: float, momentum: float
) -> Iterator[Float[Tensor, " N"]]:
    """Train a head on frozen features by steps of rate / E||h||^2; yield it after each one."""
    size = float(h.square().sum(1).mean())
    eta = rate / size if size else 0.0
    a, velocity = h.new_zeros(h.shape[1]), h.new_zeros(h.shape[1])
    yield a
    for rows in order:
        features = h[rows]
        velocity = momentum * velocity + features.T @ hinge_slope(y[rows], features @ a) / len(rows)
        a = a - eta * velocity
        yield a


def least_squares(h: Float[Tensor, "n N"], y: Values) -> Float[Tensor, " N"]:
    """Return the head of least squared error on frozen features.

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
    w: Float[Tensor, "m D"]
    """a_i times the parameters of w_i."""
    b: Float[Tensor, " m"]
    """a_i times those of b_i."""
    a: Float[Tensor, " m"]

    def features(self, x: Inputs) -> tuple[Float[Tensor, "n m"], Float[Tensor, "n m"]]:
        """Return sigma and its slope at initialisation."""
        z = pre_activations(self.start, x)
        h = activate(z)
        return h, slope(z, h)

    def scores(self, x: Inputs) -> Values:
        """Return f(x)."""
        return torch.cat([self._scores(chunk, *self.features(chunk)) for chunk in x.split(CHUNK)])

    def _scores(self, x: Tensor, h: Tensor, on: Tensor) -> Tensor:
        return (on * torch.addmm(self.b, x, self.w.T)).sum(1) + h @ self.a

    def descend(self, x: Inputs, y: Values, eta: float) -> "LinearisedNetwork":
        """Return the model after a gradient step on the mean hinge loss of a batch."""
        h, on = self.features(x)
        c = hinge_slope(y, self._scores(x, h, on)) / len(x)
        weight = self.start.a.square()
        w = self.w - eta * weight[:, None] * (on.T @ (c[:, None] * x))
        return self._replace(w=w, b=self.b - eta * weight * (on.T @ c), a=self.a - eta * (h.T @ c))


def train_linearised(
    neurons: TwoLayerNetwork, x: Inputs, y: Values, order: Batches, rate: float
) -> Iterator[LinearisedNetwork]:
    """Train f = 0 at the start by steps of rate / E||gradient||^2; yield it after each one."""
    start = neurons.select(torch.arange(len(neurons.b) // 2))
    model = LinearisedNetwork(start, *map(torch.zeros_like, start[:3]))
    yield model
    size = 0.0
    for chunk in x.split(CHUNK):
        h, on = model.features(chunk)
        by_first = on @ start.a.square() * (chunk.square().sum(1) + 1)
        size += float(h.square().sum() + by_first.sum()) / len(x)
    for rows in order:
        model = model.descend(x[rows], y[rows], rate / size)
        yield model
