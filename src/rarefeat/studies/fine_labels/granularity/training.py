"""Learning rate and shifts of images, for trainings on digits and on photographs."""

import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.images.trainer import warmed_cosine
from rarefeat.studies.fine_labels.config import SGDSettings


def learning_rate(descent: SGDSettings, step: int, steps: int) -> float:
    """Return the learning rate at a step: linear warm-up, then a cosine to 0 (A.1.1)."""
    return warmed_cosine(step, steps, descent.warmup * steps, descent.lr)


def shift_images(images: Tensor, pixels: int, generators: list[torch.Generator]) -> Tensor:
    """Shift each image by up to some pixels in either direction, both axes alike.

    images (S, n, C, H, W) -> (S, n, C, H, W).
    """
    if not pixels:
        return images
    S, n, _, H, W = images.shape
    draws = [torch.randint(2 * pixels + 1, (n, 2), generator=rng) for rng in generators]
    shift = torch.stack(draws).to(images.device).flatten(0, 1)
    padded = functional.pad(images.flatten(0, 1), (pixels,) * 4, value=images.min().item())
    row = shift[:, 0, None] + torch.arange(H, device=images.device)
    column = shift[:, 1, None] + torch.arange(W, device=images.device)
    image = torch.arange(S * n, device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[2], device=images.device)[None, :, None, None]
    index = image, channel, row[:, None, :, None], column[:, None, None, :]
    return padded[index].view_as(images)
