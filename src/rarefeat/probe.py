"""Stage 3: what the frozen encoder of one cell is worth, replica by replica (A.2, experiments 1-4)."""

import argparse
import math

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
from rarefeat.core.sparse_coding import aggregated_sign, tokens
from rarefeat.files import RarefeatError, write_table
from rarefeat.pretrain import initial_weights, mask_of
from rarefeat.tensors import read_tensors

CHUNK = 500
DISTRIBUTIONS = ("balanced", "matched")


def target(study: str, seed: int, d: int) -> Tensor:
    """w* of the regression task, (d,): independent signs +-1, so that every feature is worth the same."""
    return 1.0 - 2.0 * torch.randint(2, (d,), generator=generator(study, seed, "target"))


def embed_pairs(
    balanced: Tensor,
    matched: Tensor,
    dictionary: Tensor,
    weights: Tensor,
    bias: Tensor,
    sigma: float,
    noise_generator: torch.Generator,
    label: str | None = None,
) -> dict[str, Tensor]:
    """Embeddings under both distributions, latents (n, v, L, d) of v views twice -> (S, n, v, m) each.

    Every replica and both distributions see the same noise, drawn once, and the two distributions are nested: what differs
    between them is embedded twice and the rest once. dictionary (S, d1, d), weights (S, m, d1), bias (S, m).
    """
    n, views = balanced.shape[:2]
    S, m = weights.shape[:2]

    def embed_one(r: int, latents: Tensor, noise: Tensor) -> Tensor:
        one = slice(r, r + 1)
        x = tokens(noise.flatten(0, 2)[None].clone(), latents.flatten(0, 2)[None].float(), dictionary[one], sigma)
        return embed(x.view(1, -1, *noise.shape[2:]), weights[one], bias[one]).view(-1, views, m)

    embeddings = torch.empty(S, n, views, m)
    changed = (balanced != matched).flatten(1).any(1)
    rare = torch.empty(S, int(changed.sum()), views, m)
    done = 0
    starts = range(0, n, CHUNK)
    for start in progress(starts, len(starts), label) if label else starts:
        chunk = slice(start, start + CHUNK)
        noise = torch.randn(*balanced[chunk].shape[:3], dictionary.shape[1], generator=noise_generator)
        again = changed[chunk]
        upto = done + int(again.sum())
        for r in range(S):
            embeddings[r, chunk] = embed_one(r, balanced[chunk], noise)
            if upto > done:
                rare[r, done:upto] = embed_one(r, matched[chunk][again], noise[again])
        done = upto
    both = {"balanced": embeddings, "matched": embeddings.clone()}
    both["matched"][:, changed] = rare
    return both


def probe(
    study: str,
    data: Data,
    training: Training,
    arm: Arm,
    sigma: float,
    seeds: list[int],
    latents: dict[str, Tensor],
    weights: Tensor,
    bias: Tensor,
    label: str = "probe",
) -> list[dict]:
    """Measure every replica of a cell.

    Args:
        latents: what `synthesise` returns. weights (S, m, d1), bias (S, m).

    Returns:
        One row per seed with the metric columns of the grid table (docs/tables.md). The linear head is fitted on the first
        views of the probe pairs, and tested on the first views of the test pairs, of the same distribution.
    """
    minority = len(data.minority)
    alignment = alignment_metrics(weights, latents["dictionary"], minority)
    mask = mask_of(arm, weights, latents["dictionary"], minority)
    overlap = None if mask is None else minority_overlap(mask, weights, latents["dictionary"], minority)
    test_signs = {name: aggregated_sign(latents[f"test_{name}"][:, 0]) for name in DISTRIBUTIONS}
    floor = infonce_floor(_batched(test_signs["matched"], training.K)).mean().item()

    encoders = latents["dictionary"], weights, bias
    test_noise = generator(study, data.test_seed, "test noise")
    f_test = embed_pairs(latents["test_balanced"], latents["test_matched"], *encoders, sigma, test_noise, label)

    rows = []
    for index, seed in enumerate(seeds):
        encoder = (part[index : index + 1] for part in encoders)
        fit = {name: latents[f"probe_{name}"][index][:, :1] for name in DISTRIBUTIONS}
        f_fit = embed_pairs(fit["balanced"], fit["matched"], *encoder, sigma, generator(study, seed, "probe noise"))

        row = {"seed": seed, **{name: values[index].item() for name, values in alignment.items()}}
        w_star = target(study, seed, data.d)
        for name in DISTRIBUTIONS:
            similarity, empty = pair_cosine_similarity(*f_test[name][index].unbind(1))
            row[f"cosine_similarity_{name}"] = similarity
            if name == "balanced":
                row["empty_share"] = empty
            row[f"regression_mse_{name}"], row[f"regression_r2_{name}"] = linear_probe(
                f_fit[name][0, :, 0],
                aggregated_sign(fit[name][:, 0]).float() @ w_star,
                f_test[name][index, :, 0],
                test_signs[name].float() @ w_star,
            )
        f_x, f_y = f_test["matched"][index].unbind(1)
        row["final_loss"] = infonce(_batched(f_x, training.K), _batched(f_y, training.K), training.tau).mean().item()
        row["loss_floor"] = floor
        share = math.nan if overlap is None else overlap[index].item()
        row["mask_minority_overlap"] = None if math.isnan(share) else share
        rows.append(row)
    return rows


def _batched(rows: Tensor, K: int) -> Tensor:
    """Consecutive batches of K, the rest left out: (n, q) -> (n // K, K, q)."""
    return rows[: len(rows) // K * K].view(-1, K, rows.shape[-1])


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", required=True, help="name of the study, part of the key of every random draw")
    parser.add_argument("--data", type=section(Data), required=True, help="the section `data` of the config, as YAML or JSON")
    parser.add_argument("--training", type=section(Training), required=True, help="the section `training`, likewise")
    parser.add_argument("--arm", type=section(Arm), required=True, help="one entry of `arms`, likewise")
    parser.add_argument(
        "--eps-min", type=number(0, 1, open_low=True), required=True, help="eps_min / eps_max, a key of the table"
    )
    parser.add_argument("--sigma", type=number(0, math.inf), required=True, help="standard deviation of the noise")
    parser.add_argument("--simulator", default="direct", help="a key of the table")
    parser.add_argument("--seeds", type=seed_range, required=True, help="FIRST-LAST")
    parser.add_argument("--latents", required=True, help="safetensors file of synthesise")
    parser.add_argument("--encoder", help="safetensors file of pretrain; none for the arms `initial` and `ideal`")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()

    names = ["dictionary", *(f"{part}_{name}" for part in ("probe", "test") for name in DISTRIBUTIONS)]
    latents = dict(zip(names, read_tensors(args.latents, *names), strict=True))
    if args.arm.trained:
        if not args.encoder:
            raise RarefeatError(f"--encoder is required for the trained arm {args.arm.arm}")
        weights, bias = read_tensors(args.encoder, "weights", "bias")
    else:
        if args.arm.arm == "initial":
            weights = initial_weights(args.study, args.training, args.data.d1, args.seeds)
        else:
            weights = latents["dictionary"].mT.contiguous()
        bias = torch.zeros(weights.shape[:2])

    rows = probe(args.study, args.data, args.training, args.arm, args.sigma, args.seeds, latents, weights, bias, args.output)
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
