"""Metrics of trained networks: errors, growth, closed form, and linear heads.

Axes: S replicas, G classes, F features, n samples in the order of their subclasses, p inputs of a
head.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model.linear_probe import ridge_heads, sign_error
from rarefeat.model.randomness import draw
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import EasyData, HierarchicalData
from rarefeat.studies.fine_labels.data import Generators, Patches, normal, subclasses, superclass_of
from rarefeat.studies.fine_labels.direct_simulator import strongest
from rarefeat.studies.fine_labels.scalar_simulator import DetectorState

Both = tuple[Float[Tensor, "n p"], Float[Tensor, "n p"]]
"""Easy and hard samples."""
OwnFeatures = Bool[Tensor, "G F"]
"""Features that the samples of each class hold."""


def superclass_error(
    scores: Float[Tensor, "S n G"], superclass: Int[Tensor, " G"], k: int
) -> Float[Tensor, " S"]:
    """Compute the fraction of samples with Fhat_y <= Fhat_y', ties too (Theorems 5.1, 5.2)."""
    fhat, _ = strongest(scores, superclass)
    y = superclass_of(k, scores.shape[1]).expand(scores.shape[:2])[..., None]
    return (fhat.gather(-1, y) <= fhat.gather(-1, 1 - y))[..., 0].double().mean(-1)


def fine_error(scores: Float[Tensor, "S n G"], k: int) -> Float[Tensor, " S"]:
    """Compute the fraction of samples with F_y <= max of the other subclasses (Theorem G.3.1)."""
    y = subclasses(k, scores.shape[1]).expand(scores.shape[:2])[..., None]
    others = scores.scatter(-1, y, -torch.inf).amax(-1)
    return (scores.gather(-1, y)[..., 0] <= others).double().mean(-1)


def on_diagonal(
    values: Float[Tensor, "*b G F"], features: OwnFeatures
) -> tuple[Float[Tensor, "*b common"], Float[Tensor, "*b subclass"]]:
    """Select values of the common and of the subclass features that classes have samples of."""
    return values[..., :2][..., features[:, :2]], values[..., 2:][..., features[:, 2:]]


def growth_ratio(
    displacement: Float[Tensor, "*b G F"], detectors: Float[Tensor, "S G F"], features: OwnFeatures
) -> Float[Tensor, "*b"]:
    """Compute the mean A of subclass over the mean A of common features."""
    has_detector = on_diagonal((detectors > 0).expand_as(displacement), features)
    common, subclass = (
        (A * mask).sum(-1) / mask.sum(-1)
        for A, mask in zip(on_diagonal(displacement, features), has_detector, strict=True)
    )
    return subclass / common


def smallest_detectors(state: DetectorState, features: OwnFeatures) -> Float[Tensor, " S"]:
    """Return the smallest |S(v)| on the diagonal; one of 0 makes an error floor."""
    return torch.cat(on_diagonal(state.detectors, features), -1).amin(-1)


def bias_over_displacement(
    state: DetectorState, features: OwnFeatures
) -> tuple[Float[Tensor, " S"], Float[Tensor, " S"]]:
    """Compute the mean B / A of common and of subclass detectors on the diagonal (Lemma E.7)."""
    ratio = torch.where(state.detectors > 0, state.decrement / state.displacement, torch.nan)
    common, subclass = on_diagonal(ratio, features)
    return common.nanmean(-1), subclass.nanmean(-1)


def off_diagonal_growth(state: DetectorState, features: OwnFeatures) -> Float[Tensor, " S"]:
    """Compute the largest growth of a response to a feature that the class does not have (Q7)."""
    growth = (state.net_response.clamp(min=0) - state.initial) * state.detectors.sign()
    return growth.masked_fill(features, -torch.inf).amax((-2, -1))


def smallest_change(
    before: DetectorState, after: DetectorState, features: OwnFeatures
) -> Float[Tensor, " S"]:
    """Compute the smallest change of a detector on the diagonal, over the mean displacement."""
    changes = on_diagonal(after.displacement - before.displacement, features)
    displacements = on_diagonal(before.displacement, features)
    pairs = zip(changes, displacements, strict=True)
    return torch.minimum(*(change.amin(-1) / A.mean(-1) for change, A in pairs))


def predicted_hard_error(
    state: DetectorState, data: HierarchicalData, superclass: Int[Tensor, " G"]
) -> Float[Tensor, " S"]:
    """Compute `theory.hard_error` for the detectors of each replica, the mean over subclasses.

    Against a subclass, the strongest group of the other superclass at the mean amplitude counts.
    """
    k = data.k
    responses = (state.detectors * state.net_response.clamp(min=0))[..., 2:]
    errors = []
    for y in (0, 1):
        same, other = superclass == y, superclass != y
        subclass = responses[:, same, y * k : (y + 1) * k].amax(1)
        # The groups of the other superclass, for the common feature that distracts from y.
        groups = state.projection, state.negative_bias, state.detectors
        slopes, costs, count = (tensor[:, other, 1 - y] for tensor in groups)
        mean_response = count * (slopes * np.mean(data.alpha_dag) - costs).clamp(min=0)
        largest = mean_response.argmax(-1, keepdim=True)
        slopes, costs, count = (tensor.gather(-1, largest) for tensor in (slopes, costs, count))
        error = theory.hard_error(
            data, subclass.numpy(), (count * slopes).numpy(), (costs / slopes).numpy()
        )
        errors.append(torch.from_numpy(error).mean(-1))
    return torch.stack(errors).mean(0)


def signs(k: int, n: int) -> Float[Tensor, " n"]:
    """Return the superclass of n samples as +1 and -1."""
    return 1.0 - 2 * superclass_of(k, n).double()


def mix_samples(samples: Both, share: float, k: int) -> Float[Tensor, "n p"]:
    """Replace a fraction of the easy samples of every subclass by hard ones."""
    easy, hard = samples
    per_subclass = len(easy) // (2 * k)
    is_hard = torch.arange(per_subclass) < round(share * per_subclass)
    return torch.where(is_hard.repeat(2 * k)[:, None], hard, easy)


def probe_errors(
    train: Both, test: Both, k: int, penalties: list[float], shares: list[float]
) -> list[dict]:
    """Compute errors on easy and on hard samples of linear heads of every penalty and share."""
    rows = []
    for share in shares:
        x = mix_samples(train, share, k)
        heads = ridge_heads(x, signs(k, len(x)), penalties)
        for penalty, head in zip(penalties, heads, strict=True):
            easy, hard = (sign_error(head, samples, signs(k, len(samples))) for samples in test)
            rows.append({"penalty": penalty, "hard_share": share, "easy": easy, "hard": hard})
    return rows


def patch_sums(data: EasyData, patches: Patches, generators: Generators) -> Float[Tensor, "S n d"]:
    """Draw sum_p x_p, the input of a linear model; the noise of P patches is one Gaussian."""
    _, n, P = patches.feature.shape
    sums = data.sigma_zeta * P**0.5 * draw(normal, generators, n, data.d)
    return sums.scatter_add_(-1, patches.feature, patches.amplitude)


def scores_in_noise(
    state: DetectorState, data: EasyData, patches: Patches, generators: Generators
) -> Float[Tensor, "S n G"]:
    """Compute F_c(X) as `scalar_simulator.scores`, with the noise along each feature."""
    S, n, P = patches.feature.shape
    total = torch.empty(S, n, state.detectors.shape[1], dtype=torch.float64)
    for s, rng in enumerate(generators):
        for i in range(n):
            amount = data.sigma_zeta * normal(P, data.features, generator=rng)
            amount.scatter_add_(1, patches.feature[s, i, :, None], patches.amplitude[s, i, :, None])
            outputs = amount[:, None] * state.projection[s] - state.negative_bias[s]
            total[s, i] = (outputs.clamp(min=0).sum(0) * state.detectors[s]).sum(-1)
    return total
