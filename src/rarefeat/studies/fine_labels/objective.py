"""Cross-entropy over the heads with its gradient, and fine-tuning by the maximum rule.

hong_fine_grained_labels, eq. (15)-(17) and Appendix G.4. Shapes: S replicas, n samples, G classes.
"""

import torch
from torch import Tensor


def cross_entropy(scores: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean loss, and minus its gradient with respect to the scores.

    Parameters
    ----------
    scores : Tensor of shape (S, n, G)
        Outputs F_c(X) of the heads.
    classes : int64 Tensor of shape (S, n)
        Classes of the samples.

    Returns
    -------
    loss : Tensor of shape (S,)
        Mean over the samples (nat).
    descent : Tensor of shape (S, n, G)
        Minus the derivative of the loss of a sample, 1{y = c} - logit_c, as in eq. (16).
    """
    log_logits = torch.log_softmax(scores, -1)
    index = classes[..., None]
    descent = -log_logits.exp()
    descent.scatter_add_(-1, index, torch.ones_like(index, dtype=descent.dtype))
    return -log_logits.gather(-1, index)[..., 0].mean(-1), descent


def strongest(scores: Tensor, superclass: Tensor) -> tuple[Tensor, Tensor]:
    """Apply the maximum rule: the largest score of a class of either superclass.

    Parameters
    ----------
    scores : Tensor of shape (S, n, G)
        Outputs F_c(X) of the heads.
    superclass : Tensor of shape (G,)
        Superclass of each class, 0 or 1.

    Returns
    -------
    fhat : Tensor of shape (S, n, 2)
        Fhat of both superclasses.
    winner : int64 Tensor of shape (S, n, 2)
        Class that it is from; the first one of a tie.
    """
    both = [scores.masked_fill(superclass != s, -torch.inf).max(-1) for s in range(2)]
    return torch.stack([largest.values for largest in both], -1), torch.stack(
        [largest.indices for largest in both], -1
    )


def fine_tuning(scores: Tensor, truth: Tensor, superclass: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the cross-entropy of Fhat on the superclasses, and minus its gradient.

    Parameters
    ----------
    scores : Tensor of shape (S, n, G)
        Outputs F_c(X) of the heads.
    truth : int64 Tensor of shape (S, n)
        Superclasses of the samples.
    superclass : Tensor of shape (G,)
        Superclass of each class, 0 or 1.

    Returns
    -------
    loss : Tensor of shape (S,)
        Mean over the samples (nat).
    descent : Tensor of shape (S, n, G)
        See `cross_entropy`; 0 but for the classes that Fhat is from.
    """
    fhat, winner = strongest(scores, superclass)
    loss, descent = cross_entropy(fhat, truth)
    return loss, torch.zeros_like(scores).scatter_(-1, winner, descent)
