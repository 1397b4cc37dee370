"""Learners of one's own from Python: trained here, or fed by one's own loop."""

import copy
import io
import itertools
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd
import torch
from matplotlib.axes import Axes
from torch import Tensor

from rarefeat.api.arguments import (
    ArmArgument,
    axis_label,
    build_study,
    check_int,
    check_number,
    check_seeds,
    check_type,
    register_rules,
)
from rarefeat.api.encoder import Encoder, load_encoder_file, read_saved, read_training
from rarefeat.api.entry_points import entry_point
from rarefeat.api.plots import plot_readout
from rarefeat.errors import RarefeatError
from rarefeat.model.own_code import own_name
from rarefeat.model.rooms import train_alone
from rarefeat.statistics import student_interval
from rarefeat.training.choices import Choice
from rarefeat.training.learners import KINDS, Learner, TrainedLearners, build_modules, own_parts
from rarefeat.training.optimisers import OPTIMISERS
from rarefeat.training.readout import learn
from rarefeat.training.step import replicas_per_batch
from rarefeat.training.streams import PairStream
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.tensors import write_tensors
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.cli_helpers import progress_display

Options = Mapping[str, Any] | None
Given = dict[str, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Learners:
    """Trained replicas of one learner.

    Call it with tokens (n, L, d1), which every replica embeds, or with (S, n, L, d1).

    Attributes
    ----------
    table : DataFrame
        A row for each seed and feature: `r2` of a linear readout of the embeddings on a balanced
        test set, `r2_shuffled` with shuffled features, `cosine`, the largest |cos(w_i, M_j)| of a
        first-layer neuron (NaN where there are none), `r2_untrained` and `cosine_untrained`, those
        of the same encoder before training, and of the replica `norm` and `rank` of its
        embeddings, `loss`, `diverged`, and `given`, what its parts were given.
    trajectory : DataFrame
        A row (seed, step, metric, value) for each recorded step.
    parameters : dict of str to Tensor
        Parameters by name, each with the seeds on its first axis.
    dictionary : Tensor of shape (S, d1, d)
        Features as columns, the rare ones last.
    seeds, rare_features : list of int
        Seeds of the replicas, and numbers of the rare features.
    given : dict of str to dict
        What each part was given: its options, and what it takes of the config.
    learner, data, training
        The four choices, and the config.
    """

    table: pd.DataFrame = field(repr=False)
    trajectory: pd.DataFrame = field(repr=False)
    parameters: dict[str, Tensor] = field(repr=False)
    dictionary: Tensor = field(repr=False)
    seeds: list[int]
    rare_features: list[int]
    given: dict[str, dict[str, Any]]
    learner: Learner
    data: Data = field(repr=False)
    training: Training = field(repr=False)
    replicas: TrainedLearners = field(repr=False)
    draws: str = field(repr=False)

    @entry_point
    def __call__(self, tokens: Tensor) -> Tensor:
        """Embed tokens (n, L, d1) or (S, n, L, d1); return (S, n, m)."""
        d1 = self.data.d1
        if tokens.dim() not in (3, 4) or tokens.shape[-1] != d1:
            raise RarefeatError(
                f"tokens: must be (n, L, {d1}) or (S, n, L, {d1}), got {(*tokens.shape,)}"
            )
        if tokens.dim() == 3:
            tokens = tokens.expand(len(self.seeds), *tokens.shape)

        def embed(seed: int) -> Tensor:
            place = self.seeds.index(seed)
            with torch.no_grad():
                return self._build(place)(tokens[place])

        if self.replicas.module:
            return torch.stack([*map(embed, self.seeds)])
        own = own_parts(self.learner)
        return torch.stack(train_alone(embed, self.draws, self.seeds, own, is_rehearsed=False))

    def _build(self, place: int) -> torch.nn.Module:
        """Build the encoder of a replica with its trained parameters."""
        settings = self.learner, self.draws, self.data, self.training
        if self.replicas.module:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # of torch, where a graph is copied
                module = copy.deepcopy(self.replicas.module).to_empty(device="cpu")
        else:
            (module,) = build_modules(*settings, [self.seeds[place]])
        module.load_state_dict({name: value[place] for name, value in self.parameters.items()})
        return module

    @entry_point
    def summary(self) -> pd.DataFrame:
        """Return mean and 95 % interval over seeds of each measure, of rare and other features.

        A seed counts once: its features of a kind are averaged first.
        """
        names = ["r2", "r2_untrained", "r2_shuffled", "cosine", "cosine_untrained"]
        kind = self.table["feature"].isin(self.rare_features).map({True: "rare", False: "others"})
        of_seed = self.table.assign(features=kind).groupby(["features", "seed"])[names].mean()
        rows = {}
        for (features, name), values in of_seed.melt(ignore_index=False).groupby(
            ["features", "variable"]
        ):
            mean, _, low, high, n = student_interval(values["value"].to_numpy())
            rows[features, name] = {"mean": mean, "ci_low": low, "ci_high": high, "n": n}
        return pd.DataFrame(rows).T.rename_axis(["features", "measure"])

    @entry_point
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how well each feature is read out, before and after training, with intervals."""
        return plot_readout(self.table, self.rare_features, ax)

    @entry_point
    def module(self, seed: int) -> torch.nn.Module:
        """Return the trained encoder of a seed as a plain module, tokens (n, L, d1) to (n, m).

        `torch.export.save(torch.export.export(module, (tokens,)), "encoder.pt2")` writes it for
        programs that have torch alone.
        """
        if check_int("seed", seed) not in self.seeds:
            raise RarefeatError(f"seed: must be one of {self.seeds}, got {seed!r}")
        module = self._build(self.seeds.index(seed))
        self._check(module, [seed])
        return module

    def _check(self, module: torch.nn.Module, seeds: list[int]) -> None:
        """Raise RarefeatError unless a module with the parameters of a seed embeds as that does."""
        tokens = torch.randn(len(self.seeds), 6, self.data.L, self.data.d1)
        embeddings = self(tokens)
        for place in map(self.seeds.index, seeds):
            module.load_state_dict({name: value[place] for name, value in self.parameters.items()})
            with torch.no_grad():
                same = torch.allclose(module(tokens[place]), embeddings[place], 1e-3, 1e-5)
            if not same:
                name = own_name(self.learner.encoder)
                raise RarefeatError(
                    f"{name} is built otherwise here than where it was trained, or for another"
                    " seed; it must depend on its parameters and buffers alone"
                )

    @entry_point
    def save(self, path: str | Path) -> None:
        """Write the learners to a file of safetensors, which `rarefeat.load` reads.

        The encoder's own class is not needed to read it: the file has its graph, as `torch.export`
        writes it. A file that is there is replaced.
        """
        tokens, graph = torch.zeros(2, self.data.L, self.data.d1), io.BytesIO()
        module = self.module(self.seeds[0])
        self._check(module, self.seeds)  # the file has one graph for all seeds
        program = torch.export.export(
            module, (tokens,), dynamic_shapes=({0: torch.export.Dim("n")},)
        )
        torch.export.save(program, graph)
        tensors = {f"parameters.{name}": value for name, value in self.parameters.items()} | {
            "graph": torch.frombuffer(bytearray(graph.getvalue()), dtype=torch.uint8),
            "dictionary": self.dictionary,
            "T1": self.replicas.T1,
            "loss": self.replicas.loss,
        }
        origin = {
            "learner": saved_option(asdict(self.learner)),
            "given": saved_option(self.given),
            "neurons": self.replicas.neurons,
            "draws": self.draws,
            "data": dump_config(self.data),
            "training": dump_config(self.training),
            **{name: getattr(self, name).to_dict("list") for name in ("table", "trajectory")},
        }
        write_tensors(path, tensors, json.dumps(origin))


def saved_option(value: Any) -> Any:
    """Return a choice or options as plain values, functions by their names."""
    if isinstance(value, Mapping):
        return {key: saved_option(item) for key, item in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else axis_label(value)


@entry_point
def load(path: str | Path) -> Encoder | Learners:
    """Read what `Encoder.save` or `Learners.save` has written.

    Parts of your own are not looked up: of learners, the encoder is in the file, and the other
    choices are texts.

    Raises
    ------
    RarefeatError
        If there is no such file, or it is damaged or holds something else.

    Examples
    --------
    >>> encoder = rarefeat.train(T=20, N=512)
    >>> encoder.save("one.safetensors")
    >>> rarefeat.load("one.safetensors").metrics == encoder.metrics
    True
    """
    path = Path(check_type("path", path, str, Path))
    origin, tensors = read_saved(path)
    if "learner" not in origin:
        return load_encoder_file(origin, tensors)
    module = torch.export.load(io.BytesIO(tensors["graph"].numpy().tobytes())).module()
    parameters = {
        name.removeprefix("parameters."): value
        for name, value in tensors.items()
        if name.startswith("parameters.")
    }
    rows = pd.DataFrame(origin["trajectory"]).to_dict("records")
    replicas = TrainedLearners(
        module.to("meta"), parameters, origin["neurons"], tensors["dictionary"],
        tensors["T1"], tensors["loss"], rows,
    )  # fmt: skip
    data, training = Data.model_validate(origin["data"]), read_training(origin["training"])
    table, learner = pd.DataFrame(origin["table"]), Learner(**origin["learner"])
    return make_learners(table, origin["given"], learner, data, training, replicas, origin["draws"])


def make_learners(
    table: pd.DataFrame,
    given: Given,
    learner: Learner,
    data: Data,
    training: Training,
    replicas: TrainedLearners,
    draws: str,
) -> Learners:
    """Return trained replicas with what was measured of them."""
    return Learners(
        table,
        pd.DataFrame(replicas.trajectory),
        replicas.parameters,
        replicas.dictionary,
        list(dict.fromkeys(table["seed"])),
        list(range(data.d - len(data.minority), data.d)),
        given,
        learner,
        data,
        training,
        replicas,
        draws,
    )


class LearnerPlan(NamedTuple):
    """What `train_learners` is about to train: a learner at the cells of a study."""

    study: Study
    learner: Learner
    cells: list[Cell]
    check: Callable[[Mapping, torch.nn.Module], None]

    def train(self, cell: Cell, seeds: list[int]) -> tuple[TrainedLearners, pd.DataFrame, Given]:
        """Train and measure replicas at a cell.

        Return them, a row for each seed and feature, and what each part was given.
        """
        data, training, (arm,) = self.study.data, self.study.training, cell.arms
        sigma, eps_min = cast(float, cell["sigma"]), cast(float, cell["eps_min"])
        size = replicas_per_batch(training.K, data.L, data.d1)
        result, rows, given = learn(
            self.study.draws, self.learner, data, training, arm, sigma, eps_min, seeds, size,
            check=self.check, with_untrained=True,
        )  # fmt: skip
        told = "; ".join(f"{kind}: {values}" for kind, values in given.items() if values)
        return result, pd.DataFrame(rows).assign(given=told), given


def plan_learner(
    config: Project | None,
    study: str,
    points: Mapping[str, list[Any]],
    seeds: list[int],
    keys: Mapping[str, Any],
) -> LearnerPlan:
    """Plan a learner of some choices and keys; RarefeatError where these cannot be."""
    choices, arm = {name: keys[name] for name in vars(Learner())}, keys["arm"]
    changes = {key: value for key, value in keys.items() if key not in {*choices, "arm"}}
    choices |= {name: check_options(name, choices[name]) for name, _ in KINDS.values()}
    check_fresh(choices["fresh"])
    decay = changes.get("lambda", changes.get("lambda_"))
    if decay is not None and choices["optimiser"] not in OPTIMISERS:
        choices["optimiser_options"].setdefault("weight_decay", decay)
    learner = Learner(**choices)
    register_rules([arm], [changes.get("bias")])
    if arm != "dense" and not learner.is_closed_form and "pruned_update" not in changes:
        changes["pruned_update"] = "straight_through"
    chosen = build_learner_study(config, study, points, arm, seeds, changes)
    axes = itertools.product(*([(name, float(x)) for x in points[name]] for name in points))
    cells = [Cell(point, tuple(chosen.arms)) for point in axes]
    return LearnerPlan(chosen, learner, cells, partial(check_effect, changes, learner, arm))


def build_learner_study(
    config: Project | None,
    study: str,
    points: Mapping[str, list[Any]],
    arm: ArmArgument,
    seeds: list[int],
    changes: Mapping[str, Any],
) -> Study:
    """Build the study of the direct simulator whose data and training a learner has.

    A learner may be trained at eps_min = 0, where the rare features are never seen: a control.
    """
    simulator = changes.get("simulator", "direct")
    if simulator != "direct":
        raise RarefeatError(
            f"simulator: learners need every coordinate of a token, got {simulator!r}; leave it out"
        )
    seen = [x for x in points["eps_min"] if check_number("eps_min", x) != 0] or [1.0]
    points, changes = {**points, "eps_min": seen}, {**changes, "simulator": simulator}
    return build_study(config, study, points, [arm], seeds, changes)


def check_effect(
    changes: Mapping[str, Any],
    learner: Learner,
    arm: ArmArgument,
    given: Mapping[str, Mapping[str, Any]],
    module: torch.nn.Module,
) -> None:
    """Raise RarefeatError for a change that no part of a learner reads."""
    readers = {
        "sigma_0": ("encoder", "sigma_0"),
        "attention_scale": ("encoder", "attention_scale"),
        "lambda": ("optimiser", "weight_decay"),
        "tau": ("loss", "tau"),
    }
    unread = {"history": "learners keep none"}
    values = {key.rstrip("_"): value for key, value in changes.items()}
    for key, (kind, name) in readers.items():
        options, value = getattr(learner, KINDS[kind][0]), values.get(key)
        if name not in given[kind]:
            unread[key] = f"the {kind} {own_name(getattr(learner, kind))} takes none"
        elif options.get(name, value) != value:
            unread[key] = f"{KINDS[kind][0]} has {name}: {options[name]}"
    if not getattr(module, "thresholds", ""):
        unread["bias"] = f"the encoder {own_name(learner.encoder)} takes none"
    if arm != "dense":
        # The moments that a rule sees are those of InfoNCE at this temperature.
        unread.pop("tau", None)
    for key in changes:
        if why := unread.get(key.rstrip("_")):
            raise RarefeatError(f"{key}: has no effect: {why}")


def check_fresh(fresh: Any) -> None:
    """Raise RarefeatError unless `fresh` is True or False: a text would be true."""
    if not isinstance(fresh, bool):
        raise RarefeatError(f"fresh: must be True or False, got {fresh!r}")


def check_options(name: str, options: Options) -> dict[str, Any]:
    """Return options as a dictionary, empty for None; RarefeatError for what is no mapping."""
    return {} if options is None else dict(check_type(name, options, Mapping))


@entry_point
def train_learners(
    eps_min: float = 0.5,
    sigma: float = 0.05,
    seed: int | Iterable[int] = 100,
    *,
    data_law: Choice = "paper",
    encoder: Choice = "paper",
    loss: Choice = "infonce",
    optimiser: Choice = "sgd",
    data_options: Options = None,
    encoder_options: Options = None,
    loss_options: Options = None,
    optimiser_options: Options = None,
    fresh: bool = False,
    arm: ArmArgument = "dense",
    study: str = "paper",
    config: Project | None = None,
    progress: bool = True,
    on_step: Callable[[int, dict[int, float]], None] | None = None,
    **changes: Any,
) -> Learners:
    """Train a learner of your own choice and measure it.

    Where all four choices are the paper's, it trains in closed form, with the numbers of
    `rarefeat.train(simulator="direct")`; anything else goes through autograd. Replicas of one seed
    share features, pairs and noise, whatever learns them. Seeds of built-in parts train at once;
    with code of your own each trains alone, in a process of its own (docs/own_code.md).

    Parameters
    ----------
    eps_min, sigma, study, config, progress
        As in `train`; at eps_min = 0 the rare features are never seen.
    seed : int or iterable of int
        One for each replica.
    data_law : str or callable
        paper, correlated, power_law, magnitudes or classes; MODULE:NAME of a file; or a function
        of (n, generator, probability), see docs/own_learner.md.
    encoder : str or callable
        paper, double, relu, linear, mlp or attention; MODULE:NAME; or a subclass of
        torch.nn.Module that is built by (d1, m).
    loss : str or callable
        infonce, symmetric_infonce, nt_xent, spectral, barlow_twins, vicreg or supervised;
        MODULE:NAME; or a function of (f_x, f_y).
    optimiser : str or callable
        sgd, momentum, adam or adamw; MODULE:NAME; or a class of torch.optim.
    data_options, encoder_options, loss_options, optimiser_options : mapping, optional
        Options of each, as in ``loss_options={"tau": 0.5}``.
    fresh : bool
        Whether every pair is seen once; else N pairs come back, with fresh noise.
    arm
        As in `train`. But for the paper's learner, its mask is of first-layer neurons and
        `pruned_update` is straight_through.
    on_step : callable, optional
        Called as ``on_step(step, losses)`` at every step, with the loss of each seed that trains:
        of all at once, or with own code of one alone.
    **changes
        As in `train`.

    Raises
    ------
    RarefeatError
        With one line for a key that is not allowed, or a choice that breaks its contract.

    Examples
    --------
    >>> import torch
    >>> learners = rarefeat.train_learners(loss="barlow_twins", seed=range(2), T=20, N=512, d1=32)
    >>> len(learners.table), tuple(learners(torch.zeros(5, 4, 32)).shape)
    (18, (2, 5, 30))
    """
    keys = changes | {
        "data_law": data_law, "encoder": encoder, "loss": loss, "optimiser": optimiser,
        "data_options": data_options, "encoder_options": encoder_options,
        "loss_options": loss_options, "optimiser_options": optimiser_options,
        "fresh": fresh, "arm": arm,
    }  # fmt: skip
    seeds, points = check_seeds(seed), {"eps_min": [eps_min], "sigma": [sigma]}
    plan = plan_learner(config, study, points, seeds, keys)
    chosen = plan.study
    with progress_display(bool(progress), on_step):
        result, table, given = plan.train(plan.cells[0], seeds)
    return make_learners(
        table, given, plan.learner, chosen.data, chosen.training, result, chosen.draws
    )


@entry_point
def stream_pairs(
    eps_min: float = 0.5,
    sigma: float = 0.05,
    seed: int = 100,
    *,
    data_law: Choice = "paper",
    data_options: Options = None,
    fresh: bool = True,
    study: str = "paper",
    config: Project | None = None,
    **changes: Any,
) -> PairStream:
    """Return the positive pairs of a data law as a data source of any PyTorch project.

    Parameters
    ----------
    eps_min, sigma, seed, study, config
        As in `train`.
    data_law, data_options
        As in `train_learners`.
    fresh : bool
        Whether every pair comes once; else N pairs come back, with fresh noise.
    **changes
        Keys of `data` and `training`, of which K is the size of a batch. What no pair depends on,
        as `eta`, has no effect.

    Returns
    -------
    torch.utils.data.IterableDataset
        An endless stream of (first views, second views, features): (K, L, d1), (K, L, d1) and
        (K, d). Its attribute `dictionary` has the features as columns.

    Examples
    --------
    >>> import torch
    >>> pairs = rarefeat.stream_pairs(K=32, N=512, d1=50)
    >>> loader = torch.utils.data.DataLoader(pairs, batch_size=None)
    >>> [tuple(item.shape) for item in next(iter(loader))]
    [(32, 4, 50), (32, 4, 50), (32, 9)]
    """
    seed, points = check_int("seed", seed), {"eps_min": [eps_min], "sigma": [sigma]}
    check_fresh(fresh)
    chosen = build_learner_study(config, study, points, "dense", [seed], changes)
    learner = Learner(
        data_law, data_options=check_options("data_options", data_options), fresh=fresh
    )
    sigma, eps_min = float(sigma), float(eps_min)
    return PairStream(chosen.draws, learner, chosen.data, chosen.training, sigma, eps_min, seed)
