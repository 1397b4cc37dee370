"""Contrastive encoder on hierarchical data, between coarse and fine labels.

The positive pair decides. Two views of a sample have its patches and amplitudes, with independent
noise. Two samples of a subclass share the subclass alone, as fine labels do; two samples of a
superclass share what coarse labels do. The neurons process patch by patch, as those of the
supervised networks do, without attention.

Purposes of the random streams, in the namespace `data.DRAWS`: crossing weights, crossing batches,
crossing pairs, crossing noise; for heads and tests those of `networks`, with noise from crossing
KIND PURPOSE noise.
Axes: S replicas, n samples, m neurons, d coordinates, F features.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.arms import ARMS
from rarefeat.model.bias import BiasContext, follow
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.randomness import draw
from rarefeat.model.simulators import DirectSimulator
from rarefeat.model.thresholds import PURE_COSINE
from rarefeat.studies.fine_labels.config import (
    ContrastiveSettings,
    CrossingArm,
    HierarchicalData,
    LinearHeadSettings,
    Pair,
)
from rarefeat.studies.fine_labels.data import (
    SAMPLERS,
    Generators,
    Patches,
    add_noise,
    draw_easy,
    streams,
    subclasses,
)
from rarefeat.studies.fine_labels.direct_simulator import DIVERGED
from rarefeat.studies.fine_labels.metrics import probe_errors
from rarefeat.training import loop
from rarefeat.training.loop import Batch, Change, View
from rarefeat.training.step import Kernel, TrainState, batch_loss, forward, loss_gradient
from rarefeat.workflow.run.cli_helpers import progress


class ContrastiveEncoder(NamedTuple):
    """Trained contrastive encoders of S replicas."""

    weights: Float[Tensor, "S m d"]
    bias: Float[Tensor, "S m"]
    loss: Float[Tensor, " S"]
    """Unmasked InfoNCE of the last batch."""
    pruned: Float[Tensor, " S"]
    """Fraction of the neurons that the mask of the last step prunes."""


def draw_partners(
    pair: Pair, data: HierarchicalData, first: Patches, generators: Generators
) -> Patches:
    """Draw the second sample of each positive pair."""
    if pair == "views":
        return first
    n = first.feature.shape[1]
    fresh = draw_easy(data, n, generators)
    if pair == "subclass":
        return fresh
    half = n // 2
    orders = [
        torch.cat([torch.randperm(half, generator=rng), half + torch.randperm(half, generator=rng)])
        for rng in generators
    ]
    index = torch.stack(orders)[..., None]
    return Patches(*(tensor.gather(1, index.expand_as(tensor)) for tensor in fresh[:2]))


def dictionary(data: HierarchicalData, S: int) -> Float[Tensor, "S d F"]:
    """Return the features, common ones first; those of subclasses are the minority."""
    return torch.eye(data.d)[:, : data.features].expand(S, -1, -1)


class CrossingSource:
    """Fresh pairs of hierarchical samples, with patches for tokens and without attention."""

    uniforms = bias_rule = query_key = None

    def __init__(
        self, data: HierarchicalData, training: ContrastiveSettings, pair: Pair, seeds: list[int]
    ):
        purposes = ("crossing weights", "crossing batches", "crossing pairs", "crossing noise")
        weights, *self.streams = (streams(purpose, seeds) for purpose in purposes)
        self.data, self.K, self.pair = data, training.K, pair
        self.simulator = DirectSimulator(dictionary(data, len(seeds)), training.m)
        self.kernel = Kernel(self.simulator, None, forward, loss_gradient)
        self.n_minority = 2 * data.k
        self.weights = training.sigma_0 * draw(torch.randn, weights, training.m, data.d)

    def draw(self) -> Batch:
        """Draw a batch; an arm without a bias is linear in the patches, and gets their sum."""
        batches, pairs, noise = self.streams
        first = draw_easy(self.data, self.K, batches)
        second = draw_partners(self.pair, self.data, first, pairs)
        patches = torch.cat([add_noise(self.data, one, noise) for one in (first, second)], 1)
        return Batch(patches, summed=patches.sum(2, keepdim=True))


class LogitMask:
    """An arm of the crossing: a mask of the logits, and a bias that follows the norms from T1."""

    reads_moments = False

    def __init__(self, arm: CrossingArm, d: int):
        self.arm, self.d, self.label, self.rule = arm, d, arm.label, ARMS[arm.arm].rule

    def change(self, view: View) -> Change:
        """Return its mask and its bias."""
        mask = self.rule(view.context._replace(alpha=self.arm.alpha)) if self.rule else None
        return Change(mask, "masked_keys", bias_rule=self.bias)

    def bias(self, context: BiasContext) -> Float[Tensor, "S m"]:
        """Return the bias, as the rule `follow` of the core."""
        bias = follow(context.norms, self.d, self.arm.bias)
        return torch.where((context.T1 >= 0)[:, None], bias, context.bias)

    def after(self, state: TrainState) -> TrainState:
        """Return the state as it is."""
        return state


class LastStep:
    """Recorder of the encoders after T steps, with loss and mask of the last batch."""

    def __init__(self, training: ContrastiveSettings):
        self.training, self.seen, self.encoders = training, {}, {}

    def before(self, view: View, changes: dict[str, Change]) -> None:
        """Keep loss and mask of the last batch."""
        self.step = view.context.step
        if self.step == self.training.T - 1:
            loss = batch_loss(view.dense, self.training)
            for label, change in changes.items():
                mask = torch.zeros(len(loss), 1) if change.mask is None else change.mask.float()
                self.seen[label] = loss, mask.mean(-1)

    def after(self, labels: list[str], before: TrainState, state: TrainState) -> None:
        """Keep the encoders; RarefeatError if weights are no longer finite."""
        if state.diverged.any():
            where = f"the contrastive arm {labels[0]} at step {self.step + 1}"
            raise RarefeatError(f"{DIVERGED}: {where}")
        for label in labels:
            if seen := self.seen.get(label):
                self.encoders[label] = ContrastiveEncoder(state.weights, state.bias, *seen)


def train(
    data: HierarchicalData, training: ContrastiveSettings, pair: Pair, arms: list[CrossingArm],
    seeds: list[int],
) -> dict[str, ContrastiveEncoder]:  # fmt: skip
    """Train all arms on the same easy samples, by Algorithm 1 with masks on the logits (eq. 5)."""
    source, recorder = CrossingSource(data, training, pair, seeds), LastStep(training)
    own = [LogitMask(arm, data.d) for arm in arms]
    loop.train(source, training, own, recorder, training.bias_from, look_at_end=False)
    return recorder.encoders


def composition(
    encoder: ContrastiveEncoder, data: HierarchicalData
) -> dict[str, Float[Tensor, " S"]]:
    """Compute which features the neurons have learned: `tables.ENCODED`; pure is above 0.9."""
    cosines = absolute_cosines(encoder.weights, dictionary(data, len(encoder.weights)))
    pure = cosines > PURE_COSINE
    strength = encoder.weights[..., : data.features].double().square().sum(1).sqrt()
    common, subclass = strength[:, :2].mean(-1), strength[:, 2:].mean(-1)
    return {
        "pure_common": pure[..., :2].any(-1).double().mean(-1),
        "pure_subclass": pure[..., 2:].any(-1).double().mean(-1),
        "common_strength": common,
        "subclass_strength": subclass,
        "strength_ratio": subclass / common,
        "contrastive_loss": encoder.loss,
        "pruned": encoder.pruned,
    }


def cosine_to_kind(embedding: Float[Tensor, "S n m"], k: int) -> dict[str, Float[Tensor, " S"]]:
    """Compute mean cosines of centred embeddings within a subclass, a superclass, and across."""
    n = embedding.shape[1]
    unit = torch.nn.functional.normalize(embedding - embedding.mean(1, keepdim=True), dim=-1)
    cosine = unit @ unit.mT
    y = subclasses(k, n)
    same, near = y[:, None] == y, (y // k)[:, None] == y // k
    chosen = {
        "within_subclass": same & ~torch.eye(n, dtype=torch.bool),
        "within_superclass": near & ~same,
        "across": ~near,
    }
    return {name: cosine[:, pairs].mean(-1) for name, pairs in chosen.items()}


def measure_arm(
    data: HierarchicalData, encoder: ContrastiveEncoder, seed: int, tests: int,
    heads: LinearHeadSettings,
) -> tuple[list[dict], list[dict]]:  # fmt: skip
    """Return metrics and heads of an arm of a replica, on the samples of supervised networks."""
    embeddings = {}
    for purpose, size in {"probe": heads.samples, "tests": tests}.items():
        for kind, sampler in SAMPLERS.items():
            patches = sampler(data, size, streams(f"{kind} {purpose}", [seed]))
            x = add_noise(data, patches, streams(f"crossing {kind} {purpose} noise", [seed]))
            pre = pre_activations(x, encoder.weights)
            embeddings[purpose, kind] = embed(pre, encoder.bias).double()
    values = composition(encoder, data) | cosine_to_kind(embeddings["tests", "easy"], data.k)
    metrics = [
        {"seed": seed, "metric": metric, "value": value.item()} for metric, value in values.items()
    ]
    samples = [embedding[0] for embedding in embeddings.values()]
    errors = probe_errors(samples[:2], samples[2:], data.k, heads.ridge, heads.hard_share)
    return metrics, [{"seed": seed, **row} for row in errors]


def train_contrastive(
    cell: dict, seeds: list[int], hierarchy: HierarchicalData, training: ContrastiveSettings,
    arms: list[CrossingArm], tests: int, heads: LinearHeadSettings,
) -> tuple[list[dict], list[dict]]:  # fmt: skip
    """Return metrics and linear heads of every arm, of one k and one kind of positive pair."""
    tables = [], []
    # One replica at a time: its tokens stay in the cache.
    for seed in progress(seeds, len(seeds), "replicas"):
        encoders = train(hierarchy, training, cell["pair"], arms, [seed])
        for arm in arms:
            found = measure_arm(hierarchy, encoders[arm.label], seed, tests, heads)
            for table, rows in zip(tables, found, strict=True):
                table += [{**cell, "arm": arm.label, **row} for row in rows]
    return tables
