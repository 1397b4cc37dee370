"""Measurements of the encoders of the study of augmentation (Wen & Li 2021).

They are the composition of the neurons at the end of training; their response to noise and to
signal; and linear heads on them with few and many labels, beside heads on the raw input and on the
paper's optimal learner. Beside them the same neurons learn <w*, z> from labelled samples. Axes: n
samples, m neurons, p coordinates of a token, d features.
"""

import math
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import mse_loss

from rarefeat.errors import RarefeatError
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import frequencies, latent_pairs, regression_target
from rarefeat.model.theory import activation_probability
from rarefeat.studies.augmentation import OF_SAMPLES
from rarefeat.studies.augmentation.config import Supervised
from rarefeat.studies.augmentation.metrics import (
    course_metrics,
    cross_talk,
    end_metrics,
    gradient_fractions,
    head_metrics,
    mean_best_cosine,
    response_metrics,
    separation,
)
from rarefeat.training.pretraining import ALWAYS, TrainedEncoder
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.files.tensors import read_tensors
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

SUPERVISE = "studies.augmentation.measure:supervise_encoders"
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
    """Return the tables of one study: the end of training, and its neurons.

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
        kind.name: validate_sorted(
            kind.schema, pd.DataFrame(rows[kind.name]).assign(study=job.study)
        )
        for kind in OF_SAMPLES
    }


def measure_replica(
    study: Study, cell: Cell, seed: int, trained: dict[Arm, TrainedEncoder],
    labelled: MeasuredNetwork | None, labels: list[int], tests: int, gradients: int,
) -> tuple[list[dict], list[dict]]:  # fmt: skip
    """Return the rows of one seed at one point, for each of the tables."""
    data, draws, sigma, eps_min = study.data, study.draws, cell["sigma"], cell["eps_min"]
    space = make_simulator("direct", draws, data.d, data.d1, study.training.m, [seed])
    pairs = PairSampler(data.views, space, "direct", draws, [seed])
    directions = torch.cat([space.dictionary, pairs.directions], -1)[0]
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    samples = draw(study, pairs, probability, sigma, seed, max(labels) + tests)
    single, signed = one_feature(samples.latents[-tests:])
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
    final, neurons = [], []

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
        keys = cell.values | arm.model_dump() | {"seed": seed, "encoder": name}
        f, f_noise, f_signal = (
            embed(pre_activations(tokens, weights), bias)[0]
            for tokens in (samples.x, samples.x - samples.signal, samples.signal)
        )
        responses = f[-tests:]
        metrics = response_metrics(responses, f_noise[-tests:], f_signal[-tests:], active)
        metrics["separation"] = separation(responses[single], signed)
        if name in ("trained", "supervised"):
            recorded = torch.cat(
                [weights @ directions, weights.norm(dim=-1, keepdim=True), bias[..., None]], -1
            )[0]
            metrics |= end_metrics(recorded, data)
            rates = (responses != 0).double().mean(0).tolist()
            neurons += [{**keys, "neuron": i, "activity": rate} for i, rate in enumerate(rates)]
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
        add(keys, metrics)
        # The neurons show how masks change a rare feature, so other arms have no heads.
        if arm == DENSE:
            add_heads(keys, f)
    if reference:
        raw = {"seed": seed, "encoder": "raw"}
        add_heads(cell.values | DENSE.model_dump() | raw, samples.x[0, :, 0])
    return final, neurons


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


def one_feature(latents: Int[Tensor, "n d"]) -> tuple[Bool[Tensor, " n"], Int[Tensor, " single"]]:
    """Return which latents have a single feature, and the class of each: f is odd, so that a
    feature and its negative are two.
    """
    single = (latents != 0).sum(-1) == 1
    negative = latents[single].sum(-1) < 0
    return single, latents[single].abs().argmax(-1) + latents.shape[-1] * negative


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


def supervise(
    study: Study, training: Supervised, eps_min: float, sigma: float, seed: int
) -> tuple[Float[Tensor, "m p"], Float[Tensor, " m"]]:
    """Train weights, bias and head of one replica by Adam from W(0), on samples without views."""
    data, m = study.data, study.training.m
    space = make_simulator("direct", study.draws, data.d, data.d1, m, [seed])
    pairs = PairSampler(data.views, space, "direct", study.draws, [seed])
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    w_star = regression_target(study.draws, seed, data.d)
    start, draws, noise = (
        generator(study.draws, seed, purpose)
        for purpose in ("weights", "supervised", "supervised noise")
    )
    weights = space.initial_weights(study.training.sigma_0, [start]).requires_grad_()
    bias = torch.zeros(1, m, requires_grad=True)
    head = torch.randn(m, generator=draws).div_(math.sqrt(m)).requires_grad_()
    optimiser = torch.optim.Adam([weights, bias, head], lr=training.lr)
    for _ in range(training.steps):
        z = latent_pairs(training.batch, 1, probability, draws)[:, 0].float()
        x = pairs.sample_unaugmented(z[None], sigma, [noise])
        f = embed(pre_activations(x, weights), bias)[0]
        optimiser.zero_grad()
        mse_loss(f @ head, z[:, 0] @ w_star).backward()
        optimiser.step()
    if not weights.isfinite().all():
        raise RarefeatError(
            "the supervised training diverged: the weights are no longer finite; lower"
            " augmentation.supervised.lr"
        )
    return weights.detach()[0], bias.detach()[0]


def supervise_encoders(supervised_study: Study, supervised: Supervised) -> dict[str, Tensor]:
    """Train a supervised encoder for every seed of the study whose samples they see."""
    cell, tensors = supervised_study.cells()[0], {}
    seeds = [seed for block in supervised_study.blocks().values() for seed in block]
    for seed in progress(seeds, len(seeds), "supervised"):
        trained = supervise(supervised_study, supervised, cell["eps_min"], cell["sigma"], seed)
        tensors[f"{seed}/weights"], tensors[f"{seed}/bias"] = trained
    return tensors
