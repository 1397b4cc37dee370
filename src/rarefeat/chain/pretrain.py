"""Stage 2: contrastive training at one point, every arm and replica of a block of seeds at once (eq. 1-5, Algorithm 1)."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.chain.intermediates import latents_of
from rarefeat.config.model import Arm, Data, Training
from rarefeat.core import bias as bias_rules
from rarefeat.core.contrastive import bias_gradient, coefficients, infonce, infonce_floor, probabilities
from rarefeat.core.encoder import attend, pre_activations, respond
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import alignment_metrics, feature_share, minority_overlap
from rarefeat.core.products import product
from rarefeat.core.pruning import mask_of
from rarefeat.core.randomness import generator
from rarefeat.core.recording import log_spaced
from rarefeat.core.simulators import make_simulator
from rarefeat.core.sparse_coding import aggregated_sign
from rarefeat.core.views import Pairs
from rarefeat.run.command import progress, run, stage
from rarefeat.run.job import Job
from rarefeat.storage.files import write_table
from rarefeat.storage.origin import KEY
from rarefeat.storage.tensors import read_tensors, write_tensors

# Replicas in one tensor program: enough to share the overhead of each call, few enough that their tokens stay in the cache.
BYTES_AT_ONCE = 1.2e6
LARGEST_NORM = 1e12
"""Of a neuron that is still updated: far beyond any reading, and similarities of it are finite in float32."""
RUNAWAY = 1e6
"""Norms beyond this in every replica of every arm are a mistake of the config; in some of them, a result that tables tell."""
ALL_DIVERGED = "training diverged: norms of neurons are above 1e6 in every replica of every arm; lower eta, sigma or T"


def batches(study: str, seeds: list[int], N: int, K: int) -> Iterator[Tensor]:
    """Indices of the training pairs of each step, (S, K): a new order each epoch, K without replacement."""
    generators = [generator(study, seed, "batches") for seed in seeds]
    while True:
        order = torch.stack([torch.randperm(N, generator=g) for g in generators])
        yield from order[:, : N // K * K].split(K, dim=1)


class Encoder(NamedTuple):
    """What training changes, for S replicas of one arm."""

    weights: Tensor
    """(S, m, p), in the simulator's coordinates."""
    bias: Tensor
    """(S, m)."""
    T1: Tensor
    """(S,), the step that ended stage 1; -1 for none."""
    T2: Tensor
    """(S,), the step that ended stage 2: a neuron has grown d-fold in norm^2 since T1, eq. (61); -1 for none."""
    history: Tensor
    """(S, R, m, d + 2), <w_i, M_j>, ||w_i|| and b_i at the R recorded steps (log_spaced); R = 0 where they are not kept.

    With a colour nuisance, its directions stand after the d features.
    """
    ends: Tensor
    """(S, 2, m, d + 2), the same at T1 and at T2, where the history is kept; NaN until then."""
    loss: Tensor
    """(S,), unmasked InfoNCE of the last step's batch; NaN until then."""


def state(weights: Tensor, bias: Tensor, directions: Tensor) -> Tensor:
    """What is kept of the neurons, (S, m, p), (S, m), (S, p, q) -> (S, m, q + 2): projections, norm and bias."""
    return torch.cat([product(weights, directions), weights.norm(dim=-1, keepdim=True), bias[..., None]], -1)


def pretrain(
    study: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    train: Tensor,
    label: str = "pretrain",
) -> tuple[dict[str, Encoder], list[dict]]:
    """Train every arm of one point on the same tokens. What an arm becomes does not depend on the arms beside it.

    Args:
        train: latent training pairs, int8 (S, N, 2, L, d).

    Returns:
        The encoders by label of the arm, and the trajectory, a row {seed, the keys of the arm, step, metric, value} for each.
        Losses are those of the step's own batch, unmasked, without the l2 term. A replica whose norms pass LARGEST_NORM has
        diverged, by its loss (core/divergence.py), and is no longer updated: every number that is kept stays finite.

    Raises:
        RarefeatError: for a mask of single weights under the reduced simulator.
    """
    if simulator == "reduced" and any(arm.arm == "pruned_weight" for arm in arms):
        raise RarefeatError("arm pruned_weight masks single weights in R^d1, which only the simulator direct has")
    S, K, d = len(seeds), training.K, data.d
    tau, eta, minority = training.tau, training.eta, len(data.minority)
    space = make_simulator(simulator, study, d, data.d1, training.m, seeds)
    initial = space.weights(training.sigma_0, [generator(study, seed, "weights") for seed in seeds])
    kept = training.m, d + data.views.colour + 2
    none = torch.full((S,), -1)
    ends = torch.full((S, 2 if training.history else 0, *kept), torch.nan)
    start = Encoder(
        initial, torch.zeros(S, training.m), none, none, torch.empty(S, 0, *kept), ends, torch.full((S,), torch.nan)
    )
    # One draw for the whole training: the control prunes the same neurons at every step.
    scores = torch.stack([torch.rand(training.m, generator=generator(study, seed, "random mask")) for seed in seeds])
    encoders = {arm.label: start for arm in arms}

    noise = [generator(study, seed, "noise") for seed in seeds]
    pairs = Pairs(data.views, space, simulator, study, seeds)
    directions = torch.cat([space.dictionary, pairs.directions], -1) if data.views.colour else space.dictionary
    # The arms differ in their weights, so that each has draws of its own here, from the same key.
    complement = {arm.label: [generator(study, seed, "complement") for seed in seeds] for arm in arms}
    first_row = data.N * torch.arange(S)[:, None]
    recorded, trajectory = set(log_spaced(training.T)), []

    draws = batches(study, seeds, data.N, K)
    for step in progress(range(training.T + 1), training.T + 1, label):
        # Two views of K pairs, and negatives of another kind where there are some: attended tokens (S, 2 K or 3 K, L, P), the
        # same for every arm.
        rows = (first_row + next(draws)).flatten()
        latents = train.flatten(0, 1).index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = attend(pairs.tokens(latents.flatten(1, 2).float(), sigma, noise))
        if step in recorded:
            floor = infonce_floor(aggregated_sign(latents[:, 0]))

        for arm in arms:
            weights, bias, T1, T2, history, ends, loss = encoders[arm.label]

            # Embeddings of the dense and of the masked network.
            pre = pre_activations(attended, weights)
            f = respond(pre, bias)
            mask = mask_of(arm.arm, arm.alpha, weights, space.dictionary, minority, scores) if step >= arm.onset else None
            straight_through = arm.pruned_update == "straight_through"
            if mask is None:
                masked_pre, masked = pre, f
            elif mask.shape[-1] == 1:
                masked = f.masked_fill(mask.mT, 0.0)
                masked_pre = pre.masked_fill(mask.mT[:, None], 0.0) if straight_through else pre
            else:
                masked_pre = pre_activations(attended, weights.masked_fill(mask, 0.0))
                masked = respond(masked_pre, bias)
            f_x, f_y, *others = f.split(K, dim=1)
            masked_x, masked_y, *masked_others = masked.split(K, dim=1)
            negatives, masked_negatives = (others or [None])[0], (masked_others or [None])[0]

            if step in recorded:
                metrics = alignment_metrics(weights, space.dictionary, minority)
                metrics["loss"] = infonce(f_x, f_y, tau, negatives)
                metrics["loss_floor"] = floor
                metrics["weight_norm"] = weights.norm(dim=-1).mean(-1)
                metrics["bias_share"] = (bias / weights.norm(dim=-1)).mean(-1)
                if mask is not None:
                    metrics["mask_minority_overlap"] = minority_overlap(mask, weights, space.dictionary, minority)
                if step == training.T:
                    metrics["T1"] = T1
                if training.history:
                    history = torch.cat([history, state(weights, bias, directions)[:, None]], 1)
                trajectory += [
                    {"seed": seed, **arm.model_dump(), "step": step, "metric": name, "value": float(value)}
                    for name, values in metrics.items()
                    for seed, value in zip(seeds, values.tolist(), strict=True)
                ]
            if step == training.T:
                encoders[arm.label] = Encoder(weights, bias, T1, T2, history, ends, metrics["loss"])
                continue

            # Eq. (5): the masked network gives the logits; embeddings, gates and the update are those of the dense one.
            p = probabilities(masked_x, masked_y, tau, masked_negatives)
            if straight_through:
                pre, f_y, negatives = masked_pre, masked_y, masked_negatives
            descent = -eta * coefficients(pre[:, :K], bias, f_y, p, tau, negatives)
            decay = 1 - eta * training.lambda_
            next_weights = space.step(weights, descent, attended[:, :K], decay, complement[arm.label])
            stopped = ~(next_weights.norm(dim=-1) <= LARGEST_NORM).all(-1)
            if stopped.any():
                next_weights = torch.where(stopped[:, None, None], weights, next_weights)

            # Stage 1 ends at eq. (34) or at a fixed step; then the bias follows its rule.
            norms, next_norms = weights.norm(dim=-1), next_weights.norm(dim=-1)
            started = T1 >= 0
            if started.all():
                starting = torch.zeros_like(started)
            elif training.bias.T1 == "eq34":
                starting = ~started & bias_rules.stage_one_over(feature_share(next_weights, space.dictionary))
            else:
                starting = ~started & torch.tensor(step + 1 >= training.bias.T1)
            T1 = torch.where(starting, step + 1, T1)
            first = bias_rules.follow(next_norms, d, training.bias.share)
            follows = training.bias.rule == "follow"
            later = first if follows else bias_rules.grow(bias, norms, next_norms, eta, d, training.bias.cap)
            if training.bias.rule == "gradient":
                bias = bias - eta * bias_gradient(pre[:, :K], bias, f_y, p, tau, negatives)
            else:
                bias = torch.where(starting[:, None], first, torch.where(started[:, None], later, bias))
            if training.history:
                # Stage 2 ends at eq. (61), counted from the neurons at T1.
                grown = (next_norms.square() >= d * ends[:, 0, :, -2].square()).any(-1) & (T2 < 0)
                T2 = torch.where(grown, step + 1, T2)
                reached = torch.stack([starting.expand(S), grown], 1)[..., None, None]
                if reached.any():
                    ends = torch.where(reached, state(next_weights, bias, directions)[:, None], ends)
            encoders[arm.label] = Encoder(next_weights, bias, T1, T2, history, ends, loss)

    return encoders, trajectory


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--latents", required=True, help="safetensors file of synthesise")
    parser.add_argument("--encoders", required=True, help="safetensors file to write")
    parser.add_argument("--trajectories", required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    draws, simulator, data = job.part("draws", str), job.part("simulator", str), job.part("data", Data)
    training, seeds = job.part("training", Training), job.seed_list
    point = data, training, job.part("arms", list[Arm]), job.cell["sigma"]
    (train,) = read_tensors(args.latents, "train", expected=latents_of(job))
    width = data.d1 if simulator == "direct" else min(data.d1, data.d + training.m)
    at_once = max(1, int(BYTES_AT_ONCE / (2 * training.K * data.L * width * 4)))
    parts, trajectory = [], []
    for first in range(0, len(seeds), at_once):
        now = slice(first, first + at_once)
        label = f"{args.encoders} from seed {seeds[first]}"
        encoders, rows = pretrain(draws, simulator, *point, seeds[now], train[now], label)
        parts.append({f"{arm}/{name}": value for arm, encoder in encoders.items() for name, value in encoder._asdict().items()})
        trajectory += rows
    encoders = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    if all((value.norm(dim=-1).amax(-1) > RUNAWAY).all() for name, value in encoders.items() if name.endswith("/weights")):
        raise RarefeatError(ALL_DIVERGED)
    write_tensors(args.encoders, encoders, job.text)
    write_table(args.trajectories, pa.Table.from_pylist(trajectory), {KEY: job.text})


if __name__ == "__main__":
    run(main)
