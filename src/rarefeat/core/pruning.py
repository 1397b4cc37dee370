"""Old import path of `rarefeat.model.pruning`, for one release."""

from rarefeat.model.pruning import mask_smallest

__all__ = ["mask_smallest"]
