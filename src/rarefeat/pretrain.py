"""Stage 2: contrastive training of one cell, every replica of a block of seeds at once (eq. 1-5, Algorithm 1)."""

import argparse
import math
from collections.abc import Iterator

import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.command import number, progress, run, section, seed_range
from rarefeat.config import Arm, Data, Training
from rarefeat.core import bias as bias_rules
from rarefeat.core.contrastive import gradient, infonce, infonce_floor, logits
from rarefeat.core.encoder import attention, pre_activations, respond
from rarefeat.core.neurons import alignment_metrics, feature_share, minority_overlap
from rarefeat.core.pruning import neuron_mask, oracle_mask, weight_mask
from rarefeat.core.randomness import generator
from rarefeat.core.sparse_coding import aggregated_sign, tokens
from rarefeat.files import write_table
from rarefeat.tensors import read_tensors, write_tensors


def initial_weights(study: str, training: Training, d1: int, seeds: list[int]) -> Tensor:
    """W(0) of Algorithm 1, (S, m, d1): N(0, sigma_0^2)."""
    draws = [torch.randn(training.m, d1, generator=generator(study, seed, "weights")) for seed in seeds]
    return training.sigma_0 * torch.stack(draws)


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
    """What the arm prunes at these weights: True where pruned, (S, m, 1) or (S, m, d1); None for an arm without a mask."""
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
    data: Data,
    training: Training,
    arm: Arm,
    sigma: float,
    seeds: list[int],
    dictionary: Tensor,
    train: Tensor,
    label: str = "pretrain",
) -> tuple[dict[str, Tensor], list[dict]]:
    """Train one cell.

    Args:
        dictionary: (S, d1, d). train: latent training pairs, int8 (S, N, 2, L, d).

    Returns:
        weights (S, m, d1), bias (S, m) and T1 (S,), the step that ended stage 1 (-1 for none); and the trajectory, a
        row {seed, step, metric, value} for each. Losses are those of the step's own batch, unmasked, without the l2 term.
    """
    S, K, L, d, d1 = len(seeds), training.K, data.L, data.d, data.d1
    tau, eta, minority = training.tau, training.eta, len(data.minority)
    weights = initial_weights(study, training, d1, seeds)
    bias = torch.zeros(S, training.m)
    T1 = torch.full((S,), -1)

    noise_generators = [generator(study, seed, "noise") for seed in seeds]
    noise = torch.empty(S, 2 * K * L, d1)
    replica = torch.arange(S)[:, None]
    recorded, trajectory = set(log_spaced(training.T)), []

    draws = batches(study, seeds, data.N, K)
    for step in progress(range(training.T + 1), training.T + 1, label):
        # Two views of K pairs, each with noise of its own: (S, 2, K, L, d) latents, (S, 2 K L, d1) tokens.
        latents = train[replica, next(draws)].transpose(1, 2)
        for buffer, noise_generator in zip(noise, noise_generators, strict=True):
            buffer.normal_(generator=noise_generator)
        both = tokens(noise, latents.float().reshape(S, 2 * K * L, d), dictionary, sigma).view(S, 2 * K, L, d1)
        weights_of_tokens = attention(both)

        # Embeddings of the dense and of the masked network.
        pre = pre_activations(both, weights_of_tokens, weights)
        f_x, f_y = respond(pre, bias).split(K, dim=1)
        mask = mask_of(arm, weights, dictionary, minority) if step >= arm.onset else None
        if mask is None:
            masked_pre = pre
        elif mask.shape[-1] == 1:
            masked_pre = pre.masked_fill(mask.mT[:, None], 0.0)
        else:
            masked_pre = pre_activations(both, weights_of_tokens, weights.masked_fill(mask, 0.0))
        masked_x, masked_y = (f_x, f_y) if mask is None else respond(masked_pre, bias).split(K, dim=1)

        if step in recorded:
            metrics = alignment_metrics(weights, dictionary, minority)
            metrics["loss"] = infonce(f_x, f_y, tau)
            metrics["loss_floor"] = infonce_floor(aggregated_sign(latents[:, 0]))
            metrics["weight_norm"] = weights.norm(dim=-1).mean(-1)
            metrics["bias_share"] = (bias / weights.norm(dim=-1)).mean(-1)
            if mask is not None:
                metrics["mask_minority_overlap"] = minority_overlap(mask, weights, dictionary, minority)
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
        slope = gradient(both[:, :K], weights_of_tokens[:, :K], pre[:, :K], bias, f_y, p, tau)
        next_weights = (1 - eta * training.lambda_) * weights - eta * slope

        # Stage 1 ends at eq. (34) or at a fixed step; then the bias follows its rule.
        norms, next_norms = weights.norm(dim=-1), next_weights.norm(dim=-1)
        started = T1 >= 0
        if started.all():
            starting = torch.zeros_like(started)
        elif training.bias.T1 == "eq34":
            starting = ~started & bias_rules.stage_one_over(feature_share(next_weights, dictionary))
        else:
            starting = ~started & torch.tensor(step + 1 >= training.bias.T1)
        T1 = torch.where(starting, step + 1, T1)
        first = bias_rules.follow(next_norms, d, training.bias.share)
        follows = training.bias.rule == "follow"
        later = first if follows else bias_rules.grow(bias, norms, next_norms, eta, d, training.bias.cap)
        bias = torch.where(starting[:, None], first, torch.where(started[:, None], later, bias))
        weights = next_weights

    return {"weights": weights, "bias": bias, "T1": T1}, trajectory


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="name of the study, part of the key of every random draw")
    parser.add_argument("--data", type=section(Data), required=True, help="the section `data` of the config, as YAML or JSON")
    parser.add_argument("--training", type=section(Training), required=True, help="the section `training`, likewise")
    parser.add_argument("--arm", type=section(Arm), required=True, help="one entry of `arms`, likewise")
    parser.add_argument("--sigma", type=number(0, math.inf), required=True, help="standard deviation of the noise")
    parser.add_argument("--seeds", type=seed_range, required=True, help="FIRST-LAST")
    parser.add_argument("--latents", required=True, help="safetensors file of synthesise")
    parser.add_argument("--encoder", required=True, help="safetensors file to write")
    parser.add_argument("--trajectory", required=True, help="Parquet file to write")
    args = parser.parse_args()
    dictionary, train = read_tensors(args.latents, "dictionary", "train")
    encoder, trajectory = pretrain(
        args.study, args.data, args.training, args.arm, args.sigma, args.seeds, dictionary, train, args.encoder
    )
    write_tensors(args.encoder, encoder)
    write_table(args.trajectory, pa.Table.from_pylist(trajectory))


if __name__ == "__main__":
    run(main)
