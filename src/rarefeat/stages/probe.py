"""Pipeline stage 3: evaluation of the frozen encoders of one cell, replica by replica.

imbalance_and_pruning, A.2, experiments 1 to 4. `balanced` data have every feature at the majority
frequency, `matched` data have the frequencies of training.
Axes: S replicas, n samples, v views, L tokens, m neurons, p coordinates of a weight, d features.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.arms import ARMS, PruningContext
from rarefeat.model.contrastive import infonce, infonce_at_best_scale, infonce_floor
from rarefeat.model.divergence import diverged
from rarefeat.model.encoder import QueryKey, attend, embed, pre_activations
from rarefeat.model.linear_probe import linear_probe, pair_cosine_similarity
from rarefeat.model.neurons import alignment_metrics, minority_overlap
from rarefeat.model.randomness import Generators, generator, make_generators
from rarefeat.model.simulators import Simulator, make_simulator, to_device
from rarefeat.model.sparse_coding import aggregated_sign, regression_target
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job_inputs import JobInputs

CHUNK = 500
"""Pairs that are embedded at once."""
TRAINED = ("weights", "bias", "loss")
"""Tensors of a trained encoder that the probe reads, before W_Q and W_K, where they change."""
DISTRIBUTIONS = ("balanced", "matched")
"""Distributions of the probe and test pairs."""


class Network(NamedTuple):
    """One replica; networks differ in their number of neurons."""

    weights: Float[Tensor, "1 _ p"]
    bias: Float[Tensor, "1 _"]
    query_key: QueryKey | None = None
    """W_Q and W_K, where they change."""


def embed_pairs(
    balanced: Int[Tensor, "n v L d"],
    matched: Int[Tensor, "n v L d"],
    simulator: Simulator,
    networks: Sequence[tuple],
    sigma: float,
    scale: float,
    noise: Generators,
) -> list[dict[str, Float[Tensor, "n v _"]]]:
    """Compute the embeddings of one replica by every network, under both distributions.

    The two distributions are nested and have the same noise: samples that differ between them are
    attended twice, all others once.
    """
    device = simulator.dictionary.device
    on_device = [Network(*(x if x is None else x.to(device) for x in one)) for one in networks]
    changed = (balanced != matched).flatten(1).any(1)
    embeddings: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in on_device]
    for start in range(0, len(balanced), CHUNK):
        chunk = slice(start, start + CHUNK)
        rare = changed[chunk]
        latents = balanced[chunk].flatten(0, 1)[None].float().to(device)
        x = simulator.sample_tokens(latents, sigma, noise).unflatten(1, (-1, balanced.shape[1]))
        both = [x.flatten(1, 2)]
        if rare.any():
            both.append(x[:, rare].flatten(1, 2))
            swapped = (
                (matched[chunk][rare] - balanced[chunk][rare]).flatten(0, 1).float().to(device)
            )
            both[1][..., : simulator.dictionary.shape[1]] += swapped @ simulator.dictionary[0].mT
        attended = [attend(tokens, scale) for tokens in both]
        for parts, (weights, bias, query_key) in zip(embeddings, on_device, strict=True):
            own = (
                attended
                if query_key is None
                else [attend(tokens, query_key=query_key) for tokens in both]
            )
            for part, seen in zip(parts, own, strict=False):
                part.append(embed(pre_activations(seen, weights), bias)[0])

    results = []
    for once, twice in embeddings:
        of_both = {"balanced": torch.cat(once).cpu().unflatten(0, (-1, balanced.shape[1]))}
        of_both["matched"] = of_both["balanced"].clone()
        if twice:
            rows = torch.cat(twice).cpu().unflatten(0, (-1, balanced.shape[1]))
            of_both["matched"][changed] = rows
        results.append(of_both)
    return results


def probe(
    namespace: str,
    kind: Literal["direct", "reduced"],
    data: Data,
    training: Training,
    arms: list[Arm],
    sigma: float,
    seeds: list[int],
    latents: dict[str, Int[Tensor, "S _ 2 L d"]],
    encoders: Mapping[str, tuple[Tensor, ...]],
    label: str = "probe",
) -> list[dict]:
    """Measure every arm and replica of a cell on the same probe and test pairs.

    The linear head is fitted on the first views of the probe pairs, and tested on the first views
    of the test pairs, of the same distribution. Random streams: "probe noise", "test noise",
    "weights", "random mask", "target", and that of the simulator.
    """
    n_minority, scale = len(data.minority), training.first_logit_scale(data.d1)
    rows = []
    for index, seed in enumerate(progress(seeds, len(seeds), label)):
        simulator = make_simulator(kind, namespace, data.d, data.d1, training.m, [seed])
        # Embeddings are computed on the device, and evaluated on the CPU.
        on_device = to_device(simulator, training.device)
        probe_noise, test_noise = (
            make_generators(namespace, [seed], name, training.device)
            for name in (stream_names.PROBE_NOISE, stream_names.TEST_NOISE)
        )
        networks = []
        # The best-scaled loss of the ideal encoder is a reference for the losses of training.
        for arm in (*arms, Arm(arm="ideal")):
            if arm.trained:
                weights, bias, _, *query_key = (x[[index]] for x in encoders[arm.label])
                networks.append(Network(weights, bias, *query_key))
            else:
                weights = untrained(
                    arm,
                    simulator,
                    training.sigma_0,
                    generator(namespace, seed, stream_names.WEIGHTS),
                )
                networks.append(Network(weights, torch.zeros(weights.shape[:2])))

        fit = {name: latents[f"probe_{name}"][index][:, :1] for name in DISTRIBUTIONS}
        test = latents["test_balanced"][index], latents["test_matched"][index]
        test_signs = {
            name: aggregated_sign(pairs[:, 0])
            for name, pairs in zip(DISTRIBUTIONS, test, strict=True)
        }
        floor = infonce_floor(_batched(test_signs["matched"], training.K)).mean().item()
        f_fit = embed_pairs(
            fit["balanced"], fit["matched"], on_device, networks[:-1], sigma, scale, probe_noise
        )
        *f_test, f_ideal = embed_pairs(*test, on_device, networks, sigma, scale, test_noise)
        ideal_loss = infonce_at_best_scale(
            *(_batched(view, training.K) for view in f_ideal["matched"].unbind(1)), training.tau
        )
        w_star = regression_target(namespace, seed, data.d)
        labels = {name: aggregated_sign(fit[name][:, 0]).float() @ w_star for name in DISTRIBUTIONS}
        test_labels = {name: test_signs[name].float() @ w_star for name in DISTRIBUTIONS}

        for arm, network, fitted, tested in zip(arms, networks[:-1], f_fit, f_test, strict=True):
            weights, bias, _ = network
            row = {**arm.model_dump(), "seed": seed}
            row |= {
                name: values.item()
                for name, values in alignment_metrics(
                    weights, simulator.dictionary, n_minority
                ).items()
            }
            for name in DISTRIBUTIONS:
                similarity, empty = pair_cosine_similarity(*tested[name].unbind(1))
                row[f"cosine_similarity_{name}"] = similarity
                # The mean over pairs without a zero embedding; above, an empty pair counts as 0.
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
            # A replica that has diverged keeps its last weights, so its loss here may be normal.
            frozen = arm.trained and bool(encoders[arm.label][2][index].isinf())
            row["diverged"] = float(
                frozen or diverged(torch.tensor([row["final_loss"]]), training.K, weights)
            )
            uniforms = torch.rand(
                1, training.m, generator=generator(namespace, seed, stream_names.RANDOM_MASK)
            )
            context = PruningContext(
                weights,
                simulator.dictionary,
                n_minority,
                arm.alpha,
                uniforms,
                bias,
                f_x,
                f_y,
                step=training.T,
            )
            # Running means exist in training alone; trajectories have the mask of such a rule.
            spec = ARMS[arm.arm]
            mask = spec.rule(context) if spec.rule and not spec.moments else None
            row["mask_minority_overlap"] = (
                minority_overlap(mask, weights, simulator.dictionary, n_minority).item()
                if mask is not None and mask.any()
                else None
            )
            rows.append(row)
    return rows


def untrained(
    arm: Arm, simulator: Simulator, sigma_0: float, weights: torch.Generator
) -> Float[Tensor, "1 m p"]:
    """Return the weights of an arm that is not trained, a floor or a ceiling of the metrics."""
    return (
        simulator.initial_weights(sigma_0, [weights])
        if arm.arm == "initial"
        else simulator.dictionary.mT.contiguous()
    )


def _batched(rows: Num[Tensor, "n q"], K: int) -> Num[Tensor, "batches K q"]:
    """Cut rows into consecutive batches of K; the remainder is left out."""
    return rows[: len(rows) // K * K].view(-1, K, rows.shape[-1])


def stage(
    inputs: JobInputs,
    draws: str,
    simulator: str,
    data: Data,
    training: Training,
    arms: list[Arm],
    untrained: list[Arm],
) -> list[dict]:
    """Measure the arms of a cell and seed block, trained or not: a row for each seed and arm.

    Inputs: probe and test pairs of the file of latents, and every trained arm of that of encoders.
    """
    job, sigma = inputs.job, inputs.job.cell["sigma"]
    names = [f"{use}_{name}" for use in ("probe", "test") for name in DISTRIBUTIONS]
    latents = dict(zip(names, inputs.file("latents").tensors(*names), strict=True))
    file = inputs.file("encoders") if arms else None
    names = [*TRAINED, *(["query_key"] if training.attention != "fixed" else [])]
    encoders = {
        arm.label: tuple(file.tensors(*(f"{arm.label}/{name}" for name in names))) for arm in arms
    }
    point = data, training, [*arms, *untrained], sigma, job.seed_list
    rows = probe(draws, simulator, *point, latents, encoders, job.label)
    keys = {**job.cell, "nsr": sigma**2 * data.d1, "simulator": simulator}
    return [keys | row for row in rows]
