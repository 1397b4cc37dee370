"""Cross-entropy over the heads with its gradient, and fine-tuning by the maximum rule.

hong_fine_grained_labels, eq. (15)-(17) and Appendix G.4. Shapes: S replicas, n samples, G classes.
"""

import torch
from torch import Tensor


def cross_entropy(scores: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean loss, and minus its gradient with respect to the scores.

    scores (S, n, G), classes (S, n) -> loss (S,), descent (S, n, G).
    """
    log_logits = torch.log_softmax(scores, -1)
    index = classes[..., None]
    descent = -log_logits.exp()
    descent.scatter_add_(-1, index, torch.ones_like(index, dtype=descent.dtype))
    return -log_logits.gather(-1, index)[..., 0].mean(-1), descent


def strongest(scores: Tensor, superclass: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the maximum rule: the largest score of a class of either superclass.

    scores (S, n, G), superclass (G,) -> fhat (S, n, 2), winner (S, n, 2).
    """
    both = [scores.masked_fill(superclass != s, -torch.inf).max(-1) for s in range(2)]
    return torch.stack([largest.values for largest in both], -1), torch.stack(
        [largest.indices for largest in both], -1
    )


def fine_tuning(scores: Tensor, truth: Tensor, superclass: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the cross-entropy of Fhat on the superclasses, and minus its gradient.

    scores (S, n, G), truth (S, n), superclass (G,) -> loss (S,), descent (S, n, G).
    """
    fhat, winner = strongest(scores, superclass)
    loss, descent = cross_entropy(fhat, truth)
    return loss, torch.zeros_like(scores).scatter_(-1, winner, descent)
