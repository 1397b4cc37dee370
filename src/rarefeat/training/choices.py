"""Choices of a learner: a built-in one by name, MODULE:NAME of a user's file, or a callable.

A choice is called with the keywords that it names: a loss that has no temperature is given none.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rarefeat.errors import RarefeatError
from rarefeat.model.own_code import OWN_NAME_RE, OwnCallable, own_name
from rarefeat.workflow.config.names import suggest

Choice = str | Callable[..., Any]
BUILT_IN = {
    "data_law": ("paper", "correlated", "power_law", "magnitudes", "classes"),
    "encoder": ("paper", "double", "relu", "linear", "mlp", "attention"),
    "loss": (
        *("infonce", "symmetric_infonce", "nt_xent", "spectral", "barlow_twins", "vicreg"),
        "supervised",
    ),
    "optimiser": ("sgd", "momentum", "adam", "adamw"),
}
"""Names of the built-in ones, for the config, which is read without torch; a test compares them."""
GIVEN = {
    "data_law": (3, ()),
    "encoder": (2, ()),
    "loss": (2, ("features", "negatives")),
    "optimiser": (1, ()),
}
"""How many arguments the training gives a part by place, and which by name: no options."""


BY_PLACE = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def load_choice(kind: str, choice: Choice, built_in: Mapping[str, Callable]) -> Callable:
    """Return the function or class that a choice names; own code as an `OwnCallable`."""
    if isinstance(choice, str) and choice in built_in:
        return built_in[choice]
    if callable(choice) or (isinstance(choice, str) and OWN_NAME_RE.fullmatch(choice)):
        return OwnCallable(kind, choice)
    hint = suggest(choice, built_in) if isinstance(choice, str) else ""
    raise RarefeatError(
        f"{kind}: must be one of {', '.join(built_in)}, or MODULE:NAME of your own,"
        f" got {own_name(choice)!r}{hint}"
    )


def bind_options(
    kind: str,
    function: Callable,
    options: Mapping[str, Any],
    available: Mapping[str, Any],
) -> partial:
    """Return a function with its options, and with those available values that it names.

    A default of a function of one's own wins over an available value, but for the rate `lr`.
    """
    if "lr" in options:
        raise RarefeatError(f"{kind}: lr: the rate is the key eta, got {options['lr']}")
    n_given, given = GIVEN[kind.rpartition(" ")[2]]
    parameters = dict(inspect.signature(function).parameters)
    by_place = [name for name, item in parameters.items() if item.kind in BY_PLACE][:n_given]
    for name in (*by_place, *given):
        parameters.pop(name, None)
    takes_any = any(item.kind is item.VAR_KEYWORD for item in parameters.values())
    refused = {*by_place, *given} if takes_any else options.keys() - parameters.keys()
    if unknown := [name for name in options if name in refused]:
        raise RarefeatError(
            f"{kind}: {own_name(function)} has no option {unknown[0]}"
            f"{suggest(unknown[0], parameters)}; it has {', '.join(parameters) or 'none'}"
        )
    is_own = isinstance(function, OwnCallable)
    keeps = [name for name, item in parameters.items() if is_own and item.default is not item.empty]
    values = {
        name: value
        for name, value in available.items()
        if name == "lr" or (name in parameters and name not in keeps)
    }
    return partial(function, **(values | dict(options)))
