"""Metrics of trained networks: errors, growth, closed form, and linear heads.

Shapes: S replicas, G classes, F features, n samples in the order of their subclasses.
"""

import numpy as np
import torch
from torch import Tensor

from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import EasyData, HierarchicalData
from rarefeat.studies.fine_labels.data import Generators, Patches, subclasses
from rarefeat.studies.fine_labels.objective import strongest
from rarefeat.studies.fine_labels.scalar_simulator import DetectorState


def truth(k: int, n: int) -> Tensor:
    """Return the superclass of n samples, (n,)."""
    return subclasses(k, n) // k


def superclass_error(scores: Tensor, superclass: Tensor, k: int) -> Tensor:
    """Compute the fraction of samples with Fhat_y <= Fhat_y'; ties are errors.

    scores (S, n, G), superclass (G,) -> (S,). hong_fine_grained_labels, Theorems 5.1 and 5.2.
    """
    fhat, _ = strongest(scores, superclass)
    y = truth(k, scores.shape[1]).expand(scores.shape[:2])[..., None]
    return (fhat.gather(-1, y) <= fhat.gather(-1, 1 - y))[..., 0].double().mean(-1)


def fine_error(scores: Tensor, k: int) -> Tensor:
    """Compute the fraction of samples with F_y <= max of the other subclasses (Theorem G.3.1).

    Scores are (S, n, 2 k), the result (S,).
    """
    y = subclasses(k, scores.shape[1]).expand(scores.shape[:2])[..., None]
    others = scores.scatter(-1, y, -torch.inf).amax(-1)
    return (scores.gather(-1, y)[..., 0] <= others).double().mean(-1)


def on_diagonal(values: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """Select values of the common and of the subclass features that classes have samples of.

    Values are (..., G, F); features are bool (G, F), `data.own_features`.
    """
    return values[..., :2][..., features[:, :2]], values[..., 2:][..., features[:, 2:]]


def growth_ratio(displacement: Tensor, detectors: Tensor, features: Tensor) -> Tensor:
    """Compute the mean A of subclass over the mean A of common features.

    displacement (..., G, F), detectors (S, G, F), features (G, F) -> (...).
    """
    has_detector = on_diagonal((detectors > 0).expand_as(displacement), features)
    common, subclass = (
        (A * mask).sum(-1) / mask.sum(-1)
        for A, mask in zip(on_diagonal(displacement, features), has_detector, strict=True)
    )
    return subclass / common


def smallest_detectors(state: DetectorState, features: Tensor) -> Tensor:
    """Return the smallest |S(v)| on the diagonal, (S,); a subclass without a detector makes an
    error floor.
    """
    return torch.cat(on_diagonal(state.detectors, features), -1).amin(-1)


def bias_over_displacement(state: DetectorState, features: Tensor) -> tuple[Tensor, Tensor]:
    """Compute B / A of common and of subclass detectors (Lemma E.7), means over the diagonal where
    there are detectors, (S,) each.
    """
    ratio = torch.where(state.detectors > 0, state.decrement / state.displacement, torch.nan)
    common, subclass = on_diagonal(ratio, features)
    return common.nanmean(-1), subclass.nanmean(-1)


def predicted_hard_error(
    state: DetectorState, data: HierarchicalData, superclass: Tensor
) -> Tensor:
    """Compute `theory.hard_error` for the detectors of each replica, the mean over subclasses.

    Against a subclass, the strongest group of the other superclass at the mean amplitude counts.

    superclass (G,) -> (S,).
    """
    k = data.k
    projection, negative_bias = state.projection, state.negative_bias
    responses = (state.detectors * state.net_response.clamp(min=0))[..., 2:]
    errors = []
    for y in (0, 1):
        same, other = superclass == y, superclass != y
        subclass = responses[:, same, y * k : (y + 1) * k].amax(1)
        # The groups of the other superclass, for the common feature that distracts from y.
        slopes, costs, count = (
            tensor[:, other, 1 - y] for tensor in (projection, negative_bias, state.detectors)
        )
        mean_response = count * (slopes * np.mean(data.alpha_dag) - costs).clamp(min=0)
        largest = mean_response.argmax(-1, keepdim=True)
        slopes, costs, count = (tensor.gather(-1, largest) for tensor in (slopes, costs, count))
        error = theory.hard_error(
            data, subclass.numpy(), (count * slopes).numpy(), (costs / slopes).numpy()
        )
        errors.append(torch.from_numpy(error).mean(-1))
    return torch.stack(errors).mean(0)


def off_diagonal_growth(state: DetectorState, features: Tensor) -> Tensor:
    """Compute the largest growth since t = 0 of a response to a feature that the class has no
    samples of (Q7), (S,).
    """
    growth = (state.net_response.clamp(min=0) - state.initial) * state.detectors.sign()
    return growth.masked_fill(features, -torch.inf).amax((-2, -1))


def ridge_heads(
    features: Tensor, labels: Tensor, penalties: list[float]
) -> list[tuple[Tensor, Tensor]]:
    """Minimise the mean squared error + penalty v |head|^2, with a free intercept.

    v is the summed variance of the features, so that the penalty does not depend on their scale.

    features (n, p), labels (n,) -> (p,).
    """
    is_used = (features != 0).any(0)  # a neuron that is never active has weight 0 in all solutions
    x, y = features[:, is_used], labels - labels.mean()
    mean = x.mean(0)
    U, s, Vh = torch.linalg.svd(x - mean, full_matrices=False)
    is_positive = s > s[:1] * max(x.shape) * torch.finfo(s.dtype).eps
    along = U.T @ y

    def solution(penalty: float) -> tuple[Tensor, Tensor]:
        shrunk = torch.where(is_positive, s / (s.square() + penalty * s.square().sum()), 0.0)
        head = torch.zeros_like(features[0])
        head[is_used] = Vh.T @ (shrunk * along)
        return head, labels.mean() - mean @ head[is_used]

    return [solution(penalty) for penalty in penalties]


def head_error(head: tuple[Tensor, Tensor], features: Tensor, labels: Tensor) -> float:
    """Compute the fraction of samples on the wrong side of 0, or on it.

    head (p,), features (n, p), labels (n,).
    """
    weights, intercept = head
    return ((features @ weights + intercept) * labels <= 0).double().mean().item()


def signs(k: int, n: int) -> Tensor:
    """Return the superclass of n samples as +1 and -1, (n,) float64."""
    return 1.0 - 2 * truth(k, n).double()


def mix_samples(easy: Tensor, hard: Tensor, share: float, k: int) -> tuple[Tensor, Tensor]:
    """Replace a fraction of the easy samples of every subclass by hard ones.

    easy, hard (n, p) -> inputs (n, p), signs (n,).
    """
    per_subclass = len(easy) // (2 * k)
    is_hard = torch.arange(per_subclass) < round(share * per_subclass)
    return torch.where(is_hard.repeat(2 * k)[:, None], hard, easy), signs(k, len(easy))


def probe_errors(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    k: int,
    penalties: list[float],
    shares: list[float],
) -> list[dict]:
    """Compute errors of linear heads on easy and hard samples.

    train, test (n, p).
    """
    rows = []
    for share in shares:
        x, y = mix_samples(*train, share, k)
        for penalty, head in zip(penalties, ridge_heads(x, y, penalties), strict=True):
            errors = {
                kind: head_error(head, features, signs(k, len(features)))
                for kind, features in zip(("easy", "hard"), test, strict=True)
            }
            rows.append({"penalty": penalty, "hard_share": share, **errors})
    return rows


def patch_sums(data: EasyData, patches: Patches, generators: Generators) -> Tensor:
    """Draw sum_p x_p, the input of a linear model on patches.

    The noise of P patches is drawn as one Gaussian, which has the distribution of their sum.

    -> (S, n, d).
    """
    _, n, P = patches.feature.shape
    noise = torch.stack(
        [torch.randn(n, data.d, generator=rng, dtype=torch.float64) for rng in generators]
    )
    sums = data.sigma_zeta * P**0.5 * noise
    return sums.scatter_add_(-1, patches.feature, patches.amplitude)


def scores_in_noise(
    state: DetectorState, data: EasyData, patches: Patches, generators: Generators
) -> Tensor:
    """Compute F_c(X) with the response of detectors to the noise along their feature, for many or
    loud patches.

    The rest is as in `scalar_simulator.scores`.

    -> (S, n, G).
    """
    projection, negative_bias = state.projection, state.negative_bias
    S, n, P = patches.feature.shape
    F = projection.shape[-1]
    total = torch.empty(S, n, projection.shape[1], dtype=projection.dtype)
    for s, rng in enumerate(generators):
        for i in range(n):
            amount = data.sigma_zeta * torch.randn(P, F, generator=rng, dtype=projection.dtype)
            amount.scatter_add_(1, patches.feature[s, i, :, None], patches.amplitude[s, i, :, None])
            outputs = (amount[:, None] * projection[s] - negative_bias[s]).clamp(min=0).sum(0)
            total[s, i] = (outputs * state.detectors[s]).sum(-1)
    return total


def smallest_change(before: DetectorState, after: DetectorState, features: Tensor) -> Tensor:
    """Compute the smallest change of a detector on the diagonal, over the mean displacement.

    features (G, F) -> (S,).
    """
    changes = on_diagonal(after.displacement - before.displacement, features)
    displacements = on_diagonal(before.displacement, features)
    ratios = (
        change.amin(-1) / displacement.mean(-1)
        for change, displacement in zip(changes, displacements, strict=True)
    )
    return torch.minimum(*ratios)
