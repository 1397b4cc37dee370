"""Dense training of many replicas until each has learned the rare feature.

The steps are those of the chain (imbalance_and_pruning, eq. (1)-(5)), with its latents or with
latents that lack a correlation. No neuron is pruned.

Purposes of the random streams, in the namespace `draws`: weights, noise, complement, train, and
the order of batches, as in the chain; looked (growth terms); answers (gate openings).
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.chain.pretrain import batches
from rarefeat.config.model import Data, Training
from rarefeat.core.bias import BiasContext
from rarefeat.core.encoder import attend, pre_activations
from rarefeat.core.neurons import absolute_cosines
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import Generators, ReducedSimulator, make_simulator
from rarefeat.core.sparse_coding import frequencies, latent_pairs
from rarefeat.core.theory import activation_probability
from rarefeat.core.thresholds import HALF_LEARNED
from rarefeat.core.training import (
    StepConfig,
    TrainState,
    apply_step,
    forward,
    initial_state,
    loss_gradient,
    make_kernel,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.studies.fate.config import FRESH_SAMPLE, DecayAndScale, Latents, gate

OPENING_PAIRS = 500
"""Pairs with, and pairs without, the rare feature that gate openings are measured on."""


class CellSettings(NamedTuple):
    """Settings that all replicas of a cell share."""

    draws: str
    """Namespace of the random streams."""
    data: Data
    training: Training
    latents: Latents
    N: int
    """Training pairs; 0 for fresh latents at every step."""
    sigma: float
    eps_min: float

    @property
    def logit_scale(self) -> float:
        """Scale of the attention's logits."""
        return self.training.logit_scale(self.data.d1)

    @property
    def activation_probabilities(self) -> Tensor:
        """Probability of each feature to be active in a sample, of shape (d,)."""
        return activation_probability(
            frequencies(self.data.d, self.data.minority, self.eps_min), self.data.C
        )


def draw_latent_pairs(
    n: int, settings: CellSettings, rng: torch.Generator, rare: float | None = None
) -> Tensor:
    """Draw latent pairs of one replica.

    Parameters
    ----------
    n : int
        Number of pairs; even for antithetic latents.
    settings : CellSettings
        Settings of the cell.
    rng : torch.Generator
        Generator of the replica.
    rare : float, optional
        Probability of the rare feature; by default that of the settings.

    Returns
    -------
    int8 Tensor of shape (n, 2, L, d)
        Latents of both views.
    """
    probabilities = settings.activation_probabilities
    if rare is not None:
        probabilities[-1] = rare
    if settings.latents == "antithetic":
        half = latent_pairs(n // 2, settings.data.L, probabilities, rng)
        flipped = half.clone()
        flipped[..., -1] *= -1
        return torch.cat([half, flipped])
    pairs = latent_pairs(n, settings.data.L, probabilities, rng)
    if settings.latents == "apart":
        # Both views of a pair have the same active features, so `any` over views loses nothing.
        has_rare = (pairs[..., -1] != 0).any(-1).any(-1)
        pairs[has_rare, ..., :-1] = 0
    return pairs


class TrainingSample:
    """Training pairs of the replicas that are still trained, one set for each seed."""

    def __init__(self, settings: CellSettings, seeds: list[int]):
        self.settings = settings
        self.generators = [generator(settings.draws, seed, "train") for seed in seeds]
        self.pairs, self.order = [], []
        if N := settings.N:
            self.pairs = [draw_latent_pairs(N, settings, rng) for rng in self.generators]
            K = settings.training.K
            self.order = [batches(settings.draws, [seed], N, K) for seed in seeds]

    def batch(self) -> Tensor:
        """Return the next K pairs of each seed, (S, 2 K, L, d), the first views first."""
        if self.settings.N:
            pairs = [
                sample[next(order)[0]] for sample, order in zip(self.pairs, self.order, strict=True)
            ]
        else:
            K = self.settings.training.K
            pairs = [draw_latent_pairs(K, self.settings, rng) for rng in self.generators]
        return torch.stack(pairs).transpose(1, 2).flatten(1, 2).float()

    def iter_sample_batches(self, s: int, rng: torch.Generator) -> Iterator[Tensor]:
        """Yield batches of the whole sample of a seed, (1, 2 K, L, d) each.

        Their order, and the pairs where every step has fresh ones, are drawn from `rng` and do not
        affect the training. The last pairs that do not fill a batch are left out.
        """
        settings, K = self.settings, self.settings.training.K
        pairs = self.pairs[s] if settings.N else draw_latent_pairs(FRESH_SAMPLE, settings, rng)
        order = torch.randperm(len(pairs), generator=rng)
        for rows in order[: len(pairs) // K * K].split(K):
            yield pairs[rows].transpose(0, 1).flatten(0, 1)[None].float()

    def keep_replicas(self, indices: list[int]) -> None:
        """Keep only the seeds at some indices."""
        self.generators, self.pairs, self.order = (
            [items[s] for s in indices] if items else []
            for items in (self.generators, self.pairs, self.order)
        )


def rare_cosines(state: TrainState, simulator: ReducedSimulator) -> Tensor:
    """Return the absolute cosine of every neuron to the rare feature, (S, m)."""
    return absolute_cosines(state.weights, simulator.dictionary)[..., -1]


def rare_feature_gradient(
    attended: Tensor, state: TrainState, config: StepConfig, d: int
) -> Tensor:
    """Compute the change of <w_i, M_rare> in a step of descent, per eta and without decay.

    Parameters
    ----------
    attended : Tensor of shape (S, 2 K, L, P)
        Attended tokens of a batch, the first views first.
    state : TrainState
        Weights and biases of the S replicas.
    config : StepConfig
        Batch size and temperature.
    d : int
        Number of features; the rare one is the last.

    Returns
    -------
    Tensor of shape (S, m)
    """
    dense = forward(attended, state)
    gradient = loss_gradient(dense, dense, state.bias, config)
    return -(gradient.coefficients * attended[:, : config.K, :, d - 1, None]).sum((1, 2))


class GrowthTerms(NamedTuple):
    """Terms of the growth of the rare feature in the neurons of a replica, per unit of eta."""

    leak: float
    """Slope of the change of <w_i, M_rare> in <w_i, M_rare>, over the neurons."""
    kick: float
    """Largest change over the norm, of neurons without the feature: that of chance correlations."""


def measure_growth_terms(
    settings: CellSettings,
    config: StepConfig,
    state: TrainState,
    simulator: ReducedSimulator,
    batches: Iterator[Tensor],
    noise: torch.Generator,
) -> GrowthTerms:
    """Measure leak and kick of one replica, as means over its sample.

    The gradient is taken with the trained weights, and with weights without the rare feature on
    the same noise; the difference is the part that is proportional to the feature.

    Parameters
    ----------
    settings : CellSettings
        Settings of the cell.
    config : StepConfig
        Batch size and temperature.
    state : TrainState
        State of the replica (S = 1).
    simulator : ReducedSimulator
        Simulator of one replica.
    batches : iterator of Tensor of shape (1, 2 K, L, d)
        Latents of the sample.
    noise : torch.Generator
        Generator of the noise of the tokens.
    """
    d = settings.data.d
    weights = state.weights.clone()
    weights[..., d - 1] = 0
    without = state._replace(weights=weights)
    gradients = []
    for latents in batches:
        attended = attend(
            simulator.sample_tokens(latents, settings.sigma, [noise]), settings.logit_scale
        )
        both = [
            rare_feature_gradient(attended, current, config, d)[0] for current in (state, without)
        ]
        gradients.append(torch.stack(both))
    change, kicks = torch.stack(gradients).double().mean(0)
    projection = state.weights[0, :, d - 1].double()
    leak = ((change - kicks) * projection).sum() / projection.square().sum().clamp_min(1e-30)
    return GrowthTerms(float(leak), float((kicks.abs() / state.weights[0].norm(dim=-1)).max()))


def measure_gate_opening(
    settings: CellSettings,
    state: TrainState,
    simulator: ReducedSimulator,
    trained: Tensor,
    rng: torch.Generator,
) -> dict[str, float]:
    """Measure for which samples the neuron nearest to the rare feature has an open gate.

    Parameters
    ----------
    settings : CellSettings
        Settings of the cell.
    state : TrainState
        State of the replica (S = 1).
    simulator : ReducedSimulator
        Simulator of one replica.
    trained : Tensor of shape (n, L, d)
        First views of the training pairs; empty where every step has fresh ones.
    rng : torch.Generator
        Generator of the fresh pairs and of the noise.

    Returns
    -------
    dict of str to float
        `count`, the training pairs with the feature; `opened_trained`, `opened_fresh` and
        `opened_without`, the fraction of training samples with the feature, of fresh samples with
        it and of fresh samples without it for which the gate is open. NaN without such samples.
    """
    nearest = int(rare_cosines(state, simulator)[0].argmax())
    samples, count = {}, float("nan")
    if len(trained):
        has_rare = (trained[..., -1] != 0).any(-1)
        samples["trained"], count = trained[has_rare][:OPENING_PAIRS], float(has_rare.sum())
    plain = settings._replace(latents="plain")
    samples |= {
        name: draw_latent_pairs(OPENING_PAIRS, plain, rng, rare)[:, 0]
        for name, rare in {"fresh": 1.0, "without": 0.0}.items()
    }
    openings = {"count": count}
    for name in ("trained", "fresh", "without"):
        if not len(samples.get(name, ())):
            openings[f"opened_{name}"] = float("nan")
            continue
        tokens = simulator.sample_tokens(samples[name][None].float(), settings.sigma, [rng])
        pre = pre_activations(attend(tokens, settings.logit_scale), state.weights)[0, ..., nearest]
        openings[f"opened_{name}"] = float(
            (pre.abs() > state.bias[0, nearest]).any(-1).double().mean()
        )
    return openings


def select_replica(state: TrainState, s: int) -> TrainState:
    """Return the state of replica s alone (S = 1)."""
    return TrainState(*(tensor[s : s + 1] for tensor in state))


class PerReplicaStepConfig(NamedTuple):
    """A `StepConfig` with a weight decay for each of R replicas."""

    K: int
    tau: float
    eta: float
    lambda_: Tensor
    """Weight decays, (R, 1, 1)."""

    def select(self, s: int) -> "PerReplicaStepConfig":
        """Return the config of replica s alone."""
        return self._replace(lambda_=self.lambda_[s : s + 1])


def train_until_learned(
    settings: CellSettings,
    regimes: list[DecayAndScale],
    eval_interval: int,
    hold_steps: int,
    measure_step: int,
    seeds: list[int],
    label: str = "train",
) -> list[dict]:
    """Train one replica per regime and seed until it has learned the rare feature.

    A feature is learned where the cosine of a neuron is at least HALF_LEARNED, 0.5. A replica ends
    when it has had the feature at every evaluation of `hold_steps` steps, or at step T. Replicas
    with the same seed see the same tokens. The result of a replica does not depend on the others.

    Parameters
    ----------
    settings : CellSettings
        Settings of the cell.
    regimes : list of DecayAndScale
        Weight decay and bias scale of each regime.
    eval_interval : int
        Steps between two evaluations; config key `every`.
    hold_steps : int
        Steps after which a replica that keeps the feature ends; 0 to train all replicas to T.
        Config key `hold`.
    measure_step : int
        Step at which leak and kick are measured, before which no replica ends; config key `looked`.
    seeds : list of int
        Seeds.
    label : str
        Label of the progress display.

    Returns
    -------
    list of dict
        One row per replica, sorted by bias scale, decay and seed (`tables.FATE`).
    """
    data, training = settings.data, settings.training

    def streams(purpose: str) -> Generators:
        return [generator(settings.draws, seed, purpose) for seed in seeds]

    def make_simulators(replicas: list[tuple[int, DecayAndScale]]) -> ReducedSimulator:
        names = [seed for seed, _ in replicas]
        return make_simulator("reduced", settings.draws, data.d, data.d1, training.m, names)

    # Index of the seed of each replica that is still trained, among the seeds that are left.
    seed_index = torch.arange(len(seeds)).repeat(len(regimes))
    replicas = [(seed, regime) for regime in regimes for seed in seeds]
    simulator = make_simulators(replicas)
    single = make_simulator("reduced", settings.draws, data.d, data.d1, training.m, [0])
    weights = simulator.initial_weights(training.sigma_0, streams("weights"))
    state = initial_state(weights[seed_index])
    noise, complement = streams("noise"), streams("complement")
    sample = TrainingSample(settings, seeds)
    gates = torch.tensor([gate(data, regime.share) for _, regime in replicas])[:, None]
    config = PerReplicaStepConfig(
        training.K,
        training.tau,
        training.eta,
        torch.tensor([regime.lambda_ for _, regime in replicas]).double()[:, None, None],
    )
    learned_at, growth, rows = [math.nan] * len(replicas), [{} for _ in replicas], []

    def bias_rule(context: BiasContext) -> Tensor:
        return torch.where((context.T1 >= 0)[:, None], gates * context.norms, 0.0)

    for step in progress(range(training.T + 1), training.T + 1, label):
        if step % eval_interval == 0:
            cosines = rare_cosines(state, simulator).amax(-1).tolist()
            remaining = []
            for s, ((seed, regime), cosine) in enumerate(zip(replicas, cosines, strict=True)):
                if cosine < HALF_LEARNED:
                    learned_at[s] = math.nan
                elif math.isnan(learned_at[s]):
                    learned_at[s] = step
                current = select_replica(state, s)
                if step == measure_step:
                    rng = generator(settings.draws, seed, "looked")
                    sample_batches = sample.iter_sample_batches(int(seed_index[s]), rng)
                    terms = measure_growth_terms(
                        settings, config.select(s), current, single, sample_batches, rng
                    )
                    growth[s] = {"cosine_looked": cosine, "leak": terms.leak, "kick": terms.kick}
                has_held = hold_steps and step - learned_at[s] >= hold_steps
                if not (has_held and step >= measure_step) and step < training.T:
                    remaining.append(s)
                    continue
                rng = generator(settings.draws, seed, "answers")
                trained = sample.pairs[seed_index[s]][:, 0] if settings.N else torch.empty(0)
                rows.append(
                    {
                        "seed": seed,
                        "share": regime.share,
                        "lambda": regime.lambda_,
                        "learned_at": learned_at[s],
                        **growth[s],
                        "ended_at": step,
                        "cosine": cosine,
                        "T1": float(state.T1[s]),
                        "diverged": float(state.diverged[s]),
                        **measure_gate_opening(settings, current, single, trained, rng),
                    }
                )
            if len(remaining) < len(replicas):
                if not remaining:
                    break
                state = TrainState(*(tensor[remaining] for tensor in state))
                gates = gates[remaining]
                config = config._replace(lambda_=config.lambda_[remaining])
                replicas, learned_at, growth = (
                    [items[s] for s in remaining] for items in (replicas, learned_at, growth)
                )
                seeds_left, seed_index = seed_index[remaining].unique(return_inverse=True)
                noise, complement = (
                    [items[s] for s in seeds_left] for items in (noise, complement)
                )
                sample.keep_replicas(seeds_left.tolist())
                simulator = make_simulators(replicas)
        kernel = make_kernel(
            training.kernel, simulator, simulator.sample_tokens, settings.logit_scale
        )
        attended = kernel.attended_tokens(sample.batch(), settings.sigma, noise)
        complement_draw = simulator.draw_complement(complement)
        if len(replicas) > len(noise):
            # Replicas of one seed share its tokens.
            attended = attended[seed_index]
            if complement_draw is not None:
                complement_draw = complement_draw[seed_index]
        dense = kernel.forward(attended, state)
        gradient = kernel.loss_gradient(dense, dense, state.bias, config)
        state = apply_step(
            kernel.simulator,
            state,
            gradient,
            attended,
            config,
            training.bias.T1,
            bias_rule,
            step,
            complement_draw,
        )
    return sorted(rows, key=lambda row: (row["share"], row["lambda"], row["seed"]))
