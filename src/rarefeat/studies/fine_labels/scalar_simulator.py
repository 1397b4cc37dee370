"""The scalar simulator: of every class and feature the number of detectors, their displacement A and bias decrement B.

The cost does not depend on d, m or P. What it leaves out, and by how much: docs/method/fine_labels.md.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.core.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Detectors, EasyData, Learner
from rarefeat.studies.fine_labels.data import Generators, Patches
from rarefeat.studies.fine_labels.objective import cross_entropy, fine_tuning

CHUNK = 500
"""Samples whose patches are answered at once."""
DIVERGED = "training diverged: responses are no longer finite; lower eta or T"


class DetectorState(NamedTuple):
    """Detectors of G classes for F features in S replicas, all (S, G, F) float64."""

    detectors: Tensor
    """|S(v)|, the neurons that a v-patch can switch on at t = 0: sqrt(1 + iota) <w(0), v> > -b(0) (Definition C.1)."""
    initial: Tensor
    """Mean of <w(0), v> + b(0) over them; 0 where there is none."""
    displacement: Tensor
    """A = <w(t) - w(0), v>, the same for all that have been active on every v-patch."""
    decrement: Tensor
    """B = b(0) - b(t)."""
    threshold: float
    """-b(0)."""

    def row(self, s: int) -> "DetectorState":
        """Replica s alone."""
        return DetectorState(*(part[s : s + 1] for part in self[:4]), self.threshold)

    @property
    def projection(self) -> Tensor:
        """<w(t), v> of a detector, (S, G, F)."""
        return self.initial + self.threshold + self.displacement

    @property
    def negative_bias(self) -> Tensor:
        """-b(t), (S, G, F)."""
        return self.threshold + self.decrement

    @property
    def net_response(self) -> Tensor:
        """What a detector answers to a patch of amplitude 1, (S, G, F); negative where it is off."""
        return self.initial + self.displacement - self.decrement


class DetectorHistory(NamedTuple):
    """What was recorded at R steps t, of the state before step t."""

    steps: Tensor
    """(R,)."""
    displacement: Tensor
    """(R, S, G, F)."""
    decrement: Tensor
    """(R, S, G, F)."""
    loss: Tensor
    """Of the batch of step t, (R, S)."""
    response: Tensor
    """Largest score of any class on any sample of the batch of step t, (R, S)."""


def initialise(
    classes: int, data: EasyData, detectors: Detectors, sigma_0: float, generators: Generators
) -> DetectorState:
    """The law of |S(v)| and of its members' projections under Gaussian initial weights, one generator a replica.

    Coordinates of a Gaussian vector are independent, hence so are the |S(v)|, binomial in m.
    """
    least = detectors.threshold / math.sqrt(1 + data.iota)
    p = torch.special.ndtr(torch.tensor(-least, dtype=torch.float64)).expand(classes, data.features)

    def draw(g: torch.Generator) -> tuple[Tensor, Tensor]:
        found = torch.binomial(torch.full_like(p, detectors.m), p, generator=g)
        u = torch.rand(*p.shape, int(found.max()), generator=g, dtype=torch.float64)
        # A normal, given that it lies beyond the least.
        excess = -torch.special.ndtri(p[..., None] * u) - detectors.threshold
        present = torch.arange(u.shape[-1]) < found[..., None]
        return found, torch.where(present, excess, 0.0).sum(-1) / found.clamp(min=1)

    found, excess = (torch.stack(part) for part in zip(*map(draw, generators), strict=True))
    zero = torch.zeros_like(found)
    return DetectorState(found, sigma_0 * excess, zero, zero, sigma_0 * detectors.threshold)


def moments(patches: Patches, k: int) -> Tensor:
    """All of a batch that matters, (S, 2k, n / 2k, 4): sum of alpha and number of patches, common, then subclass."""
    common = patches.feature < 2
    held = patches.amplitude > 0
    parts = [
        part
        for kind in (common, ~common)
        for part in ((patches.amplitude * kind).sum(-1), (held & kind).sum(-1).double())
    ]
    return torch.stack(parts, -1).unflatten(1, (2 * k, -1))


def per_subclass(features: Tensor) -> Tensor:
    """What there is for a subclass' common and own feature, of what there is for every feature: (S, G, F) -> (S, 2k, 2, G)."""
    k = (features.shape[-1] - 2) // 2
    return torch.stack([features[..., :2].repeat_interleave(k, -1), features[..., 2:]], -1).permute(
        0, 2, 3, 1
    )


def per_feature(subclasses: Tensor) -> Tensor:
    """The sums over the subclasses that have a feature, the transpose of `per_subclass`: (S, 2k, 2, G) -> (S, G, F)."""
    common, own = subclasses.unbind(2)
    return torch.cat([common.unflatten(1, (2, -1)).sum(2), own], 1).mT


def easy_scores(state: DetectorState, batch: Tensor) -> Tensor:
    """F_c(X) of easy samples by their moments, (S, 2k, n / 2k, 4) -> (S, n, G): detectors that are on answer every patch."""
    on = state.detectors * (state.net_response > 0)
    weights = torch.stack(
        [per_subclass(on * state.projection), -per_subclass(on * state.negative_bias)], 3
    ).flatten(2, 3)
    return (batch @ weights).flatten(1, 2)


def detector_outputs(state: DetectorState, patches: Patches) -> Iterator[Tensor]:
    """What one detector answers to a sample, patch by patch, easy or hard: (n, F, G) for each replica in turn.

    ReLU(alpha (<w(0), v> + A) + b) summed over the patches of v, and over the loud patch zeta*.
    """
    for s, (slope, cost) in enumerate(
        zip(state.projection.mT, state.negative_bias.mT, strict=True)
    ):
        found = []
        for start in range(0, patches.feature.shape[1], CHUNK):
            rows = slice(start, start + CHUNK)
            feature, alpha = patches.feature[s, rows], patches.amplitude[s, rows, :, None]
            each = (alpha * slope[feature] - cost[feature]).clamp(min=0)
            if patches.loud is None:
                total = each.new_zeros(len(feature), *slope.shape)
            else:
                total = (patches.loud[s, rows, :, None] * slope - cost).clamp(min=0)
            found.append(total.scatter_add_(1, feature[..., None].expand_as(each), each))
        yield torch.cat(found)


def scores(state: DetectorState, patches: Patches) -> Tensor:
    """F_c(X) of easy or hard samples, (S, n, G)."""
    return torch.stack(
        [
            (a * S.T).sum(1)
            for a, S in zip(detector_outputs(state, patches), state.detectors, strict=True)
        ]
    )


def head_inputs(state: DetectorState, patches: Patches) -> Tensor:
    """What a linear head sees, (S, n, F G): every neuron's answer, where the |S| equal ones of a group are one, times sqrt |S|.

    For any penalty on the square of the head this is the same regression as on the neurons one by one.
    """
    return torch.stack(
        [
            (a * S.T.sqrt()).flatten(1)
            for a, S in zip(detector_outputs(state, patches), state.detectors, strict=True)
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
    """One update (16) and (18): the next state, the loss (S,) and the largest score (S,).

    Args:
        batch: `moments` of easy samples. classes: (S, N) of them, or where tune, their superclass.
        tune: fine-tune by the maximum rule; the superclass of each class, (G,).
    """
    F = easy_scores(state, batch)
    loss, pull = cross_entropy(F, classes) if tune is None else fine_tuning(F, classes, tune)
    N = pull.shape[1]
    pull = pull.unflatten(1, batch.shape[1:3])
    rate = learner.eta / (N * data.P)
    on = (state.net_response > 0).double()
    moved = rate * on * per_feature(batch[..., 0::2].mT @ pull)
    # The noise of the patches moves a detector along the other d - 1 directions; the square of that, in the mean.
    spread = rate * data.sigma_zeta * math.sqrt(data.d - 1)
    aside = spread * on * per_feature(batch[..., 1::2].mT @ pull.square()).sqrt()
    bias = torch.hypot(moved, aside) / learner.kappa_b
    after = state._replace(
        displacement=state.displacement + moved, decrement=state.decrement + bias
    )
    return after, loss, F.amax((1, 2))


def train(
    state: DetectorState,
    data: EasyData,
    learner: Learner,
    batches: Iterable[tuple[Patches, Tensor]],
    record: list[int],
    tune: Tensor | None = None,
) -> tuple[DetectorState, DetectorHistory]:
    """Train on every batch of easy samples and their classes in turn; `tune` as of `step`.

    Raises:
        RarefeatError: the responses are no longer finite.
    """
    kept = []
    for t, (patches, classes) in enumerate(batches):
        before = state
        state, loss, response = step(state, data, learner, moments(patches, data.k), classes, tune)
        if t in record:
            if not loss.isfinite().all():
                raise RarefeatError(DIVERGED)
            kept.append((torch.tensor(t), before.displacement, before.decrement, loss, response))
    if not state.net_response.isfinite().all():
        raise RarefeatError(DIVERGED)
    return state, DetectorHistory(*(torch.stack(part) for part in zip(*kept, strict=True)))
