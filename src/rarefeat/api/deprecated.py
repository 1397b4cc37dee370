"""Public names of before version 0.2, each with a warning, for one release."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

NAMES = {
    "Moved": "BiasContext",
    "Seen": "PruningContext",
    "predict_step": "predict_critical_frequency",
}
"""Present name of each former one."""


def warn(former: str, present: str, stacklevel: int = 3) -> None:
    """Warn that a name has changed, by default the caller of the caller."""
    warnings.warn(f"{former} is now {present}", DeprecationWarning, stacklevel=stacklevel)


def read_former(values: dict[str, Any], former: str, present: str, value: Any) -> Any:
    """Return an argument, which may be given by its former name to a function's caller."""
    if former not in values:
        return value
    warn(former, present, stacklevel=5)
    return values.pop(former)


class FormerNames:
    """A base of classes with members that can be read by their former names."""

    former_names: ClassVar[Mapping[str, str]] = {}
    """Present name of each."""

    # A type checker would take any name for a member.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a member by its former name."""
            if name not in self.former_names:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warn(name, self.former_names[name])
            return getattr(self, self.former_names[name])
