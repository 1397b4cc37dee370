"""What the statements of the theory are about, on the neurons of one replica: at W(0), in stages 1 and 2, and at the end.

Neurons are what training keeps of them (<w_i, M_j>, ||w_i||, b_i), so that no quantity costs a training. Where no neuron or no
time is there for a statement, its quantity is NaN.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.core.neurons import lucky_neurons, ordinary_neurons
from rarefeat.core.theory import attended_count, stage1_growth
from rarefeat.core.thresholds import ALIGNED_COSINE, GAMMA, PURE_COSINE

UNIFORM_LOGIT_RATIO = 1.1
"""The logits are those of chance while K p, their excess over 1/K, is below this."""
LEARNED_COSINE = 0.5
"""A feature is learned where a neuron has this absolute cosine to it."""


class Neurons(NamedTuple):
    """m neurons at one or several times."""

    projections: Tensor
    """<w_i, M_j>, (..., m, d)."""
    norms: Tensor
    """||w_i||, (..., m)."""
    bias: Tensor
    """b_i, (..., m)."""

    @property
    def feature_norm(self) -> Tensor:
        """||M M^T w_i||, (..., m)."""
        return self.projections.norm(dim=-1)

    @property
    def complement_norm(self) -> Tensor:
        """Norm of what lies off span(M), (..., m)."""
        return (self.norms.square() - self.feature_norm.square()).clamp_min(0).sqrt()

    @property
    def cosines(self) -> Tensor:
        """|<w_i, M_j>| / ||w_i||, (..., m, d)."""
        return self.projections.abs() / self.norms[..., None].clamp_min(
            torch.finfo(self.norms.dtype).tiny
        )

    def select(self, index: int | slice | Tensor) -> "Neurons":
        """At some of the times."""
        return Neurons(self.projections[index], self.norms[index], self.bias[index])


def neurons_from_history(kept: Tensor, d: int) -> Neurons:
    """From what training keeps, (..., m, d + 2): projections, norm and bias."""
    kept = kept.double()
    return Neurons(kept[..., :d], kept[..., d], kept[..., d + 1])


class TheoryParameters(NamedTuple):
    """What the statements name beside the neurons."""

    d: int
    d1: int
    L: int
    C: float
    K: int
    tau: float
    eta: float
    lambda_: float
    sigma_0: float
    nsr: float
    """sigma^2 d1."""
    eps: Tensor
    """eps_j, (d,), the minority features last."""
    minority: int

    @property
    def eps_min(self) -> float:
        """The smallest frequency over the largest, which is 1."""
        return self.eps.min().item()

    @property
    def growth_per_step(self) -> Tensor:
        """Closed form of a step of stage 1, (d,): 1 - eta lambda + eps_j eta C_z loglog d / d."""
        return stage1_growth(
            self.eps, self.C, self.L, self.nsr, self.K, self.tau, self.eta, self.lambda_
        )

    @property
    def lemma_c2_count(self) -> float:
        """d / 2^sqrt(log d), the number of features of Lemma C.2 and (38), (69)."""
        return self.d / 2 ** math.sqrt(math.log(self.d))


class NeuronSets(NamedTuple):
    """Definition B.1, bool (m, d) each."""

    lucky: Tensor
    ordinary: Tensor


def initial_neuron_sets(start: Neurons, eps_min: float) -> NeuronSets:
    """The sets of W(0), which know the features' part of the weights alone."""
    part, eye = (
        start.projections[None],
        torch.eye(start.projections.shape[-1], dtype=torch.float64)[None],
    )
    return NeuronSets(
        lucky_neurons(part, eye, eps_min, GAMMA)[0], ordinary_neurons(part, eye, eps_min, GAMMA)[0]
    )


def conditional_fraction(condition: Tensor, where: Tensor) -> float:
    """Of the pairs in `where`, those with the condition; NaN where there are none."""
    return (condition & where).sum().item() / where.sum().item() if where.any() else math.nan


def max_abs_coordinates(m: int, n: int, generator: torch.Generator) -> Tensor:
    """Largest coordinate, in absolute value, of m uniform directions in n dimensions, (m,).

    Data, noise and W(0) know no direction off span(M), so that what a neuron has there is uniform on its sphere, and its
    largest part in one direction is this times its norm.
    """
    direction = torch.randn(m, n, generator=generator, dtype=torch.float64)
    return direction.abs().amax(-1) / direction.norm(dim=-1)


def initial_metrics(start: Neurons, law: TheoryParameters) -> dict[str, float]:
    """Lemmas B.2 (a) and (b), C.2 and D.2: the weights before training."""
    total = start.norms.square() / (law.sigma_0**2 * law.d1)
    inside = start.feature_norm.square() / (law.sigma_0**2 * law.d)
    size = start.projections.abs() / law.sigma_0
    strong = (size >= math.log(law.d) ** 0.25).sum(-1)
    tiny = (size <= 1 / law.d).sum(-1)
    return {
        "initial_norm_deviation": (total - 1).abs().max().item(),
        "initial_feature_norm_deviation": (inside - 1).abs().max().item(),
        "strong_features_at_0": strong.max().item() / law.lemma_c2_count,
        "tiny_features_at_0": tiny.max().item() * math.log(law.d) / law.d,
    }


def last_linear_index(
    course: Neurons, steps: list[int], T1: int, law: TheoryParameters
) -> int | None:
    """Index of the last recorded step up to T1 at which the logits are still those of chance; None where that is the first.

    K p = exp(a^2 F_j / tau) for the positive of a sample with feature j, F_j = sum_i <w_i, M_j>^2 and a the attended count.
    """
    similarity = (
        attended_count(law.L, law.nsr) ** 2 * course.projections.square().sum(-2).amax(-1) / law.tau
    )
    inside = [
        i
        for i, step in enumerate(steps)
        if 0 < step <= T1 and similarity[i] <= math.log(UNIFORM_LOGIT_RATIO)
    ]
    return max(inside, default=None)


def stage_one_metrics(
    course: Neurons, steps: list[int], T1: int, at_T1: Neurons, law: TheoryParameters
) -> dict[str, float]:
    """Lemmas 3.1 and C.1: rates while the logits are uniform, and bounds up to T1."""
    found = {}
    last = last_linear_index(course, steps, T1, law)
    decay = law.eta * law.lambda_
    if last is not None:
        strength = course.projections[[0, last]].square().sum(-2)
        rate = (strength[1] / strength[0]) ** (1 / (2 * steps[last])) - 1 + decay
        predicted = law.growth_per_step - 1 + decay
        outside = course.complement_norm[[0, last]].square().sum(-1)
        found = {
            "stage1_growth_minority": rate[-law.minority :].mean().item(),
            "stage1_growth_majority": rate[: -law.minority].mean().item(),
            "stage1_growth_over_closed_form": (rate / predicted)[: -law.minority].mean().item(),
            "stage1_decay_outside": (
                (outside[1] / outside[0]) ** (1 / (2 * steps[last])) - 1
            ).item()
            / -decay
            if decay
            else math.nan,
            "stage1_linear_steps": float(steps[last]),
        }
    if T1 < 0:
        return found
    # Lemma C.1 for all t up to T1: the recorded steps before it, and T1 itself.
    early = [i for i, step in enumerate(steps) if 0 < step < T1]
    t = torch.tensor([*(steps[i] for i in early), T1], dtype=torch.float64)[:, None]
    inside = torch.cat([course.feature_norm[early], at_T1.feature_norm[None]]).square()
    outside = torch.cat([course.complement_norm[early], at_T1.complement_norm[None]]).square()
    start, slack = course.feature_norm[0].square(), 1 / law.d
    fastest, slowest = (law.growth_per_step + decay).max(), law.growth_per_step.min()
    upper = (inside / start - slack).clamp_min(1e-12).log() - 2 * t * fastest.log()
    lower = (inside / start + slack).log() - 2 * t * slowest.log()
    return found | {
        "growth_above_its_bound": upper.max().item(),
        "growth_below_its_bound": lower.min().item(),
        "features_over_initial_norm": (inside / course.norms[0].square()).max().item(),
        "outside_growth": (outside / course.complement_norm[0].square()).max().item(),
    }


def metrics_at_T1(
    at_T1: Neurons, sets: NeuronSets, law: TheoryParameters, unit: Tensor
) -> dict[str, float]:
    """Theorem C.1 (b)-(e), at T1. unit: of unit_directions."""
    bound = math.sqrt(math.log(law.d) / law.d)
    cosines, root2 = at_T1.cosines, math.sqrt(2)
    many = (cosines >= math.log(law.d) ** 0.25 / math.sqrt(law.d)).sum(-1)
    return {
        "lucky_above_threshold_at_T1": conditional_fraction(
            cosines >= math.sqrt(1 + GAMMA) * root2 * bound, sets.lucky
        ),
        "lucky_above_the_proofs_at_T1": conditional_fraction(
            cosines >= math.sqrt(1 + GAMMA) * bound, sets.lucky
        ),
        "others_below_threshold_at_T1": conditional_fraction(
            cosines <= math.sqrt(1 - GAMMA) * root2 * bound, ~sets.ordinary
        ),
        "few_strong_features_at_T1": (many <= law.lemma_c2_count).double().mean().item(),
        "outside_largest_at_T1": max_complement_cosine(at_T1, unit)
        / math.sqrt(math.log(law.d) / law.d1),
    }


def max_complement_cosine(now: Neurons, unit: Tensor) -> float:
    """Largest |<w_i, M_j^perp>| / ||w_i|| over neurons and directions, where neurons have times (..., m), over these, too."""
    return (
        (unit * now.complement_norm / now.norms.clamp_min(torch.finfo(now.norms.dtype).tiny))
        .max()
        .item()
    )


def stage_two_metrics(
    between: Neurons, sets: NeuronSets, law: TheoryParameters, unit: Tensor
) -> dict[str, float]:
    """Lemma D.1 at times in (T1, T2], (times, m): shares of lucky or other neurons over all times, the worst of the bounds."""
    log_d = math.log(law.d)
    size, b = between.projections.abs(), between.bias[..., None]
    lucky, others = sets.lucky.expand(size.shape), ~sets.ordinary.expand(size.shape)
    strong = (size.square() >= b.square() / math.sqrt(log_d)).sum(-1)
    cosines = between.cosines.masked_fill(~others, 0.0)
    return {
        "lucky_above_bias": conditional_fraction(size >= math.sqrt(1 + GAMMA) * b, lucky),
        "others_below_bias": conditional_fraction(size <= math.sqrt(1 - GAMMA) * b, others),
        "others_largest": cosines.max().item() * math.sqrt(law.d) / log_d,
        "features_near_bias": strong.max().item() / law.lemma_c2_count,
        "outside_largest_in_stage_two": max_complement_cosine(between, unit)
        * math.sqrt(law.d1)
        / math.log(law.d1),
        "norm_over_bias": (between.norms.square() * log_d / (law.d * between.bias.square()))
        .max()
        .item(),
    }


def metrics_at_T2(
    at_T1: Neurons, at_T2: Neurons, sets: NeuronSets, law: TheoryParameters
) -> dict[str, float]:
    """Lemma 3.2 and Theorem D.1, at T2."""
    size = at_T2.projections.abs()
    best = torch.where(sets.lucky, size, 0.0).amax(0)
    others = torch.where(sets.ordinary, size, 0.0).amax(0)
    seen = best > 0
    return {
        "lucky_growth_at_T2": conditional_fraction(
            size.square() >= 2 * law.eps * at_T1.norms[:, None].square(), sets.lucky
        ),
        "lucky_focus_at_T2": at_T2.cosines[sets.lucky].mean().item() / law.eps_min
        if sets.lucky.any()
        else math.nan,
        "ordinary_over_lucky_at_T2": (others / best)[seen].max().item() if seen.any() else math.nan,
        "bias_at_T2": (at_T2.bias * math.sqrt(law.d) / at_T2.norms).min().item(),
    }


def final_metrics(
    end: Neurons, sets: NeuronSets, law: TheoryParameters, unit: Tensor
) -> dict[str, float]:
    """Theorems 3.1 and E.1, (K2), and what Theorem 3.2 says of the pruned neurons."""
    size, cosines = end.projections.abs(), end.cosines
    rare, common = slice(-law.minority, None), slice(None, -law.minority)
    strongest = torch.where(sets.ordinary, size, 0.0).amax(0)
    compared = (size / strongest)[sets.lucky]
    of_set = torch.where(sets.ordinary, size.square(), 0.0).sum(0)
    strength, largest, best = size.square().sum(0), size.amax(0), cosines.amax(0)
    pure = (cosines > PURE_COSINE).any(-1)
    pure_rare = (cosines[:, rare] > PURE_COSINE).any(-1)
    oracle = (cosines.amax(-1) > LEARNED_COSINE) & (cosines.argmax(-1) >= law.d - law.minority)
    return {
        "lucky_focus_at_T": cosines[sets.lucky].mean().item(),
        "lucky_over_strongest_at_T": compared.min().item() if len(compared) else math.nan,
        "others_small_at_T": conditional_fraction(
            cosines <= law.eps / math.sqrt(law.d), ~sets.ordinary
        ),
        "largest_norm": end.norms.max().item(),
        "bias_at_T": (end.bias * math.sqrt(law.d) / end.norms).min().item(),
        "outside_largest_at_T": max_complement_cosine(end, unit) * math.sqrt(law.d1),
        "strength_ratio": ratio(of_set[rare].mean(), of_set[common].mean())
        if sets.ordinary[:, rare].any()
        else math.nan,
        "strength_ratio_of_all": ratio(strength[rare].mean(), strength[common].mean()),
        "magnitude_ratio": ratio(largest[rare].mean(), largest[common].mean()),
        "learned": float((best[rare] >= LEARNED_COSINE).all()),
        "alignment_gap": (best[common].mean() - best[rare].mean()).item(),
        "pure_share": pure.double().mean().item(),
        "pure_minority_neurons": float(pure_rare.sum()),
        "oracle_neurons": float(oracle.sum()),
        "pruned_other_features": cosines[oracle, common].max().item() * math.sqrt(law.d)
        if oracle.any()
        else math.nan,
        "pruned_outside": max_complement_cosine(end.select(oracle), unit[oracle])
        * math.sqrt(law.d1)
        if oracle.any()
        else math.nan,
        "minority_smaller_auc": auc_of_smaller_norm(end.norms, pure_rare),
        "minority_among_smallest": excess_precision_at_k(
            end.norms, (cosines[:, rare] >= ALIGNED_COSINE).any(-1)
        ),
    }


def ratio(part: Tensor, whole: Tensor) -> float:
    """NaN where there is nothing to compare with."""
    return (part / whole).item() if whole > 0 else math.nan


def auc_of_smaller_norm(norms: Tensor, wanted: Tensor) -> float:
    """Probability that a wanted neuron has a smaller norm than another one, ties as a half: (m,) each; NaN without either."""
    if not wanted.any() or wanted.all():
        return math.nan
    less = norms[wanted][:, None] - norms[~wanted]
    return ((less < 0).double() + 0.5 * (less == 0).double()).mean().item()


def excess_precision_at_k(norms: Tensor, wanted: Tensor) -> float:
    """Of the k smallest norms, k the number of wanted neurons, the share that are wanted, less k / m, which is chance."""
    k = int(wanted.sum())
    if not 0 < k < len(norms):
        return math.nan
    return wanted[norms.argsort(stable=True)[:k]].double().mean().item() - k / len(norms)
