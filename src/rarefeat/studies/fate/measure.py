"""The stage: dense training of many replicas until each has learned the rare feature, a row each.

A step is that of the loop (training/loop.py) on the pairs of draws.py, and what growth.py does to
it; no neuron is pruned. Replicas end one by one, so that the loop itself is here.
Random streams: those of `Sample`; looked, the growth terms; removal; push; answers, the openings.
Axes: R replicas that are still trained, m neurons.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.bias import BiasContext
from rarefeat.model.encoder import attend, pre_activations
from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.simulators import ReducedSimulator
from rarefeat.model.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.studies.fate import AGAIN, Push
from rarefeat.studies.fate.draws import (
    CellSettings,
    Sample,
    draw_latent_pairs,
    holds_rare,
)
from rarefeat.studies.fate.growth import (
    NeuronGrowth,
    compare_growth,
    gate,
    measure_growth,
    pushed,
)
from rarefeat.training.loop import DENSE, Batch, Change, Group, View, look, take_step
from rarefeat.training.step import (
    Kernel,
    TrainState,
    initial_state,
    make_kernel,
    replicas_per_batch,
)
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.run.cli_helpers import progress

OPENING_PAIRS = 500
"""Pairs with, and pairs without, the rare feature that gate openings are measured on."""
OTHER_SEED = 500_000
"""Distance of the seed whose pairs are measured in the neurons of another; no study has it."""
Regime = dict[str, float]
"""Bias scale `share` and weight decay `lambda` of one of the trainings of a cell."""


class Course(NamedTuple):
    """When a training is looked at, and what is done to it."""

    every: int
    hold: int
    looked: int
    passes: int
    again: int | None = None
    push: Push | None = None


@dataclass
class Replica:
    """One training, and what has been seen of it."""

    sample: Sample
    regime: Regime
    learned_at: float = math.nan
    pure_at: float = math.nan
    growth: NeuronGrowth | None = None
    looked: dict[str, float] = field(default_factory=dict)
    """Columns of the table that are measured at the step `looked`."""

    def see(self, step: int, cosine: float) -> None:
        """Note whether it has the feature; one that loses it has not learned it yet."""
        if cosine < HALF_LEARNED:
            self.learned_at = self.pure_at = math.nan
        elif math.isnan(self.learned_at):
            self.learned_at = step
        if cosine > PURE_COSINE and math.isnan(self.pure_at):
            self.pure_at = step

    def look(self, kernel: Kernel, state: TrainState, cosine: float, course: Course) -> None:
        """Measure the growth terms, and remove the feature from the pairs that are to lose it."""
        sample = self.sample
        self.growth = measure_growth(sample, kernel, state, course.passes)
        self.looked = dict.fromkeys(AGAIN, math.nan)
        self.looked |= {"cosine_looked": cosine, **self.growth.summary()}
        if course.again:
            other = Sample(sample.settings, sample.seed + OTHER_SEED)
            growth = measure_growth(other, kernel, state, course.passes)
            self.looked["kick_other"] = growth.kick_size()
        if sample.settings.removal:
            sample.pairs = sample.pairs.clone()
            sample.pairs[pairs_to_remove(sample, self.growth), ..., -1] = 0

    def look_again(self, kernel: Kernel, state: TrainState, passes: int) -> None:
        """Measure how the growth terms have changed."""
        settings, regime = self.sample.settings, self.regime
        second = measure_growth(self.sample, kernel, state, passes)
        closed_below = gate(settings.data.d, regime["share"])
        self.looked |= compare_growth(self.growth, second, closed_below, regime["lambda"])

    def end(
        self, step: int, simulator: ReducedSimulator, state: TrainState,
        cosines: Float[Tensor, "m d"],
    ) -> dict[str, float]:  # fmt: skip
        """Return its row; openings are those of the neuron nearest to the rare feature."""
        neuron = int(cosines[:, -1].argmax())
        return {
            "seed": self.sample.seed,
            "share": self.regime["share"],
            "lambda": self.regime["lambda"],
            "learned_at": self.learned_at,
            "pure_at": self.pure_at,
            **self.looked,
            "winner_rank": self.growth.rank(neuron),
            "ended_at": step,
            "cosine": float(cosines[neuron, -1]),
            "others": float(cosines[:, :-1].amax(0).mean()),
            "T1": float(state.T1),
            "diverged": float(state.diverged),
            **measure_gate_opening(self.sample, simulator, state, neuron),
        }


class Trainings:
    """What is still trained, as a `Source` of the loop; replicas of one seed share its tokens."""

    n_minority, uniforms, query_key = 1, None, None

    def __init__(
        self, settings: CellSettings, regimes: Sequence[Regime], seeds: Sequence[int],
        push: Push | None,
    ):  # fmt: skip
        self.settings, self.push, training = settings, push, settings.training
        samples = [Sample(settings, seed) for seed in seeds]
        self.keep([Replica(sample, regime) for regime in regimes for sample in samples])
        generators = [sample.stream(stream_names.WEIGHTS) for sample in samples]
        weights = self.simulator.initial_weights(training.sigma_0, generators)
        self.weights = weights.repeat(len(regimes), 1, 1)

    def keep(self, replicas: list[Replica]) -> None:
        """Train these replicas alone from now on."""
        data, training = self.settings.data, self.settings.training
        self.replicas = replicas
        self.samples = list(dict.fromkeys(replica.sample for replica in replicas))
        self.index = [self.samples.index(replica.sample) for replica in replicas]
        self.simulator = ReducedSimulator(data.d, data.d1, training.m, len(replicas))
        sampler, scale = self.simulator.sample_tokens, self.settings.logit_scale
        self.kernel = make_kernel(training.kernel, self.simulator, sampler, scale)
        regimes = [replica.regime for replica in replicas]
        # Each kind of push uses those of the numbers that it needs.
        numbers = [
            torch.randn(training.m, data.d, generator=sample.stream("push"))
            for sample in self.samples
        ]
        self.numbers = torch.stack(numbers)[self.index]
        self.gates = torch.tensor([gate(data.d, regime["share"]) for regime in regimes])[:, None]
        decays = torch.tensor([regime["lambda"] for regime in regimes]).double()
        self.config = training.model_copy(update={"lambda_": decays[:, None, None]})

    def bias_rule(self, context: BiasContext) -> Float[Tensor, "R m"]:
        """Return the bias of the rule `follow`, by the bias scale of each replica."""
        return torch.where((context.T1 >= 0)[:, None], self.gates * context.norms, 0.0)

    def change(self, view: View) -> Change:
        """Return what the push does to a step."""
        if self.push is None:
            return DENSE
        terms = pushed(self.push, self.kernel, view, self.config, self.numbers, self.gates)
        beyond = view.state.weights.shape[-1] - terms.shape[-1]
        return Change(after_descent=partial(torch.add, torch.nn.functional.pad(terms, (0, beyond))))

    def draw(self) -> Batch:
        """Draw the batch of the next step."""
        latents = torch.stack([sample.next_batch() for sample in self.samples])
        noise = [sample.noise for sample in self.samples]
        attended = self.kernel.attended_tokens(latents, self.settings.sigma, noise)
        complement = self.simulator.draw_complement([sample.complement for sample in self.samples])
        if len(self.replicas) > len(self.samples):
            attended = attended[self.index]
            complement = None if complement is None else complement[self.index]
        return Batch(attended, complement=complement)


def pairs_to_remove(sample: Sample, growth: NeuronGrowth) -> Int[Tensor, " k"]:
    """Return the pairs that lose the rare feature: those that pull most, or k random ones.

    Pairs that hold nothing else hardly pull, so that the random ones hold another feature, too.
    """
    which, k = sample.settings.removal
    if which == "top":
        return growth.top_pairs(k)
    holds_other = (sample.pairs[:, 0, :, :-1] != 0).flatten(1).any(1)
    with_rare = (holds_rare(sample.pairs) & holds_other).nonzero()[:, 0]
    return with_rare[torch.randperm(len(with_rare), generator=sample.stream("removal"))[:k]]


def measure_gate_opening(
    sample: Sample, simulator: ReducedSimulator, state: TrainState, neuron: int
) -> dict[str, float]:
    """Measure for which fraction of the samples with the feature, and without, a gate is open."""
    settings, rng, trained = sample.settings, sample.stream("answers"), sample.pairs
    with_rare = trained[holds_rare(trained)]
    plain = settings._replace(latents="plain")
    samples = {
        "trained": with_rare[:OPENING_PAIRS],
        "fresh": draw_latent_pairs(OPENING_PAIRS, plain, rng, rare=1.0),
        "without": draw_latent_pairs(OPENING_PAIRS, plain, rng, rare=0.0),
    }
    openings = {"count": float(len(with_rare)) if len(trained) else math.nan}
    for name, pairs in samples.items():
        openings[f"opened_{name}"] = math.nan
        if len(pairs):
            tokens = simulator.sample_tokens(pairs[None, :, 0].float(), settings.sigma, [rng])
            attended = attend(tokens, settings.logit_scale)
            sizes = pre_activations(attended, state.weights)[0, ..., neuron].abs()
            opened = (sizes > state.bias[0, neuron]).any(-1)
            openings[f"opened_{name}"] = float(opened.double().mean())
    return openings


def train_until_learned(
    settings: CellSettings, regimes: Sequence[Regime], course: Course, seeds: Sequence[int],
    label: str = "train",
) -> list[dict]:  # fmt: skip
    """Train one replica per regime and seed until it has learned the rare feature.

    A feature is learned from when a neuron has a cosine of at least HALF_LEARNED, if one has it at
    every evaluation since. A replica ends when it has also had a cosine above PURE_COSINE for
    `hold` steps, or at step T. The result of a replica does not depend on the others.
    """
    T, stage_one_end = settings.training.T, settings.training.bias.T1
    source = Trainings(settings, regimes, seeds, course.push)
    state, rows = initial_state(source.weights), []
    for step in progress(range(T + 1), T + 1, label):
        if step % course.every == 0:
            cosines = absolute_cosines(state.weights, source.simulator.dictionary)
            kept = []
            for s, replica in enumerate(source.replicas):
                one = TrainState(*(tensor[s : s + 1] for tensor in state))
                cosine = float(cosines[s, :, -1].max())
                replica.see(step, cosine)
                if step == course.looked:
                    replica.look(source.kernel, one, cosine, course)
                if step == course.again:
                    replica.look_again(source.kernel, one, course.passes)
                held = step >= course.looked and step - replica.pure_at >= course.hold > 0
                if held or step == T:
                    rows.append(replica.end(step, source.simulator, one, cosines[s]))
                else:
                    kept.append(s)
            if not kept:
                break
            if len(kept) < len(source.replicas):
                state = TrainState(*(tensor[kept] for tensor in state))
                source.keep([source.replicas[s] for s in kept])
        view, _ = look(source, source.draw(), Group((), state), source.config, step, 0)
        state, _ = take_step(source, view, source.change(view), source.config, stage_one_end)
    return sorted(rows, key=lambda row: (row["share"], row["lambda"], row["seed"]))


def measure_fate(
    cell: Mapping, seeds: list[int], label: str, draws: str, data: Data, training: Training,
    regimes: list[Regime], every: int, hold: int, looked: int, passes: int, again: int | None,
    push: Push | None,
) -> pd.DataFrame:  # fmt: skip
    """Return a row for each regime and seed of a cell."""
    settings, rows = CellSettings(draws, data, training, **cell), []
    course = Course(every, hold, looked, passes, again, push)
    size = replicas_per_batch(training.K, data.L, data.d + training.m)
    for first in range(0, len(seeds), size):
        batch = seeds[first : first + size]
        rows += train_until_learned(
            settings, regimes, course, batch, f"{label} from seed {batch[0]}"
        )
    times = dict.fromkeys(("learned_at", "pure_at", "T1"), float)
    named = {"push": push.by if push else "", "push_size": push.size if push else 0.0}
    table = pd.DataFrame(rows).astype({"seed": "int64", **times})
    return table.assign(T=training.T, **named, **cell)
