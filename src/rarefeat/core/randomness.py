"""One generator for each random draw, derived from (study, seed, purpose); on a device, one for a block of seeds."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


def generator(study: str, seed: int, purpose: str) -> torch.Generator:
    """A CPU generator that depends on its three arguments alone, never on the block or the order a replica ran in.

    torch's CPU generator (Mersenne Twister) is seeded by 32 bits: among 10^4 streams two coincide with probability 1 %.
    """
    digest = hashlib.sha256(f"{study}/{seed}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))


@dataclass(frozen=True)
class DeviceGenerator:
    """One generator on a device for S replicas, which draws for all of them in one call."""

    S: int
    device: torch.device
    generator: torch.Generator | None

    def __len__(self) -> int:
        return self.S


Generators = list[torch.Generator] | DeviceGenerator
"""One a replica, or one for all of them."""


def make_generators(
    study: str, seeds: list[int], purpose: str, device: torch.device | str = "cpu"
) -> Generators:
    """A generator for each seed; on a device one for all, which depends on the whole block of seeds.

    The law of the draws is the same, the numbers are not.
    """
    device = torch.device(device)
    if device.type == "cpu":
        return [generator(study, seed, purpose) for seed in seeds]
    return DeviceGenerator(
        len(seeds), device, make_device_generator(device, f"{study}/{seeds}/{purpose}")
    )


def make_device_generator(device: torch.device, key: str) -> torch.Generator:
    """A generator of a device, which takes a seed of 64 bits."""
    digest = hashlib.sha256(key.encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little"))


def draw(draw: Callable[..., Tensor], generators: Generators, *shape: int) -> Tensor:
    """What torch.randn or torch.rand gives each replica, (S, *shape)."""
    if isinstance(generators, DeviceGenerator):
        return draw(generators.S, *shape, generator=generators.generator, device=generators.device)
    return torch.stack([draw(*shape, generator=g) for g in generators])


def standard_gamma(shape: Tensor, generator: torch.Generator) -> Tensor:
    """Gamma variables with scale 1 of these shapes; of torch, its private function alone takes a generator."""
    return torch._standard_gamma(shape, generator=generator)
