"""Two views of each image, by kornia's transforms on the whole batch."""

import torch
from jaxtyping import Float, UInt8
from kornia.augmentation import (
    ColorJitter,
    RandomGaussianBlur,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
)
from torch import Tensor, nn

from rarefeat.model.randomness import generator
from rarefeat.workflow.config.images import Augmentation


def make_augment(config: Augmentation, size: int) -> nn.Module:
    """Build SimCLR's transforms."""
    brightness, contrast, saturation, hue = config.jitter
    # The blur's kernel is a tenth of the side, as in SimCLR, and odd.
    kernel = max(3, size // 20 * 2 + 1)
    crop = RandomResizedCrop(
        (size, size), tuple(config.crop_scale), resample="bicubic", cropping_mode="resample"
    )
    jitter = ColorJitter(brightness, contrast, saturation, hue, p=config.jitter_probability)
    transforms = [
        (float(config.crop_scale[0] < 1), crop),
        (config.flip, RandomHorizontalFlip(p=config.flip)),
        (config.jitter_probability, jitter),
        (config.grey, RandomGrayscale(p=config.grey)),
        (config.blur, RandomGaussianBlur((kernel, kernel), (0.1, 2.0), p=config.blur)),
    ]
    return nn.Sequential(*(transform for probability, transform in transforms if probability > 0))


def two_views(
    augment: nn.Module, images: UInt8[Tensor, "B 3 H W"], namespace: str, seed: int, step: int
) -> tuple[Float[Tensor, "B 3 H W"], Float[Tensor, "B 3 H W"]]:
    """Draw two views in [0, 1] of each image of a batch."""
    images = images.float() / 255
    devices = [images.device] if images.is_cuda else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(generator(namespace, seed, f"augmentation {step}").initial_seed())
        # The bicubic crop may leave [0, 1] by a little.
        return augment(images).clamp(0, 1), augment(images).clamp(0, 1)
