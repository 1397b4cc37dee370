"""Names of the public interface before version 0.2, each with a warning, for one release."""

import warnings
from typing import Any

NAMES = {
    "Moved": "BiasContext",
    "Seen": "PruningContext",
    "predict_step": "predict_critical_frequency",
}
"""The name of now by that of before."""


def warn(old: str, new: str) -> None:
    """Warn the caller of the caller that a name has changed."""
    warnings.warn(f"{old} is called {new} now", DeprecationWarning, stacklevel=3)


def former(old: str, new: str) -> Any:
    """Return a property that gives a member its name of before."""

    def read(self: Any) -> Any:
        warn(old, new)
        return getattr(self, new)

    return property(read, doc=f"Deprecated: use `{new}`.")
