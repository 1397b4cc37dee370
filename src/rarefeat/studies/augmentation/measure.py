"""Measurements of the encoders of the study of augmentation (Wen & Li 2021).

They are the composition of the neurons, over training and at its end; their response to noise and
to signal; and linear heads on them with few and many labels, beside heads on the raw input and on
the paper's optimal learner.
"""

import math
from typing import Any, NamedTuple

import pandas as pd
import torch
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
from rarefeat.studies.augmentation.tables import SCHEMAS
from rarefeat.training.pretraining import TrainedEncoder
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.files.tensors import read_tensors
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

DENSE = Arm(arm="dense")
MASKS = 200
"""Number of masks of the cross-talk of features."""


class LabelledSamples(NamedTuple):
    """Samples of one replica, not augmented: heads learn from the first and are tested on the
    last.
    """

    latents: Tensor
    """z, (n, d)."""
    signal: Tensor
    """M z, (1, n, 1, d1)."""
    x: Tensor
    """M z + C u + xi, (1, n, 1, d1)."""
    values: Tensor
    """<w*, z>, (n,)."""


class MeasuredNetwork(NamedTuple):
    """A network to be measured: its keys, and its weights (1, m, d1) and bias (1, m)."""

    encoder: str
    arm: Arm
    weights: Tensor
    bias: Tensor


def measure_augmentation(inputs: JobInputs, job: Job) -> dict[str, pd.DataFrame]:
    """Return the tables of one study: end of training, trajectories, neurons, an embedding.

    Inputs are the encoders of the study and, where they are comparable, the supervised ones;
    config is the study, `labels`, `tests` and `gradients`. The column `encoder` is trained, or
    where the point has the arm `ideal`, with the keys of dense: oracle (M^T with the bias of the
    end of stage 1, Wen & Li, Definition E.10), raw (the input itself) and, where there is one on
    the same draws, supervised. `labels` is 0 for what needs none.
    """
    study = job.config_section(job.study, Study)
    sizes = (
        job.config_section("labels", list[int]),
        job.config_section("tests", int),
        job.config_section("gradients", int),
    )
    rows_by_table = {name: [] for name in SCHEMAS}
    blocks = list(inputs.files("encoders"))
    for encoders in progress(blocks, len(blocks), "augmentation"):
        cell = encoders.cell
        arms = {
            arm: encoders.tensors(*(f"{arm.label}/{field}" for field in TrainedEncoder._fields))
            for arm in cell.trained
        }
        for index, seed in enumerate(encoders.seeds):
            trained = {
                arm: TrainedEncoder(*(tensor[index : index + 1] for tensor in block))
                for arm, block in arms.items()
            }
            labelled = None
            if "supervised" in job.config:
                path = inputs.results / "supervised.safetensors"
                weights, bias = read_tensors(
                    path, f"{seed}/weights", f"{seed}/bias", expected=supervised_of(job)
                )
                labelled = MeasuredNetwork("supervised", DENSE, weights[None], bias[None])
            rows = measure_replica(study, cell, seed, trained, labelled, *sizes)
            for name, of_replica in zip(SCHEMAS, rows, strict=True):
                rows_by_table[name] += of_replica
    return {
        name: validate_sorted(SCHEMAS[name], pd.DataFrame(rows).assign(study=job.study))
        for name, rows in rows_by_table.items()
    }


def supervised_of(job: Job) -> dict[str, Any]:
    """Return the metadata that the file of the supervised encoders must have."""
    stage = "studies.augmentation.supervised_baseline:supervise_encoders"
    return {
        "config": {"supervised": job.config.get("supervised")},
        "code": {stage: job.code.get(stage)},
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
    data, draws = study.data, study.draws
    space = make_simulator("direct", draws, data.d, data.d1, study.training.m, [seed])
    pairs = PairSampler(data.views, space, "direct", draws, [seed])
    directions = torch.cat([space.dictionary, pairs.directions], -1)[0]
    probability = activation_probability(
        frequencies(data.d, data.minority, cell["eps_min"]), data.C
    )
    samples = draw(study, pairs, probability, cell["sigma"], seed, max(labels) + tests)
    features = one_feature(samples.latents[-tests:])

    networks = [
        MeasuredNetwork("trained", arm, encoder.weights, encoder.bias)
        for arm, encoder in trained.items()
    ]
    reference = any(arm.arm == "ideal" for arm in cell.arms)
    if reference:
        bias = math.sqrt(2 * math.log(data.d) / data.d)
        networks.append(
            MeasuredNetwork(
                "oracle", DENSE, space.dictionary.mT.contiguous(), torch.full((1, data.d), bias)
            )
        )
        networks += [labelled] if labelled else []

    of_point = cell.values
    final, course, neurons, embedding = [], [], [], []

    def heads(keys: dict, inputs: Tensor) -> None:
        for n in labels:
            metrics = head_metrics(
                inputs[:n], samples.values[:n], inputs[-tests:], samples.values[-tests:]
            )
            final.extend(
                {**keys, "labels": n, "metric": metric, "value": value}
                for metric, value in metrics.items()
            )

    for name, arm, weights, bias in networks:
        replica_keys = of_point | {**arm.model_dump(), "seed": seed}
        keys = replica_keys | {"encoder": name}
        f, f_noise, f_signal = (
            embed(pre_activations(tokens, weights), bias)[0]
            for tokens in (samples.x, samples.x - samples.signal, samples.signal)
        )
        responses = f[-tests:]
        active = (samples.latents[-tests:] != 0).any(-1)
        metrics = response_metrics(responses, f_noise[-tests:], f_signal[-tests:], active)
        metrics["separation"] = separation(responses[features.samples], features.signed)
        if name in ("trained", "supervised"):
            recorded = torch.cat(
                [weights @ directions, weights.norm(dim=-1, keepdim=True), bias[..., None]], -1
            )[0]
            metrics |= end_metrics(recorded, data)
            rates = (responses != 0).double().mean(0).tolist()
            neurons += [
                {**keys, "neuron": neuron, "activity": rate} for neuron, rate in enumerate(rates)
            ]
            if arm == DENSE and seed == study.first_seed:
                places = principal_components(responses[features.samples]).tolist()
                embedding += [
                    {
                        **of_point,
                        "encoder": name,
                        "sample": sample,
                        "feature": feature,
                        "x": x,
                        "y": y,
                    }
                    for sample, (feature, (x, y)) in enumerate(
                        zip(features.feature.tolist(), places, strict=True)
                    )
                ]
        if name == "trained":
            history = trained[arm].history[0]
            if labelled:
                metrics["likeness_to_supervised"] = mean_best_cosine(
                    weights[0], labelled.weights[0]
                )
            if not data.views.colour:
                metrics |= course_metrics(trained[arm], study, cell["eps_min"], cell["sigma"], seed)
            # At equal frequencies, as the paper has it.
            if arm == DENSE and cell["eps_min"] == 1 and not data.views.colour:
                metrics |= gradient_metrics(
                    study, pairs, probability, cell["sigma"], seed, gradients
                )
            for metric, values in weight_composition(history, data.d, data.views.colour).items():
                steps = zip(log_spaced(study.training.T), values.tolist(), strict=True)
                course += [
                    {**replica_keys, "step": step, "metric": metric, "value": value}
                    for step, value in steps
                ]
        final += [
            {**keys, "labels": 0, "metric": metric, "value": value}
            for metric, value in metrics.items()
        ]
        # The neurons show how masks change a rare feature, so other arms have no heads.
        if arm == DENSE:
            heads(keys, f)
    if reference:
        heads(of_point | {**DENSE.model_dump(), "seed": seed, "encoder": "raw"}, samples.x[0, :, 0])
    return final, course, neurons, embedding


def draw(
    study: Study, pairs: PairSampler, probability: Tensor, sigma: float, seed: int, n: int
) -> LabelledSamples:
    """Draw n samples of one replica, the same for every study with these draws.

    probability (d,).
    """
    z = latent_pairs(n, 1, probability, generator(study.draws, seed, "augmentation"))[:, 0]
    tokens = z[None].float()
    signal = tokens @ pairs.simulator.dictionary.mT[:, None]
    x = pairs.sample_unaugmented(
        tokens, sigma, [generator(study.draws, seed, "augmentation noise")]
    )
    latents = z[:, 0]
    return LabelledSamples(
        latents,
        signal,
        x,
        latents.double() @ regression_target(study.draws, seed, study.data.d).double(),
    )


class SingleFeatureSamples(NamedTuple):
    """Samples with one feature, which show how an encoder represents that feature."""

    samples: Tensor
    """Bool (n,): True for a sample with one feature."""
    feature: Tensor
    """Feature of each of them."""
    signed: Tensor
    """Class of each: f is odd, so a feature and its negative are two."""


def one_feature(latents: Tensor) -> SingleFeatureSamples:
    """Return those of latents (n, d) with a single feature."""
    single = (latents != 0).sum(-1) == 1
    feature = latents[single].abs().argmax(-1)
    return SingleFeatureSamples(
        single, feature, feature + latents.shape[-1] * (latents[single].sum(-1) < 0)
    )


def gradient_metrics(
    study: Study, pairs: PairSampler, probability: Tensor, sigma: float, seed: int, gradients: int
) -> dict[str, float]:
    """Compute P2 and P3 of one replica: features and noise under augmentation alone, at W(0).

    probability (d,).
    """
    space = pairs.simulator
    weights = space.initial_weights(
        study.training.sigma_0, [generator(study.draws, seed, "weights")]
    )[0]
    z = latent_pairs(gradients, 1, probability, generator(study.draws, seed, "gradients"))[
        :, 0
    ].float()
    noise = [generator(study.draws, seed, "gradients noise")]
    x, y = pairs.sample_pair_tokens(torch.cat([z, z])[None], sigma, noise)[
        0, : 2 * gradients, 0
    ].split(gradients)
    metrics = gradient_fractions(weights, space.dictionary[0], x, y, probability[0].item(), sigma)
    mask = study.data.views.mask
    if mask == 0.5:
        metrics["cross_talk"] = cross_talk(
            space.dictionary[0], mask, MASKS, generator(study.draws, seed, "cross-talk")
        )
    return metrics
