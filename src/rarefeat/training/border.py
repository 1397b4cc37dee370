"""Where own code meets the training: who trains where, and checks of the form of what it returns.

What own code keeps, draws or patches is no matter here: it runs in rooms (model/rooms.py).
"""

import copy
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rarefeat.errors import RarefeatError
from rarefeat.model import rooms
from rarefeat.model.own_code import is_own, one_line_errors
from rarefeat.workflow.config.model import Training
from rarefeat.workflow.run.cli_helpers import progress, progress_display


def own_rules(arm: Any, training: Any = None) -> list[str]:
    """List the rules of the user's that an arm and the bias of a training have."""
    names = [arm.arm, *([training.bias.rule] if training else [])]
    return [name for name in names if is_own(name)]


def train_apart(
    train: Callable[[list[int], Training], Any],
    namespace: str,
    seeds: list[int],
    training: Training,
    own: list[str],
    size: int = 0,
    label: str = "train",
) -> list:
    """Return what `train` returns of some seeds at a time; with own code, of each seed alone.

    On a GPU, and where no process can be forked, all seeds are trained at once.
    """
    if not own or rooms.ROOM:
        step = size or len(seeds)
        return [train(seeds[i : i + step], training) for i in range(0, len(seeds), step)]
    if training.device != "cpu" or not rooms.CAN_FORK:

        def train_on(some: list[int], device: str) -> Any:
            update = {"device": device or training.device}
            return train(some, training.model_copy(update=update))

        return [rooms.train_here(train_on, seeds, own)]

    def train_one(seed: int) -> Any:
        with progress_display(False):
            return train([seed], training)

    show = partial(progress, label=label)
    return rooms.train_alone(train_one, namespace, seeds, own, show=show)


def call(name: str, function: Callable, *arguments: Any) -> list[Tensor]:
    """Call a function, and check that it returns tensors and leaves its arguments as they are."""
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    intact = [value.detach().clone() for value in tensors]
    with one_line_errors(name):
        result = function(*arguments)
    if not all(map(torch.equal, tensors, intact)):
        raise RarefeatError(f"{name}: changes its input in place; copy it first")
    results = list(result) if isinstance(result, tuple | list) else [result]
    if not all(isinstance(value, Tensor) for value in results):
        kinds = ", ".join(type(value).__name__ for value in results)
        raise RarefeatError(f"{name}: must return tensors, got {kinds}")
    return results


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


def check_law(law: partial, probability: Float[Tensor, " d"], L: int, d1: int) -> None:
    """Check a data law on a few samples."""
    n, d, name = 64, len(probability), f"data_law {law.func.__name__}"

    def sample(probability: Tensor) -> list[Tensor]:
        return call(name, law, n, torch.Generator().manual_seed(1), probability)

    first, *tokens = sample(probability)
    if tokens:
        check_tensor(f"{name}: features", first, (n, d))
        check_tensor(f"{name}: tokens", tokens[0], (n, 2, L, d1))
    else:
        check_tensor(f"{name}: features or latents", first, (n, d), (n, 2, L, d))
    if first.requires_grad:
        raise RarefeatError(f"{name}: must have no gradient; detach it")
    same = torch.equal(first, sample(probability / 2)[0])
    what = "the same at half the probability, so that eps_min has no effect" if same else ""
    if what := what if first.any() else "zeros alone":
        print(f"{name}: draws {what}", file=sys.stderr, flush=True)


def check_encoder(
    name: str, module: nn.Module, tokens: Float[Tensor, "n L d1"], neurons: str
) -> int:
    """Check an encoder on a few samples, and return the number of its outputs."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    if neurons and neurons not in parameters:
        raise RarefeatError(f"{name}: neurons: {neurons} is none of its parameters")
    if len({id(value) for value in parameters.values()}) < len(parameters):
        raise RarefeatError(f"{name}: has a parameter under two names; use one of them")
    (result,) = call(name, module, tokens)
    check_tensor(f"{name}: embeddings", result, (len(tokens), "m"))
    if result.dtype not in (torch.float32, torch.float64):
        raise RarefeatError(f"{name}: embeddings: must be float32 or float64, got {result.dtype}")
    if not result.requires_grad:
        raise RarefeatError(f"{name}: embeddings have no gradient; give it an nn.Parameter")
    if not torch.equal(call(name, module, tokens)[0], result):
        raise RarefeatError(
            f"{name}: returns another result when it is called again; it must keep no state, and"
            " draw nothing"
        )
    trained = copy.deepcopy(module).train()
    with one_line_errors(name):
        other = trained(tokens.clone())
    # Encoders run in evaluation mode, in which these layers do nothing or use constants.
    is_same = all(map(torch.equal, trained.buffers(), module.buffers()))
    if not (is_same and torch.allclose(other, result, rtol=1e-3, atol=1e-5)):
        raise RarefeatError(
            f"{name}: is another function in training mode; leave out dropout and spectral"
            " normalisation, and give batch normalisation track_running_stats=False"
        )
    return result.shape[1]


def check_loss(name: str, loss: Callable, views: tuple[Tensor, ...]) -> None:
    """Check a loss of embeddings (n, m) and features (K, d)."""
    (result,) = call(name, loss, *views)
    check_tensor(name, result, ())
    if not result.requires_grad:
        raise RarefeatError(f"{name}: has no gradient in the embeddings; compute it of f_x")
    nodes = {result.grad_fn}
    while new := {later for node in nodes for later, _ in node.next_functions if later} - nodes:
        nodes |= new
    if any(getattr(node, "variable", views[0]) is not views[0] for node in nodes):
        raise RarefeatError(f"{name}: has parameters that nothing trains; give them to the encoder")
