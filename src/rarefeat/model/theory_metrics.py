"""Quantities of the theory's statements, on the neurons of one replica.

They refer to W(0), stages 1 and 2, and the end of training. Neurons are read from the history that
training stores (<w_i, M_j>, ||w_i||, b_i), so that no quantity needs a training of its own. A
quantity is NaN where there is no neuron or no time that its statement is about.
Axes: m neurons, d features, the minority ones last. Statements and equations are those of
imbalance_and_pruning. Tables describe every quantity in `MILESTONES` of stages/tables.py.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rarefeat.model.neurons import lucky_neurons, ordinary_neurons
from rarefeat.model.theory import attended_count, stage1_growth
from rarefeat.model.thresholds import ALIGNED_COSINE, GAMMA, HALF_LEARNED, PURE_COSINE

UNIFORM_LOGIT_RATIO = 1.1
"""Bound of K p, with p the softmax weight of the positive, below which logits are uniform."""


class Neurons(NamedTuple):
    """The m neurons of one replica at one or several times."""

    projections: Float[Tensor, "*times m d"]
    """<w_i, M_j>."""
    norms: Float[Tensor, "*times m"]
    """||w_i||."""
    bias: Float[Tensor, "*times m"]
    """b_i."""

    @property
    def feature_norm(self) -> Float[Tensor, "*times m"]:
        """||M M^T w_i||."""
        return self.projections.norm(dim=-1)

    @property
    def complement_norm(self) -> Float[Tensor, "*times m"]:
        """Norm of the component outside span(M)."""
        return (self.norms.square() - self.feature_norm.square()).clamp_min(0).sqrt()

    @property
    def cosines(self) -> Float[Tensor, "*times m d"]:
        """|<w_i, M_j>| / ||w_i||."""
        return self.projections.abs() / self.norms[..., None].clamp_min(
            torch.finfo(self.norms.dtype).tiny
        )

    def select(self, index: int | slice | Tensor) -> "Neurons":
        """Return the neurons at some entries of the first axis: times, or neurons."""
        return Neurons(self.projections[index], self.norms[index], self.bias[index])


def neurons_from_history(history: Float[Tensor, "*times m {d}+2"], d: int) -> Neurons:
    """Convert the history that training stores to neurons in float64."""
    history = history.double()
    return Neurons(history[..., :d], history[..., d], history[..., d + 1])


class TheoryParameters(NamedTuple):
    """Hyper-parameters that the statements name."""

    d: int
    """Number of features."""
    d1: int
    """Dimension of a token."""
    L: int
    """Tokens of a sample."""
    C: float
    """Constant of the rate of activation."""
    K: int
    """Positive pairs of a batch."""
    tau: float
    """Temperature."""
    eta: float
    """Learning rate."""
    lambda_: float
    """Weight decay."""
    sigma_0: float
    """Standard deviation of W(0)."""
    nsr: float
    """Noise-to-signal ratio sigma^2 d1."""
    eps: Float[Tensor, " d"]
    """Frequencies eps_j, the minority features last."""
    n_minority: int
    """Number of minority features."""
    scale: float = 1.0
    """Scale of the attention's logits."""

    @property
    def eps_min(self) -> float:
        """Smallest frequency over the largest, which is 1."""
        return self.eps.min().item()

    @property
    def growth_per_step(self) -> Float[Tensor, " d"]:
        """Closed form of a step of stage 1: 1 - eta lambda + eps_j eta C_z loglog d / d."""
        rates = self.K, self.tau, self.eta, self.lambda_
        return stage1_growth(self.eps, self.C, self.L, self.nsr, *rates, self.scale)

    @property
    def lemma_c2_count(self) -> float:
        """Number of features of Lemma C.2 and (38), (69): d / 2^sqrt(log d)."""
        return self.d / 2 ** math.sqrt(math.log(self.d))


class NeuronSets(NamedTuple):
    """Neurons of Definition B.1."""

    lucky: Bool[Tensor, "m d"]
    """M_j^*."""
    ordinary: Bool[Tensor, "m d"]
    """M_j."""


def initial_neuron_sets(start: Neurons, eps_min: float) -> NeuronSets:
    """Return the sets of Definition B.1, which depend on the features' part of W(0) alone."""
    projections, eye = (
        start.projections[None],
        torch.eye(start.projections.shape[-1], dtype=torch.float64)[None],
    )
    return NeuronSets(
        lucky_neurons(projections, eye, eps_min, GAMMA)[0],
        ordinary_neurons(projections, eye, eps_min, GAMMA)[0],
    )


def conditional_fraction(condition: Bool[Tensor, "*shape"], where: Bool[Tensor, "*shape"]) -> float:
    """Return the fraction of the entries in `where` that meet a condition."""
    return (condition & where).sum().item() / where.sum().item() if where.any() else math.nan


def max_abs_coordinates(m: int, n: int, generator: torch.Generator) -> Float[Tensor, " m"]:
    """Draw the largest absolute coordinate of m random unit vectors in R^n.

    Data, noise and W(0) are isotropic outside span(M). The component of a neuron there is therefore
    uniform on a sphere, and its largest projection on one axis is this number times the norm of the
    component.
    """
    direction = torch.randn(m, n, generator=generator, dtype=torch.float64)
    return direction.abs().amax(-1) / direction.norm(dim=-1)


def initial_metrics(start: Neurons, parameters: TheoryParameters) -> dict[str, float]:
    """Compute the metrics of the weights before training: Lemmas B.2 (a) and (b), C.2 and D.2."""
    total = start.norms.square() / (parameters.sigma_0**2 * parameters.d1)
    inside = start.feature_norm.square() / (parameters.sigma_0**2 * parameters.d)
    size = start.projections.abs() / parameters.sigma_0
    strong = (size >= math.log(parameters.d) ** 0.25).sum(-1)
    tiny = (size <= 1 / parameters.d).sum(-1)
    return {
        "initial_norm_deviation": (total - 1).abs().max().item(),
        "initial_feature_norm_deviation": (inside - 1).abs().max().item(),
        "strong_features_at_0": strong.max().item() / parameters.lemma_c2_count,
        "tiny_features_at_0": tiny.max().item() * math.log(parameters.d) / parameters.d,
    }


def last_linear_index(
    history: Neurons, steps: list[int], T1: int, parameters: TheoryParameters
) -> int | None:
    """Find the last recorded step of stage 1 at which the logits are still uniform.

    K p = exp(a^2 F_j / tau) for the positive of a sample with feature j, with
    F_j = sum_i <w_i, M_j>^2 and a the attended count. Logits are uniform while it is at most
    `UNIFORM_LOGIT_RATIO`.
    """
    similarity = (
        attended_count(parameters.L, parameters.nsr, parameters.scale) ** 2
        * history.projections.square().sum(-2).amax(-1)
        / parameters.tau
    )
    inside = [
        i
        for i, step in enumerate(steps)
        if 0 < step <= T1 and similarity[i] <= math.log(UNIFORM_LOGIT_RATIO)
    ]
    return max(inside, default=None)


def stage_one_metrics(
    history: Neurons, steps: list[int], T1: int, at_T1: Neurons, parameters: TheoryParameters
) -> dict[str, float]:
    """Compute the metrics of stage 1: rates while the logits are uniform, and bounds up to T1.

    Lemmas 3.1 and C.1.
    """
    metrics = {}
    last = last_linear_index(history, steps, T1, parameters)
    decay = parameters.eta * parameters.lambda_
    if last is not None:
        strength = history.projections[[0, last]].square().sum(-2)
        rate = (strength[1] / strength[0]) ** (1 / (2 * steps[last])) - 1 + decay
        predicted = parameters.growth_per_step - 1 + decay
        outside = history.complement_norm[[0, last]].square().sum(-1)
        metrics = {
            "stage1_growth_minority": rate[-parameters.n_minority :].mean().item(),
            "stage1_growth_majority": rate[: -parameters.n_minority].mean().item(),
            "stage1_growth_over_closed_form": (rate / predicted)[: -parameters.n_minority]
            .mean()
            .item(),
            "stage1_decay_outside": (
                (outside[1] / outside[0]) ** (1 / (2 * steps[last])) - 1
            ).item()
            / -decay
            if decay
            else math.nan,
            "stage1_linear_steps": float(steps[last]),
        }
    if T1 < 0:
        return metrics
    # Lemma C.1 for all t up to T1: the recorded steps before it, and T1 itself.
    early = [i for i, step in enumerate(steps) if 0 < step < T1]
    t = torch.tensor([*(steps[i] for i in early), T1], dtype=torch.float64)[:, None]
    inside = torch.cat([history.feature_norm[early], at_T1.feature_norm[None]]).square()
    outside = torch.cat([history.complement_norm[early], at_T1.complement_norm[None]]).square()
    start, slack = history.feature_norm[0].square(), 1 / parameters.d
    fastest, slowest = (parameters.growth_per_step + decay).max(), parameters.growth_per_step.min()
    upper = (inside / start - slack).clamp_min(1e-12).log() - 2 * t * fastest.log()
    lower = (inside / start + slack).log() - 2 * t * slowest.log()
    return metrics | {
        "growth_above_its_bound": upper.max().item(),
        "growth_below_its_bound": lower.min().item(),
        "features_over_initial_norm": (inside / history.norms[0].square()).max().item(),
        "outside_growth": (outside / history.complement_norm[0].square()).max().item(),
    }


def metrics_at_T1(
    at_T1: Neurons,
    sets: NeuronSets,
    parameters: TheoryParameters,
    max_coordinates: Float[Tensor, " m"],
) -> dict[str, float]:
    """Compute the metrics at T1, Theorem C.1 (b)-(e)."""
    bound = math.sqrt(math.log(parameters.d) / parameters.d)
    cosines, root2 = at_T1.cosines, math.sqrt(2)
    many = (cosines >= math.log(parameters.d) ** 0.25 / math.sqrt(parameters.d)).sum(-1)
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
        "few_strong_features_at_T1": (many <= parameters.lemma_c2_count).double().mean().item(),
        "outside_largest_at_T1": max_complement_cosine(at_T1, max_coordinates)
        / math.sqrt(math.log(parameters.d) / parameters.d1),
    }


def max_complement_cosine(neurons: Neurons, max_coordinates: Float[Tensor, " m"]) -> float:
    """Return the largest |<w_i, M_j^perp>| / ||w_i|| over neurons, directions and times."""
    return (
        (
            max_coordinates
            * neurons.complement_norm
            / neurons.norms.clamp_min(torch.finfo(neurons.norms.dtype).tiny)
        )
        .max()
        .item()
    )


def stage_two_metrics(
    between: Neurons,
    sets: NeuronSets,
    parameters: TheoryParameters,
    max_coordinates: Float[Tensor, " m"],
) -> dict[str, float]:
    """Compute the metrics of stage 2, Lemma D.1."""
    log_d = math.log(parameters.d)
    size, b = between.projections.abs(), between.bias[..., None]
    lucky, others = sets.lucky.expand(size.shape), ~sets.ordinary.expand(size.shape)
    strong = (size.square() >= b.square() / math.sqrt(log_d)).sum(-1)
    cosines = between.cosines.masked_fill(~others, 0.0)
    return {
        "lucky_above_bias": conditional_fraction(size >= math.sqrt(1 + GAMMA) * b, lucky),
        "others_below_bias": conditional_fraction(size <= math.sqrt(1 - GAMMA) * b, others),
        "others_largest": cosines.max().item() * math.sqrt(parameters.d) / log_d,
        "features_near_bias": strong.max().item() / parameters.lemma_c2_count,
        "outside_largest_in_stage_two": max_complement_cosine(between, max_coordinates)
        * math.sqrt(parameters.d1)
        / math.log(parameters.d1),
        "norm_over_bias": (between.norms.square() * log_d / (parameters.d * between.bias.square()))
        .max()
        .item(),
    }


def metrics_at_T2(
    at_T1: Neurons, at_T2: Neurons, sets: NeuronSets, parameters: TheoryParameters
) -> dict[str, float]:
    """Compute the metrics at T2, Lemma 3.2 and Theorem D.1."""
    size = at_T2.projections.abs()
    best = torch.where(sets.lucky, size, 0.0).amax(0)
    others = torch.where(sets.ordinary, size, 0.0).amax(0)
    has_lucky = best > 0
    return {
        "lucky_growth_at_T2": conditional_fraction(
            size.square() >= 2 * parameters.eps * at_T1.norms[:, None].square(), sets.lucky
        ),
        "lucky_focus_at_T2": at_T2.cosines[sets.lucky].mean().item() / parameters.eps_min
        if sets.lucky.any()
        else math.nan,
        "ordinary_over_lucky_at_T2": (others / best)[has_lucky].max().item()
        if has_lucky.any()
        else math.nan,
        "bias_at_T2": (at_T2.bias * math.sqrt(parameters.d) / at_T2.norms).min().item(),
    }


def final_metrics(
    end: Neurons,
    sets: NeuronSets,
    parameters: TheoryParameters,
    max_coordinates: Float[Tensor, " m"],
) -> dict[str, float]:
    """Compute the metrics at the end of training.

    Theorems 3.1 and E.1, (K2), and the statements of Theorem 3.2 on the pruned neurons.
    """
    size, cosines = end.projections.abs(), end.cosines
    rare, common = slice(-parameters.n_minority, None), slice(None, -parameters.n_minority)
    strongest = torch.where(sets.ordinary, size, 0.0).amax(0)
    compared = (size / strongest)[sets.lucky]
    ordinary_strength = torch.where(sets.ordinary, size.square(), 0.0).sum(0)
    strength, largest, best = size.square().sum(0), size.amax(0), cosines.amax(0)
    pure = (cosines > PURE_COSINE).any(-1)
    pure_rare = (cosines[:, rare] > PURE_COSINE).any(-1)
    oracle = (cosines.amax(-1) > HALF_LEARNED) & (
        cosines.argmax(-1) >= parameters.d - parameters.n_minority
    )
    return {
        "lucky_focus_at_T": cosines[sets.lucky].mean().item(),
        "lucky_over_strongest_at_T": compared.min().item() if len(compared) else math.nan,
        "others_small_at_T": conditional_fraction(
            cosines <= 2 * parameters.eps / math.sqrt(parameters.d), ~sets.ordinary
        ),
        "largest_norm": end.norms.max().item(),
        "bias_at_T": (end.bias * math.sqrt(parameters.d) / end.norms).min().item(),
        "outside_largest_at_T": max_complement_cosine(end, max_coordinates)
        * math.sqrt(parameters.d1),
        "strength_ratio": ratio(ordinary_strength[rare].mean(), ordinary_strength[common].mean())
        if sets.ordinary[:, rare].any()
        else math.nan,
        "strength_ratio_of_all": ratio(strength[rare].mean(), strength[common].mean()),
        "magnitude_ratio": ratio(largest[rare].mean(), largest[common].mean()),
        "learned": float((best[rare] >= HALF_LEARNED).all()),
        "alignment_gap": (best[common].mean() - best[rare].mean()).item(),
        "pure_share": pure.double().mean().item(),
        "pure_minority_neurons": float(pure_rare.sum()),
        "oracle_neurons": float(oracle.sum()),
        "pruned_other_features": cosines[oracle, common].max().item() * math.sqrt(parameters.d)
        if oracle.any()
        else math.nan,
        "pruned_outside": max_complement_cosine(end.select(oracle), max_coordinates[oracle])
        * math.sqrt(parameters.d1)
        if oracle.any()
        else math.nan,
        "minority_smaller_auc": auc_of_smaller_norm(end.norms, pure_rare),
        "minority_among_smallest": excess_precision_at_k(
            end.norms, (cosines[:, rare] >= ALIGNED_COSINE).any(-1)
        ),
    }


def ratio(numerator: Float[Tensor, ""], denominator: Float[Tensor, ""]) -> float:
    """Return the ratio of two scalars; NaN where the denominator is not above 0."""
    return (numerator / denominator).item() if denominator > 0 else math.nan


def auc_of_smaller_norm(norms: Float[Tensor, " m"], is_target: Bool[Tensor, " m"]) -> float:
    """Compute the probability that a target neuron has a smaller norm than another one."""
    if not is_target.any() or is_target.all():
        return math.nan
    less = norms[is_target][:, None] - norms[~is_target]
    return ((less < 0).double() + 0.5 * (less == 0).double()).mean().item()


def excess_precision_at_k(norms: Float[Tensor, " m"], is_target: Bool[Tensor, " m"]) -> float:
    """Compute the fraction of k targets among the k smallest norms, minus chance k / m."""
    k = int(is_target.sum())
    if not 0 < k < len(norms):
        return math.nan
    return is_target[norms.argsort(stable=True)[:k]].double().mean().item() - k / len(norms)
