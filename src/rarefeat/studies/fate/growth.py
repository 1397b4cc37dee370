"""Growth of the rare feature in every neuron of a replica, pair by pair.

Below its gate the projection x_i = <w_i, M_rare> of a neuron moves by eta (A_i x_i + k_i) in a
step, without decay. The leak A_i is what reaches a neuron's own keys through gates that are open:
the mean over anchors of sum_r gate z_rare, times that sum of the positive minus that of the
negatives by their softmax weights. The kick k_i is the change without the feature in any weight.
The same gradient makes the norm grow by eta g_i. The cosine therefore grows where A_i > g_i,
whatever the decay is, which takes the same share of both (docs/method/fate.md).

From stage 2 on a push adds to k_i, or to A_i, what no pair brings; or it takes the k_i of each
batch out: the gradient of x_i is odd in all x_i together but for k_i, which is even.
Axes: P passes over the sample, n pairs, m neurons, R replicas, p coordinates of a weight, of which
the first d are the features, the rare one last. Random stream of a seed: push.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rarefeat.studies.fate import Push
from rarefeat.studies.fate.draws import Sample
from rarefeat.training.loop import View
from rarefeat.training.step import ForwardOutput, Kernel, StepConfig, TrainState

TOPS = (5, 15)
"""Numbers of pairs whose part in the leak of a neuron is told."""


def gate(d: int, share: float) -> float:
    """Return the bias over the norm, which is the cosine above which a feature alone opens it."""
    return share * math.sqrt(2 * math.log(d) / d)


class NeuronGrowth(NamedTuple):
    """Terms of the growth of the rare feature in the neurons of a replica, per unit of eta."""

    projection: Float[Tensor, " m"]
    """x_i."""
    norm: Float[Tensor, " m"]
    """||w_i||."""
    leak: Float[Tensor, " m"]
    """A_i."""
    kicks: Float[Tensor, "P m"]
    """k_i by pass."""
    own_growth: Float[Tensor, " m"]
    """g_i."""
    pairs: Float[Tensor, "n m"]
    """A_i by pair, whose sum over pairs is A_i; n is 0 for fresh pairs."""

    @property
    def cosine(self) -> Float[Tensor, " m"]:
        """x_i / ||w_i||."""
        return self.projection / self.norm

    @property
    def excess(self) -> Float[Tensor, " m"]:
        """A_i - g_i, the rate at which the cosine grows without a kick."""
        return self.leak - self.own_growth

    def kick_size(self) -> float:
        """Compute the root mean square of k_i / ||w_i|| over neurons; 0 if it is all noise.

        The square of a mean over P passes is too large by its variance, which is subtracted.
        """
        kicks = self.kicks / self.norm
        noise = kicks.var(0) / len(kicks)
        return float((kicks.mean(0).square() - noise).mean().clamp_min(0).sqrt())

    def rank(self, neuron: int) -> int:
        """Return the place of a neuron in the order of the excess, 1 for the largest."""
        return 1 + int((self.excess > self.excess[neuron]).sum())

    def concentration(self, k: int) -> float:
        """Compute the part of the positive leak that k pairs have, in the neuron of most excess."""
        best = int(self.excess.argmax())
        pulls = self.pairs[:, best].clamp_min(0).sort(descending=True).values
        return float(pulls[:k].sum() / pulls.sum()) if len(pulls) else math.nan

    def top_pairs(self, k: int) -> Int[Tensor, " k"]:
        """Return the k pairs whose leak makes the absolute cosine of any one neuron grow most."""
        return (self.pairs * self.projection.abs() / self.norm).amax(1).topk(k).indices

    def summary(self) -> dict[str, float]:
        """Return the columns of the study's table on the growth of the rare feature."""
        best, squares = int(self.excess.argmax()), self.projection.square()
        return {
            "leak": float((self.leak * squares).sum() / squares.sum().clamp_min(1e-30)),
            "kick": float((self.kicks.mean(0).abs() / self.norm).max()),
            "kick_size": self.kick_size(),
            "excess": float(self.excess[best]),
            "largest_leak": float(self.leak.max()),
            "own_growth": float(self.own_growth[best]),
            **{f"top_{k}": self.concentration(k) for k in TOPS},
        }


def compare_growth(
    first: NeuronGrowth, second: NeuronGrowth, gate: float, decay: float
) -> dict[str, float]:
    """Return how the terms of neurons closed for the feature at two steps agree."""
    closed = (first.cosine.abs() < gate) & (second.cosine.abs() < gate)
    if closed.sum() < 3:
        return {}
    kicks, later = ((g.kicks.mean(0) / g.norm)[closed] for g in (first, second))
    growth, growth_later = first.own_growth[closed], second.own_growth[closed]
    return {
        "kick_kept": float(torch.corrcoef(torch.stack([kicks, later]))[0, 1]),
        "kick_excess": float(
            torch.corrcoef(torch.stack([kicks.abs(), first.excess[closed]]))[0, 1]
        ),
        "own_growth_change": float((growth_later - growth).square().mean().sqrt()),
        "own_growth_off": float((growth_later - decay).square().mean().sqrt()),
    }


def measure_growth(
    sample: Sample, kernel: Kernel, state: TrainState, n_passes: int
) -> NeuronGrowth:
    """Measure the growth of the rare feature in every neuron of one replica; stream: looked."""
    settings, rng = sample.settings, sample.stream("looked")
    config, K, m = settings.training, settings.training.K, state.weights.shape[1]
    rare_feature = settings.data.d - 1  # coordinates of the reduced simulator begin with features
    without = state.weights.clone()
    without[..., rare_feature] = 0
    both = TrainState(torch.cat([state.weights, without]), *(torch.cat([x, x]) for x in state[1:]))
    pairs = torch.zeros(settings.N if settings.comes_back else 0, m, dtype=torch.float64)
    terms = torch.zeros(n_passes, 3, m, dtype=torch.float64)  # leak, kick and growth by pass
    for sums in terms:
        n_batches = 0
        for indices, latents in sample.iter_pass(rng):
            attended = kernel.attended_tokens(latents, settings.sigma, [rng])
            rare = attended[..., rare_feature, None]
            dense = kernel.forward(attended.expand(2, -1, -1, -1).contiguous(), both)
            c = kernel.loss_gradient(dense, dense, both.bias, config).coefficients
            # The derivative of a key by x_i, in the place of the key: gates and softmax stay.
            output = ForwardOutput(dense.pre[:1], dense.f[:1])
            opened = (output.pre.abs() >= state.bias[:, None, None]) * rare
            keys = output._replace(f=opened.sum(2))
            of_keys = kernel.loss_gradient(keys, output, state.bias, config).coefficients
            by_pair = -(of_keys * rare[:, :K]).sum(2)[0].double()
            if len(pairs):
                pairs.index_add_(0, indices, by_pair)
            sums[0] += by_pair.sum(0)
            sums[1] -= (c[1:] * rare[:, :K]).sum((0, 1, 2)).double()
            sums[2] -= (c[0] * dense.pre[0, :K]).sum((0, 1)).double()
            n_batches += 1
        sums /= n_batches
    weights, (leaks, kicks, growths) = state.weights[0].double(), terms.unbind(1)
    norm = weights.norm(dim=-1)
    return NeuronGrowth(
        projection=weights[:, rare_feature],
        norm=norm,
        leak=leaks.mean(0),
        kicks=kicks,
        own_growth=growths.mean(0) / norm.square(),
        pairs=pairs / (n_passes * n_batches),
    )


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
