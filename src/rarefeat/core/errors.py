"""Old import path of `rarefeat.errors`, for one release."""

from rarefeat.errors import RarefeatError

__all__ = ["RarefeatError"]
