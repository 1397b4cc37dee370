"""Stage 3: what the frozen encoders of one point are worth, replica by replica (A.2, experiments 1-4)."""

import argparse
import math
from typing import Literal

import pyarrow as pa
import torch
from torch import Tensor

from rarefeat.command import number, progress, run, section, seed_range
from rarefeat.core.contrastive import infonce, infonce_floor
from rarefeat.core.encoder import attend, pre_activations, respond
from rarefeat.core.linear_probe import linear_probe, pair_cosine_similarity
from rarefeat.core.neurons import alignment_metrics, minority_overlap
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import Simulator, make_simulator
from rarefeat.core.sparse_coding import aggregated_sign
from rarefeat.files import RarefeatError, write_table
from rarefeat.pretrain import mask_of
from rarefeat.sections import Arm, Data, Training
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
    networks: list[tuple[Tensor, Tensor]],
    sigma: float,
    noise: torch.Generator,
) -> list[dict[str, Tensor]]:
    """Embeddings of one replica by every network, under both distributions.

    The two distributions are nested and see the same noise: what differs between them is attended twice and the rest once.

    Args:
        balanced, matched: latents (n, v, L, d) of v views. networks: weights (1, m, p) and bias (1, m) of each.

    Returns:
        For each network its embeddings by distribution, (n, v, m) each.
    """
    changed = (balanced != matched).flatten(1).any(1)
    embeddings: list[list[Tensor]] = [[] for _ in networks]
    again: list[list[Tensor]] = [[] for _ in networks]
    for start in range(0, len(balanced), CHUNK):
        chunk = slice(start, start + CHUNK)
        rare = changed[chunk]
        x = space.tokens(balanced[chunk].flatten(0, 1)[None].float(), sigma, [noise]).unflatten(1, (-1, balanced.shape[1]))
        attended = attend(x.flatten(1, 2))
        if rare.any():
            other = x[:, rare].flatten(1, 2)
            swapped = (matched[chunk][rare] - balanced[chunk][rare]).flatten(0, 1).float()
            other[..., : space.dictionary.shape[1]] += swapped @ space.dictionary[0].mT
            attended_again = attend(other)
        for index, (weights, bias) in enumerate(networks):
            embeddings[index].append(respond(pre_activations(attended, weights), bias)[0])
            if rare.any():
                again[index].append(respond(pre_activations(attended_again, weights), bias)[0])

    results = []
    for once, twice in zip(embeddings, again, strict=True):
        both = {"balanced": torch.cat(once).unflatten(0, (-1, balanced.shape[1]))}
        both["matched"] = both["balanced"].clone()
        if twice:
            both["matched"][changed] = torch.cat(twice).unflatten(0, (-1, balanced.shape[1]))
        results.append(both)
    return results


def probe(
    study: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    latents: dict[str, Tensor],
    encoders: dict[str, tuple[Tensor, Tensor]],
    label: str = "probe",
) -> list[dict]:
    """Measure every arm and replica of a point on the same probe and test pairs.

    Args:
        latents: what `synthesise` returns. encoders: weights (S, m, p) and bias (S, m) of every trained arm, by its label.

    Returns:
        One row per seed and arm with the metric columns of the grid table (docs/tables.md). The linear head is fitted on the
        first views of the probe pairs, and tested on the first views of the test pairs, of the same distribution.
    """
    minority = len(data.minority)
    test_signs = {name: aggregated_sign(latents[f"test_{name}"][:, 0]) for name in DISTRIBUTIONS}
    floor = infonce_floor(_batched(test_signs["matched"], training.K)).mean().item()
    test = latents["test_balanced"], latents["test_matched"]

    rows = []
    for index, seed in enumerate(progress(seeds, len(seeds), label)):
        space = make_simulator(simulator, study, data.d, data.d1, training.m, [seed])
        networks = []
        for arm in arms:
            if arm.trained:
                networks.append(tuple(part[index : index + 1] for part in encoders[arm.label]))
            else:
                weights = untrained(arm, space, training.sigma_0, generator(study, seed, "weights"))
                networks.append((weights, torch.zeros(weights.shape[:2])))

        fit = {name: latents[f"probe_{name}"][index][:, :1] for name in DISTRIBUTIONS}
        f_fit = embed_pairs(fit["balanced"], fit["matched"], space, networks, sigma, generator(study, seed, "probe noise"))
        f_test = embed_pairs(*test, space, networks, sigma, generator(study, seed, "test noise"))
        w_star = target(study, seed, data.d)
        labels = {name: aggregated_sign(fit[name][:, 0]).float() @ w_star for name in DISTRIBUTIONS}
        test_labels = {name: test_signs[name].float() @ w_star for name in DISTRIBUTIONS}

        for arm, (weights, _), fitted, tested in zip(arms, networks, f_fit, f_test, strict=True):
            row = {**arm.model_dump(), "seed": seed}
            row |= {name: values.item() for name, values in alignment_metrics(weights, space.dictionary, minority).items()}
            for name in DISTRIBUTIONS:
                similarity, empty = pair_cosine_similarity(*tested[name].unbind(1))
                row[f"cosine_similarity_{name}"] = similarity
                if name == "balanced":
                    row["empty_share"] = empty
                row[f"regression_mse_{name}"], row[f"regression_r2_{name}"] = linear_probe(
                    fitted[name][:, 0], labels[name], tested[name][:, 0], test_labels[name]
                )
            f_x, f_y = (_batched(view, training.K) for view in tested["matched"].unbind(1))
            row["final_loss"] = infonce(f_x, f_y, training.tau).mean().item()
            row["loss_floor"] = floor
            mask = mask_of(arm, weights, space.dictionary, minority)
            overlap = math.nan if mask is None else minority_overlap(mask, weights, space.dictionary, minority).item()
            row["mask_minority_overlap"] = None if math.isnan(overlap) else overlap
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
    parser.add_argument("--arms", type=section(list[Arm]), required=True, help="entries of `arms`, likewise")
    parser.add_argument(
        "--eps-min", type=number(0, 1, open_low=True), required=True, help="eps_min / eps_max, a key of the table"
    )
    parser.add_argument("--sigma", type=number(0, math.inf), required=True, help="standard deviation of the noise")
    parser.add_argument("--seeds", type=seed_range, required=True, help="FIRST-LAST")
    parser.add_argument("--latents", required=True, help="safetensors file of synthesise")
    parser.add_argument("--encoders", help="safetensors file of pretrain; none where no arm is trained")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()

    names = [f"{part}_{name}" for part in ("probe", "test") for name in DISTRIBUTIONS]
    latents = dict(zip(names, read_tensors(args.latents, *names), strict=True))
    trained = [arm.label for arm in args.arms if arm.trained]
    if trained and not args.encoders:
        raise RarefeatError(f"--encoders is required for the trained arms {', '.join(trained)}")
    encoders = {name: tuple(read_tensors(args.encoders, f"{name}/weights", f"{name}/bias")) for name in trained}
    point = args.data, args.training, args.arms, args.sigma, args.seeds
    rows = probe(args.study, args.simulator, *point, latents, encoders, args.output)
    keys = {"eps_min": args.eps_min, "sigma": args.sigma, "nsr": args.sigma**2 * args.data.d1, "simulator": args.simulator}
    write_table(args.output, pa.Table.from_pylist([keys | row for row in rows]))


if __name__ == "__main__":
    run(main)
