"""Supervised encoders beside the contrastive ones: the same neurons learn <w*, z> from samples."""

import math

import torch
from jaxtyping import Float
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


def supervise(
    study: Study, training: Supervised, eps_min: float, sigma: float, seed: int
) -> tuple[Float[Tensor, "m p"], Float[Tensor, " m"]]:
    """Train weights, bias and head of one replica by Adam, from the W(0) of contrastive training.

    Samples are fresh at each step, and not augmented.
    """
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
