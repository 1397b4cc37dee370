"""Scalar simulator of Hong et al.: detectors of each class and feature as one group.

For every class and feature it follows the number of detectors, their displacement A and the
decrement B of their bias. The cost does not depend on d, m or P. Approximations and their errors:
docs/method/fine_labels.md. Shapes: S replicas, G classes, F features, n samples, P patches.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Detectors, EasyData, Learner
from rarefeat.studies.fine_labels.data import Generators, Patches
from rarefeat.studies.fine_labels.objective import cross_entropy, fine_tuning

CHUNK = 500
"""Samples whose patches are processed at once."""
DIVERGED = "training diverged: responses are no longer finite; lower eta or T"


class DetectorState(NamedTuple):
    """Detectors of S replicas at a step; tensors are (S, G, F) float64."""

    detectors: Tensor
    """|S(v)|, the neurons that a v-patch can switch on at t = 0 (Definition C.1).

    These have sqrt(1 + iota) <w(0), v> > -b(0).
    """
    initial: Tensor
    """Mean of <w(0), v> + b(0) over them; 0 where there is none."""
    displacement: Tensor
    """A = <w(t) - w(0), v>, the same for all detectors that have been on for every v-patch."""
    decrement: Tensor
    """B = b(0) - b(t)."""
    threshold: float
    """-b(0)."""

    def row(self, s: int) -> "DetectorState":
        """Return the state of replica s alone."""
        return DetectorState(*(tensor[s : s + 1] for tensor in self[:4]), self.threshold)

    @property
    def projection(self) -> Tensor:
        """Projection <w(t), v> of a detector, (S, G, F)."""
        return self.initial + self.threshold + self.displacement

    @property
    def negative_bias(self) -> Tensor:
        """Threshold -b(t) of a detector, (S, G, F)."""
        return self.threshold + self.decrement

    @property
    def net_response(self) -> Tensor:
        """Pre-activation for a patch of amplitude 1, (S, G, F); negative where it is off."""
        return self.initial + self.displacement - self.decrement


class DetectorHistory(NamedTuple):
    """Recorded history of a training, at R steps t; states are those before step t."""

    steps: Tensor
    """(R,)."""
    displacement: Tensor
    """(R, S, G, F)."""
    decrement: Tensor
    """(R, S, G, F)."""
    loss: Tensor
    """Loss of the batch of step t, (R, S)."""
    response: Tensor
    """Largest score of any class on any sample of the batch of step t, (R, S)."""


def initialise(
    classes: int, data: EasyData, detectors: Detectors, sigma_0: float, generators: Generators
) -> DetectorState:
    """Draw |S(v)| and the mean projection of its members, for Gaussian initial weights.

    Coordinates of a Gaussian vector are independent, hence the |S(v)| are independent and binomial
    in m.
    """
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

    replicas = zip(*map(draw, generators), strict=True)
    number, excess = (torch.stack(tensors) for tensors in replicas)
    zero = torch.zeros_like(number)
    return DetectorState(number, sigma_0 * excess, zero, zero, sigma_0 * detectors.threshold)


def moments(patches: Patches, k: int) -> Tensor:
    """Return the moments of a batch of easy samples, which determine a step.

    They are the sum of alpha and the number of patches, of the common and then of the subclass
    feature.

    -> (S, 2 k, n / 2 k, 4).
    """
    common = patches.feature < 2
    has_feature = patches.amplitude > 0
    columns = [
        column
        for kind in (common, ~common)
        for column in (
            (patches.amplitude * kind).sum(-1),
            (has_feature & kind).sum(-1).double(),
        )
    ]
    return torch.stack(columns, -1).unflatten(1, (2 * k, -1))


def per_subclass(features: Tensor) -> Tensor:
    """Select the common and the own feature of each subclass, (S, G, F) -> (S, 2 k, 2, G)."""
    k = (features.shape[-1] - 2) // 2
    return torch.stack([features[..., :2].repeat_interleave(k, -1), features[..., 2:]], -1).permute(
        0, 2, 3, 1
    )


def per_feature(subclasses: Tensor) -> Tensor:
    """Sum over the subclasses that have a feature, (S, 2 k, 2, G) -> (S, G, F).

    It is the transpose of `per_subclass`.
    """
    common, subclass = subclasses.unbind(2)
    return torch.cat([common.unflatten(1, (2, -1)).sum(2), subclass], 1).mT


def easy_scores(state: DetectorState, batch: Tensor) -> Tensor:
    """Compute F_c(X) of easy samples from their moments, (S, 2 k, n / 2 k, 4) -> (S, n, G).

    Detectors that are on are active on every patch of their feature.
    """
    on = state.detectors * (state.net_response > 0)
    weights = torch.stack(
        [per_subclass(on * state.projection), -per_subclass(on * state.negative_bias)], 3
    ).flatten(2, 3)
    return (batch @ weights).flatten(1, 2)


def detector_outputs(state: DetectorState, patches: Patches) -> Iterator[Tensor]:
    """Yield the output of one detector of each group, (n, F, G) for each replica in turn.

    It is ReLU(alpha (<w(0), v> + A) + b), summed over the patches of v and over the loud patch
    zeta*, of easy or hard samples.
    """
    for s, (projection, negative_bias) in enumerate(
        zip(state.projection.mT, state.negative_bias.mT, strict=True)
    ):
        chunks = []
        for start in range(0, patches.feature.shape[1], CHUNK):
            rows = slice(start, start + CHUNK)
            feature, alpha = patches.feature[s, rows], patches.amplitude[s, rows, :, None]
            outputs = (alpha * projection[feature] - negative_bias[feature]).clamp(min=0)
            if patches.loud is None:
                total = outputs.new_zeros(len(feature), *projection.shape)
            else:
                loud = patches.loud[s, rows, :, None]
                total = (loud * projection - negative_bias).clamp(min=0)
            index = feature[..., None].expand_as(outputs)
            chunks.append(total.scatter_add_(1, index, outputs))
        yield torch.cat(chunks)


def scores(state: DetectorState, patches: Patches) -> Tensor:
    """Compute F_c(X) of easy or hard samples, (S, n, G)."""
    return torch.stack(
        [
            (outputs * number.T).sum(1)
            for outputs, number in zip(
                detector_outputs(state, patches), state.detectors, strict=True
            )
        ]
    )


def head_inputs(state: DetectorState, patches: Patches) -> Tensor:
    """Compute the inputs of a linear head, (S, n, F G).

    The |S| equal neurons of a group are one input, times sqrt |S|. For any penalty on the square of
    the head this is the same regression as on the neurons one by one.
    """
    return torch.stack(
        [
            (outputs * number.T.sqrt()).flatten(1)
            for outputs, number in zip(
                detector_outputs(state, patches), state.detectors, strict=True
            )
        ]
    )


def step(
    state: DetectorState,
    data: EasyData,
    learner: Learner,
    batch: Tensor,
    classes: Tensor,
    tune: Tensor | None = None,
) -> tuple[DetectorState, Tensor, Tensor]:
    """Take one step, eq. (16) and (18).

    batch (S, 2 k, N / 2 k, 4), classes (S, N), tune (G,) -> loss (S,), response (S,).
    """
    F = easy_scores(state, batch)
    loss, descent = cross_entropy(F, classes) if tune is None else fine_tuning(F, classes, tune)
    N = descent.shape[1]
    descent = descent.unflatten(1, batch.shape[1:3])
    rate = learner.eta / (N * data.P)
    on = (state.net_response > 0).double()
    along = rate * on * per_feature(batch[..., 0::2].mT @ descent)
    # The noise of the patches moves a detector in the other d - 1 directions: root mean square.
    spread = rate * data.sigma_zeta * math.sqrt(data.d - 1)
    across = spread * on * per_feature(batch[..., 1::2].mT @ descent.square()).sqrt()
    decrement = torch.hypot(along, across) / learner.kappa_b
    next_state = state._replace(
        displacement=state.displacement + along, decrement=state.decrement + decrement
    )
    return next_state, loss, F.amax((1, 2))


def train(
    state: DetectorState,
    data: EasyData,
    learner: Learner,
    batches: Iterable[tuple[Patches, Tensor]],
    record: list[int],
    tune: Tensor | None = None,
) -> tuple[DetectorState, DetectorHistory]:
    """Train on batches of easy samples.

    tune (G,).
    """
    rows = []
    for t, (patches, classes) in enumerate(batches):
        previous = state
        state, loss, response = step(state, data, learner, moments(patches, data.k), classes, tune)
        if t in record:
            if not loss.isfinite().all():
                raise RarefeatError(DIVERGED)
            row = (torch.tensor(t), previous.displacement, previous.decrement, loss, response)
            rows.append(row)
    if not state.net_response.isfinite().all():
        raise RarefeatError(DIVERGED)
    return state, DetectorHistory(*(torch.stack(column) for column in zip(*rows, strict=True)))
