"""Training and measurement of one point: initial weights by hand, then every arm.

Axes: S replicas, R recorded steps, m neurons, p coordinates of a weight, d features, the rare one
last. Equations are those of imbalance_and_pruning.
"""

import torch
from torch import Tensor

from rarefeat.chain.pretrain import TrainedEncoder, pretrain
from rarefeat.chain.probe import embed_pairs
from rarefeat.chain.synthesise import synthesise
from rarefeat.config.model import Arm, Data, Training
from rarefeat.core import stream_names
from rarefeat.core.divergence import diverged
from rarefeat.core.linear_probe import linear_probe
from rarefeat.core.pruning import mask_smallest
from rarefeat.core.randomness import generator, make_generators
from rarefeat.core.recorded_steps import log_spaced
from rarefeat.core.simulators import make_simulator
from rarefeat.core.sparse_coding import aggregated_sign, latent_pairs
from rarefeat.core.theory import activation_probability
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs


def interpolate_weights(weights: Tensor, dictionary: Tensor, purity: float) -> Tensor:
    """Return initial weights between drawn neurons and pure ones, all of the mean drawn norm.

    Parameters
    ----------
    weights : Tensor of shape (S, m, p)
        Drawn weights.
    dictionary : Tensor of shape (S, p, d)
        Features as columns; a pure neuron i is feature i mod d.
    purity : float
        0 for the directions as drawn, 1 for pure neurons.

    Returns
    -------
    Tensor of shape (S, m, p)
    """
    features = torch.arange(weights.shape[1]) % dictionary.shape[-1]
    norms = weights.norm(dim=-1, keepdim=True)
    mixed = (1 - purity) * weights / norms + purity * dictionary.mT[:, features]
    return norms.mean(1, keepdim=True) * mixed / mixed.norm(dim=-1, keepdim=True)


def rare_among_smallest(projections: Tensor, norms: Tensor, alpha: float) -> Tensor:
    """Return how many of the smallest neurons are nearest to the rare feature, as a share.

    Parameters
    ----------
    projections : Tensor of shape (S, m, d)
        <w_i, M_j>.
    norms : Tensor of shape (S, m)
        ||w_i||.
    alpha : float
        Pruning ratio: the floor(alpha m) smallest neurons are looked at.

    Returns
    -------
    Tensor of shape (S,)
        NaN where none are looked at.
    """
    smallest = mask_smallest(norms, alpha)
    rare = projections.abs().argmax(-1) == projections.shape[-1] - 1
    return (smallest & rare).sum(-1) / smallest.sum(-1)


def measure_encoders(
    encoder: TrainedEncoder, onset: int, eta: float, steps: list[int], K: int
) -> dict[str, Tensor]:
    """Measure norms, strengths, cosine, growth and divergence of an arm.

    Parameters
    ----------
    encoder : TrainedEncoder
        Encoders of S replicas with their history.
    onset : int
        First step with a mask; growth is measured from the first recorded step from there on.
    eta : float
        Learning rate.
    steps : list of int
        Recorded steps.
    K : int
        Positive pairs of a batch.

    Returns
    -------
    dict of str to Tensor of shape (S,)
        Columns of `tables.PREMISE`.
    """
    history = encoder.history.double()
    projections, norms = history[..., :-2], history[..., -2]
    strength = projections.square().sum(2)  # (S, R, d)
    rare = projections[:, -1].abs().argmax(-1) == projections.shape[-1] - 1
    largest = projections[:, -1].abs().amax(1)
    first = next(index for index, step in enumerate(steps) if step >= onset)
    roots = torch.stack([strength[..., -1], strength[..., :-1].mean(-1)], -1).log() / 2
    rates = (roots[:, first + 1] - roots[:, first]) / (eta * (steps[first + 1] - steps[first]))
    last = norms[:, -1]
    return {
        "norm": last.masked_fill(~rare, torch.nan).nanmean(-1),
        "norm_majority": last.masked_fill(rare, torch.nan).nanmean(-1),
        "strength": strength[:, -1, -1],
        "strength_majority": strength[:, -1, :-1].mean(-1),
        "cosine": (projections[:, -1, :, -1].abs() / last).amax(-1),
        "projection": largest[:, -1],
        "projection_majority": largest[:, :-1].mean(-1),
        "growth": rates[:, 0],
        "growth_majority": rates[:, 1],
        "diverged": diverged(encoder.loss, K, encoder.weights).double(),
    }


def probe_rare_feature(
    encoders: list[TrainedEncoder],
    latents: dict[str, Tensor],
    draws: str,
    data: Data,
    training: Training,
    sigma: float,
    seeds: list[int],
) -> Tensor:
    """Probe the sign of the rare feature, with every feature at the majority frequency.

    The head is fitted on the first views of the probe pairs and tested on those of test pairs that
    each seed draws for itself.

    Parameters
    ----------
    encoders : list of TrainedEncoder
        Encoders of S replicas, by arm.
    latents : dict of str to Tensor
        Result of `synthesise`.
    draws : str
        Namespace of the random streams, "test", "probe noise" and "test noise".
    data : Data
        Distribution of the data.
    training : Training
        Hyper-parameters of the training.
    sigma : float
        Standard deviation of the noise.
    seeds : list of int
        One seed per replica.

    Returns
    -------
    Tensor of shape (number of arms, S)
        R^2; NaN where embeddings are not finite.
    """
    scores = torch.full((len(encoders), len(seeds)), torch.nan)
    scale = training.logit_scale(data.d1)
    balanced = activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)
    for s, seed in enumerate(seeds):
        simulator = make_simulator("reduced", draws, data.d, data.d1, training.m, [seed])
        networks = [(encoder.weights[[s]], encoder.bias[[s]]) for encoder in encoders]
        rng = generator(draws, seed, stream_names.TEST)
        test = latent_pairs(data.test_pairs, data.L, balanced, rng)
        samples = (
            (latents["probe_balanced"][s][:, :1], stream_names.PROBE_NOISE),
            (test[:, :1], stream_names.TEST_NOISE),
        )
        signs = [aggregated_sign(pairs[:, 0])[:, -1] for pairs, _ in samples]
        fitted, tested = (
            embed_pairs(
                pairs,
                pairs,
                simulator,
                networks,
                sigma,
                scale,
                make_generators(draws, [seed], name),
            )
            for pairs, name in samples
        )
        for arm, embeddings in enumerate(zip(fitted, tested, strict=True)):
            train_f, test_f = (views["balanced"][:, 0] for views in embeddings)
            if torch.isfinite(train_f).all() and torch.isfinite(test_f).all():
                scores[arm, s] = linear_probe(train_f, signs[0], test_f, signs[1])[1]
    return scores


def measure_premise(inputs: JobInputs, job: Job) -> list[dict]:
    """Train and measure the arms of a point and seed block.

    Inputs: none. Config: `draws`, `data`, `training`, `sigma`, `arms`, dense first. Output: rows
    of `tables.PREMISE`. Random streams: "weights", and those of the chain's stages.
    """
    draws, data = job.config_section("draws", str), job.config_section("data", Data)
    training, sigma = job.config_section("training", Training), job.config_section("sigma", float)
    arms, seeds = job.config_section("arms", list[Arm]), job.seed_list
    latents = synthesise(draws, data, job.cell["eps_min"], seeds)
    simulator = make_simulator("reduced", draws, data.d, data.d1, training.m, seeds)
    normal_weights = simulator.initial_weights(
        training.sigma_0, make_generators(draws, seeds, stream_names.WEIGHTS)
    )
    weights = interpolate_weights(normal_weights, simulator.dictionary, job.cell["purity"])
    by_label, _ = pretrain(
        draws, "reduced", data, training, arms, sigma, seeds, latents["train"], job.label, weights
    )
    encoders = [by_label[arm.label] for arm in arms]
    onset, steps = max(arm.onset for arm in arms), log_spaced(training.T)
    scores = probe_rare_feature(encoders, latents, draws, data, training, sigma, seeds)
    start = encoders[0].history[:, next(i for i, step in enumerate(steps) if step >= onset)]
    premise = rare_among_smallest(start[..., : data.d], start[..., data.d], job.cell["alpha"])
    rows = []
    for arm, encoder, r2 in zip(arms, encoders, scores, strict=True):
        columns = measure_encoders(encoder, onset, training.eta, steps, training.K)
        columns |= {"premise": premise, "r2": r2}
        keys = {**job.cell, "arm": arm.arm, "pruned_update": arm.pruned_update}
        rows += [
            {**keys, "seed": seed, **{name: float(value[s]) for name, value in columns.items()}}
            for s, seed in enumerate(seeds)
        ]
    return rows
