"""A data law of the study in NAME.yaml."""

import torch


def mine(n, generator, probability):
    """Draw n samples, (n, d), in which the rare feature comes only together with the first one."""
    active = torch.rand(n, len(probability), generator=generator) < probability
    active[:, 0] |= active[:, -1]
    return active * (1.0 - 2.0 * torch.randint(2, active.shape, generator=generator))
