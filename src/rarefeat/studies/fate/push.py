"""What is done to the growth of the rare feature from stage 2 on.

Below its gate the projection x_i of a neuron moves by eta (A_i x_i + k_i) in a step, without decay
(growth.py). A push adds to k_i, or to A_i, what no pair brings; or it takes the k_i of each batch
out: the gradient of x_i is odd in all x_i together but for k_i, which is even.
Axes: R replicas, m neurons, p coordinates of a weight, of which the first d are the features, the
rare one last. Random stream of a seed: push.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.studies.fate import Push
from rarefeat.studies.fate.draws import CellSettings
from rarefeat.training.loop import View
from rarefeat.training.step import Kernel, StepConfig


def draw_push(settings: CellSettings, rng: torch.Generator) -> Float[Tensor, "m d"]:
    """Draw the numbers of a push; each kind uses those that it needs."""
    return torch.randn(settings.training.m, settings.data.d, generator=rng)


def added_growth(
    push: Push,
    numbers: Float[Tensor, "R m d"],
    weights: Float[Tensor, "R m p"],
    gates: Float[Tensor, "R 1"],
) -> Float[Tensor, "R m d"]:
    """Compute what a push adds to each feature's projection, per unit of eta."""
    size = push.size * weights.norm(dim=-1)
    if push.by == "direction":
        return size[..., None] * numbers
    own = numbers[..., -1]
    if push.by == "feature":
        features = weights[..., : numbers.shape[-1] - 1]
        largest = features.abs().argmax(-1, keepdim=True)
        of_feature = numbers[:, :1, :-1].expand_as(features).gather(-1, largest)
        own = (of_feature * features.gather(-1, largest).sign())[..., 0]
    elif push.by == "leak":
        cosines = weights[..., numbers.shape[-1] - 1] / weights.norm(dim=-1)
        own = own * torch.where(cosines.abs() < gates, cosines, 0.0)
    return torch.nn.functional.pad((size * own)[..., None], (numbers.shape[-1] - 1, 0))


def kick_of_batch(
    kernel: Kernel, view: View, config: StepConfig, rare: int
) -> Float[Tensor, "R m"]:
    """Compute k_i of a batch: the mean of its change of x_i and of that in mirrored neurons."""
    state, tokens = view.state, view.tokens
    mirrored = state.weights.clone()
    mirrored[..., rare] *= -1
    total = torch.zeros_like(state.bias)
    for dense in (view.dense, kernel.forward(tokens, state._replace(weights=mirrored))):
        c = kernel.loss_gradient(dense, dense, state.bias, config).coefficients
        total -= (c * tokens[:, : config.K, :, rare, None]).sum((1, 2)) / 2
    return total


def pushed(
    push: Push, kernel: Kernel, view: View, config: StepConfig,
    numbers: Float[Tensor, "R m d"], gates: Float[Tensor, "R 1"],
) -> Float[Tensor, "R m d"]:  # fmt: skip
    """Compute the change of each feature's projection at a step; 0 in stage 1 and from `until`."""
    if push.by == "none":
        d = numbers.shape[-1]
        kicks = kick_of_batch(kernel, view, config, d - 1)
        change = torch.nn.functional.pad(-kicks[..., None], (d - 1, 0))
    else:
        change = added_growth(push, numbers, view.state.weights, gates)
    acts = view.state.T1 >= 0
    if push.until is not None and view.context.step >= push.until:
        acts = torch.zeros_like(acts)
    return config.eta * change * acts[:, None, None]
