"""The contrastive encoder of the core on hierarchical data: does it behave as coarse or as fine labels?

The positive pair decides. Two views of a sample have its patches and amplitudes, with noise of their own; two samples of a
subclass share that alone, as fine labels do, and two of a superclass share what coarse labels do. The neurons see patch by
patch, as those of the supervised networks do, without attention.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.core.arms import ARMS, PruningContext
from rarefeat.core.bias import BiasContext, follow
from rarefeat.core.encoder import embed, pre_activations
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import absolute_cosines
from rarefeat.core.simulators import DirectSimulator
from rarefeat.core.thresholds import PURE_COSINE
from rarefeat.core.training import (
    apply_mask,
    apply_step,
    batch_loss,
    forward,
    initial_state,
    loss_gradient,
)
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
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
    easy,
    hard,
    inputs,
    streams,
    subclasses,
)
from rarefeat.studies.fine_labels.metrics import probe_errors
from rarefeat.studies.fine_labels.scalar_simulator import DIVERGED

SAMPLES = {"easy": easy, "hard": hard}


class ContrastiveEncoder(NamedTuple):
    """S replicas."""

    weights: Tensor
    """(S, m, d)."""
    bias: Tensor
    """(S, m)."""
    loss: Tensor
    """Unmasked InfoNCE of the last batch, (S,)."""
    pruned: Tensor
    """Share of the neurons that the last step's mask left out, (S,)."""


def second(pair: Pair, data: HierarchicalData, first: Patches, generators: Generators) -> Patches:
    """The other sample of each positive pair, in the order of the first."""
    if pair == "views":
        return first
    n = first.feature.shape[1]
    fresh = easy(data, n, generators)
    if pair == "subclass":
        return fresh
    half = n // 2
    order = torch.stack(
        [
            torch.cat([torch.randperm(half, generator=g), half + torch.randperm(half, generator=g)])
            for g in generators
        ]
    )
    return Patches(*(part.gather(1, order[..., None].expand_as(part)) for part in fresh[:2]))


def dictionary(data: HierarchicalData, S: int) -> Tensor:
    """The features, (S, d, F): common ones first, then the subclasses', which are the minority."""
    return torch.eye(data.d)[:, : data.features].expand(S, -1, -1)


def train(
    data: HierarchicalData,
    training: ContrastiveSettings,
    pair: Pair,
    arms: list[CrossingArm],
    seeds: list[int],
    draws: str = DRAWS,
) -> dict[str, ContrastiveEncoder]:
    """Eq. (1)-(5) and Algorithm 1 on fresh easy samples, all arms on the same: encoders by label of the arm.

    What is pruned is left out of the logits alone (eq. 5). The bias follows the norms from the step `bias_from` on, as in the
    core's rule `follow`; an arm without one is linear in the sum of the patches, which is what it is given.

    Raises:
        RarefeatError: for weights that are no longer finite.
    """
    purposes = ("crossing weights", "crossing batches", "crossing pairs", "crossing noise")
    of_weights, of_batches, of_pairs, of_noise = (
        streams(purpose, seeds, draws) for purpose in purposes
    )
    space = DirectSimulator(dictionary(data, len(seeds)), training.m)
    begun = initial_state(
        training.sigma_0
        * torch.stack([torch.randn(training.m, data.d, generator=g) for g in of_weights])
    )
    states, encoders, nothing = {arm.label: begun for arm in arms}, {}, torch.zeros(len(seeds))
    for step in range(training.T):
        first = easy(data, training.K, of_batches)
        other = second(pair, data, first, of_pairs)
        patches = torch.cat([inputs(data, part, of_noise) for part in (first, other)], 1)
        sums = patches.sum(2, keepdim=True)
        for arm in arms:
            state = states[arm.label]
            x = patches if state.bias.any() else sums
            whole, rule = forward(x, state), ARMS[arm.arm].rule
            mask = (
                rule(
                    PruningContext(
                        state.weights, space.dictionary, 2 * data.k, arm.alpha, step=step
                    )
                )
                if rule
                else None
            )
            pruned = whole if mask is None else apply_mask(whole, mask, x, state)

            def bias(moved: BiasContext, share: float = arm.bias) -> Tensor:
                return torch.where(
                    (moved.T1 >= 0)[:, None], follow(moved.norms, data.d, share), moved.bias
                )

            gradient = loss_gradient(whole, pruned, state.bias, training, "masked_keys")
            after = apply_step(space, state, gradient, x, training, training.bias_from, bias, step)
            if after.diverged.any():
                raise RarefeatError(
                    f"{DIVERGED}: the contrastive arm {arm.label} at step {step + 1}"
                )
            states[arm.label] = after
            if step == training.T - 1:
                share = nothing if mask is None else mask.float().mean(-1)
                encoders[arm.label] = ContrastiveEncoder(
                    after.weights, after.bias, batch_loss(whole, training), share
                )
    return encoders


def embeddings(
    encoder: ContrastiveEncoder, data: HierarchicalData, patches: Patches, generators: Generators
) -> Tensor:
    """f(X), (S, n, m) float64."""
    return embed(
        pre_activations(inputs(data, patches, generators), encoder.weights), encoder.bias
    ).double()


def composition(encoder: ContrastiveEncoder, data: HierarchicalData) -> dict[str, Tensor]:
    """What the neurons have become, each (S,)."""
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
    """Mean cosines of centred embeddings: within a subclass, across those of a superclass, and across superclasses, each (S,).

    (S, n, m) in order of their subclass. Fine labels tell the first from the second, coarse ones the second from the third.
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


def rows(
    data: HierarchicalData,
    encoder: ContrastiveEncoder,
    seeds: list[int],
    tests: int,
    heads: LinearHeadSettings,
    draws: str = DRAWS,
) -> tuple[list[dict], list[dict]]:
    """One arm: rows of metrics, and of linear heads on easy and hard samples (`metrics.probe_errors`).

    The samples of the heads and of the tests are those of the supervised networks.
    """
    sizes = {"probe": heads.samples, "tests": tests}
    made = {
        (kind, purpose): embeddings(
            encoder,
            data,
            part(data, size, streams(f"{kind} {purpose}", seeds, draws)),
            streams(f"crossing {kind} {purpose} noise", seeds, draws),
        )
        for purpose, size in sizes.items()
        for kind, part in SAMPLES.items()
    }
    metrics = composition(encoder, data) | cosine_to_kind(made["easy", "tests"], data.k)
    final = [
        {"seed": seed, "metric": metric, "value": value}
        for metric, values in metrics.items()
        for seed, value in zip(seeds, values.tolist(), strict=True)
    ]
    probe = []
    for s, seed in enumerate(seeds):
        fit_on, tested = (tuple(made[kind, purpose][s] for kind in SAMPLES) for purpose in sizes)
        found = probe_errors(fit_on, tested, data.k, heads.ridge, heads.hard_share)
        probe += [{"seed": seed, **row} for row in found]
    return final, probe


def train_contrastive(read: JobInputs, job: Job) -> tuple[list[dict], list[dict]]:
    """The stage of one number of subclasses and one kind of positive pair, with every arm: metrics, and linear heads."""
    data, training, heads = (
        job.config_section("hierarchy", HierarchicalData),
        job.config_section("training", ContrastiveSettings),
        job.config_section("heads", LinearHeadSettings),
    )
    arms, pair, tests = (
        job.config_section("arms", list[CrossingArm]),
        job.config_section("pair", Pair),
        job.config_section("tests", int),
    )
    found: tuple[list[dict], list[dict]] = ([], [])
    # One replica at a time: its tokens stay in the cache.
    for seed in progress(job.seed_list, len(job.seed_list), "replicas"):
        encoders = train(data, training, pair, arms, [seed])
        for arm in arms:
            keys = {**job.cell, "arm": arm.label}
            for part, own in zip(
                found, rows(data, encoders[arm.label], [seed], tests, heads), strict=True
            ):
                part += [{**keys, **row} for row in own]
    return found
