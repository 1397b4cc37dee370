"""A pruning rule of the study in NAME.yaml."""

from torch import Tensor

from rarefeat import PruningContext
from rarefeat.model.pruning import mask_smallest


def mine(context: PruningContext) -> Tensor:
    """Mask the neurons whose embeddings agree least over positive pairs; bool (S, m)."""
    return mask_smallest(context.moments.agreement, context.alpha)
