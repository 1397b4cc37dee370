"""Stage 2: contrastive training of one cell, every replica of a block of seeds at once (eq. 1-5, Algorithm 1)."""

import argparse
import math
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.command import number, progress, run, section, seed_range
from rarefeat.config import Arm, Data, Training
from rarefeat.core import bias as bias_rules
from rarefeat.core.contrastive import coefficients, infonce, infonce_floor, logits
from rarefeat.core.encoder import attend, pre_activations, respond
from rarefeat.core.neurons import alignment_metrics, feature_share, minority_overlap
from rarefeat.core.pruning import neuron_mask, oracle_mask, weight_mask
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import DIVERGED, make_simulator
from rarefeat.core.sparse_coding import aggregated_sign
from rarefeat.files import RarefeatError, write_table
from rarefeat.tensors import read_tensors, write_tensors

# Replicas in one tensor program: enough to share the overhead of each call, few enough that their tokens stay in the cache.
BYTES_AT_ONCE = 1.2e6


def batches(study: str, seeds: list[int], N: int, K: int) -> Iterator[Tensor]:
    """Indices of the training pairs of each step, (S, K): a new order each epoch, K without replacement."""
    generators = [generator(study, seed, "batches") for seed in seeds]
    while True:
        order = torch.stack([torch.randperm(N, generator=g) for g in generators])
        yield from order[:, : N // K * K].split(K, dim=1)


def log_spaced(T: int, per_decade: int = 10) -> list[int]:
    """Steps at which the trajectory is recorded: 0, 1, 2, ..., log-spaced up to T."""
    count = math.ceil(per_decade * math.log10(T))
    return sorted({0, T, *(min(T, round(10 ** (k / per_decade))) for k in range(count))})


def mask_of(arm: Arm, weights: Tensor, dictionary: Tensor, minority: int) -> Tensor | None:
    """What the arm prunes at these weights: True where pruned, (S, m, 1) or (S, m, p); None for an arm without a mask."""
    match arm.arm:
        case "pruned_neuron":
            return neuron_mask(weights, arm.alpha)
        case "pruned_weight":
            return weight_mask(weights, arm.alpha)
        case "oracle":
            return oracle_mask(weights, dictionary, minority)
    return None


def pretrain(
    study: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arm: Arm,
    sigma: float,
    seeds: list[int],
    train: Tensor,
    label: str = "pretrain",
) -> tuple[dict[str, Tensor], list[dict]]:
    """Train one cell.

    Args:
        train: latent training pairs, int8 (S, N, 2, L, d).

    Returns:
        weights (S, m, p) in the simulator's coordinates, bias (S, m) and T1 (S,), the step that ended stage 1 (-1 for none);
        and the trajectory, a row {seed, step, metric, value} for each. Losses are those of the step's own batch, unmasked,
        without the l2 term.

    Raises:
        RarefeatError: for a mask of single weights under the reduced simulator, and for weights that are no longer finite.
    """
    if simulator == "reduced" and arm.arm == "pruned_weight":
        raise RarefeatError("arm pruned_weight masks single weights in R^d1, which only the simulator direct has")
    S, K, d = len(seeds), training.K, data.d
    tau, eta, minority = training.tau, training.eta, len(data.minority)
    space = make_simulator(simulator, study, d, data.d1, training.m, seeds)
    weights = space.weights(training.sigma_0, [generator(study, seed, "weights") for seed in seeds])
    bias = torch.zeros(S, training.m)
    T1 = torch.full((S,), -1)

    noise, complement = ([generator(study, seed, purpose) for seed in seeds] for purpose in ("noise", "complement"))
    first_row = data.N * torch.arange(S)[:, None]
    recorded, trajectory = set(log_spaced(training.T)), []

    draws = batches(study, seeds, data.N, K)
    for step in progress(range(training.T + 1), training.T + 1, label):
        # Two views of K pairs, each with noise of its own: attended tokens (S, 2 K, L, P).
        rows = (first_row + next(draws)).flatten()
        latents = train.flatten(0, 1).index_select(0, rows).unflatten(0, (S, K)).transpose(1, 2)
        attended = attend(space.tokens(latents.flatten(1, 2).float(), sigma, noise))

        # Embeddings of the dense and of the masked network.
        pre = pre_activations(attended, weights)
        f = respond(pre, bias)
        mask = mask_of(arm, weights, space.dictionary, minority) if step >= arm.onset else None
        if mask is None:
            masked_pre, masked = pre, f
        elif mask.shape[-1] == 1:
            masked_pre, masked = pre.masked_fill(mask.mT[:, None], 0.0), f.masked_fill(mask.mT, 0.0)
        else:
            masked_pre = pre_activations(attended, weights.masked_fill(mask, 0.0))
            masked = respond(masked_pre, bias)
        (f_x, f_y), (masked_x, masked_y) = f.split(K, dim=1), masked.split(K, dim=1)

        if step in recorded:
            metrics = alignment_metrics(weights, space.dictionary, minority)
            metrics["loss"] = infonce(f_x, f_y, tau)
            metrics["loss_floor"] = infonce_floor(aggregated_sign(latents[:, 0]))
            metrics["weight_norm"] = weights.norm(dim=-1).mean(-1)
            metrics["bias_share"] = (bias / weights.norm(dim=-1)).mean(-1)
            if mask is not None:
                metrics["mask_minority_overlap"] = minority_overlap(mask, weights, space.dictionary, minority)
            if step == training.T:
                metrics["T1"] = T1
            trajectory += [
                {"seed": seed, "step": step, "metric": name, "value": float(value)}
                for name, values in metrics.items()
                for seed, value in zip(seeds, values.tolist(), strict=True)
            ]
        if step == training.T:
            break

        # Eq. (5): the masked network gives the logits; embeddings, gates and the update are those of the dense one.
        p = logits(masked_x, masked_y, tau)
        if arm.pruned_update == "straight_through":
            pre, f_y = masked_pre, masked_y
        descent = -eta * coefficients(pre[:, :K], bias, f_y, p, tau)
        next_weights = space.step(weights, descent, attended[:, :K], 1 - eta * training.lambda_, complement)

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
        bias = torch.where(starting[:, None], first, torch.where(started[:, None], later, bias))
        weights = next_weights

    if not weights.isfinite().all():
        raise RarefeatError(DIVERGED)
    return {"weights": weights, "bias": bias, "T1": T1}, trajectory


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="name that keys every random draw")
    parser.add_argument("--simulator", choices=["direct", "reduced"], required=True)
    parser.add_argument("--data", type=section(Data), required=True, help="the section `data` of the config, as YAML or JSON")
    parser.add_argument("--training", type=section(Training), required=True, help="the section `training`, likewise")
    parser.add_argument("--arm", type=section(Arm), required=True, help="one entry of `arms`, likewise")
    parser.add_argument("--sigma", type=number(0, math.inf), required=True, help="standard deviation of the noise")
    parser.add_argument("--seeds", type=seed_range, required=True, help="FIRST-LAST")
    parser.add_argument("--latents", required=True, help="safetensors file of synthesise")
    parser.add_argument("--encoder", required=True, help="safetensors file to write")
    parser.add_argument("--trajectory", required=True, help="Parquet file to write")
    args = parser.parse_args()
    (train,) = read_tensors(args.latents, "train")
    cell = args.data, args.training, args.arm, args.sigma
    width = args.data.d1 if args.simulator == "direct" else min(args.data.d1, args.data.d + args.training.m)
    at_once = max(1, int(BYTES_AT_ONCE / (2 * args.training.K * args.data.L * width * 4)))
    encoders, trajectory = [], []
    for first in range(0, len(args.seeds), at_once):
        now = slice(first, first + at_once)
        label = f"{args.encoder} from seed {args.seeds[first]}"
        encoder, rows = pretrain(args.study, args.simulator, *cell, args.seeds[now], train[now], label)
        encoders.append(encoder)
        trajectory += rows
    write_tensors(args.encoder, {name: torch.cat([encoder[name] for encoder in encoders]) for name in encoders[0]})
    write_table(args.trajectory, pa.Table.from_pylist(trajectory))


if __name__ == "__main__":
    run(main)
