"""Stage 3: evaluates the frozen encoders at one grid point, replica by replica (A.2, experiments 1-4)."""

import math
from typing import Literal

import torch
from torch import Tensor

from rarefeat.config.model import Arm, Data, Training
from rarefeat.core.arms import ARMS, PruningContext
from rarefeat.core.contrastive import infonce, infonce_at_best_scale, infonce_floor
from rarefeat.core.divergence import diverged
from rarefeat.core.encoder import attend, embed, pre_activations
from rarefeat.core.linear_probe import linear_probe, pair_cosine_similarity
from rarefeat.core.neurons import alignment_metrics, minority_overlap
from rarefeat.core.randomness import Generators, generator, make_generators
from rarefeat.core.simulators import Simulator, make_simulator, to_device
from rarefeat.core.sparse_coding import aggregated_sign, regression_target
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs

CHUNK = 500
TRAINED = ("weights", "bias", "loss")
DISTRIBUTIONS = ("balanced", "matched")


def embed_pairs(
    balanced: Tensor,
    matched: Tensor,
    space: Simulator,
    networks: list[tuple[Tensor, Tensor]],
    sigma: float,
    noise: Generators,
) -> list[dict[str, Tensor]]:
    """Embeddings of one replica by every network, under both distributions.

    The two distributions are nested and see the same noise: what differs between them is attended twice and the rest once.

    Args:
        balanced, matched: latents (n, v, L, d) of v views. networks: weights (1, m, p) and bias (1, m) of each.

    Returns:
        For each network its embeddings by distribution, (n, v, m) each.
    """
    device = space.dictionary.device
    networks = [(weights.to(device), bias.to(device)) for weights, bias in networks]
    changed = (balanced != matched).flatten(1).any(1)
    embeddings: list[list[Tensor]] = [[] for _ in networks]
    again: list[list[Tensor]] = [[] for _ in networks]
    for start in range(0, len(balanced), CHUNK):
        chunk = slice(start, start + CHUNK)
        rare = changed[chunk]
        latents = balanced[chunk].flatten(0, 1)[None].float().to(device)
        x = space.sample_tokens(latents, sigma, noise).unflatten(1, (-1, balanced.shape[1]))
        attended = attend(x.flatten(1, 2))
        if rare.any():
            other = x[:, rare].flatten(1, 2)
            swapped = (
                (matched[chunk][rare] - balanced[chunk][rare]).flatten(0, 1).float().to(device)
            )
            other[..., : space.dictionary.shape[1]] += swapped @ space.dictionary[0].mT
            attended_again = attend(other)
        for index, (weights, bias) in enumerate(networks):
            embeddings[index].append(embed(pre_activations(attended, weights), bias)[0])
            if rare.any():
                again[index].append(embed(pre_activations(attended_again, weights), bias)[0])

    results = []
    for once, twice in zip(embeddings, again, strict=True):
        both = {"balanced": torch.cat(once).cpu().unflatten(0, (-1, balanced.shape[1]))}
        both["matched"] = both["balanced"].clone()
        if twice:
            both["matched"][changed] = torch.cat(twice).cpu().unflatten(0, (-1, balanced.shape[1]))
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
    encoders: dict[str, tuple[Tensor, Tensor, Tensor]],
    label: str = "probe",
) -> list[dict]:
    """Measure every arm and replica of a point on the same probe and test pairs.

    Args:
        latents: what `synthesise` returns. encoders: weights (S, m, p), bias (S, m) and the last
            step's loss (S,) of every trained arm, by its label.

    Returns:
        One row per seed and arm with the metric columns of the grid table (docs/reference/tables). The linear head is
        fitted on the first views of the probe pairs, and tested on the first views of the test pairs, of the same distribution.
    """
    minority = len(data.minority)
    test_signs = {name: aggregated_sign(latents[f"test_{name}"][:, 0]) for name in DISTRIBUTIONS}
    floor = infonce_floor(_batched(test_signs["matched"], training.K)).mean().item()
    test = latents["test_balanced"], latents["test_matched"]

    rows = []
    for index, seed in enumerate(progress(seeds, len(seeds), label)):
        space = make_simulator(simulator, study, data.d, data.d1, training.m, [seed])
        # Embeddings are made on the device, and read on the processor.
        there = to_device(space, training.device)
        probe_noise, test_noise = (
            make_generators(study, [seed], name, training.device)
            for name in ("probe noise", "test noise")
        )
        networks = []
        for arm in arms:
            if arm.trained:
                networks.append(tuple(part[index : index + 1] for part in encoders[arm.label][:2]))
            else:
                weights = untrained(arm, space, training.sigma_0, generator(study, seed, "weights"))
                networks.append((weights, torch.zeros(weights.shape[:2])))

        fit = {name: latents[f"probe_{name}"][index][:, :1] for name in DISTRIBUTIONS}
        f_fit = embed_pairs(fit["balanced"], fit["matched"], there, networks, sigma, probe_noise)
        # Beside the arms, the ideal encoder: its best-scaled loss is what a training loss is held against.
        ideal = untrained(
            Arm(arm="ideal"), space, training.sigma_0, generator(study, seed, "weights")
        )
        beside = [*networks, (ideal, torch.zeros(ideal.shape[:2]))]
        *f_test, f_ideal = embed_pairs(*test, there, beside, sigma, test_noise)
        ideal_loss = infonce_at_best_scale(
            *(_batched(view, training.K) for view in f_ideal["matched"].unbind(1)), training.tau
        )
        w_star = regression_target(study, seed, data.d)
        labels = {name: aggregated_sign(fit[name][:, 0]).float() @ w_star for name in DISTRIBUTIONS}
        test_labels = {name: test_signs[name].float() @ w_star for name in DISTRIBUTIONS}

        for arm, (weights, bias), fitted, tested in zip(arms, networks, f_fit, f_test, strict=True):
            row = {**arm.model_dump(), "seed": seed}
            row |= {
                name: values.item()
                for name, values in alignment_metrics(weights, space.dictionary, minority).items()
            }
            for name in DISTRIBUTIONS:
                similarity, empty = pair_cosine_similarity(*tested[name].unbind(1))
                row[f"cosine_similarity_{name}"] = similarity
                # Of the pairs that are both alive: an empty one counts as 0 in the convention above.
                row[f"cosine_similarity_alive_{name}"] = (
                    similarity / (1 - empty) if empty < 1 else math.nan
                )
                if name == "balanced":
                    row["empty_share"] = empty
                row[f"regression_mse_{name}"], row[f"regression_r2_{name}"] = linear_probe(
                    fitted[name][:, 0], labels[name], tested[name][:, 0], test_labels[name]
                )
            f_x, f_y = (_batched(view, training.K) for view in tested["matched"].unbind(1))
            row["final_loss"] = infonce(f_x, f_y, training.tau).mean().item()
            row["loss_floor"], row["ideal_loss"] = floor, ideal_loss
            # What training has frozen may answer well here: it is how the replica was before it diverged.
            frozen = arm.trained and bool(encoders[arm.label][2][index].isinf())
            row["diverged"] = float(
                frozen or diverged(torch.tensor([row["final_loss"]]), training.K, weights)
            )
            draw = torch.rand(1, training.m, generator=generator(study, seed, "random mask"))
            seen = PruningContext(
                weights, space.dictionary, minority, arm.alpha, draw, bias, f_x, f_y, training.T
            )
            # One that may read running means is known at the last step of its training alone: trajectories have it.
            named = ARMS[arm.arm]
            mask = named.rule(seen) if named.rule and not named.moments else None
            overlap = (
                math.nan
                if mask is None
                else minority_overlap(mask, weights, space.dictionary, minority).item()
            )
            row["mask_minority_overlap"] = None if math.isnan(overlap) else overlap
            rows.append(row)
    return rows


def untrained(arm: Arm, space: Simulator, sigma_0: float, weights: torch.Generator) -> Tensor:
    """The floor and the ceiling, (1, m, p): W(0), or the dictionary itself."""
    return (
        space.initial_weights(sigma_0, [weights])
        if arm.arm == "initial"
        else space.dictionary.mT.contiguous()
    )


def _batched(rows: Tensor, K: int) -> Tensor:
    """Consecutive batches of K, the rest left out: (n, q) -> (n // K, K, q)."""
    return rows[: len(rows) // K * K].view(-1, K, rows.shape[-1])


def stage(read: JobInputs, job: Job) -> list[dict]:
    """The stage: a row for each seed and arm, trained or not."""
    simulator, data, training = (
        job.config_section("simulator", str),
        job.config_section("data", Data),
        job.config_section("training", Training),
    )
    trained, untrained_arms, sigma = (
        job.config_section("arms", list[Arm]),
        job.config_section("untrained", list[Arm]),
        job.cell["sigma"],
    )
    names = [f"{part}_{name}" for part in ("probe", "test") for name in DISTRIBUTIONS]
    latents = dict(zip(names, read.file("latents").tensors(*names), strict=True))
    of_arms = read.file("encoders") if trained else None
    encoders = {
        arm.label: tuple(of_arms.tensors(*(f"{arm.label}/{part}" for part in TRAINED)))
        for arm in trained
    }
    point = data, training, [*trained, *untrained_arms], sigma, job.seed_list
    rows = probe(job.config_section("draws", str), simulator, *point, latents, encoders, job.label)
    keys = {**job.cell, "nsr": sigma**2 * data.d1, "simulator": simulator}
    return [keys | row for row in rows]
