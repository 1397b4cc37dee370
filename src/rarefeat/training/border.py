"""Checks of a user's data law, encoder and loss, once before a training, on a small case.

Each is called twice. It is refused where the results differ, have another shape or type, are not
finite, or where it draws from a generator that it was not given or changes its input: the result of
a replica would depend on what else is computed, or on what ran before.
"""

import contextlib
import copy
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import vmap

from rarefeat.errors import RarefeatError
from rarefeat.model.user_functions import are_same, format_exception


def random_states() -> tuple[bytes, bytes, Any]:
    """Return the states of the global generators of torch, numpy and Python."""
    numpy_state = np.random.get_state(legacy=False)["state"]
    return (
        torch.get_rng_state().numpy().tobytes(),
        repr(numpy_state).encode() + np.asarray(numpy_state["key"]).tobytes(),
        random.getstate(),
    )


@contextlib.contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Raise an error of a user's function as one line, in which it is named."""
    try:
        yield
    except RarefeatError:
        raise
    except Exception as error:
        if str(error).startswith("vmap: "):
            raise RarefeatError(
                f"{name}: depends on the value of a tensor by if, while or item(), but all seeds"
                " train at once; use torch.where"
            ) from error
        raise RarefeatError(f"{name}: fails: {format_exception(error)}") from error


def call_twice(name: str, function: Callable, make_arguments: Callable[[], tuple]) -> list[Tensor]:
    """Call a function twice with equal arguments, and check that its result is the same."""
    results = []
    for _ in range(2):
        arguments, intact, before = make_arguments(), make_arguments(), random_states()
        with one_line_errors(name):
            result = function(*arguments)
        if random_states() != before:
            raise RarefeatError(
                f"{name}: draws from a global generator; draw from the one that it is given alone"
            )
        for value, other in zip(arguments, intact, strict=True):
            if isinstance(value, Tensor) and not are_same(value, other):
                raise RarefeatError(f"{name}: changes its input in place; copy it first")
        results.append(list(result) if isinstance(result, tuple | list) else [result])
    if not all(isinstance(value, Tensor) for value in results[0]):
        kinds = ", ".join(type(value).__name__ for value in results[0])
        raise RarefeatError(f"{name}: must return tensors, got {kinds}")
    if not all(map(are_same, *results)):
        raise RarefeatError(
            f"{name}: returns another result when it is called again; it must keep no state"
        )
    return results[0]


def check_tensor(name: str, value: Tensor, *shapes: tuple) -> None:
    """Raise RarefeatError unless a tensor has numbers that are finite, and one of some shapes."""
    fits = any(
        value.dim() == len(shape)
        and all(
            size == item or isinstance(item, str)
            for size, item in zip(value.shape, shape, strict=True)
        )
        for shape in shapes
    )
    if not fits:
        allowed = " or ".join(str(shape).replace("'", "") for shape in shapes)
        raise RarefeatError(f"{name}: must be of shape {allowed}, got {(*value.shape,)}")
    if value.is_complex() or value.dtype == torch.bool:
        raise RarefeatError(f"{name}: must be numbers, got {value.dtype}")
    if not value.isfinite().all():
        raise RarefeatError(f"{name}: must be finite, got NaN or infinity")


def check_law(name: str, law: Callable, probability: Float[Tensor, " d"], L: int, d1: int) -> bool:
    """Check a data law on a few samples, and return whether it draws tokens itself."""
    n, d = 64, len(probability)
    first, *tokens = call_twice(
        name, law, lambda: (n, torch.Generator().manual_seed(1), probability.clone())
    )
    if tokens:
        check_tensor(f"{name}: features", first, (n, d))
        check_tensor(f"{name}: tokens", tokens[0], (n, 2, L, d1))
    else:
        check_tensor(f"{name}: features or latents", first, (n, d), (n, 2, L, d))
    rarer = law(n, torch.Generator().manual_seed(1), probability / 2)
    same = are_same(first, rarer[0] if tokens else rarer)
    what = "the same at half the probability, so that eps_min has no effect" if same else ""
    if what := what if first.any() else "zeros alone":
        warnings.warn(f"{name}: draws {what}", stacklevel=2)
    return bool(tokens)


def check_encoder(name: str, module: nn.Module, tokens: Float[Tensor, "n L d1"]) -> int:
    """Check an encoder on a few samples, and return the number of its outputs."""
    buffers = {key: value.clone() for key, value in module.named_buffers()}
    (result,) = call_twice(name, module, lambda: (tokens.clone(),))
    check_tensor(f"{name}: embeddings", result, (len(tokens), "m"))
    if result.dtype not in (torch.float32, torch.float64):
        raise RarefeatError(f"{name}: embeddings: must be float32 or float64, got {result.dtype}")
    if any(not are_same(value, buffers[key]) for key, value in module.named_buffers()):
        raise RarefeatError(f"{name}: changes a buffer in forward; it must keep no state")
    if not result.requires_grad:
        raise RarefeatError(f"{name}: embeddings have no gradient; give it an nn.Parameter")
    with one_line_errors(name):
        vmap(module)(tokens[None])
        with torch.random.fork_rng(devices=[]):
            other = copy.deepcopy(module).train()(tokens.clone())
    # Encoders run in evaluation mode, in which these layers do nothing or use constants.
    if not torch.allclose(other, result, rtol=1e-3, atol=1e-5):
        raise RarefeatError(
            f"{name}: is another function in training mode; leave out dropout, and give batch"
            " normalisation track_running_stats=False"
        )
    return result.shape[1]


def check_loss(name: str, loss: Callable, views: tuple[Tensor, ...]) -> None:
    """Check a loss of embeddings (n, m) and features (K, d)."""

    def make_arguments() -> tuple[Tensor, ...]:
        return tuple(view.detach().clone().requires_grad_(view.requires_grad) for view in views)

    (result,) = call_twice(name, loss, make_arguments)
    check_tensor(name, result, ())
    if not result.requires_grad:
        raise RarefeatError(f"{name}: has no gradient in the embeddings; compute it of f_x")
    with one_line_errors(name):
        vmap(loss)(*(view[None] for view in views))


def check_optimiser(name: str, build: Callable[[list[Tensor]], torch.optim.Optimizer]) -> None:
    """Check that an optimiser steps a replica as it does beside another one."""
    g = torch.Generator().manual_seed(0)
    start, gradients = torch.randn(2, 3, generator=g), torch.randn(4, 2, 3, generator=g)

    def steps(first: int) -> Tensor:
        parameter = start[first:].clone().requires_grad_()
        with one_line_errors(name):
            optimiser = build([parameter])
            for gradient in gradients:
                parameter.grad = gradient[first:].clone()
                optimiser.step()
        return parameter.detach()

    before = random_states()
    alone, beside = steps(1), steps(0)[1:]
    if random_states() != before:
        raise RarefeatError(f"{name}: draws from a global generator; it must not draw")
    if not are_same(alone, beside):
        raise RarefeatError(
            f"{name}: a replica's step depends on the others; treat each entry by itself"
        )
