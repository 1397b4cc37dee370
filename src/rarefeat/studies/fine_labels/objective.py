"""Cross-entropy over the heads, and what it pulls each of them by (eq. 15-17); fine-tuning by the maximum rule (G.4)."""

import torch
from torch import Tensor


def cross_entropy(scores: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean loss (S,) and pull (S, n, G) of scores (S, n, G) F_c(X) and classes (S, n).

    The pull is minus the derivative of a sample's loss by its scores, 1{y = c} - logit_c, as in eq. (16).
    """
    log_logits = torch.log_softmax(scores, -1)
    at = classes[..., None]
    pull = -log_logits.exp()
    pull.scatter_add_(-1, at, torch.ones_like(at, dtype=pull.dtype))
    return -log_logits.gather(-1, at)[..., 0].mean(-1), pull


def strongest(scores: Tensor, superclass: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum rule: Fhat of both superclasses and the class that it comes from, (S, n, G), (G,) -> (S, n, 2) twice."""
    both = [scores.masked_fill(superclass != s, -torch.inf).max(-1) for s in range(2)]
    return torch.stack([part.values for part in both], -1), torch.stack(
        [part.indices for part in both], -1
    )


def fine_tuning(scores: Tensor, truth: Tensor, superclass: Tensor) -> tuple[Tensor, Tensor]:
    """`cross_entropy` of Fhat on the superclasses, truth (S, n): the pull goes to the class that Fhat comes from."""
    fhat, winner = strongest(scores, superclass)
    loss, pull = cross_entropy(fhat, truth)
    return loss, torch.zeros_like(scores).scatter_(-1, winner, pull)
