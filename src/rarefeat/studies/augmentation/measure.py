"""Measurements of the encoders of the study of augmentation (Wen & Li 2021).

They are the composition of the neurons, over training and at its end; their response to noise and
to signal; and linear heads on them with few and many labels, beside heads on the raw input and on
the paper's optimal learner. Axes: n samples, m neurons, p coordinates of a token, d features.
"""

import math
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import frequencies, latent_pairs, regression_target
from rarefeat.model.theory import activation_probability
from rarefeat.studies.augmentation.metrics import (
    course_metrics,
    cross_talk,
    end_metrics,
    gradient_fractions,
    head_metrics,
    mean_best_cosine,
    principal_components,
    response_metrics,
    separation,
    weight_composition,
)
from rarefeat.studies.augmentation.tables import OF_SAMPLES
from rarefeat.training.pretraining import ALWAYS, TrainedEncoder
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.files.tensors import read_tensors
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

SUPERVISE = "studies.augmentation.supervised_baseline:supervise_encoders"
DENSE = Arm(arm="dense")
MASKS = 200
"""Number of masks of the cross-talk of features."""


class LabelledSamples(NamedTuple):
    """Samples of a replica, not augmented: heads learn from the first, the last test them."""

    latents: Int[Tensor, "n d"]
    """z."""
    signal: Float[Tensor, "1 n 1 p"]
    """M z."""
    x: Float[Tensor, "1 n 1 p"]
    """M z + C u + xi."""
    values: Float[Tensor, " n"]
    """<w*, z>."""


class MeasuredNetwork(NamedTuple):
    """A network to be measured: its name in the column `encoder`, its arm and its weights."""

    encoder: str
    arm: Arm
    weights: Float[Tensor, "1 m p"]
    bias: Float[Tensor, "1 m"]


def measure_augmentation(
    inputs: JobInputs, job: Job, study: Study, labels: list[int], tests: int, gradients: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of one study: end of training, trajectories, neurons, an embedding.

    At points with the arm `ideal` stand, with the keys of dense: the raw input; the oracle, M^T
    with the bias of the end of stage 1 (Definition E.10); and the supervised encoders, where there
    are some on the same draws.
    """
    rows: dict[str, list[dict]] = {kind.name: [] for kind in OF_SAMPLES}
    blocks = list(inputs.files("encoders"))
    says = {
        "config": {"supervised": job.config.get("supervised")},
        "code": {SUPERVISE: job.code.get(SUPERVISE)},
    }
    for file in progress(blocks, len(blocks), "augmentation"):
        arms = {
            arm: file.tensors(*(f"{arm.label}/{field}" for field in ALWAYS))
            for arm in file.cell.trained
        }
        for index, seed in enumerate(file.seeds):
            trained = {
                arm: TrainedEncoder(*(tensor[index : index + 1] for tensor in block))
                for arm, block in arms.items()
            }
            labelled = None
            if "supervised" in job.config:
                path, names = inputs.results / "supervised.safetensors", ("weights", "bias")
                parts = read_tensors(path, *(f"{seed}/{name}" for name in names), expected=says)
                labelled = MeasuredNetwork("supervised", DENSE, *(part[None] for part in parts))
            found = measure_replica(
                study, file.cell, seed, trained, labelled, labels, tests, gradients
            )
            for of_table, more in zip(rows.values(), found, strict=True):
                of_table += more
    return {
        kind.name: validate_sorted(kind, pd.DataFrame(rows[kind.name]).assign(study=job.study))
        for kind in OF_SAMPLES
    }


def measure_replica(
    study: Study,
    cell: Cell,
    seed: int,
    trained: dict[Arm, TrainedEncoder],
    labelled: MeasuredNetwork | None,
    labels: list[int],
    tests: int,
    gradients: int,
) -> tuple[list[dict], ...]:
    """Return the rows of one seed at one point, for each of the tables."""
    data, draws, sigma, eps_min = study.data, study.draws, cell["sigma"], cell["eps_min"]
    space = make_simulator("direct", draws, data.d, data.d1, study.training.m, [seed])
    pairs = PairSampler(data.views, space, "direct", draws, [seed])
    directions = torch.cat([space.dictionary, pairs.directions], -1)[0]
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    samples = draw(study, pairs, probability, sigma, seed, max(labels) + tests)
    features = one_feature(samples.latents[-tests:])
    active = (samples.latents[-tests:] != 0).any(-1)

    networks = [
        MeasuredNetwork("trained", arm, encoder.weights, encoder.bias)
        for arm, encoder in trained.items()
    ]
    reference = any(arm.arm == "ideal" for arm in cell.arms)
    if reference:
        bias = torch.full((1, data.d), math.sqrt(2 * math.log(data.d) / data.d))
        networks.append(MeasuredNetwork("oracle", DENSE, space.dictionary.mT.contiguous(), bias))
        networks += [labelled] if labelled else []
    final, course, neurons, embedding = [], [], [], []

    def add(keys: dict, metrics: dict[str, float], labels: int = 0) -> None:
        final.extend(
            {**keys, "labels": labels, "metric": metric, "value": value}
            for metric, value in metrics.items()
        )

    def add_heads(keys: dict, x: Float[Tensor, "n features"]) -> None:
        y = samples.values
        for n in labels:
            add(keys, head_metrics(x[:n], y[:n], x[-tests:], y[-tests:]), n)

    for name, arm, weights, bias in networks:
        of_replica = cell.values | arm.model_dump() | {"seed": seed}
        keys = of_replica | {"encoder": name}
        f, f_noise, f_signal = (
            embed(pre_activations(tokens, weights), bias)[0]
            for tokens in (samples.x, samples.x - samples.signal, samples.signal)
        )
        responses = f[-tests:]
        metrics = response_metrics(responses, f_noise[-tests:], f_signal[-tests:], active)
        metrics["separation"] = separation(responses[features.samples], features.signed)
        if name in ("trained", "supervised"):
            recorded = torch.cat(
                [weights @ directions, weights.norm(dim=-1, keepdim=True), bias[..., None]], -1
            )[0]
            metrics |= end_metrics(recorded, data)
            rates = (responses != 0).double().mean(0).tolist()
            neurons += [{**keys, "neuron": i, "activity": rate} for i, rate in enumerate(rates)]
            if arm == DENSE and seed == study.first_seed:
                places = principal_components(responses[features.samples]).tolist()
                embedding += [
                    {**cell.values, "encoder": name, "sample": i, "feature": j, "x": x, "y": y}
                    for i, (j, (x, y)) in enumerate(
                        zip(features.feature.tolist(), places, strict=True)
                    )
                ]
        if name == "trained":
            colour = data.views.colour
            if labelled:
                likeness = mean_best_cosine(weights[0], labelled.weights[0])
                metrics["likeness_to_supervised"] = likeness
            if not colour:
                metrics |= course_metrics(trained[arm], study, eps_min, sigma, seed)
            # At equal frequencies, as the paper has it.
            if arm == DENSE and eps_min == 1 and not colour:
                metrics |= gradient_metrics(study, pairs, probability, sigma, seed, gradients)
            shares = weight_composition(trained[arm].history[0], data.d, colour)
            course += [
                {**of_replica, "step": step, "metric": metric, "value": value}
                for metric, values in shares.items()
                for step, value in zip(log_spaced(study.training.T), values.tolist(), strict=True)
            ]
        add(keys, metrics)
        # The neurons show how masks change a rare feature, so other arms have no heads.
        if arm == DENSE:
            add_heads(keys, f)
    if reference:
        raw = {"seed": seed, "encoder": "raw"}
        add_heads(cell.values | DENSE.model_dump() | raw, samples.x[0, :, 0])
    return final, course, neurons, embedding


def draw(
    study: Study, pairs: PairSampler, probability: Float[Tensor, " d"], sigma: float, seed: int,
    n: int,
) -> LabelledSamples:  # fmt: skip
    """Draw n samples of one replica, the same for every study with these draws."""
    z = latent_pairs(n, 1, probability, generator(study.draws, seed, "augmentation"))[:, 0]
    tokens, noise = z[None].float(), generator(study.draws, seed, "augmentation noise")
    signal = tokens @ pairs.simulator.dictionary.mT[:, None]
    x = pairs.sample_unaugmented(tokens, sigma, [noise])
    w_star = regression_target(study.draws, seed, study.data.d)
    return LabelledSamples(z[:, 0], signal, x, z[:, 0].double() @ w_star.double())


class SingleFeatureSamples(NamedTuple):
    """Samples with one feature, which show how an encoder represents that feature."""

    samples: Bool[Tensor, " n"]
    """True for a sample with one feature."""
    feature: Int[Tensor, " single"]
    """Feature of each of them."""
    signed: Int[Tensor, " single"]
    """Class of each: f is odd, so a feature and its negative are two."""


def one_feature(latents: Int[Tensor, "n d"]) -> SingleFeatureSamples:
    """Return those of some latents with a single feature."""
    single = (latents != 0).sum(-1) == 1
    feature = latents[single].abs().argmax(-1)
    negative = latents[single].sum(-1) < 0
    return SingleFeatureSamples(single, feature, feature + latents.shape[-1] * negative)


def gradient_metrics(
    study: Study, pairs: PairSampler, probability: Float[Tensor, " d"], sigma: float, seed: int,
    gradients: int,
) -> dict[str, float]:  # fmt: skip
    """Compute P2 and P3 of one replica: features and noise under augmentation alone, at W(0)."""
    start, latents, noise, talk = (
        generator(study.draws, seed, purpose)
        for purpose in ("weights", "gradients", "gradients noise", "cross-talk")
    )
    weights = pairs.simulator.initial_weights(study.training.sigma_0, [start])[0]
    z = latent_pairs(gradients, 1, probability, latents)[:, 0].float()
    views = pairs.sample_pair_tokens(torch.cat([z, z])[None], sigma, [noise])
    x, y = views[0, : 2 * gradients, 0].split(gradients)
    M, mask = pairs.simulator.dictionary[0], study.data.views.mask
    metrics = gradient_fractions(weights, M, x, y, probability[0].item(), sigma)
    return metrics | ({"cross_talk": cross_talk(M, mask, MASKS, talk)} if mask == 0.5 else {})
