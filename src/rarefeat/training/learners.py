"""Training of learners: S replicas at once, by autograd, or in closed form for the paper's.

A step draws pairs and noise, computes the loss of every replica, has the optimiser step on its
gradient, and applies the bias rule. Replicas are one program, under `vmap`; a replica with own code
is alone (model/rooms.py), and a plain module. Draws come from the streams of `pretrain`, so that
learners share dictionary, pairs, noise and, where they have the paper's neurons, initial weights.
Axes: S replicas, K positive pairs of a batch, n samples (2 K or 3 K of a batch), 2 views, L tokens,
d1 coordinates of a token, m neurons, d features; an encoder may have another number of outputs.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Num, Shaped
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from rarefeat.errors import RarefeatError
from rarefeat.model import stream_names
from rarefeat.model.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.model.arms import PruningContext
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.bias import BiasContext, make_bias_rule
from rarefeat.model.contrastive import probabilities
from rarefeat.model.encoder import attend
from rarefeat.model.neurons import alignment_metrics
from rarefeat.model.own_code import one_line_errors, own_name
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import (
    Generators,
    draw,
    generator,
    global_generators,
    make_generators,
)
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.rooms import aside, is_alone, mark
from rarefeat.model.simulators import DirectSimulator, make_simulator, to_device
from rarefeat.model.sparse_coding import frequencies, spread_over_tokens
from rarefeat.model.theory import activation_probability
from rarefeat.training import border
from rarefeat.training.choices import Choice, bind_options, load_choice
from rarefeat.training.data_laws import DATA_LAWS
from rarefeat.training.encoders import ENCODERS, neurons_name
from rarefeat.training.loop import batches
from rarefeat.training.losses import LOSSES
from rarefeat.training.optimisers import OPTIMISERS
from rarefeat.training.pretraining import MOMENT_WINDOW_STEPS, pretrain
from rarefeat.training.step import end_stage_one
from rarefeat.workflow.config.model import BIAS_RULES, Arm, Data, Training
from rarefeat.workflow.run.cli_helpers import progress, report_losses


@dataclass(frozen=True)
class Learner:
    """What learns: data law, encoder, loss and optimiser, each with its options."""

    data_law: Choice = "paper"
    encoder: Choice = "paper"
    loss: Choice = "infonce"
    optimiser: Choice = "sgd"
    data_options: Mapping[str, Any] = field(default_factory=dict)
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    optimiser_options: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = False
    """Whether every pair is seen once; else N pairs come back, with fresh noise."""

    @property
    def is_closed_form(self) -> bool:
        """True for the paper's learner, which `pretrain` trains in closed form."""
        return self == Learner()

    @property
    def label(self) -> str:
        """Names of the four choices, for messages."""
        choices = self.data_law, self.encoder, self.loss, self.optimiser
        return " + ".join(map(own_name, choices))


KINDS: dict[str, tuple[str, Mapping[str, Callable]]] = {
    "data_law": ("data_options", DATA_LAWS),
    "encoder": ("encoder_options", ENCODERS),
    "loss": ("loss_options", LOSSES),
    "optimiser": ("optimiser_options", OPTIMISERS),
}
"""Options and built-in choices of the parts of a learner."""


def own_parts(learner: Learner) -> list[str]:
    """List the names of a learner's own code."""
    choices = {kind: getattr(learner, kind) for kind in KINDS}
    return [
        own_name(choice)
        for kind, choice in choices.items()
        if not isinstance(choice, str) or choice not in KINDS[kind][1]
    ]


def bind_part(kind: str, learner: Learner, data: Data, training: Training) -> partial:
    """Return a part of a learner with its options and with what it takes of the config.

    Its `keywords` are all that it is given.
    """
    available = {
        "data_law": {"L": data.L},
        "encoder": {
            "sigma_0": training.sigma_0,
            "L": data.L,
            "attention_scale": training.logit_scale(data.d1),
        },
        "loss": {"tau": training.tau},
        "optimiser": {"lr": training.eta, "weight_decay": training.lambda_},
    }[kind]
    (name, built_in), choice = KINDS[kind], getattr(learner, kind)
    options = getattr(learner, name)
    if kind == "encoder" and isinstance(choice, nn.Module):
        built = type(choice).__name__
        raise RarefeatError(
            f"encoder: give the class {built}, or a function of (d1, m), not an instance of it"
        )
    return bind_options(kind, load_choice(kind, choice, built_in), options, available)


def build_optimiser(kind: str, part: partial, parameters: list[Tensor]) -> Any:
    """Return an optimiser of some parameters; RarefeatError for a value that torch refuses."""
    try:
        return part(parameters)
    except (TypeError, ValueError) as error:
        raise RarefeatError(f"{kind}: {error}; it is given {part.keywords}") from error


class TrainedLearners(NamedTuple):
    """Trained encoders of S replicas."""

    module: nn.Module | None
    """The module, whose values of replica s are entry s of `parameters`; None outside of the room
    of one's own code."""
    parameters: dict[str, Shaped[Tensor, "S ..."]]
    """Parameters and buffers by name."""
    neurons: str
    """Name of the parameter of first-layer neurons; empty if there is none."""
    dictionary: Float[Tensor, "S d1 d"]
    """Features as columns."""
    T1: Int[Tensor, " S"]
    """Step that ended stage 1; -1 for none, and without first-layer neurons."""
    loss: Float[Tensor, " S"]
    """Loss of the last step's batch; not finite for a replica that has diverged."""
    trajectory: list[dict]
    """A row {seed, step, metric, value} for each recorded metric."""

    @property
    def weights(self) -> Float[Tensor, "S m d1"] | None:
        """First-layer neurons; None if there are none."""
        return self.parameters[self.neurons] if self.neurons else None

    def embed(self, tokens: Float[Tensor, "S n L d1"]) -> Float[Tensor, "S n outputs"]:
        """Embed tokens, of each replica its own."""
        return each(lambda values, x: functional_call(self.module, values, (x,)))(
            self.parameters, tokens
        )


def each(function: Callable) -> Callable:
    """Return a function of all replicas, from one of a replica; one alone needs no `vmap`."""
    if not is_alone():
        return vmap(function)

    def first(item: Any) -> Any:
        return (
            {name: value[0] for name, value in item.items()} if isinstance(item, dict) else item[0]
        )

    return lambda *items: function(*map(first, items))[None]


class Pairs(NamedTuple):
    """Positive pairs of S replicas."""

    features: Float[Tensor, "S n d"]
    """Features of the samples."""
    signal: Num[Tensor, "S n 2 L d"] | Num[Tensor, "S n 2 L d1"]
    """Latents, or tokens of a law that draws these itself."""
    are_tokens: bool = False

    def select(self, rows: Int[Tensor, "S K"]) -> "Pairs":
        """Return the pairs of some rows, of each replica its own."""
        index = torch.arange(len(rows), device=rows.device)[:, None]
        return Pairs(self.features[index, rows], self.signal[index, rows], self.are_tokens)

    def to(self, device: str) -> "Pairs":
        """Return the pairs on a device."""
        return Pairs(self.features.to(device), self.signal.to(device), self.are_tokens)


def draw_pairs(
    law: Callable,
    n: int,
    probability: Float[Tensor, " d"],
    L: int,
    generators: list[torch.Generator],
) -> Pairs:
    """Draw n pairs for each replica."""
    items = []
    for source in generators:
        result = law(n, source, probability.clone())
        if is_pair := isinstance(result, tuple | list):
            features, signal = result
        elif result.dim() == 4:
            latents = result.flatten(1, 2).float()
            features, signal = latents.sum(1).sign() * latents.abs().amax(1), result
        else:
            features, signal = result, spread_over_tokens(result, L, source)
        items.append((features.float(), signal))
    return Pairs(*(torch.stack(values) for values in zip(*items, strict=True)), is_pair)


class DataLawSource:
    """Pairs of a data law as tokens, for S replicas.

    Random streams: "dictionary", "train", "batches", "noise", and those of `PairSampler`.
    """

    def __init__(
        self,
        namespace: str,
        learner: Learner,
        data: Data,
        training: Training,
        sigma: float,
        seeds: list[int],
    ):
        self.namespace, self.learner, self.data = namespace, learner, data
        self.training, self.sigma, self.seeds = training, sigma, seeds
        self.device = training.device
        if data.balance:
            raise RarefeatError(
                f"data.balance: learners have none, got {data.balance}; write a data law or a loss"
            )
        self.law = bind_part("data_law", learner, data, training)
        simulator = make_simulator("direct", namespace, data.d, data.d1, training.m, seeds)
        self.simulator: DirectSimulator = to_device(simulator, self.device)
        self.sampler = PairSampler(data.views, self.simulator, "direct", namespace, seeds)

    def modules(self) -> list[nn.Module]:
        """Build the encoder of each replica."""
        return build_modules(self.learner, self.namespace, self.data, self.training, self.seeds)

    def probability(self, eps_min: float | None = None) -> Float[Tensor, " d"]:
        """Return the activation probability of each feature; without eps_min, of balanced data."""
        d = self.data.d
        balanced = torch.ones(d, dtype=torch.float64)
        eps = balanced if eps_min is None else frequencies(d, self.data.minority, eps_min)
        return activation_probability(eps, self.data.C)

    def training_pairs(self, eps_min: float) -> Iterator[Pairs]:
        """Yield the pairs of each step, without end."""
        N, K = self.data.N, self.training.K
        sources = [generator(self.namespace, seed, stream_names.TRAIN) for seed in self.seeds]
        order = batches(self.namespace, self.seeds, N, K, self.device)
        while True:
            pairs = draw_pairs(self.law, N, self.probability(eps_min), self.data.L, sources)
            pairs = pairs.to(self.device)
            for _ in range(N // K):
                yield pairs.select(next(order))
            while not self.learner.fresh:
                yield pairs.select(next(order))

    def sample_tokens(self, pairs: Pairs, noise: Generators) -> Float[Tensor, "S n L d1"]:
        """Return the tokens of both views, and of negatives where they are separate, with noise."""
        signal = pairs.signal.transpose(1, 2).flatten(1, 2).float()
        if pairs.are_tokens:
            return signal
        return self.sampler.sample_pair_tokens(signal, self.sigma, noise)


def build_modules(
    learner: Learner, namespace: str, data: Data, training: Training, seeds: list[int]
) -> list[nn.Module]:
    """Build the encoder of each replica, while the global generators are seeded by it."""
    build, modules = bind_part("encoder", learner, data, training), []
    for seed in seeds:
        with global_generators(generator(namespace, seed, stream_names.WEIGHTS)):
            modules.append(build(data.d1, training.m))
        if not isinstance(modules[-1], nn.Module):
            name, kind = own_name(learner.encoder), type(modules[-1]).__name__
            raise RarefeatError(f"encoder {name}: must be a torch.nn.Module, got {kind}")
    return [module.eval() for module in modules]


@torch.inference_mode(False)
@torch.enable_grad()  # the caller may have switched gradients off
def train_learners(
    source: DataLawSource, arm: Arm, eps_min: float, label: str = "train"
) -> TrainedLearners:
    """Train a learner, one replica per seed; with own code, one in a room."""
    modules = source.modules()
    if source.learner.is_closed_form:
        return train_closed_form(source, modules[0], arm, eps_min, label)
    return train_by_autograd(source, modules, arm, eps_min, label)


def untrained_learners(source: DataLawSource) -> TrainedLearners:
    """Return the encoders before training, a control of what training does."""
    modules = source.modules()
    parameters, buffers = stack_module_state(modules)
    mark(*parameters.values())
    S, dictionary = len(modules), source.simulator.dictionary.cpu()
    return TrainedLearners(
        modules[0].to("meta"),
        {name: value.detach() for name, value in (parameters | buffers).items()},
        neurons_name(modules[0], source.data.d1),
        dictionary,
        torch.full((S,), -1),
        torch.zeros(S),
        [],
    )


def train_closed_form(
    source: DataLawSource, module: nn.Module, arm: Arm, eps_min: float, label: str
) -> TrainedLearners:
    """Train the paper's learner by `pretrain`, to the same bits."""
    namespace, data, seeds = source.namespace, source.data, source.seeds
    sources = [generator(namespace, seed, stream_names.TRAIN) for seed in seeds]
    latents = draw_pairs(source.law, data.N, source.probability(eps_min), data.L, sources).signal
    encoders, trajectory = pretrain(
        namespace, "direct", data, source.training, [arm], source.sigma, seeds, latents, label
    )
    encoder = encoders[arm.label]
    names = ("seed", "step", "metric", "value")
    return TrainedLearners(
        module.to("meta"),
        {"weights": encoder.weights, "bias": encoder.bias},
        "weights",
        source.simulator.dictionary.cpu(),
        encoder.T1,
        encoder.loss,
        [{name: row[name] for name in names} for row in trajectory],
    )


def make_loss(source: DataLawSource) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of one replica as a function of its embeddings (n, m) and features (K, d)."""
    learner, K = source.learner, source.training.K
    bound = bind_part("loss", learner, source.data, source.training)
    names = inspect.signature(bound.func).parameters

    def loss(embeddings: Tensor, features: Tensor) -> Tensor:
        f_x, f_y, *negatives = embeddings.split(K)
        if negatives and "negatives" not in names:
            raise RarefeatError(
                f"loss {own_name(learner.loss)}: takes no negatives, got data.views with"
                " clean_negatives; give it an argument `negatives`"
            )
        extra = {"features": features} if "features" in names else {}
        if "negatives" in names:
            extra["negatives"] = negatives[0] if negatives else None
        return bound(f_x, f_y, **extra)

    return loss


def check_choices(module: nn.Module, loss: Callable, source: DataLawSource, arm: Arm) -> None:
    """Check the encoder and the loss, and that the rules can act on this encoder."""
    learner, data, training = source.learner, source.data, source.training
    name = own_name(learner.encoder)
    border.check_law(source.law, source.probability(), data.L, data.d1)
    g, K = torch.Generator().manual_seed(0), training.K
    tokens = torch.randn(6, data.L, data.d1, generator=g) / data.d1**0.5
    neurons = neurons_name(module, data.d1)
    m = border.check_encoder(f"encoder {name}", module, tokens, neurons)
    views = 3 if data.views.clean_negatives else 2
    embeddings = torch.randn(views * K, m, generator=g).requires_grad_()
    features = torch.randn(K, data.d, generator=g).sign()
    border.check_loss(f"loss {own_name(learner.loss)}", loss, (embeddings, features))
    if arm.named.rule and not neurons:
        raise RarefeatError(f"arm {arm.arm}: encoder {name} has no neurons in R^d1 to be masked")
    if arm.named.rule and arm.pruned_update == "unmasked":
        raise RarefeatError(
            f"arm {arm.arm}: pruned_update: unmasked is eq. (5) of the paper's learner, got encoder"
            f" {name}, loss {own_name(learner.loss)}; set pruned_update: straight_through"
        )
    if training.bias.rule not in BIAS_RULES and not getattr(module, "thresholds", ""):
        raise RarefeatError(
            f"training.bias.rule {training.bias.rule}: encoder {name} names no `thresholds`"
        )


class NeuronMasks:
    """Masks of first-layer neurons or their weights, by the rule of an arm.

    Random streams: "random mask", and "rule LABEL" of the arm.
    """

    def __init__(self, source: DataLawSource, arm: Arm):
        self.source, self.arm, self.rule = source, arm, arm.named.rule
        namespace, seeds, m = source.namespace, source.seeds, source.training.m
        mask_generators = make_generators(namespace, seeds, stream_names.RANDOM_MASK)
        self.uniforms = draw(torch.rand, mask_generators, m).to(source.device)
        self.generators = make_generators(namespace, seeds, stream_names.RULE_PREFIX + arm.label)
        self.moments: Moments | None = None
        self.previous_norms: Tensor | None = None

    def __call__(
        self,
        step: int,
        weights: Float[Tensor, "S m d1"],
        bias: Float[Tensor, "S m"],
        tokens: Float[Tensor, "S n L d1"],
        embeddings: Float[Tensor, "S n outputs"],
    ) -> Bool[Tensor, "S m 1"] | Bool[Tensor, "S m d1"] | None:
        """Return the mask of a step; None before the onset."""
        data, training = self.source.data, self.source.training
        f_x, f_y, *_ = embeddings.split(training.K, 1)
        if self.arm.named.moments:
            # Linear moments are of the paper's attended tokens.
            z = attend(tokens[:, : training.K], training.logit_scale(data.d1)).sum(2)
            residual = 1 - probabilities(f_x, f_y, training.tau).diagonal(dim1=-2, dim2=-1)
            norms, linear = weights.norm(dim=-1), matmul(z, weights.mT)
            batch = batch_moments(f_x, f_y, linear, residual, norms, self.previous_norms)
            self.moments = update_running_moments(self.moments, batch, step, MOMENT_WINDOW_STEPS)
            self.previous_norms = norms
        if step < self.arm.onset:
            return None
        context = PruningContext(
            weights=weights,
            dictionary=self.source.simulator.dictionary,
            n_minority=len(data.minority),
            alpha=self.arm.alpha,
            draw=self.uniforms,
            bias=bias,
            f_x=f_x,
            f_y=f_y,
            moments=self.moments,
            step=step,
            generators=self.generators,
        )
        mask = self.rule(context)
        return mask if mask.dim() == 3 else mask[..., None]


def train_by_autograd(
    source: DataLawSource, modules: list[nn.Module], arm: Arm, eps_min: float, label: str
) -> TrainedLearners:
    """Train any learner by autograd, all replicas at once.

    A mask sets neurons or weights to 0 in the loss; its gradient is applied to all of them. The
    bias rule sets the thresholds of an encoder that names them; the optimiser trains the rest.
    Random streams: those of `DataLawSource` and `NeuronMasks`, and "weights".
    """
    learner, data, training = source.learner, source.data, source.training
    seeds, device = source.seeds, source.device
    neurons = neurons_name(modules[0], data.d1)
    thresholds = getattr(modules[0], "thresholds", "")
    loss = make_loss(source)
    aside(lambda: check_choices(modules[0], loss, source, arm))
    modules = [module.to(device) for module in modules]
    if alone := is_alone():
        module, values = modules[0], dict(modules[0].named_parameters())
        buffers = {name: value[None] for name, value in module.named_buffers()}
    else:
        stacked, buffers = stack_module_state(modules)
        module = copy.deepcopy(modules[0]).to("meta")
        values = {name: value.detach().requires_grad_() for name, value in stacked.items()}
    if thresholds and training.bias.rule in ("follow", "grow"):
        values[thresholds].requires_grad_(False)
    trained = [value for name, value in values.items() if name != thresholds]
    optimiser = build_optimiser(
        "optimiser", bind_part("optimiser", learner, data, training), trained
    )
    bias_rule = make_bias_rule(training.bias, data.d, training.eta)
    masks = NeuronMasks(source, arm) if arm.named.rule else None
    noise = make_generators(source.namespace, seeds, stream_names.NOISE, device)
    dictionary, recorded_steps = source.simulator.dictionary, set(log_spaced(training.T))
    if neurons:
        dictionary = dictionary.to(values[neurons].dtype)
    T1, trajectory = torch.full((len(seeds),), -1, device=device), []
    weights = bias = None

    def stack(value: Tensor) -> Tensor:
        return value[None] if alone else value

    def embed(state: dict[str, Tensor], tokens: Tensor) -> Tensor:
        return functional_call(module, state, (tokens,)) if state else module(tokens)

    steps, pairs_of_steps = range(training.T + 1), source.training_pairs(eps_min)
    for step in progress(steps, training.T + 1, label):
        if step >= arm.onset:
            mark(*map(stack, values.values()))
        pairs = next(pairs_of_steps)
        tokens = source.sample_tokens(pairs, noise)
        state = {} if alone else values | buffers
        if neurons:
            weights = stack(values[neurons].detach()).clone()
            bias = weights.new_zeros(1)
            if thresholds:
                bias = stack(values[thresholds].detach()).clone()
            bias = bias.expand(weights.shape[:2])
        if masks:
            with torch.no_grad():
                dense = each(embed)(state, tokens)
            # Rules see single precision, whatever that of the encoder.
            mask = masks(step, weights.float(), bias.float(), tokens, dense.float())
            if mask is not None:
                # Straight through: the loss sees the mask, and the gradient reaches every weight.
                state[neurons] = stack(values[neurons]) - weights.masked_fill(~mask, 0.0)
        with one_line_errors(f"{learner.label}: step {step}"):
            losses = each(lambda s, x, y: loss(embed(s, x), y))(state, tokens, pairs.features)
        is_recorded = step in recorded_steps
        report_losses(step, seeds, losses.detach(), is_recorded)
        if is_recorded:
            metrics = {"loss": losses.detach()}
            if neurons:
                metrics |= alignment_metrics(weights, dictionary, len(data.minority))
            trajectory += [
                {"seed": seed, "step": step, "metric": name, "value": value}
                for name, entries in metrics.items()
                for seed, value in zip(seeds, entries.tolist(), strict=True)
            ]
        if step == training.T:
            break
        for value in values.values():
            value.grad = None
        with one_line_errors(f"{learner.label}: step {step}"):
            losses.sum().backward()
            optimiser.step()
        if neurons:
            new_weights = stack(values[neurons].detach())
            T1 = end_stage_one(T1, new_weights, dictionary, training.bias.T1, step + 1)
            if thresholds:
                norms = new_weights.norm(dim=-1)
                threshold = values[thresholds]
                context = BiasContext(
                    bias, weights, norms, T1, step + 1, lambda old=threshold: stack(old.grad)
                )
                threshold.data = bias_rule(context).view_as(threshold)
    state = {name: stack(value) for name, value in values.items()} | buffers
    return TrainedLearners(
        module,
        {name: value.detach().cpu() for name, value in state.items()},
        neurons,
        dictionary.cpu(),
        T1.cpu(),
        losses.detach().cpu(),
        trajectory,
    )
