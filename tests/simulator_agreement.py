"""One training step from one state under two simulators: do the samples have one distribution?

A state is weights of the reduced simulator, lifted into R^d1 for the direct one. The simulators
must agree on A' = W' M and on the Gram matrix C' of the remainder of W'.
"""

import math
from typing import NamedTuple

import torch
from conftest import seeded
from scipy.stats import norm
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.model.arms import PruningContext
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.bias import follow
from rarefeat.model.contrastive import probabilities
from rarefeat.model.encoder import attend
from rarefeat.model.simulators import (
    DirectSimulator,
    Generators,
    ReducedSimulator,
    Simulator,
    bartlett_factor,
    robust_cholesky,
)
from rarefeat.model.sparse_coding import dictionary as draw_dictionary
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.training.step import apply_mask, forward, initial_state, loss_gradient
from rarefeat.workflow.config.model import Arm

# Level of a comparison of two samples, over all its means and second moments (Bonferroni).
LEVEL = 1e-3
# Draws of a step: second moments of heavy tails are then near normal at the threshold of some 5.
REPLICAS = 2000
AT_ONCE = 500
# An entry that varies by less is a constant up to rounding, as of a neuron without gradient.
ROUNDING = 1e-5


class Case(NamedTuple):
    """A state, a batch and a step. Rows of W have norms around 1, so logits are far from 1/K."""

    d: int
    m: int
    L: int
    K: int
    d1: int
    sigma: float
    arm: Arm = Arm(arm="dense")
    share: float = 0.0
    eps_min: float = 0.5
    tau: float = 0.7
    eta: float = 0.5
    lambda_: float = 0.1
    C: float = 3.0


HALF = Arm(arm="pruned_neuron", alpha=0.5)
QUARTER = Arm(arm="pruned_neuron", alpha=0.25)
STRAIGHT_THROUGH = HALF.model_copy(update={"pruned_update": "straight_through"})
CASES = {
    "dense, no bias": Case(4, 5, 3, 8, 40, 0.15),
    "dense, bias": Case(5, 4, 4, 16, 60, 0.12, share=0.2, eps_min=0.2),
    "dense, large bias": Case(4, 5, 2, 12, 100, 0.1, share=0.5, tau=1.5),
    "half the neurons pruned, bias": Case(4, 6, 2, 6, 50, 0.2, HALF, share=0.2),
    "a quarter pruned, no bias": Case(9, 4, 3, 8, 60, 0.1, QUARTER, eps_min=1.0, C=6.0),
    "straight through": Case(4, 5, 3, 8, 40, 0.15, STRAIGHT_THROUGH, share=0.15),
    "oracle, bias": Case(4, 5, 3, 8, 40, 0.15, Arm(arm="oracle_all"), share=0.15),
    "one token": Case(4, 4, 1, 8, 30, 0.2, share=0.15, tau=0.2),
    "large d1": Case(4, 4, 4, 8, 500, 0.05, share=0.15),
    "two dimensions beyond the span": Case(4, 6, 3, 8, 18, 0.25, share=0.15),
    "nothing beyond the span": Case(4, 6, 3, 8, 9, 0.3, share=0.15),
    "as many dimensions as features": Case(4, 3, 2, 8, 4, 0.4, share=0.15),
}
# The case of the planted mistakes: every neuron is driven, and half of the gates are closed.
STANDARD = Case(4, 4, 3, 32, 40, 0.15, share=0.3, tau=3.0)


class State(NamedTuple):
    weights: Tensor
    """[A, F], (1, m, p)."""
    bias: Tensor
    """(1, m)."""
    latents: Tensor
    """Both views of one batch, (1, 2 K, L, d)."""


def state(case: Case, seed: int = 0) -> State:
    """Draw neurons of norms around 1, one near the minority feature.

    The first has no complement, where the growth beyond the span is plain; the last about a third.
    """
    simulator, g = ReducedSimulator(case.d, case.d1, case.m, 1), seeded(seed)
    features = torch.randn(1, case.m, case.d, generator=g) / math.sqrt(case.d)
    features[:, 1] = 0.2 * features[:, 1] + torch.eye(case.d)[-1]
    complement = (
        torch.linspace(0, 0.7, case.m)[:, None]
        * bartlett_factor(case.m, simulator.n, [g])
        / math.sqrt(max(simulator.n, 1))
    )
    scale = torch.linspace(0.6, 1.4, case.m)[torch.randperm(case.m, generator=g)]
    weights = scale[:, None] * simulator.join_coordinates(features, complement)
    probability = activation_probability(frequencies(case.d, [1.0], case.eps_min), case.C)
    latents = latent_pairs(case.K, case.L, probability, g).transpose(0, 1).flatten(0, 1)
    return State(weights, follow(weights.norm(dim=-1), case.d, case.share), latents[None].float())


class Step(NamedTuple):
    weights: Tensor
    """Weights after the step, (S, m, p)."""
    pre: Tensor
    """Pre-activations of the anchors, (S, K, L, m)."""
    logits: Tensor
    """Softmax weights, (S, K, K)."""
    descent: Tensor
    """-eta times the coefficients of the gradient, (S, K, L, m)."""
    attended: Tensor
    """Attended tokens of the anchors, (S, K, L, P)."""


def one_step(
    simulator: Simulator,
    weights: Tensor,
    bias: Tensor,
    latents: Tensor,
    case: Case,
    noise: Generators,
    complement: Generators,
) -> Step:
    """Take the step of `pretrain`, up to the bias: (S, m, p), (S, m), (S, 2 K, L, d)."""
    attended = attend(simulator.sample_tokens(latents, case.sigma, noise))
    start = initial_state(weights)._replace(bias=bias)
    dense, rule, mode = forward(attended, start), case.arm.named.rule, case.arm.pruned_update
    context = PruningContext(weights, simulator.dictionary, 1, case.arm.alpha)
    masked = apply_mask(dense, rule(context), attended, start, mode) if rule else dense
    descent = -case.eta * loss_gradient(dense, masked, bias, case, mode).coefficients
    anchors = attended[:, : case.K]
    descended = simulator.descend(
        weights,
        descent,
        anchors,
        1 - case.eta * case.lambda_,
        simulator.draw_complement(complement),
    )
    f_x, f_y, _ = masked.views(case.K)
    return Step(
        descended, dense.pre[:, : case.K], probabilities(f_x, f_y, case.tau), descent, anchors
    )


def excess(step: Step, simulator: ReducedSimulator) -> Tensor:
    """Compute the excess of the reduced simulator's covariance of C', (S, m, m, m, m).

    Given the tokens, rows of different samples meet at random angles, but the Gram matrix G_k of
    the rows of one sample is known. The covariance of C'_ij and C'_uv is that of
    Wishart(nu, sum_k G_k / nu), less that of Wishart(nu, G_k / nu) for each k. The reduced
    simulator draws the first.
    """
    rows_beyond = matmul(step.attended[..., simulator.p :].mT, step.descent).double()
    return wishart_covariance(rows_beyond.mT @ rows_beyond).sum(1) / simulator.nu


def wishart_covariance(G: Tensor) -> Tensor:
    """Compute nu times the covariance of entries ij and uv of Wishart(nu, G / nu), all pairs."""
    return torch.einsum("...iu,...jv->...ijuv", G, G) + torch.einsum("...iv,...ju->...ijuv", G, G)


def has_excess(simulator: Simulator) -> bool:
    """Return whether the simulator draws rows beyond the span by their scatter alone."""
    return isinstance(simulator, ReducedSimulator) and simulator.nu > 0


# Planted mistakes.


class WrongDegrees(ReducedSimulator):
    """d1 - d dimensions beyond the span, not d1 - d - q."""

    def __init__(self, d: int, d1: int, m: int, S: int):
        super().__init__(d, d1, m, S)
        self.nu = self.n


class AttentionForgotten(ReducedSimulator):
    """The scatter beyond the span is that of the tokens, not of the attended ones."""

    def sample_tokens(self, latents: Tensor, sigma: float, generators: Generators) -> Tensor:
        x = super().sample_tokens(latents, sigma, generators)
        self.raw = x[..., self.p :].clone()
        return x

    def descend(self, weights, coefficients, attended, decay, beyond, scale=1.0):
        raw = self.raw[:, : attended.shape[1]].expand(len(attended), -1, -1, -1)
        attended = torch.cat([attended[..., : self.p], raw], -1)
        return super().descend(weights, coefficients, attended, decay, beyond, scale)


class DecayOfFeaturesAlone(ReducedSimulator):
    """eta lambda acts on A and not on F."""

    def descend(self, weights, coefficients, attended, decay, beyond, scale=1.0):
        kept = torch.cat([weights[..., : self.d], weights[..., self.d :] / decay], -1)
        return super().descend(kept, coefficients, attended, decay, beyond, scale)


class NothingBeyond(ReducedSimulator):
    """Rows beyond the span are left out."""

    def __init__(self, d: int, d1: int, m: int, S: int):
        super().__init__(d, d1, m, S)
        self.nu = 0


class ParallelSamples(ReducedSimulator):
    """The remainders of all samples lie in one frame, so that their rows add up."""

    def descend(self, weights, coefficients, attended, decay, beyond, scale=1.0):
        descent = scale * coefficients
        total = matmul(attended[..., self.p :].mT, descent).sum(1)
        descended = decay * weights + matmul(
            descent.flatten(1, 2).mT, attended[..., : self.p].flatten(1, 2)
        )
        fresh = robust_cholesky(matmul(total.mT, total).double() / self.nu) @ beyond
        within = descended[..., self.d :].double()
        return self.join_coordinates(
            descended[..., : self.d], robust_cholesky(within @ within.mT + fresh @ fresh.mT).float()
        )


MISTAKES = {
    "degrees of freedom `d1 - d` beyond the span": WrongDegrees,
    "attention weights forgotten in the scatter": AttentionForgotten,
    "weight decay of the features alone": DecayOfFeaturesAlone,
    "what lies beyond the span left out": NothingBeyond,
    "remainders of all samples in one frame": ParallelSamples,
}


# Samples and their comparison


def lift(weights: Tensor, d: int, d1: int, generators: Generators) -> tuple[Tensor, Tensor]:
    """Lift weights (S, m, p) to R^d1: weights (S, m, d1) and dictionary (S, d1, d).

    W = A M^T + F Q^T with [M, Q] a uniform orthonormal frame per replica; exact in law at one time.
    """
    frames = torch.stack([draw_dictionary(d1, weights.shape[-1], g) for g in generators])
    return matmul(weights, frames.mT), frames[..., :d].contiguous()


def at_once(*parts: Tensor) -> list[Tensor]:
    """Repeat tensors of one replica for all that are drawn at once."""
    return [part.expand(AT_ONCE, *part.shape[1:]) for part in parts]


class Sample(NamedTuple):
    values: Tensor
    """Entries of A' and the lower triangle of C', (R, entries)."""
    excess: Tensor | None
    """Excess of the second moments, (R, entries, entries); None for none."""


def sample(kind: type[Simulator], case: Case, start: State, replicas: int, seed: int) -> Sample:
    """Draw one step many times, independently."""
    g, values, excesses = seeded(seed), [], []
    for _ in range(replicas // AT_ONCE):
        weights, dictionary = start.weights, None
        if kind is DirectSimulator:
            weights, dictionary = lift(start.weights, case.d, case.d1, [g])
            simulator = DirectSimulator(dictionary.expand(AT_ONCE, -1, -1), case.m)
        else:
            simulator = kind(case.d, case.d1, case.m, AT_ONCE)
        # One generator serves the replicas of a block in turn.
        several = at_once(weights, start.bias, start.latents)
        step = one_step(simulator, *several, case, [g] * AT_ONCE, [g] * AT_ONCE)
        values.append(entries(step.weights, simulator.dictionary))
        if has_excess(simulator):
            excesses.append(
                moments_of_complement(excess(step, simulator), case, values[-1].shape[1])
            )
    return Sample(torch.cat(values), torch.cat(excesses) if excesses else None)


def sample_given_tokens(
    kind: type[ReducedSimulator], case: Case, start: State, replicas: int, seed: int
) -> tuple[Sample, Sample]:
    """Draw steps that differ in the directions beyond the span alone: `kind`, and in R^d1.

    In R^d1, in the coordinates of [M, Q, the rest], a remainder is t O with a random frame O.
    """
    simulator, g = kind(case.d, case.d1, case.m, 1), seeded(seed)
    tokens = simulator.sample_tokens(start.latents, case.sigma, [g])
    attended = attend(tokens)[:, : case.K]
    step = one_step(GivenTokens(simulator, tokens), *start, case, [g], [g])
    values, in_full = [], []
    full = DirectSimulator(torch.eye(case.d1, case.d).expand(AT_ONCE, -1, -1), case.m)
    weights = pad(start.weights, (0, case.d1 - simulator.p))
    shared, several_g = (start.bias, start.latents), [g] * AT_ONCE
    for _ in range(replicas // AT_ONCE):
        several = at_once(start.weights, step.descent, attended)
        descended = simulator.descend(
            *several, 1 - case.eta * case.lambda_, simulator.draw_complement(several_g)
        )
        values.append(entries(descended, simulator.dictionary.expand(AT_ONCE, -1, -1)))
        everywhere = lifted(tokens, case.d1, simulator.p, several_g)
        several = at_once(weights, *shared)
        direct = one_step(GivenTokens(full, everywhere), *several, case, several_g, several_g)
        in_full.append(entries(direct.weights, full.dictionary))
    known_excess = (
        moments_of_complement(excess(step, simulator), case, values[0].shape[1])
        if has_excess(simulator)
        else None
    )
    return Sample(torch.cat(values), known_excess), Sample(torch.cat(in_full), None)


def lifted(tokens: Tensor, d1: int, p: int, generators: Generators) -> Tensor:
    """Lift tokens (1, n, L, P) to R^d1 with a random frame per sample: (S, n, L, d1)."""
    beyond = tokens.shape[-1] - p
    if not beyond:
        return pad(tokens, (0, d1 - p)).expand(len(generators), -1, -1, -1)
    frames = random_frames(tokens.shape[1], d1 - p, beyond, generators).float()
    rest = tokens[..., p:] @ frames.mT
    return torch.cat([tokens[..., :p].expand(len(generators), -1, -1, -1), rest], -1)


def random_frames(n: int, rows: int, columns: int, generators: Generators) -> Tensor:
    """Draw orthonormal frames, float64 (S, n, rows, columns), by Gram-Schmidt (Cholesky)."""
    shape = n, rows, columns
    normals = torch.stack(
        [torch.randn(shape, generator=g, dtype=torch.float64) for g in generators]
    )
    return torch.linalg.solve_triangular(
        torch.linalg.cholesky(normals.mT @ normals).mT, normals, upper=True, left=False
    )


class GivenTokens:
    """Simulator with fixed tokens."""

    def __init__(self, simulator: Simulator, tokens: Tensor):
        self.dictionary, self.tokens = simulator.dictionary, tokens
        self.descend, self.draw_complement = simulator.descend, simulator.draw_complement

    def sample_tokens(self, latents: Tensor, sigma: float, generators: Generators) -> Tensor:
        return self.tokens


def entries(weights: Tensor, dictionary: Tensor) -> Tensor:
    """Return A' and the lower triangle of C', (S, m, p), (S, p, d) -> (S, entries)."""
    features = matmul(weights, dictionary).double()
    complement = weights.double() @ weights.double().mT - features @ features.mT
    if weights.shape[-1] == dictionary.shape[-1]:
        return features.flatten(1)
    rows, columns = torch.tril_indices(*complement.shape[1:])
    return torch.cat([features.flatten(1), complement[:, rows, columns]], 1)


def moments_of_complement(covariance: Tensor, case: Case, count: int) -> Tensor:
    """Place a covariance of C', (S, m, m, m, m), among all entries: (S, count, count)."""
    full = torch.zeros(len(covariance), count, count, dtype=torch.float64)
    rows, columns = torch.tril_indices(case.m, case.m)
    i, j = rows[:, None], columns[:, None]
    full[:, case.m * case.d :, case.m * case.d :] = covariance[:, i, j, rows, columns]
    return full


def p_value(a: Sample, b: Sample) -> float:
    """Test equal means and second moments, less the excess: Welch's z with Bonferroni."""
    constant = torch.stack([part.values.std(0) for part in (a, b)]).amax(0) < ROUNDING
    difference = (a.values.mean(0) - b.values.mean(0)).abs()
    if (difference[constant] > 10 * ROUNDING).any():
        return 0.0
    if constant.all():
        return 1.0
    vary = (~constant).nonzero()[:, 0]
    i, j = vary[torch.triu_indices(len(vary), len(vary))]
    parts = []
    for values, sample_excess in (a, b):
        centred = values - values.mean(0)
        second = centred[:, i] * centred[:, j]
        if sample_excess is not None:
            second = second - sample_excess[:, i, j]
        parts.append(torch.cat([values[:, vary], second], 1))
    errors = sum(part.var(0) / len(part) for part in parts).sqrt()
    z = (parts[0].mean(0) - parts[1].mean(0)).abs() / errors
    return min(1.0, 2 * norm.sf(z.max().item()) * len(z))


def disagreement(
    kind: type[ReducedSimulator], case: Case, start: State, direct: Sample, replicas: int, seed: int
) -> float:
    """Return the p-value of equal distributions of the step, and of the step given its tokens."""
    step = p_value(sample(kind, case, start, replicas, seed), direct)
    given_tokens = p_value(*sample_given_tokens(kind, case, start, replicas, seed + 1))
    return min(1.0, 2 * min(step, given_tokens))


KINDS = {"none": ReducedSimulator} | MISTAKES


def detections(repetitions: int, replicas: int) -> dict[str, int]:
    """Count in how many repetitions a comparison with the direct simulator rejects at LEVEL."""
    counts = dict.fromkeys(KINDS, 0)
    for repetition in range(repetitions):
        start, seed = state(STANDARD, repetition), 100 * (repetition + 1)
        direct = sample(DirectSimulator, STANDARD, start, replicas, seed)
        for index, (name, kind) in enumerate(KINDS.items()):
            counts[name] += (
                disagreement(kind, STANDARD, start, direct, replicas, seed + 2 * index + 1) < LEVEL
            )
    return counts
