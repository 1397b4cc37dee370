"""Stage 3: what the frozen encoder of one cell is worth, replica by replica (A.2, experiments 1-4)."""

import argparse
import math
from typing import Literal

import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.command import number, progress, run, section, seed_range
from rarefeat.config import Arm, Data, Training
from rarefeat.core.contrastive import infonce, infonce_floor
from rarefeat.core.encoder import embed
from rarefeat.core.linear_probe import linear_probe, pair_cosine_similarity
from rarefeat.core.neurons import alignment_metrics, minority_overlap
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import Simulator, make_simulator
from rarefeat.core.sparse_coding import aggregated_sign
from rarefeat.files import RarefeatError, write_table
from rarefeat.pretrain import mask_of
from rarefeat.tensors import read_tensors

CHUNK = 500
DISTRIBUTIONS = ("balanced", "matched")


def target(study: str, seed: int, d: int) -> Tensor:
    """w* of the regression task, (d,): independent signs +-1, so that every feature is worth the same."""
    return 1.0 - 2.0 * torch.randint(2, (d,), generator=generator(study, seed, "target"))


def embed_pairs(
    balanced: Tensor,
    matched: Tensor,
    space: Simulator,
    weights: Tensor,
    bias: Tensor,
    sigma: float,
    noise: torch.Generator,
) -> dict[str, Tensor]:
    """Embeddings of one replica under both distributions, latents (n, v, L, d) of v views twice -> (n, v, m) each.

    The two distributions are nested and see the same noise: what differs between them is embedded twice and the rest once.
    weights (1, m, p), bias (1, m).
    """
    changed = (balanced != matched).flatten(1).any(1)
    embeddings, again = [], []
    for start in range(0, len(balanced), CHUNK):
        chunk = slice(start, start + CHUNK)
        rare = changed[chunk]
        x = space.tokens(balanced[chunk].flatten(0, 1)[None].float(), sigma, [noise]).unflatten(1, (-1, balanced.shape[1]))
        embeddings.append(embed(x.flatten(1, 2), weights, bias)[0])
        if rare.any():
            other = x[:, rare].flatten(1, 2)
            swapped = (matched[chunk][rare] - balanced[chunk][rare]).flatten(0, 1).float()
            other[..., : weights.shape[-1]] += swapped @ space.dictionary[0].mT
            again.append(embed(other, weights, bias)[0])
    views = balanced.shape[1]
    both = {"balanced": torch.cat(embeddings).unflatten(0, (-1, views))}
    both["matched"] = both["balanced"].clone()
    if again:
        both["matched"][changed] = torch.cat(again).unflatten(0, (-1, views))
    return both


def probe(
    study: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arm: Arm,
    sigma: float,
    seeds: list[int],
    latents: dict[str, Tensor],
    encoder: tuple[Tensor, Tensor] | None,
    label: str = "probe",
) -> list[dict]:
    """Measure every replica of a cell.

    Args:
        latents: what `synthesise` returns. encoder: weights (S, m, p) and bias (S, m); None for the arms without training.

    Returns:
        One row per seed with the metric columns of the grid table (docs/tables.md). The linear head is fitted on the first
        views of the probe pairs, and tested on the first views of the test pairs, of the same distribution.
    """
    minority = len(data.minority)
    m = data.d if arm.arm == "ideal" else training.m
    test_signs = {name: aggregated_sign(latents[f"test_{name}"][:, 0]) for name in DISTRIBUTIONS}
    floor = infonce_floor(_batched(test_signs["matched"], training.K)).mean().item()
    test = latents["test_balanced"], latents["test_matched"]

    rows = []
    for index, seed in enumerate(progress(seeds, len(seeds), label)):
        space = make_simulator(simulator, study, data.d, data.d1, m, [seed])
        if encoder:
            weights, bias = (part[index : index + 1] for part in encoder)
        else:
            weights = untrained(arm, space, training.sigma_0, generator(study, seed, "weights"))
            bias = torch.zeros(weights.shape[:2])
        alignment = alignment_metrics(weights, space.dictionary, minority)
        mask = mask_of(arm, weights, space.dictionary, minority)
        overlap = None if mask is None else minority_overlap(mask, weights, space.dictionary, minority).item()

        fit = {name: latents[f"probe_{name}"][index][:, :1] for name in DISTRIBUTIONS}
        frozen = space, weights, bias, sigma
        f_fit = embed_pairs(fit["balanced"], fit["matched"], *frozen, generator(study, seed, "probe noise"))
        f_test = embed_pairs(*test, *frozen, generator(study, seed, "test noise"))

        row = {"seed": seed, **{name: values.item() for name, values in alignment.items()}}
        w_star = target(study, seed, data.d)
        for name in DISTRIBUTIONS:
            similarity, empty = pair_cosine_similarity(*f_test[name].unbind(1))
            row[f"cosine_similarity_{name}"] = similarity
            if name == "balanced":
                row["empty_share"] = empty
            row[f"regression_mse_{name}"], row[f"regression_r2_{name}"] = linear_probe(
                f_fit[name][:, 0],
                aggregated_sign(fit[name][:, 0]).float() @ w_star,
                f_test[name][:, 0],
                test_signs[name].float() @ w_star,
            )
        f_x, f_y = (_batched(view, training.K) for view in f_test["matched"].unbind(1))
        row["final_loss"] = infonce(f_x, f_y, training.tau).mean().item()
        row["loss_floor"] = floor
        row["mask_minority_overlap"] = None if overlap is None or math.isnan(overlap) else overlap
        rows.append(row)
    return rows


def untrained(arm: Arm, space: Simulator, sigma_0: float, weights: torch.Generator) -> Tensor:
    """The floor and the ceiling, (1, m, p): W(0), or the dictionary itself."""
    return space.weights(sigma_0, [weights]) if arm.arm == "initial" else space.dictionary.mT.contiguous()


def _batched(rows: Tensor, K: int) -> Tensor:
    """Consecutive batches of K, the rest left out: (n, q) -> (n // K, K, q)."""
    return rows[: len(rows) // K * K].view(-1, K, rows.shape[-1])


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="name that keys every random draw")
    parser.add_argument("--simulator", choices=["direct", "reduced"], required=True)
    parser.add_argument("--data", type=section(Data), required=True, help="the section `data` of the config, as YAML or JSON")
    parser.add_argument("--training", type=section(Training), required=True, help="the section `training`, likewise")
    parser.add_argument("--arm", type=section(Arm), required=True, help="one entry of `arms`, likewise")
    parser.add_argument(
        "--eps-min", type=number(0, 1, open_low=True), required=True, help="eps_min / eps_max, a key of the table"
    )
    parser.add_argument("--sigma", type=number(0, math.inf), required=True, help="standard deviation of the noise")
    parser.add_argument("--seeds", type=seed_range, required=True, help="FIRST-LAST")
    parser.add_argument("--latents", required=True, help="safetensors file of synthesise")
    parser.add_argument("--encoder", help="safetensors file of pretrain; none for the arms `initial` and `ideal`")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()

    names = [f"{part}_{name}" for part in ("probe", "test") for name in DISTRIBUTIONS]
    latents = dict(zip(names, read_tensors(args.latents, *names), strict=True))
    if args.arm.trained and not args.encoder:
        raise RarefeatError(f"--encoder is required for the trained arm {args.arm.arm}")
    encoder = tuple(read_tensors(args.encoder, "weights", "bias")) if args.arm.trained else None
    cell = args.data, args.training, args.arm, args.sigma, args.seeds
    rows = probe(args.study, args.simulator, *cell, latents, encoder, args.output)
    keys = {
        "eps_min": args.eps_min,
        "sigma": args.sigma,
        "nsr": args.sigma**2 * args.data.d1,
        "arm": args.arm.arm,
        "alpha": args.arm.alpha,
        "simulator": args.simulator,
    }
    write_table(args.output, pa.Table.from_pylist([keys | row for row in rows]))


if __name__ == "__main__":
    run(main)
