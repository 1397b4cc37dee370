"""One generator for each random draw, derived from (study, seed, purpose)."""

import hashlib

import torch
from torch import Tensor


def generator(study: str, seed: int, purpose: str) -> torch.Generator:
    """A CPU generator that depends on its three arguments alone, never on the block or the order a replica ran in.

    torch's CPU generator (Mersenne Twister) is seeded by 32 bits: among 10^4 streams two coincide with probability 1 %.
    """
    digest = hashlib.sha256(f"{study}/{seed}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))


def standard_gamma(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Gamma variables with scale 1 of these shapes; of torch, its private function alone takes a generator."""
    return torch._standard_gamma(shape, generator=generator)
