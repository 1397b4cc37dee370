"""Scalar simulator of Hong et al.: detectors of each class and feature as one group.

For every class and feature it follows the number of detectors, their displacement A and the
decrement B of their bias. The cost does not depend on d, m or P. Approximations and their errors:
docs/method/fine_labels.md.
Axes: S replicas, G classes, F = 2 + 2k features, n samples, P patches, R recorded steps.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Detectors, EasyData, Learner
from rarefeat.studies.fine_labels.data import Generators, Patches
from rarefeat.studies.fine_labels.direct_simulator import (
    DIVERGED,
    Network,
    cross_entropy,
    fine_tuning,
)

CHUNK = 500
"""Samples whose patches are processed at once."""
Groups = Float[Tensor, "S G F"]


class DetectorState(NamedTuple):
    """Detectors of S replicas at a step, in float64."""

    detectors: Groups
    """|S(v)|, the neurons that a v-patch can switch on at t = 0, of sqrt(1 + iota) <w(0), v> >
    -b(0) (Definition C.1)."""
    initial: Groups
    """Mean of <w(0), v> + b(0) over them; 0 where there is none."""
    displacement: Groups
    """A = <w(t) - w(0), v>, the same for all detectors that have been on for every v-patch."""
    decrement: Groups
    """B = b(0) - b(t)."""
    threshold: float
    """-b(0)."""

    def row(self, s: int) -> "DetectorState":
        """Return the state of replica s alone."""
        return DetectorState(*(tensor[s : s + 1] for tensor in self[:4]), self.threshold)

    @property
    def projection(self) -> Groups:
        """Projection <w(t), v> of a detector."""
        return self.initial + self.threshold + self.displacement

    @property
    def negative_bias(self) -> Groups:
        """Threshold -b(t) of a detector."""
        return self.threshold + self.decrement

    @property
    def net_response(self) -> Groups:
        """Pre-activation for a patch of amplitude 1; negative where it is off."""
        return self.initial + self.displacement - self.decrement


class DetectorHistory(NamedTuple):
    """Recorded history of a training; states are those before step t."""

    steps: Int[Tensor, " R"]
    displacement: Float[Tensor, "R S G F"]
    loss: Float[Tensor, "R S"]
    """Loss of the batch of step t."""


def initialise(
    classes: int, data: EasyData, detectors: Detectors, sigma_0: float, generators: Generators
) -> DetectorState:
    """Draw |S(v)|, independent and binomial in m, and the mean projection of its members."""
    lowest = detectors.threshold / math.sqrt(1 + data.iota)
    p = torch.special.ndtr(torch.tensor(-lowest, dtype=torch.float64))
    p = p.expand(classes, data.features)

    def draw(rng: torch.Generator) -> tuple[Tensor, Tensor]:
        number = torch.binomial(torch.full_like(p, detectors.m), p, generator=rng)
        u = torch.rand(*p.shape, int(number.max()), generator=rng, dtype=torch.float64)
        # A normal variable, given that it exceeds `lowest`.
        excess = -torch.special.ndtri(p[..., None] * u) - detectors.threshold
        is_member = torch.arange(u.shape[-1]) < number[..., None]
        return number, torch.where(is_member, excess, 0.0).sum(-1) / number.clamp(min=1)

    number, excess = map(torch.stack, zip(*map(draw, generators), strict=True))
    zero = torch.zeros_like(number)
    return DetectorState(number, sigma_0 * excess, zero, zero, sigma_0 * detectors.threshold)


def summarise(initial: Network, trained: Network, data: EasyData) -> DetectorState:
    """Return the state that describes a network (S = 1): means over S(v) at t = 0."""
    features = data.features
    threshold = -initial.bias[0].item()
    start = initial.weights[:, :features].double()
    is_member = (math.sqrt(1 + data.iota) * start > threshold).double()
    displacement = trained.weights[:, :features].double() - start
    decrement = (initial.bias.double() - trained.bias.double())[:, None].expand_as(displacement)

    def total(values: Tensor) -> Tensor:
        sums = values.new_zeros(initial.classes, features)
        return sums.index_add_(0, initial.owner, values * is_member)[None]

    number = total(torch.ones_like(start))
    parts = (start - threshold, displacement, decrement)
    return DetectorState(number, *(total(part) / number.clamp(min=1) for part in parts), threshold)


def moments(patches: Patches, k: int) -> Float[Tensor, "S subclasses per_subclass 4"]:
    """Return the moments of a batch of easy samples, which determine a step: for the common and
    then for the subclass feature, the sum of alpha and the number of patches.
    """
    common = patches.feature < 2
    columns = [
        part.sum(-1).double()
        for kind in (common, ~common)
        for part in (patches.amplitude * kind, (patches.amplitude > 0) & kind)
    ]
    return torch.stack(columns, -1).unflatten(1, (2 * k, -1))


def per_subclass(features: Groups) -> Float[Tensor, "S subclasses 2 G"]:
    """Select the common and the own feature of each subclass."""
    k = (features.shape[-1] - 2) // 2
    both = [features[..., :2].repeat_interleave(k, -1), features[..., 2:]]
    return torch.stack(both, -1).permute(0, 2, 3, 1)


def per_feature(subclasses: Float[Tensor, "S subclasses 2 G"]) -> Groups:
    """Sum over the subclasses that have a feature: the transpose of `per_subclass`."""
    common, subclass = subclasses.unbind(2)
    return torch.cat([common.unflatten(1, (2, -1)).sum(2), subclass], 1).mT


def easy_scores(
    state: DetectorState, batch: Float[Tensor, "S subclasses per_subclass 4"]
) -> Float[Tensor, "S n G"]:
    """Compute F_c(X) of easy samples from moments: a detector is on for all its patches."""
    on = state.detectors * (state.net_response > 0)
    both = [per_subclass(on * state.projection), -per_subclass(on * state.negative_bias)]
    return (batch @ torch.stack(both, 3).flatten(2, 3)).flatten(1, 2)


def detector_outputs(state: DetectorState, patches: Patches) -> Iterator[Float[Tensor, "n F G"]]:
    """Yield the output of a detector of each group, over all patches and zeta*, by replica."""
    slopes, costs = state.projection.mT, state.negative_bias.mT
    for s, (projection, negative_bias) in enumerate(zip(slopes, costs, strict=True)):
        chunks = []
        for start in range(0, patches.feature.shape[1], CHUNK):
            rows = slice(start, start + CHUNK)
            feature, alpha = patches.feature[s, rows], patches.amplitude[s, rows, :, None]
            outputs = (alpha * projection[feature] - negative_bias[feature]).clamp(min=0)
            total = outputs.new_zeros(len(feature), *projection.shape)
            if patches.loud is not None:
                loud = patches.loud[s, rows, :, None]
                total = (loud * projection - negative_bias).clamp(min=0)
            index = feature[..., None].expand_as(outputs)
            chunks.append(total.scatter_add_(1, index, outputs))
        yield torch.cat(chunks)


def scores(state: DetectorState, patches: Patches) -> Float[Tensor, "S n G"]:
    """Compute F_c(X) of easy or hard samples."""
    groups = zip(detector_outputs(state, patches), state.detectors, strict=True)
    return torch.stack([(outputs * number.T).sum(1) for outputs, number in groups])


def head_inputs(state: DetectorState, patches: Patches) -> Float[Tensor, "S n FG"]:
    """Compute the inputs of a linear head: equal neurons of a group are one, times sqrt |S|."""
    groups = zip(detector_outputs(state, patches), state.detectors, strict=True)
    return torch.stack([(outputs * number.T.sqrt()).flatten(1) for outputs, number in groups])


def step(
    state: DetectorState, data: EasyData, learner: Learner,
    batch: Float[Tensor, "S subclasses per_subclass 4"], classes: Int[Tensor, "S N"],
    tune: Int[Tensor, " G"] | None = None,
) -> tuple[DetectorState, Float[Tensor, " S"]]:  # fmt: skip
    """Take one step, eq. (16) and (18); return the loss, too."""
    F = easy_scores(state, batch)
    loss, descent = cross_entropy(F, classes) if tune is None else fine_tuning(F, classes, tune)
    rate = learner.eta / (descent.shape[1] * data.P)
    descent = descent.unflatten(1, batch.shape[1:3])
    on = (state.net_response > 0).double()
    along = rate * on * per_feature(batch[..., 0::2].mT @ descent)
    # The noise of the patches moves a detector in the other d - 1 directions: root mean square.
    spread = rate * data.sigma_zeta * math.sqrt(data.d - 1)
    across = spread * on * per_feature(batch[..., 1::2].mT @ descent.square()).sqrt()
    decrement = state.decrement + torch.hypot(along, across) / learner.kappa_b
    return state._replace(displacement=state.displacement + along, decrement=decrement), loss


def train(
    state: DetectorState, data: EasyData, learner: Learner,
    batches: Iterable[tuple[Patches, Int[Tensor, "S N"]]], record: list[int],
    tune: Int[Tensor, " G"] | None = None,
) -> tuple[DetectorState, DetectorHistory]:  # fmt: skip
    """Train on batches of easy samples; with the superclasses `tune` it is fine-tuning."""
    rows = []
    for t, (patches, classes) in enumerate(batches):
        before = state.displacement
        state, loss = step(state, data, learner, moments(patches, data.k), classes, tune)
        if t in record:
            if not loss.isfinite().all():
                raise RarefeatError(DIVERGED)
            rows.append((torch.tensor(t), before, loss))
    if not state.net_response.isfinite().all():
        raise RarefeatError(DIVERGED)
    return state, DetectorHistory(*map(torch.stack, zip(*rows, strict=True)))
