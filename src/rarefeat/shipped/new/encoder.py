"""An encoder of the study in NAME.yaml."""

import torch
from torch import nn


class Mine(nn.Module):
    """Neurons that saturate, summed over tokens: (n, L, d1) to (n, m)."""

    def __init__(self, d1, m, sigma_0):
        super().__init__()
        self.weights = nn.Parameter(sigma_0 * torch.randn(m, d1))

    def forward(self, tokens):
        return torch.tanh(tokens @ self.weights.mT).sum(-2)
