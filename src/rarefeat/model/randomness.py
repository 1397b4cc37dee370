"""Random generators keyed by (namespace, seed, stream name), and draws for S replicas.

On a GPU one generator serves a block of seeds. The names of the streams are in `stream_names.py`.
"""

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor


def generator(namespace: str, seed: int, purpose: str) -> torch.Generator:
    """Make the CPU generator of one random stream of one replica.

    It depends on its three arguments alone, never on the seed block or the order in which replicas
    are trained. torch's CPU generator (Mersenne Twister) is seeded by 32 bits: among 10^4 streams
    two coincide with probability 1 %.
    """
    digest = hashlib.sha256(f"{namespace}/{seed}/{purpose}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))


@contextlib.contextmanager
def global_generators(source: torch.Generator) -> Iterator[None]:
    """Seed the global generators of torch, numpy and Python by a stream, for a while."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.set_rng_state(source.get_state())
    np.random.seed(source.initial_seed())
    random.seed(source.initial_seed())
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])


@dataclass(frozen=True)
class DeviceGenerator:
    """One generator on a GPU that draws for S replicas in one call."""

    S: int
    device: torch.device
    generator: torch.Generator | None

    def __len__(self) -> int:
        """Return the number of replicas."""
        return self.S


Generators = list[torch.Generator] | DeviceGenerator
"""One generator per replica, or one for all of them."""


def make_generators(
    namespace: str, seeds: list[int], purpose: str, device: torch.device | str = "cpu"
) -> Generators:
    """Make the random generators of a block of replicas."""
    device = torch.device(device)
    if device.type == "cpu":
        return [generator(namespace, seed, purpose) for seed in seeds]
    return DeviceGenerator(
        len(seeds), device, make_device_generator(device, f"{namespace}/{seeds}/{purpose}")
    )


def make_device_generator(device: torch.device, key: str) -> torch.Generator:
    """Make a generator on a device, seeded by 64 bits of the hash of a key."""
    digest = hashlib.sha256(key.encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "little"))


def draw(
    sampler: Callable[..., Tensor], generators: Generators, *shape: int
) -> Shaped[Tensor, "S ..."]:
    """Draw random numbers for S replicas, each of the same shape."""
    if isinstance(generators, DeviceGenerator):
        return sampler(
            generators.S, *shape, generator=generators.generator, device=generators.device
        )
    return torch.stack([sampler(*shape, generator=g) for g in generators])


def standard_gamma(
    shape: Float[Tensor, "*shape"], generator: torch.Generator | None
) -> Float[Tensor, "*shape"]:
    """Draw gamma variables with scale 1.

    torch's public distributions take no generator; only this private function does.
    """
    return torch._standard_gamma(shape, generator=generator)
