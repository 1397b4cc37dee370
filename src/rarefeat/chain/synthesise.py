"""Stage 1: latent signals for one eps_min and one block of seeds. Dictionaries and noise are keyed, not stored."""

import torch
from torch import Tensor

from rarefeat.config.model import Data
from rarefeat.core.randomness import generator
from rarefeat.core.sparse_coding import frequencies, latent_pairs
from rarefeat.core.theory import activation_probability
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs


def synthesise(study: str, data: Data, eps_min: float, seeds: list[int]) -> dict[str, Tensor]:
    """Draw the latents.

    Returns:
        train (S, N, 2, L, d), the latent training pairs; probe_balanced and probe_matched
        (S, probe_pairs, 2, L, d); test_balanced and test_matched (test_pairs, 2, L, d), one test set for every replica.
        `matched` has the training frequencies, `balanced` has eps_j = 1 for every feature. The same uniforms serve every
        eps_min, so that the draws are nested.
    """
    matched = activation_probability(frequencies(data.d, data.minority, eps_min), data.C)
    balanced = activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)

    def pairs(n: int, seed: int, purpose: str, probability: Tensor) -> Tensor:
        return latent_pairs(n, data.L, probability, generator(study, seed, purpose))

    tensors = {"train": torch.stack([pairs(data.N, s, "train", matched) for s in seeds])}
    for name, probability in {"balanced": balanced, "matched": matched}.items():
        tensors[f"probe_{name}"] = torch.stack(
            [pairs(data.probe_pairs, s, "probe", probability) for s in seeds]
        )
        tensors[f"test_{name}"] = pairs(data.test_pairs, data.test_seed, "test", probability)
    return tensors


def stage(read: JobInputs, job: Job) -> dict[str, Tensor]:
    """The stage."""
    return synthesise(
        job.config_section("draws", str),
        job.config_section("data", Data),
        job.cell["eps_min"],
        job.seed_list,
    )
