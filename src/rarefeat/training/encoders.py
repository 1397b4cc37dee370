"""Encoders: modules from tokens to embeddings.

An encoder of your own is a `torch.nn.Module` that is built with these parameters and options of its
own, while torch's global generator is seeded by the replica. It is called in evaluation mode with
tokens, a float Tensor of shape (n, L, d1), and returns embeddings of shape (n, m).

Parameters
----------
d1 : int
    Coordinates of a token.
m : int
    Neurons.
sigma_0, L, attention_scale : float, int, float, each if it is named
    Standard deviation of initial weights, tokens of a view, scale of the attention's logits.

Attributes
----------
neurons : str, optional
    Name of its parameter of shape (m, d1) of first-layer neurons, for cosines and masks; by default
    its first matrix of d1 columns.
thresholds : str, optional
    Name of its parameter of shape (m,) that a bias rule sets and the optimiser leaves alone.

Axes: n samples, L tokens, d1 coordinates of a token, m neurons.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

Tokens = Float[Tensor, "n L d1"]
Embeddings = Float[Tensor, "n m"]


def attend(
    tokens: Tokens, scale: float = 1.0, queries: Tokens | None = None, keys: Tokens | None = None
) -> Tokens:
    """Compute attended tokens, each a mean of the sample's tokens with softmax weights."""
    queries = tokens if queries is None else queries
    keys = tokens if keys is None else keys
    return torch.softmax(scale * queries @ keys.mT, -1) @ tokens


def brelu(s: Float[Tensor, "n L m"], b: Float[Tensor, " m"]) -> Float[Tensor, "n L m"]:
    """Compute BReLU_b(s) = ReLU(s - b) - ReLU(-s - b), which has a gradient in b at 0, too."""
    return torch.relu(s - b) - torch.relu(-s - b)


class Linear(nn.Module):
    """Linear neurons, without thresholds."""

    neurons = "weights"

    def __init__(self, d1: int, m: int, sigma_0: float, attention_scale: float = 1.0):
        super().__init__()
        self.scale = attention_scale
        self.weights = nn.Parameter(sigma_0 * torch.randn(m, d1))

    def forward(self, tokens: Tokens) -> Embeddings:
        """Embed samples."""
        return (attend(tokens, self.scale) @ self.weights.mT).sum(-2)


class Paper(Linear):
    """The encoder of imbalance_and_pruning, eq. (4), with thresholds that the bias rule sets."""

    thresholds = "bias"

    def __init__(self, d1: int, m: int, sigma_0: float, attention_scale: float = 1.0):
        super().__init__(d1, m, sigma_0, attention_scale)
        self.bias = nn.Parameter(torch.zeros(m))

    def forward(self, tokens: Tokens) -> Embeddings:
        """Embed samples."""
        return brelu(attend(tokens, self.scale) @ self.weights.mT, self.bias).sum(-2)


class DoublePrecision(Paper):
    """The paper's encoder in float64, from the same initial weights: a control of rounding."""

    def __init__(self, d1: int, m: int, sigma_0: float, attention_scale: float = 1.0):
        super().__init__(d1, m, sigma_0, attention_scale)
        self.double()

    def forward(self, tokens: Tokens) -> Embeddings:
        """Embed samples."""
        return super().forward(tokens.double())


class ReLU(Paper):
    """The paper's encoder with ReLU(s - b) for BReLU, so that each sign needs a neuron."""

    def forward(self, tokens: Tokens) -> Embeddings:
        """Embed samples."""
        return torch.relu(attend(tokens, self.scale) @ self.weights.mT - self.bias).sum(-2)


class MLP(nn.Module):
    """Two layers on attended tokens, initialised as PyTorch does; its biases are trained."""

    neurons = "hidden.weight"

    def __init__(self, d1: int, m: int, attention_scale: float = 1.0):
        super().__init__()
        self.scale = attention_scale
        self.hidden, self.output = nn.Linear(d1, m), nn.Linear(m, m)

    def forward(self, tokens: Tokens) -> Embeddings:
        """Embed samples."""
        return self.output(torch.relu(self.hidden(attend(tokens, self.scale)))).sum(-2)


class Attention(Paper):
    """The paper's encoder with queries and keys that are trained, from the identity on."""

    def __init__(self, d1: int, m: int, sigma_0: float, attention_scale: float = 1.0):
        super().__init__(d1, m, sigma_0, attention_scale)
        self.queries = nn.Parameter(torch.eye(d1))
        self.keys = nn.Parameter(torch.eye(d1))

    def forward(self, tokens: Tokens) -> Embeddings:
        """Embed samples."""
        attended = attend(tokens, self.scale, tokens @ self.queries, tokens @ self.keys)
        return brelu(attended @ self.weights.mT, self.bias).sum(-2)


ENCODERS = {
    "paper": Paper,
    "double": DoublePrecision,
    "relu": ReLU,
    "linear": Linear,
    "mlp": MLP,
    "attention": Attention,
}
"""Encoders by name."""


def neurons_name(module: nn.Module, d1: int) -> str:
    """Return the name of the parameter of first-layer neurons; empty if there is none."""
    matrices = (
        name
        for name, value in module.named_parameters()
        if value.dim() == 2 and value.shape[1] == d1
    )
    return getattr(module, "neurons", None) or next(matrices, "")
