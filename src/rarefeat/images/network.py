"""A residual network with a projection head.

Its batch norms have statistics and affine parameters of their own for each branch.
Axes: N images, B images of a batch, C channels, H x W pixels, D features, P projections.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.workflow.config.images import Network

EXPANSION = {"basic": 1, "bottleneck": 4}
STEMS = {"cifar": (3, 1), "strided": (3, 2), "imagenet": (7, 2)}
"""Side of the first convolution's kernel, and its stride."""


class BranchNorm(nn.Module):
    """A batch norm for each branch, of which `branch` is in use.

    Training normalises by the batch alone. The running statistics are those of `calibrate`, for
    every arm.
    """

    def __init__(self, kind: type[nn.Module], width: int, branches: int):
        super().__init__()
        self.branches = nn.ModuleList(kind(width, momentum=None) for _ in range(branches))
        self.branch = 0

    def forward(self, x: Float[Tensor, "B C *size"]) -> Float[Tensor, "B C *size"]:
        """Apply the batch norm of the branch."""
        return self.branches[self.branch](x)


class ResidualBlock(nn.Module):
    """A residual block of two or three convolutions, from H x W to h x w = H / stride x W /
    stride.
    """

    def __init__(self, kind: str, channels: int, width: int, stride: int, branches: int):
        super().__init__()
        out = width * EXPANSION[kind]
        if kind == "basic":
            shapes = [(channels, width, 3, stride), (width, width, 3, 1)]
        else:
            shapes = [(channels, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        self.convolutions = nn.ModuleList(convolution(*shape) for shape in shapes)
        self.norms = nn.ModuleList(
            BranchNorm(nn.BatchNorm2d, shape[1], branches) for shape in shapes
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or channels != out:
            self.shortcut = nn.Sequential(
                convolution(channels, out, 1, stride), BranchNorm(nn.BatchNorm2d, out, branches)
            )

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B out h w"]:
        """Apply the block."""
        shortcut = self.shortcut(x)
        last = len(self.convolutions) - 1
        for index, (apply, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = norm(apply(x))
            if index < last:
                x = functional.relu(x)
        return functional.relu(x + shortcut)


class ImageEncoder(nn.Module):
    """A residual network (He et al. 2016) with SimCLR's head, Linear-BN-ReLU-Linear-BN."""

    def __init__(self, config: Network, branches: int = 1):
        super().__init__()
        width = config.width
        self.stem = convolution(3, width, *STEMS[config.stem])
        self.norm = BranchNorm(nn.BatchNorm2d, width, branches)
        self.pool = nn.MaxPool2d(3, 2, 1) if config.stem == "imagenet" else nn.Identity()
        blocks, channels = [], width
        for stage, depth in enumerate(config.depths):
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(
                    ResidualBlock(config.block, channels, width * 2**stage, stride, branches)
                )
                channels = width * 2**stage * EXPANSION[config.block]
        self.blocks = nn.Sequential(*blocks)
        self.dimension = channels
        self.head = nn.Sequential(
            nn.Linear(channels, channels),
            BranchNorm(nn.BatchNorm1d, channels, branches),
            nn.ReLU(),
            nn.Linear(channels, config.head, bias=False),
            BranchNorm(nn.BatchNorm1d, config.head, branches),
        )

    def features(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        """Compute the features that probes see, of images in [0, 1]."""
        x = self.pool(functional.relu(self.norm(self.stem((images - 0.5) / 0.25))))
        return self.blocks(x).mean((2, 3))

    def forward(self, images: Float[Tensor, "B 3 H W"], branch: int = 0) -> Float[Tensor, "B P"]:
        """Compute the projections that the loss sees, of images in [0, 1]."""
        for module in self.modules():
            if isinstance(module, BranchNorm):
                module.branch = branch
        return self.head(self.features(images))


def convolution(channels: int, out: int, size: int, stride: int) -> nn.Conv2d:
    """Return a convolution without a bias, which the batch norm after it would take away."""
    return nn.Conv2d(channels, out, size, stride, padding=size // 2, bias=False)


def make_encoder(config: Network, branches: int, namespace: str, seed: int) -> ImageEncoder:
    """Draw an encoder with He-normal convolutions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(namespace, seed, "weights").initial_seed())
        encoder = ImageEncoder(config, branches)
        for module in encoder.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return encoder


def batches_of(
    images: UInt8[Tensor, "N 3 H W"], size: int = 512
) -> Iterator[Float[Tensor, "B 3 H W"]]:
    """Yield images in batches, in [0, 1]."""
    for batch in images.split(size):
        yield batch.float() / 255


@torch.no_grad()
def calibrate(encoder: ImageEncoder, images: UInt8[Tensor, "N 3 H W"]) -> None:
    """Set the running statistics of the dense weights' batch norms by one pass over images."""
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.reset_running_stats()
    encoder.train()
    for batch in batches_of(images):
        # A single image has no variance.
        if len(batch) > 1:
            encoder(batch)


@torch.no_grad()
def extract(encoder: ImageEncoder, images: UInt8[Tensor, "N 3 H W"]) -> Float[Tensor, "N D"]:
    """Compute features under the running statistics."""
    encoder.eval()
    features = torch.cat([encoder.features(batch) for batch in batches_of(images)])
    encoder.train()
    return features
