"""What the trainings on digits and on photographs share: the learning rate, and images that move."""

import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.images.trainer import warmed_cosine
from rarefeat.studies.fine_labels.config import SGDSettings


def learning_rate(descent: SGDSettings, step: int, steps: int) -> float:
    """Linear warm-up, then a cosine to 0, at a step counted from 0 (A.1.1)."""
    return warmed_cosine(step, steps, descent.warmup * steps, descent.lr)


def moved(images: Tensor, pixels: int, generators: list[torch.Generator]) -> Tensor:
    """Images moved by up to so many pixels either way, each by a draw of its own, one generator a replica.

    (S, n, C, H, W) -> the same; what moves in has the smallest value of all images, which is the digits' background and black.
    """
    if not pixels:
        return images
    S, n, _, H, W = images.shape
    move = torch.stack([torch.randint(2 * pixels + 1, (n, 2), generator=g) for g in generators]).to(
        images.device
    )
    padded = functional.pad(images.flatten(0, 1), (pixels,) * 4, value=images.min().item())
    row = (move[..., 0, None].flatten(0, 1) + torch.arange(H, device=images.device))[
        :, None, :, None
    ]
    column = (move[..., 1, None].flatten(0, 1) + torch.arange(W, device=images.device))[
        :, None, None, :
    ]
    image = torch.arange(S * n, device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[2], device=images.device)[None, :, None, None]
    return padded[image, channel, row, column].view_as(images)
