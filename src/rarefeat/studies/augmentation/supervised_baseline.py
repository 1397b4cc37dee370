"""Supervised encoders to compare with the contrastive ones.

The same neurons learn <w*, z> from samples without augmentation.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from rarefeat.errors import RarefeatError
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import frequencies, latent_pairs, regression_target
from rarefeat.model.theory import activation_probability
from rarefeat.studies.augmentation.config import Supervised
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def supervise(
    study: Study, training: Supervised, eps_min: float, sigma: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Train the weights, bias and linear head of one replica on fresh samples by Adam.

    The start W(0) is that of the contrastive training of the same seed.

    -> weights (m, d1), bias (m,).
    """
    data, m = study.data, study.training.m
    space = make_simulator("direct", study.draws, data.d, data.d1, m, [seed])
    pairs = PairSampler(data.views, space, "direct", study.draws, [seed])
    probability = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    w_star = regression_target(study.draws, seed, data.d)
    draws, noise = (
        generator(study.draws, seed, purpose) for purpose in ("supervised", "supervised noise")
    )
    weights = space.initial_weights(
        study.training.sigma_0, [generator(study.draws, seed, "weights")]
    ).requires_grad_()
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


def supervise_encoders(inputs: JobInputs, job: Job) -> dict[str, Tensor]:
    """Train a supervised encoder for every seed of the study whose samples they see.

    Config is this study and `supervised`; the output is `supervised.safetensors`.
    """
    study, training = (
        job.config_section("study", Study),
        job.config_section("supervised", Supervised),
    )
    cell, tensors = study.cells()[0], {}
    seeds = [seed for block in study.blocks().values() for seed in block]
    for seed in progress(seeds, len(seeds), "supervised"):
        weights, bias = supervise(study, training, cell["eps_min"], cell["sigma"], seed)
        tensors |= {f"{seed}/weights": weights, f"{seed}/bias": bias}
    return tensors
