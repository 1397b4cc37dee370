"""Dense training of many replicas until each has learned the rare feature.

The steps are those of the chain (imbalance_and_pruning, eq. (1)-(5)), with the training pairs of
`draws`. No neuron is pruned.

Purposes of the random streams, in the namespace `draws`: weights, noise and complement, as in the
chain; looked (growth terms); removal; answers (gate openings); and those of `draws`.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.model.bias import BiasContext
from rarefeat.model.encoder import attend, pre_activations
from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import Generators, ReducedSimulator, make_simulator
from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.studies.fate.config import DecayAndScale, gate
from rarefeat.studies.fate.draws import (
    CellSettings,
    TrainingSample,
    draw_latent_pairs,
    holds_rare,
    remove_rare,
)
from rarefeat.studies.fate.growth import (
    PASSES,
    NeuronGrowth,
    measure_neuron_growth,
    summarise_growth,
    top_pairs,
)
from rarefeat.training.step import (
    Kernel,
    TrainState,
    apply_step,
    initial_state,
    make_kernel,
)
from rarefeat.workflow.run.cli_helpers import progress

OPENING_PAIRS = 500
"""Pairs with, and pairs without, the rare feature that gate openings are measured on."""


def rare_cosines(state: TrainState, simulator: ReducedSimulator) -> Tensor:
    """Return the absolute cosine of every neuron to the rare feature, (S, m)."""
    return absolute_cosines(state.weights, simulator.dictionary)[..., -1]


def nearest_neuron(state: TrainState, simulator: ReducedSimulator) -> int:
    """Return the neuron of a replica (S = 1) that is nearest to the rare feature."""
    return int(rare_cosines(state, simulator)[0].argmax())


def measure_gate_opening(
    settings: CellSettings,
    state: TrainState,
    simulator: ReducedSimulator,
    trained: Tensor,
    rng: torch.Generator,
) -> dict[str, float]:
    """Measure for which samples the neuron nearest to the rare feature has an open gate.

    trained (n, L, d).
    """
    nearest = nearest_neuron(state, simulator)
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


def measure_growth(
    settings: CellSettings,
    kernel: Kernel,
    state: TrainState,
    config: "PerReplicaStepConfig",
    sample: TrainingSample,
    s: int,
    seed: int,
) -> NeuronGrowth:
    """Measure the growth of the rare feature in a replica, as means over PASSES of its sample."""
    rng = generator(settings.draws, seed, "looked")
    passes = (sample.iter_pass(s, rng) for _ in range(PASSES))
    n = settings.N if settings.comes_back else 0
    d = settings.data.d
    return measure_neuron_growth(kernel, state, config, settings.sigma, d, passes, rng, n)


def remove_pairs(settings: CellSettings, pairs: Tensor, growth: NeuronGrowth, seed: int) -> Tensor:
    """Return the pairs of a replica with the rare feature taken out of those of the removal.

    pairs (N, 2, L, d).
    """
    which, k = settings.removal
    if which == "top":
        return remove_rare(pairs, top_pairs(growth, k))
    with_rare = holds_rare(pairs).nonzero()[:, 0]
    order = torch.randperm(len(with_rare), generator=generator(settings.draws, seed, "removal"))
    return remove_rare(pairs, with_rare[order[:k]])


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

    A feature is learned from when a neuron has a cosine of at least HALF_LEARNED, if one has it at
    every evaluation since. A replica ends when it has also had a cosine above PURE_COSINE for
    `hold_steps` steps, or at step T. Replicas with the same seed see the same tokens. The result of
    a replica does not depend on the others.
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
    single_kernel = make_kernel(training.kernel, single, single.sample_tokens, settings.logit_scale)
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
    learned_at, pure_at, rows = [math.nan] * len(replicas), [math.nan] * len(replicas), []
    looked, growth = [{} for _ in replicas], [None] * len(replicas)

    def bias_rule(context: BiasContext) -> Tensor:
        return torch.where((context.T1 >= 0)[:, None], gates * context.norms, 0.0)

    for step in progress(range(training.T + 1), training.T + 1, label):
        if step % eval_interval == 0:
            cosines = rare_cosines(state, simulator).amax(-1).tolist()
            remaining = []
            for s, ((seed, regime), cosine) in enumerate(zip(replicas, cosines, strict=True)):
                if cosine < HALF_LEARNED:
                    learned_at[s] = pure_at[s] = math.nan
                elif math.isnan(learned_at[s]):
                    learned_at[s] = step
                if cosine > PURE_COSINE and math.isnan(pure_at[s]):
                    pure_at[s] = step
                current = select_replica(state, s)
                if step == measure_step:
                    index = int(seed_index[s])
                    growth[s] = measure_growth(
                        settings, single_kernel, current, config.select(s), sample, index, seed
                    )
                    looked[s] = {"cosine_looked": cosine, **summarise_growth(growth[s])}
                    if settings.removal:
                        sample.pairs[index] = remove_pairs(
                            settings, sample.pairs[index], growth[s], seed
                        )
                has_held = hold_steps and step - pure_at[s] >= hold_steps
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
                        "pure_at": pure_at[s],
                        **looked[s],
                        "winner_rank": growth[s].rank(nearest_neuron(current, single)),
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
                replicas, learned_at, pure_at, looked, growth = (
                    [items[s] for s in remaining]
                    for items in (replicas, learned_at, pure_at, looked, growth)
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
