"""What the neurons of one replica were at W(0), T1, T2 and T, from their kept history."""

import math

import torch
from torch import Tensor

from rarefeat.chain.tables import MILESTONES
from rarefeat.config.model import Data, Training
from rarefeat.core.definitions import ALIGNED, GAMMA, PURE
from rarefeat.core.neurons import lucky_neurons, ordinary_neurons
from rarefeat.core.recording import log_spaced
from rarefeat.core.theory import stage1_growth


def share(condition: Tensor, where: Tensor) -> float:
    """Share of the pairs (neuron, feature) in `where` with the condition; NaN where there is none."""
    return (condition & where).sum().item() / where.sum().item() if where.any() else math.nan


def growth(projections: Tensor, steps: int) -> Tensor:
    """Growth factor per step of sqrt(sum_i <w_i, M_j>^2) between two times, (2, m, q) -> (q,)."""
    start, end = projections.double().square().sum(1)
    return (end / start) ** (1 / (2 * steps))


def milestones(
    history: Tensor, T1: int, data: Data, training: Training, eps_min: float, sigma: float, directions: torch.Generator
) -> dict[str, float]:
    """Metrics of one replica.

    Args:
        history: (R, m, d + 2), <w_i, M_j>, ||w_i|| and b_i at the recorded steps. T1: the step that ended stage 1, -1 for none.
        directions: of the part outside span(M), which is uniform on its sphere: data, noise and W(0) know no direction there.

    Returns:
        The quantities of rarefeat.claims by name; NaN for what this replica does not have.
    """
    steps, d, m = log_spaced(training.T), data.d, training.m
    minority = len(data.minority)
    projections, norms, bias = history[..., :d].double(), history[..., d].double(), history[..., d + 1].double()
    outside = (norms.square() - projections.square().sum(-1)).clamp_min(0).sqrt()
    eta, lambda_ = training.eta, training.lambda_
    log_d = math.log(d)
    rates = torch.ones(d, dtype=torch.float64)
    rates[-minority:] = eps_min * torch.tensor(data.minority, dtype=torch.float64)

    # Initialisation: Lemma B.2 (a) and (b), with the logarithm as the factor hidden in O-tilde.
    total = norms[0].square() / (training.sigma_0**2 * data.d1)
    inside = projections[0].square().sum(-1) / (training.sigma_0**2 * d)
    found = dict.fromkeys(MILESTONES, math.nan) | {
        "initial_norm_deviation": ((total - 1).abs().max() * math.sqrt(data.d1) / math.log(data.d1)).item(),
        "initial_feature_norm_deviation": ((inside - 1).abs().max() * math.sqrt(d) / log_d).item(),
        "T1": float(T1) if T1 >= 0 else math.nan,
    }

    # Stage 1: growth over the first half of it, while it is linear.
    half = max((index for index, step in enumerate(steps) if 0 < step <= T1 / 2), default=None)
    if half:
        rate = growth(projections[[0, half]], steps[half]) - 1 + eta * lambda_
        predicted = stage1_growth(rates, data.C, data.L, sigma**2 * data.d1, training.K, training.tau, eta, lambda_)
        found["stage1_growth_minority"] = rate[-minority:].mean().item()
        found["stage1_growth_majority"] = rate[:-minority].mean().item()
        found["stage1_growth_over_closed_form"] = (rate / (predicted - 1 + eta * lambda_))[:-minority].mean().item()
        found["stage1_decay_outside"] = (growth(outside[[0, half], :, None], steps[half]) - 1).item() / (-eta * lambda_)

    # The sets of Definition B.1 at W(0), from the feature part alone.
    eye = torch.eye(d, dtype=torch.float64)[None]
    lucky = lucky_neurons(projections[:1], eye, eps_min, GAMMA)[0]
    ordinary = ordinary_neurons(projections[:1], eye, eps_min, GAMMA)[0]
    bound = math.sqrt(2 * log_d / d)

    at_T1 = min((index for index, step in enumerate(steps) if 0 <= T1 <= step), default=None)
    if at_T1 is not None:
        cosines = projections[at_T1].abs() / norms[at_T1][:, None]
        found["lucky_above_threshold_at_T1"] = share(cosines >= math.sqrt(1 + GAMMA) * bound, lucky)
        found["others_below_threshold_at_T1"] = share(cosines <= math.sqrt(1 - GAMMA) * bound, ~ordinary)
        many = (cosines >= log_d**0.25 / math.sqrt(d)).sum(-1)
        unit = torch.randn(m, data.d1 - d, generator=directions)
        largest = unit.abs().amax(-1) / unit.norm(dim=-1) * outside[at_T1] / norms[at_T1]
        found["outside_largest_at_T1"] = largest.max().item() / math.sqrt(log_d / data.d1)
        found["few_strong_features_at_T1"] = (many <= d / (2 * math.sqrt(log_d))).double().mean().item()

        # Stage 2 ends when one neuron has grown d-fold, eq. (61).
        grown = norms.square() >= d * norms[at_T1].square()
        at_T2 = next((index for index in range(at_T1, len(steps)) if grown[index].any()), None)
        if at_T2 is not None:
            found["T2"] = float(steps[at_T2])
            now, size = projections[at_T2].abs(), norms[at_T2][:, None]
            found["lucky_growth_at_T2"] = share(now.square() >= 2 * rates * norms[at_T1][:, None].square(), lucky)
            found["lucky_focus_at_T2"] = (now / size)[lucky].mean().item() / eps_min if lucky.any() else math.nan
            best = torch.where(lucky, now, 0.0).amax(0)
            others = torch.where(ordinary, now, 0.0).amax(0)
            seen = best > 0
            found["ordinary_over_lucky_at_T2"] = (others / best)[seen].max().item() if seen.any() else math.nan
            found["bias_at_T2"] = (bias[at_T2] * math.sqrt(d) / norms[at_T2]).min().item()

    # The end of training: Theorem 3.1 and Theorem E.1.
    cosines = projections[-1].abs() / norms[-1][:, None]
    strongest = torch.where(ordinary, projections[-1].abs(), 0.0).amax(0)
    compared = (projections[-1].abs() / strongest)[lucky]
    found["lucky_focus_at_T"] = cosines[lucky].mean().item()
    found["lucky_over_strongest_at_T"] = compared.min().item() if len(compared) else math.nan
    found["others_small_at_T"] = share(cosines <= rates / math.sqrt(d), ~ordinary)
    strength = projections[-1].square().sum(0)
    largest = projections[-1].abs().amax(0)
    found |= {
        "largest_norm": norms[-1].max().item(),
        "share_outside": (outside[-1].square() / norms[-1].square()).mean().item(),
        "outside_per_direction": ((outside[-1] / norms[-1]).max() * math.sqrt(data.d1 / max(data.d1 - d, 1))).item(),
        "strength_ratio": (strength[-minority:].mean() / strength[:-minority].mean()).item(),
        "magnitude_ratio": (largest[-minority:].mean() / largest[:-minority].mean()).item(),
        "alignment_gap": (cosines.amax(0)[:-minority].mean() - cosines.amax(0)[-minority:].mean()).item(),
        "pure_share": (cosines.amax(-1) > PURE).double().mean().item(),
        "pure_minority_neurons": (cosines[:, -minority:] > PURE).any(-1).sum().item(),
    }
    # What the oracle would prune: Theorem 3.2 (c).
    pruned = (cosines.amax(-1) > 0.5) & (cosines.argmax(-1) >= d - minority)
    if pruned.any():
        found["pruned_other_features"] = (cosines[pruned, :-minority].max() * math.sqrt(d)).item()
        found["pruned_outside"] = ((outside[-1] / norms[-1])[pruned].max() * math.sqrt(data.d1 / max(data.d1 - d, 1))).item()
    # Magnitude pruning takes the neurons of smallest norm: are they the minority's?
    aligned = cosines[:, -minority:].amax(-1) >= ALIGNED
    rank = norms[-1].argsort().argsort().double() / max(m - 1, 1)
    found["minority_norm_rank"] = rank[aligned].mean().item() if aligned.any() else math.nan
    return found
