"""Learners of one's own from Python: trained here, or fed by one's own loop."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pandas as pd
import torch
from matplotlib.axes import Axes
from torch import Tensor

from rarefeat.api.arguments import (
    ArmArgument,
    argument_names,
    build_study,
    check_int,
    check_keys,
    check_type,
    check_values,
    register_rules,
    to_list,
)
from rarefeat.api.entry_points import entry_point
from rarefeat.api.plots import plot_readout
from rarefeat.errors import RarefeatError
from rarefeat.model.rooms import train_alone
from rarefeat.statistics import student_interval
from rarefeat.training.choices import Choice, choice_name
from rarefeat.training.learners import KINDS, Learner, TrainedLearners, build_modules, own_parts
from rarefeat.training.optimisers import OPTIMISERS
from rarefeat.training.readout import learn
from rarefeat.training.streams import PairStream
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.cli_helpers import progress_display

Options = Mapping[str, Any] | None


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
                f"learners: tokens: must be (n, L, {d1}) or (S, n, L, {d1}), got {(*tokens.shape,)}"
            )
        if tokens.dim() == 3:
            tokens = tokens.expand(len(self.seeds), *tokens.shape)
        if self.replicas.module:
            with torch.no_grad():
                return self.replicas.embed(tokens)

        def embed(seed: int) -> Tensor:
            place = self.seeds.index(seed)
            with torch.no_grad():
                return self._build(place)(tokens[place])

        own = own_parts(self.learner)
        return torch.stack(train_alone(embed, self.draws, self.seeds, own, is_rehearsed=False))

    def _build(self, place: int) -> torch.nn.Module:
        """Build the encoder of a replica with its trained parameters."""
        settings = self.learner, self.draws, self.data, self.training
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
        if seed not in self.seeds:
            raise RarefeatError(f"learners: seed: must be one of {self.seeds}, got {seed!r}")
        place = self.seeds.index(seed)
        module = self._build(place)
        tokens = torch.randn(len(self.seeds), 6, self.data.L, self.data.d1)
        with torch.no_grad():
            if not torch.allclose(module(tokens[place]), self(tokens)[place], 1e-3, 1e-5):
                name = choice_name(self.learner.encoder)
                raise RarefeatError(
                    f"learners: module: {name} is built otherwise here than where it was trained;"
                    " it must depend on its parameters and buffers alone"
                )
        return module


def build_learner_study(
    caller: str,
    config: Project | None,
    study: str,
    points: Mapping[str, list[Any]],
    arm: ArmArgument,
    seeds: list[int],
    changes: Mapping[str, Any],
) -> Study:
    """Build the study of the direct simulator whose data and training a learner has."""
    if changes.get("simulator", "direct") != "direct":
        raise RarefeatError(
            f"{caller}: simulator: learners need every coordinate of a token,"
            f" got {changes['simulator']!r}; leave it out"
        )
    return build_study(
        caller, config, study, points, [arm], seeds, {**changes, "simulator": "direct"}
    )


def check_effect(
    caller: str,
    changes: Mapping[str, Any],
    learner: Learner,
    arm: ArmArgument,
    filled: Mapping[str, Mapping[str, Any]],
    module: torch.nn.Module,
) -> None:
    """Raise RarefeatError for a change that no part of a learner reads."""
    readers = {"sigma_0": "encoder", "attention_scale": "encoder", "lambda": "optimiser"}
    # The moments that a rule sees are those of InfoNCE at this temperature.
    readers |= {"tau": "loss"} if arm == "dense" else {}
    names = {"lambda": "weight_decay"}
    for key, kind in readers.items():
        asked = key in changes or f"{key}_" in changes
        name, options = names.get(key, key), getattr(learner, KINDS[kind][0])
        if asked and name not in filled[kind] and name not in options:
            choice = choice_name(getattr(learner, kind))
            raise RarefeatError(f"{caller}: {key}: has no effect: the {kind} {choice} takes none")
    if "bias" in changes and not getattr(module, "thresholds", ""):
        choice = choice_name(learner.encoder)
        raise RarefeatError(f"{caller}: bias: has no effect: the encoder {choice} takes none")
    if "history" in changes:
        raise RarefeatError(f"{caller}: history: has no effect: learners keep none")


def check_options(caller: str, **options: Options) -> dict[str, Any]:
    """Return options as dictionaries, empty for None; RarefeatError for what is no mapping."""
    return {
        name: {} if value is None else dict(check_type(caller, name, value, Mapping))
        for name, value in options.items()
    }


@entry_point
def train_learners(
    eps_min: float = 0.5,
    sigma: float = 0.05,
    seeds: int | Iterable[int] = 100,
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
        As in `train`.
    seeds : int or iterable of int
        One seed per replica.
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
    **changes
        As in `train`.

    Raises
    ------
    RarefeatError
        With one line for a key that is not allowed, or a choice that breaks its contract.

    Examples
    --------
    >>> import torch
    >>> learners = rarefeat.train_learners(loss="barlow_twins", seeds=range(2), T=20, N=512, d1=32)
    >>> len(learners.table), tuple(learners(torch.zeros(5, 4, 32)).shape)
    (18, (2, 5, 30))
    """
    caller = "train_learners"
    check_keys(caller, changes, argument_names(train_learners))
    options = check_options(
        caller,
        data_options=data_options,
        encoder_options=encoder_options,
        loss_options=loss_options,
        optimiser_options=optimiser_options,
    )
    if not isinstance(fresh, bool):
        raise RarefeatError(f"{caller}: fresh: must be True or False, got {fresh!r}")
    decay = changes.get("lambda", changes.get("lambda_"))
    if decay is not None and optimiser not in OPTIMISERS:
        options["optimiser_options"].setdefault("weight_decay", decay)
    learner = Learner(data_law, encoder, loss, optimiser, fresh=fresh, **options)
    replicas = [
        check_int(caller, "seeds", seed)
        for seed in to_list(seeds if isinstance(seeds, int) else list(seeds))
    ]
    check_values(caller, "seeds", replicas)
    register_rules(caller, [arm], [changes.get("bias")])
    if arm != "dense" and not learner.is_closed_form and "pruned_update" not in changes:
        changes["pruned_update"] = "straight_through"
    points = {"eps_min": [eps_min], "sigma": [sigma]}
    chosen = build_learner_study(caller, config, study, points, arm, replicas, changes)
    (only,), (point,) = chosen.arms, chosen.cells()
    sigma, eps_min = cast(float, point["sigma"]), cast(float, point["eps_min"])
    settings = learner, chosen.data, chosen.training
    check = partial(check_effect, caller, changes, learner, arm)
    with progress_display(bool(progress)):
        result, rows, filled = learn(
            chosen.draws, *settings, only, sigma, eps_min, replicas,
            check=check, with_untrained=True,
        )  # fmt: skip
    d, n_rare = chosen.data.d, len(chosen.data.minority)
    given = {kind: filled[kind] | getattr(learner, name) for kind, (name, _) in KINDS.items()}
    told = "; ".join(f"{kind}: {values}" for kind, values in given.items() if values)
    table = pd.DataFrame(rows).assign(given=told)
    return Learners(
        table,
        pd.DataFrame(result.trajectory),
        result.parameters,
        result.dictionary,
        replicas,
        list(range(d - n_rare, d)),
        given,
        *settings,
        result,
        chosen.draws,
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
        Keys of `data` and `training`, of which K is the size of a batch.

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
    caller = "stream_pairs"
    check_keys(caller, changes, argument_names(stream_pairs))
    seed = check_int(caller, "seed", seed)
    points = {"eps_min": [eps_min], "sigma": [sigma]}
    chosen = build_learner_study(caller, config, study, points, "dense", [seed], changes)
    (point,) = chosen.cells()
    (options,) = check_options(caller, data_options=data_options).values()
    learner = Learner(data_law, data_options=options, fresh=fresh)
    sigma, eps_min = cast(float, point["sigma"]), cast(float, point["eps_min"])
    return PairStream(chosen.draws, learner, chosen.data, chosen.training, sigma, eps_min, seed)
