"""The dense training, watched for when it learns the rare feature: the chain's steps (eq. 1-5), and its latents."""

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
from rarefeat.core.training import (
    StepConfig,
    TrainState,
    apply_step,
    forward,
    initial_state,
    loss_gradient,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.studies.fate.config import FRESH_SAMPLE, DecayAndScale, Latents, gate

LEARNED = 0.5
"""Absolute cosine of a neuron to the rare feature from which it is learned."""
ANSWERS = 500
"""Pairs with the rare feature, and without it, that a neuron is asked about."""


class CellSettings(NamedTuple):
    """What is the same for all replicas of a cell."""

    draws: str
    data: Data
    training: Training
    latents: Latents
    N: int
    """0 for fresh latents at every step."""
    sigma: float
    eps_min: float

    @property
    def chance(self) -> Tensor:
        """Of each feature to be active in a sample, (d,)."""
        return activation_probability(
            frequencies(self.data.d, self.data.minority, self.eps_min), self.data.C
        )


def draw_latent_pairs(
    n: int, at: CellSettings, g: torch.Generator, rare: float | None = None
) -> Tensor:
    """n latent pairs of one replica, int8 (n, 2, L, d); rare: the rare feature's probability, if not the setting's."""
    chance = at.chance
    if rare is not None:
        chance[-1] = rare
    if at.latents == "antithetic":
        half = latent_pairs(n // 2, at.data.L, chance, g)
        flipped = half.clone()
        flipped[..., -1] *= -1
        return torch.cat([half, flipped])
    pairs = latent_pairs(n, at.data.L, chance, g)
    if at.latents == "apart":
        # A pair shares which features are active: without the rare one in the first view there is none in the second.
        there = (pairs[..., -1] != 0).any(-1).any(-1)
        pairs[there, ..., :-1] = 0
    return pairs


class TrainingSample:
    """The training pairs of S replicas, of which some leave."""

    def __init__(self, at: CellSettings, seeds: list[int]):
        self.at = at
        self.generators = [generator(at.draws, seed, "train") for seed in seeds]
        self.pairs = [draw_latent_pairs(at.N, at, g) for g in self.generators] if at.N else []
        self.order = (
            [batches(at.draws, [seed], at.N, at.training.K) for seed in seeds] if at.N else []
        )

    def batch(self) -> Tensor:
        """The next K pairs of each, (S, 2 K, L, d), the first views first."""
        if self.at.N:
            found = [
                pairs[next(order)[0]] for pairs, order in zip(self.pairs, self.order, strict=True)
            ]
        else:
            found = [draw_latent_pairs(self.at.training.K, self.at, g) for g in self.generators]
        return torch.stack(found).transpose(1, 2).flatten(1, 2).float()

    def iter_sample_batches(self, s: int, own: torch.Generator) -> Iterator[Tensor]:
        """Batches of one replica's whole sample, (1, 2 K, L, d), in an order that its training has no part in."""
        pairs = self.pairs[s] if self.at.N else draw_latent_pairs(FRESH_SAMPLE, self.at, own)
        order = torch.randperm(len(pairs), generator=own)
        for rows in order[: len(pairs) // self.at.training.K * self.at.training.K].split(
            self.at.training.K
        ):
            yield pairs[rows].transpose(0, 1).flatten(0, 1)[None].float()

    def keep_replicas(self, kept: list[int]) -> None:
        """Keep only these replicas."""
        self.generators, self.pairs, self.order = (
            [items[s] for s in kept] if items else []
            for items in (self.generators, self.pairs, self.order)
        )


def rare_cosines(state: TrainState, space: ReducedSimulator) -> Tensor:
    """|cos| of every neuron to the rare feature, (S, m)."""
    return absolute_cosines(state.weights, space.dictionary)[..., -1]


def rare_feature_gradient(attended: Tensor, state: TrainState, at: StepConfig, d: int) -> Tensor:
    """What descent adds to <w_i, M_rare> in a step, per unit of eta and without decay, (S, m)."""
    whole = forward(attended, state)
    found = loss_gradient(whole, whole, state.bias, at)
    return -(found.coefficients * attended[:, : at.K, :, d - 1, None]).sum((1, 2))


class GrowthTerms(NamedTuple):
    """What moves the rare feature's part of the neurons of a replica, per unit of eta."""

    leak: float
    """Growth rate of what is there: slope of the pull in <w_i, M_rare>, over the neurons."""
    kick: float
    """Largest pull on a neuron without the feature, over its norm: what chance correlations of the sample do."""


def measure_growth_terms(
    at: CellSettings,
    of: StepConfig,
    state: TrainState,
    space: ReducedSimulator,
    batches: Iterator[Tensor],
    noise: torch.Generator,
) -> GrowthTerms:
    """Of one replica, the mean over its sample, with the same noise with and without the rare feature in the weights."""
    d = at.data.d
    bare = state.weights.clone()
    bare[..., d - 1] = 0
    without = state._replace(weights=bare)
    found = []
    for latents in batches:
        attended = attend(space.sample_tokens(latents, at.sigma, [noise]))
        found.append(
            torch.stack(
                [rare_feature_gradient(attended, own, of, d)[0] for own in (state, without)]
            )
        )
    whole, kicks = torch.stack(found).double().mean(0)
    own = state.weights[0, :, d - 1].double()
    leak = ((whole - kicks) * own).sum() / own.square().sum().clamp_min(1e-30)
    return GrowthTerms(float(leak), float((kicks.abs() / state.weights[0].norm(dim=-1)).max()))


def measure_gate_opening(
    at: CellSettings,
    state: TrainState,
    space: ReducedSimulator,
    trained: Tensor,
    g: torch.Generator,
) -> dict[str, float]:
    """Share of samples that open the neuron nearest to the rare feature: training ones with it, fresh ones with it, without it.

    Args:
        trained: first views of the replica's training pairs, (n, L, d).
    """
    nearest = int(rare_cosines(state, space)[0].argmax())
    fresh = {"fresh": 1.0, "without": 0.0}
    parts = {"trained": trained[(trained[..., -1] != 0).any(-1)][:ANSWERS]} if len(trained) else {}
    parts |= {
        name: draw_latent_pairs(ANSWERS, at._replace(latents="plain"), g, rare)[:, 0]
        for name, rare in fresh.items()
    }
    found = {
        "count": float((trained[..., -1] != 0).any(-1).sum()) if len(trained) else float("nan")
    }
    for name in ("trained", "fresh", "without"):
        if not len(parts.get(name, ())):
            found[f"opened_{name}"] = float("nan")
            continue
        tokens = space.sample_tokens(parts[name][None].float(), at.sigma, [g])
        pre = pre_activations(attend(tokens), state.weights)[0, ..., nearest]
        found[f"opened_{name}"] = float(
            (pre.abs() > state.bias[0, nearest]).any(-1).double().mean()
        )
    return found


def select_replica(state: TrainState, s: int) -> TrainState:
    """One replica."""
    return TrainState(*(part[s : s + 1] for part in state))


class PerReplicaStepConfig(NamedTuple):
    """What a step needs of the config, with a decay for each replica, (R, 1, 1)."""

    K: int
    tau: float
    eta: float
    lambda_: Tensor

    def of(self, s: int) -> "PerReplicaStepConfig":
        """One replica."""
        return self._replace(lambda_=self.lambda_[s : s + 1])


def train_until_learned(
    at: CellSettings,
    regimes: list[DecayAndScale],
    every: int,
    hold: int,
    looked: int,
    seeds: list[int],
    label: str = "train",
) -> list[dict]:
    """Train a replica of each regime and seed until it has learned the rare feature for `hold` steps, or to T: a row for each.

    Replicas of one seed see the same tokens, which are made once. No number depends on the other replicas: all draws are keyed
    by (draws, seed, purpose).
    """
    data, training = at.data, at.training

    def streams(purpose: str) -> Generators:
        return [generator(at.draws, seed, purpose) for seed in seeds]

    # Replicas that still train, as places among the seeds that still have one, and what parts them.
    place = torch.arange(len(seeds)).repeat(len(regimes))
    here = [(seed, regime) for regime in regimes for seed in seeds]
    space = make_simulator(
        "reduced", at.draws, data.d, data.d1, training.m, [seed for seed, _ in here]
    )
    of_one = make_simulator("reduced", at.draws, data.d, data.d1, training.m, [0])
    state = initial_state(space.initial_weights(training.sigma_0, streams("weights"))[place])
    noise, complement, sample = streams("noise"), streams("complement"), TrainingSample(at, seeds)
    gates = torch.tensor([gate(data, regime.share) for _, regime in here])[:, None]
    step_of = PerReplicaStepConfig(
        training.K,
        training.tau,
        training.eta,
        torch.tensor([r.lambda_ for _, r in here]).double()[:, None, None],
    )
    learned_at, looks, rows = [math.nan] * len(here), [{} for _ in here], []

    def rule(moved: BiasContext) -> Tensor:
        return torch.where((moved.T1 >= 0)[:, None], gates * moved.norms, 0.0)

    for step in progress(range(training.T + 1), training.T + 1, label):
        if step % every == 0:
            cosines = rare_cosines(state, space).amax(-1).tolist()
            kept = []
            for s, ((seed, regime), cosine) in enumerate(zip(here, cosines, strict=True)):
                if cosine < LEARNED:
                    learned_at[s] = math.nan
                elif math.isnan(learned_at[s]):
                    learned_at[s] = step
                if step == looked:
                    own = generator(at.draws, seed, "looked")
                    found = measure_growth_terms(
                        at,
                        step_of.of(s),
                        select_replica(state, s),
                        of_one,
                        sample.iter_sample_batches(int(place[s]), own),
                        own,
                    )
                    looks[s] = {"cosine_looked": cosine, "leak": found.leak, "kick": found.kick}
                done = hold and step >= looked and step - learned_at[s] >= hold
                if not done and step < training.T:
                    kept.append(s)
                    continue
                g = generator(at.draws, seed, "answers")
                trained = sample.pairs[place[s]][:, 0] if at.N else torch.empty(0)
                ended = {
                    "ended_at": step,
                    "cosine": cosine,
                    "T1": float(state.T1[s]),
                    "diverged": float(state.diverged[s]),
                }
                row = {
                    "seed": seed,
                    "share": regime.share,
                    "lambda": regime.lambda_,
                    "learned_at": learned_at[s],
                    **looks[s],
                    **ended,
                }
                rows.append(
                    row | measure_gate_opening(at, select_replica(state, s), of_one, trained, g)
                )
            if len(kept) < len(here):
                if not kept:
                    break
                state, gates = TrainState(*(part[kept] for part in state)), gates[kept]
                step_of = step_of._replace(lambda_=step_of.lambda_[kept])
                here, learned_at, looks = (
                    [items[s] for s in kept] for items in (here, learned_at, looks)
                )
                seeds_left, place = place[kept].unique(return_inverse=True)
                noise, complement = (
                    [items[s] for s in seeds_left] for items in (noise, complement)
                )
                sample.keep_replicas(seeds_left.tolist())
                space = make_simulator(
                    "reduced", at.draws, data.d, data.d1, training.m, [seed for seed, _ in here]
                )
        attended, beyond = (
            attend(space.sample_tokens(sample.batch(), at.sigma, noise)),
            space.draw_complement(complement),
        )
        if len(here) > len(noise):
            attended, beyond = attended[place], beyond[place] if beyond is not None else None
        whole = forward(attended, state)
        found = loss_gradient(whole, whole, state.bias, step_of)
        state = apply_step(
            space, state, found, attended, step_of, training.bias.T1, rule, step, beyond
        )
    return sorted(rows, key=lambda row: (row["share"], row["lambda"], row["seed"]))
