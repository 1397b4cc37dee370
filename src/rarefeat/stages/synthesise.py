"""Pipeline stage 1: latent signals of one eps_min and one seed block.

Dictionaries and noise are not stored: the stages that need them draw them again from their keys.
Axes: S replicas, 2 views of a pair, L tokens, d features.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import balancing_weights, frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.workflow.config.model import Data
from rarefeat.workflow.run.job_inputs import JobInputs


def synthesise(
    namespace: str, data: Data, eps_min: float, seeds: list[int]
) -> dict[str, Int[Tensor, "S _ 2 L d"]]:
    """Draw the latent pairs of training, probe and test.

    The same uniforms serve every eps_min, so that the draws are nested. Oversampled training pairs
    are drawn from these with replacement. Random streams: "train", "probe", "test" and
    "oversampling".
    """
    matched = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    balanced = activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)

    def pairs(n: int, purpose: str, probability: Float[Tensor, " d"]) -> Int[Tensor, "S n 2 L d"]:
        return torch.stack(
            [latent_pairs(n, data.L, probability, generator(namespace, s, purpose)) for s in seeds]
        )

    tensors = {"train": pairs(data.N, stream_names.TRAIN, matched)}
    if data.balance == "oversampled":
        for sample, seed in zip(tensors["train"], seeds, strict=True):
            weights = balancing_weights(sample, len(data.minority))
            rng = generator(namespace, seed, stream_names.OVERSAMPLING)
            sample[:] = sample[weights.multinomial(data.N, replacement=True, generator=rng)]
    for name, probability in {"balanced": balanced, "matched": matched}.items():
        tensors[f"probe_{name}"] = pairs(data.probe_pairs, stream_names.PROBE, probability)
        tensors[f"test_{name}"] = pairs(data.test_pairs, stream_names.TEST, probability)
    return tensors


def stage(inputs: JobInputs, draws: str, data: Data) -> dict[str, Tensor]:
    """Draw the latent pairs of one eps_min and seed block: the tensors of `synthesise`."""
    return synthesise(draws, data, inputs.job.cell["eps_min"], inputs.job.seed_list)
