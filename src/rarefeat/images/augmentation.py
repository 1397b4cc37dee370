"""Two views of each image, by kornia's transforms on the whole batch."""

import torch
from kornia.augmentation import (
    ColorJitter,
    RandomGaussianBlur,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
)
from torch import Tensor, nn

from rarefeat.config.images import Augmentation
from rarefeat.core.randomness import generator


def make_augment(config: Augmentation, size: int) -> nn.Module:
    """SimCLR's transforms, (B, 3, size, size) in [0, 1] -> the same; those of probability 0 and whole crops are left out."""
    brightness, contrast, saturation, hue = config.jitter
    # The blur's kernel is a tenth of the side, as in SimCLR, and odd.
    kernel = max(3, size // 20 * 2 + 1)
    parts = [
        (
            float(config.crop_scale[0] < 1),
            RandomResizedCrop(
                (size, size), tuple(config.crop_scale), resample="bicubic", cropping_mode="resample"
            ),
        ),
        (config.flip, RandomHorizontalFlip(p=config.flip)),
        (
            config.jitter_probability,
            ColorJitter(brightness, contrast, saturation, hue, p=config.jitter_probability),
        ),
        (config.grey, RandomGrayscale(p=config.grey)),
        (config.blur, RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=config.blur)),
    ]
    return nn.Sequential(*(part for probability, part in parts if probability > 0))


def two_views(
    augment: nn.Module, images: Tensor, study: str, seed: int, step: int
) -> tuple[Tensor, Tensor]:
    """Both views of uint8 images, (B, 3, H, W) in [0, 1] each, the same for the same (study, seed, step)."""
    images = images.float() / 255
    devices = [images.device] if images.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(generator(study, seed, f"augmentation {step}").initial_seed())
        # The bicubic crop may leave [0, 1] by a little.
        return augment(images).clamp(0, 1), augment(images).clamp(0, 1)
