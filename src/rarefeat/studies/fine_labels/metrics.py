"""What is read off a trained network: errors, growth, detectors, the closed form on its own numbers, and linear heads."""

import numpy as np
import torch
from torch import Tensor

from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import EasyData, HierarchicalData
from rarefeat.studies.fine_labels.data import Generators, Patches, subclasses
from rarefeat.studies.fine_labels.objective import strongest
from rarefeat.studies.fine_labels.scalar_simulator import DetectorState


def truth(k: int, n: int) -> Tensor:
    """The superclass of n samples in order of their subclass, (n,)."""
    return subclasses(k, n) // k


def superclass_error(scores: Tensor, superclass: Tensor, k: int) -> Tensor:
    """Share of samples with Fhat_y <= Fhat_y' (Theorems 5.1 and 5.2: ties are errors), (S, n, G) -> (S,)."""
    fhat, _ = strongest(scores, superclass)
    own = truth(k, scores.shape[1]).expand(scores.shape[:2])[..., None]
    return (fhat.gather(-1, own) <= fhat.gather(-1, 1 - own))[..., 0].double().mean(-1)


def fine_error(scores: Tensor, k: int) -> Tensor:
    """Share of samples with F_y <= max of the other subclasses' (Theorem G.3.1), (S, n, 2k) -> (S,)."""
    own = subclasses(k, scores.shape[1]).expand(scores.shape[:2])[..., None]
    others = scores.scatter(-1, own, -torch.inf).amax(-1)
    return (scores.gather(-1, own)[..., 0] <= others).double().mean(-1)


def on_diagonal(values: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Of (..., G, F), what is for the common and for the subclass features a class has samples of (`data.own_features`)."""
    return values[..., :2][..., own[:, :2]], values[..., 2:][..., own[:, 2:]]


def growth_ratio(displacement: Tensor, detectors: Tensor, own: Tensor) -> Tensor:
    """Mean A of subclass over mean A of common features, where there are detectors: (..., G, F) -> (...)."""
    present = on_diagonal((detectors > 0).expand_as(displacement), own)
    common, subclass = (
        (A * there).sum(-1) / there.sum(-1)
        for A, there in zip(on_diagonal(displacement, own), present, strict=True)
    )
    return subclass / common


def smallest_detectors(state: DetectorState, own: Tensor) -> Tensor:
    """The smallest |S(v)| on the diagonal, (S,): at 0 a subclass without a detector makes an error floor."""
    return torch.cat(on_diagonal(state.detectors, own), -1).amin(-1)


def bias_over_displacement(state: DetectorState, own: Tensor) -> tuple[Tensor, Tensor]:
    """B / A of common and of subclass detectors, means over the diagonal where there are detectors (Lemma E.7): (S,), (S,)."""
    ratio = torch.where(state.detectors > 0, state.decrement / state.displacement, torch.nan)
    common, subclass = on_diagonal(ratio, own)
    return common.nanmean(-1), subclass.nanmean(-1)


def predicted_hard_error(
    state: DetectorState, data: HierarchicalData, superclass: Tensor
) -> Tensor:
    """`theory.hard_error` on each replica's own detectors, mean over the subclasses: -> (S,).

    Against a subclass stands the strongest of the other superclass' groups at the mean amplitude.
    """
    k = data.k
    slope, cost = state.projection, state.negative_bias
    one = (state.detectors * state.net_response.clamp(min=0))[..., 2:]
    predicted = []
    for y in (0, 1):
        own, other = superclass == y, superclass != y
        heard = one[:, own, y * k : (y + 1) * k].amax(1)
        # The groups of the other superclass, and the common feature that distracts from y.
        slopes, costs, count = (part[:, other, 1 - y] for part in (slope, cost, state.detectors))
        loudest = (count * (slopes * np.mean(data.alpha_dag) - costs).clamp(min=0)).argmax(
            -1, keepdim=True
        )
        slopes, costs, count = (part.gather(-1, loudest) for part in (slopes, costs, count))
        error = theory.hard_error(
            data, heard.numpy(), (count * slopes).numpy(), (costs / slopes).numpy()
        )
        predicted.append(torch.from_numpy(error).mean(-1))
    return torch.stack(predicted).mean(0)


def off_diagonal_growth(state: DetectorState, own: Tensor) -> Tensor:
    """How far any detector of a class outgrew its response at t = 0 to a feature that is not the class' own (Q7), (S,)."""
    grown = (state.net_response.clamp(min=0) - state.initial) * state.detectors.sign()
    return grown.masked_fill(own, -torch.inf).amax((-2, -1))


def ridge_heads(
    features: Tensor, labels: Tensor, penalties: list[float]
) -> list[tuple[Tensor, Tensor]]:
    """Minimisers of mean squared error + penalty v |head|^2 with free intercept: (n, p), (n,) -> (head (p,), intercept) each.

    v is the summed variance of the features, which makes the penalty free of their scale. 0: least squares of smallest norm.
    """
    used = (features != 0).any(0)  # a neuron that never answers has no part in any of the solutions
    x, y = features[:, used], labels - labels.mean()
    mean = x.mean(0)
    U, s, Vh = torch.linalg.svd(x - mean, full_matrices=False)
    known = s > s[:1] * max(x.shape) * torch.finfo(s.dtype).eps
    along = U.T @ y

    def solution(penalty: float) -> tuple[Tensor, Tensor]:
        shrunk = torch.where(known, s / (s.square() + penalty * s.square().sum()), 0.0)
        head = torch.zeros_like(features[0])
        head[used] = Vh.T @ (shrunk * along)
        return head, labels.mean() - mean @ head[used]

    return [solution(penalty) for penalty in penalties]


def head_error(head: tuple[Tensor, Tensor], features: Tensor, labels: Tensor) -> float:
    """Share of samples on the wrong side of 0, or on it; labels -1 and 1."""
    weights, intercept = head
    return ((features @ weights + intercept) * labels <= 0).double().mean().item()


def signs(k: int, n: int) -> Tensor:
    """The superclass as +1 and -1, (n,) float64."""
    return 1.0 - 2 * truth(k, n).double()


def mixed(easy: Tensor, hard: Tensor, share: float, k: int) -> tuple[Tensor, Tensor]:
    """As many samples of every subclass, of which a share are hard, and their signs: (n, p) twice -> (n, p), (n,)."""
    per = len(easy) // (2 * k)
    swapped = torch.arange(per) < round(share * per)
    return torch.where(swapped.repeat(2 * k)[:, None], hard, easy), signs(k, len(easy))


def probe_errors(
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    k: int,
    penalties: list[float],
    shares: list[float],
) -> list[dict]:
    """Errors of linear heads on easy and hard samples for every penalty and share of hard training samples.

    Args:
        train, test: features of easy and of hard samples, (n, p) each.

    Returns:
        Rows penalty, hard_share, easy, hard.
    """
    rows = []
    for share in shares:
        x, y = mixed(*train, share, k)
        for penalty, head in zip(penalties, ridge_heads(x, y, penalties), strict=True):
            errors = {
                kind: head_error(head, part, signs(k, len(part)))
                for kind, part in zip(("easy", "hard"), test, strict=True)
            }
            rows.append({"penalty": penalty, "hard_share": share, **errors})
    return rows


def patch_sums(data: EasyData, patches: Patches, generators: Generators) -> Tensor:
    """sum_p x_p, what a linear model on patches sees, in law: the noise of P patches is one Gaussian. -> (S, n, d) float64."""
    _, n, P = patches.feature.shape
    noise = torch.stack(
        [torch.randn(n, data.d, generator=g, dtype=torch.float64) for g in generators]
    )
    sums = data.sigma_zeta * P**0.5 * noise
    return sums.scatter_add_(-1, patches.feature, patches.amplitude)


def scores_in_noise(
    state: DetectorState, data: EasyData, patches: Patches, generators: Generators
) -> Tensor:
    """`scalar_simulator.scores` with what the detectors answer to the noise along their feature, patch by patch: -> (S, n, G).

    For a cell whose patches are many and loud; one generator a replica.
    """
    slope, cost = state.projection, state.negative_bias
    S, n, P = patches.feature.shape
    F = slope.shape[-1]
    total = torch.empty(S, n, slope.shape[1], dtype=slope.dtype)
    for s, g in enumerate(generators):
        for i in range(n):
            amount = data.sigma_zeta * torch.randn(P, F, generator=g, dtype=slope.dtype)
            amount.scatter_add_(1, patches.feature[s, i, :, None], patches.amplitude[s, i, :, None])
            heard = (amount[:, None] * slope[s] - cost[s]).clamp(min=0).sum(0)
            total[s, i] = (heard * state.detectors[s]).sum(-1)
    return total


def smallest_change(before: DetectorState, after: DetectorState, own: Tensor) -> Tensor:
    """Smallest change of a detector of a class' own features, in units of their mean displacement before it: (S,)."""
    changes = [
        part.amin(-1) / whole.mean(-1)
        for part, whole in zip(
            on_diagonal(after.displacement - before.displacement, own),
            on_diagonal(before.displacement, own),
            strict=True,
        )
    ]
    return torch.minimum(*changes)
