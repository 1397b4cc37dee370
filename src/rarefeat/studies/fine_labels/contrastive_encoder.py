"""Contrastive encoder on hierarchical data, between coarse and fine labels.

The positive pair decides. Two views of a sample have its patches and amplitudes, with independent
noise. Two samples of a subclass share the subclass alone, as fine labels do; two samples of a
superclass share what coarse labels do. The neurons process patch by patch, as those of the
supervised networks do, without attention.

Purposes of the random streams, in the namespace `data.DRAWS`: crossing weights, crossing batches,
crossing pairs, crossing noise; for heads and tests those of `measure`, with noise from crossing
KIND PURPOSE noise.
"""

from typing import NamedTuple

import torch
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
    DRAWS,
    Generators,
    Patches,
    add_noise,
    draw_easy,
    streams,
    subclasses,
)
from rarefeat.studies.fine_labels.measure import SAMPLERS
from rarefeat.studies.fine_labels.metrics import probe_errors
from rarefeat.studies.fine_labels.scalar_simulator import DIVERGED
from rarefeat.training import loop
from rarefeat.training.loop import Batch, Change, View
from rarefeat.training.step import Kernel, TrainState, batch_loss, forward, loss_gradient
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


class ContrastiveEncoder(NamedTuple):
    """Trained contrastive encoders of S replicas."""

    weights: Tensor
    """(S, m, d)."""
    bias: Tensor
    """(S, m)."""
    loss: Tensor
    """Unmasked InfoNCE of the last batch, (S,)."""
    pruned: Tensor
    """Fraction of the neurons that the mask of the last step prunes, (S,)."""


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


def dictionary(data: HierarchicalData, S: int) -> Tensor:
    """Return the features, (S, d, F), common ones first; those of subclasses are the minority."""
    return torch.eye(data.d)[:, : data.features].expand(S, -1, -1)


class CrossingSource:
    """Fresh pairs of hierarchical samples, with patches for tokens and without attention."""

    uniforms = bias_rule = None

    def __init__(
        self, data: HierarchicalData, training: ContrastiveSettings, pair: Pair, seeds: list[int],
        draws: str,
    ):  # fmt: skip
        purposes = ("crossing weights", "crossing batches", "crossing pairs", "crossing noise")
        weights, *self.streams = (streams(purpose, seeds, draws) for purpose in purposes)
        self.data, self.training, self.pair = data, training, pair
        self.simulator = DirectSimulator(dictionary(data, len(seeds)), training.m)
        self.kernel = Kernel(self.simulator, None, forward, loss_gradient)
        self.n_minority = 2 * data.k
        self.weights = training.sigma_0 * draw(torch.randn, weights, training.m, data.d)

    def draw(self) -> Batch:
        """Draw a batch; an arm without a bias is linear in the patches, and gets their sum."""
        batches, pairs, noise = self.streams
        first = draw_easy(self.data, self.training.K, batches)
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

    def bias(self, context: BiasContext) -> Tensor:
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
        for label in labels:
            if state.diverged.any():
                step = self.step + 1
                raise RarefeatError(f"{DIVERGED}: the contrastive arm {label} at step {step}")
            if label in self.seen:
                self.encoders[label] = ContrastiveEncoder(
                    state.weights, state.bias, *self.seen[label]
                )


def train(
    data: HierarchicalData, training: ContrastiveSettings, pair: Pair, arms: list[CrossingArm],
    seeds: list[int], draws: str = DRAWS,
) -> dict[str, ContrastiveEncoder]:  # fmt: skip
    """Train all arms on the same fresh easy samples, by eq. (1)-(5) and Algorithm 1.

    A mask acts on the logits alone (eq. 5). RarefeatError if weights are no longer finite.
    """
    source, recorder = CrossingSource(data, training, pair, seeds, draws), LastStep(training)
    own = [LogitMask(arm, data.d) for arm in arms]
    loop.train(source, training, own, recorder, training.bias_from, look_at_end=False)
    return recorder.encoders


def embed_samples(
    encoder: ContrastiveEncoder, data: HierarchicalData, patches: Patches, generators: Generators
) -> Tensor:
    """Compute the embeddings f(X) of samples.

    -> (S, n, m).
    """
    pre = pre_activations(add_noise(data, patches, generators), encoder.weights)
    return embed(pre, encoder.bias).double()


def composition(encoder: ContrastiveEncoder, data: HierarchicalData) -> dict[str, Tensor]:
    """Compute which features the neurons have learned, (S,) each.

    A neuron is pure in a feature above PURE_COSINE, 0.9. Names are those of `tables.ENCODED`.
    """
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


def cosine_to_kind(embedding: Tensor, k: int) -> dict[str, Tensor]:
    """Compute mean cosines of centred embeddings, within and across classes.

    Fine labels separate samples within a subclass from those across subclasses, coarse labels those
    of a superclass from those across superclasses.

    embedding (S, n, m) -> (S,).
    """
    n = embedding.shape[1]
    unit = torch.nn.functional.normalize(embedding - embedding.mean(1, keepdim=True), dim=-1)
    cosine = unit @ unit.mT
    y = subclasses(k, n)
    same, near = y[:, None] == y, (y // k)[:, None] == y // k
    others = ~torch.eye(n, dtype=torch.bool)
    return {
        name: cosine[:, chosen].mean(-1)
        for name, chosen in (
            ("within_subclass", same & others),
            ("within_superclass", near & ~same),
            ("across", ~near),
        )
    }


def measure_arm(
    data: HierarchicalData,
    encoder: ContrastiveEncoder,
    seeds: list[int],
    tests: int,
    heads: LinearHeadSettings,
    draws: str = DRAWS,
) -> tuple[list[dict], list[dict]]:
    """Return metrics and linear heads of one arm.

    The samples of heads and tests are those of the supervised networks.
    """
    sizes = {"probe": heads.samples, "tests": tests}
    embeddings = {
        (kind, purpose): embed_samples(
            encoder,
            data,
            sampler(data, size, streams(f"{kind} {purpose}", seeds, draws)),
            streams(f"crossing {kind} {purpose} noise", seeds, draws),
        )
        for purpose, size in sizes.items()
        for kind, sampler in SAMPLERS.items()
    }
    values_of = composition(encoder, data) | cosine_to_kind(embeddings["easy", "tests"], data.k)
    metrics = [
        {"seed": seed, "metric": metric, "value": value}
        for metric, values in values_of.items()
        for seed, value in zip(seeds, values.tolist(), strict=True)
    ]
    head_rows = []
    for s, seed in enumerate(seeds):
        fit, test = (tuple(embeddings[kind, purpose][s] for kind in SAMPLERS) for purpose in sizes)
        errors = probe_errors(fit, test, data.k, heads.ridge, heads.hard_share)
        head_rows += [{"seed": seed, **row} for row in errors]
    return metrics, head_rows


def train_contrastive(inputs: JobInputs, job: Job) -> tuple[list[dict], list[dict]]:
    """Return metrics and linear heads of every arm, of one k and one kind of positive pair.

    Inputs: none. Config: `hierarchy`, `training`, `pair`, `arms`, `tests`, `heads`.
    """
    data = job.config_section("hierarchy", HierarchicalData)
    training = job.config_section("training", ContrastiveSettings)
    heads = job.config_section("heads", LinearHeadSettings)
    arms, pair = job.config_section("arms", list[CrossingArm]), job.config_section("pair", Pair)
    tests = job.config_section("tests", int)
    metrics, head_rows = [], []
    # One replica at a time: its tokens stay in the cache.
    for seed in progress(job.seed_list, len(job.seed_list), "replicas"):
        encoders = train(data, training, pair, arms, [seed])
        for arm in arms:
            keys = {**job.cell, "arm": arm.label}
            arm_metrics, arm_heads = measure_arm(data, encoders[arm.label], [seed], tests, heads)
            metrics += [{**keys, **row} for row in arm_metrics]
            head_rows += [{**keys, **row} for row in arm_heads]
    return metrics, head_rows
