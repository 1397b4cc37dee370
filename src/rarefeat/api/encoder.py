"""One encoder: trained here or by the workflow, called, drawn, saved and loaded."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import pandas as pd
import torch
from matplotlib.axes import Axes
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.functional import pad

from rarefeat.api.arguments import (
    ArmArgument,
    build_study,
    check_int,
    check_number,
    check_type,
    find_arm,
    register_rules,
)
from rarefeat.api.entry_points import entry_point
from rarefeat.api.plots import plot_metrics, plot_neuron
from rarefeat.errors import RarefeatError
from rarefeat.figures.labels import arm_label
from rarefeat.model.encoder import attend, embed, pre_activations
from rarefeat.model.neurons import absolute_cosines, alignment_metrics
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.model.simulators import make_simulator
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.encoders import Paper
from rarefeat.training.pretraining import ALWAYS, pretrain
from rarefeat.workflow.config.cells import Cell, cell_path
from rarefeat.workflow.config.cells import cell as make_cell
from rarefeat.workflow.config.model import Arm, Bias, Data, Training
from rarefeat.workflow.config.names import shorten_repr, suggest
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.config.study import AXES
from rarefeat.workflow.files import sealed_files
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.cli_helpers import progress_display
from rarefeat.workflow.run.code_hashes import module_hashes
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.metadata import read_job_metadata
from rarefeat.workflow.study_kind import PRETRAIN


class Batch(NamedTuple):
    """Positive pairs that `Encoder.sample_pairs` has drawn.

    Attributes
    ----------
    latents : Tensor of shape (n, 2, L, d)
        int8, entries in {-1, 0, 1}.
    tokens : Tensor of shape (n, 2, L, P)
        Tokens in the simulator's coordinates.
    """

    latents: Tensor
    tokens: Tensor


@dataclass(frozen=True, eq=False)
class Encoder:
    """A trained encoder of one seed, with the config that it was trained with.

    It maps a sample X of L tokens to an embedding f(X) in R^m. After attention, the activation of
    neuron i at token x is ReLU(<w_i, x> - b_i) - ReLU(-<w_i, x> - b_i). Call it with tokens, or
    with a batch of `sample_pairs`.

    Attributes
    ----------
    weights : Tensor of shape (m, p)
        w_i in the simulator's p coordinates.
    bias : Tensor of shape (m,)
        b_i.
    T1 : int
        Step that ended stage 1; -1 for none.
    T2 : int
        Step that ended stage 2, where a history is kept: a neuron has grown d-fold in norm^2 since
        T1; -1 for none.
    history : Tensor of shape (R, m, d + 2)
        <w_i, M_j>, ||w_i|| and b_i at the R recorded `steps`; with a colour nuisance, its
        directions stand after the d features. R = 0 unless `training.history` is true.
        `neuron_history` gives that of one neuron as a table.
    milestones : Tensor of shape (2, m, d + 2)
        The same values at T1 and at T2, NaN where that was not reached; of shape (0, m, d + 2)
        without a history.
    loss : float
        Unmasked InfoNCE of the last step's batch (nat); above twice log K, or infinite, the
        training has diverged.
    dictionary : Tensor of shape (p, d)
        The features M_j as columns, the rare ones last.
    trajectory : DataFrame
        A row (step, metric, value) for each recorded step and metric; losses are those of the
        step's own batch. Metrics are described in `stages/tables.py`.
    study : str
        Name that keys the random draws.
    eps_min, sigma, arm, seed, simulator, data, training
        What it was trained with; the last two are sections of the config.

    References
    ----------
    imbalance_and_pruning: eq. (1) for the encoder, Algorithm 1 for its training, eq. (34) for T1,
    eq. (61) for T2.
    """

    weights: Tensor = field(repr=False)
    bias: Tensor = field(repr=False)
    T1: int
    T2: int
    history: Tensor = field(repr=False)
    milestones: Tensor = field(repr=False)
    loss: float
    dictionary: Tensor = field(repr=False)
    trajectory: pd.DataFrame = field(repr=False)
    study: str
    eps_min: float
    sigma: float
    arm: Arm
    seed: int
    simulator: Literal["direct", "reduced"]
    data: Data = field(repr=False)
    training: Training = field(repr=False)

    @property
    @entry_point
    def cosines(self) -> Tensor:
        """|<w_i, M_j>| / ||w_i||, of shape (m, d)."""
        return absolute_cosines(self.weights[None], self.dictionary[None])[0]

    @property
    def rare_features(self) -> list[int]:
        """Numbers j of the rare features."""
        return list(range(self.data.d - len(self.data.minority), self.data.d))

    @property
    def steps(self) -> list[int]:
        """Recorded steps, of `history` and of `trajectory`."""
        return log_spaced(self.training.T)

    @property
    @entry_point
    def metrics(self) -> dict[str, float]:
        """Metrics of the neurons by name, those of Figures 1 and 2 among them."""
        metrics = alignment_metrics(
            self.weights[None], self.dictionary[None], len(self.data.minority)
        )
        return {name: value.item() for name, value in metrics.items()}

    @entry_point
    def neuron_history(self, neuron: int) -> pd.DataFrame:
        """Return the history of one neuron as a table.

        Parameters
        ----------
        neuron : int
            Its number i, from 0 to m - 1.

        Returns
        -------
        DataFrame
            A row for each recorded step, which is the index. Columns 0 to d - 1 hold <w_i, M_j>,
            `norm` holds ||w_i|| and `bias` b_i; between them `colour 0` and so on hold the
            nuisance's directions where there is one.

        Raises
        ------
        RarefeatError
            If the training kept no history, or has no such neuron.

        Examples
        --------
        >>> encoder = rarefeat.train(eps_min=1.0, T=50, history=True)
        >>> rare = encoder.rare_features[0]
        >>> history = encoder.neuron_history(int(encoder.cosines[:, rare].argmax()))
        >>> cosine = history[rare].abs() / history["norm"]
        >>> bool(cosine.iloc[-1] > cosine.iloc[0])
        True
        """
        if not len(self.history):
            raise RarefeatError(
                "this training kept no history; train with history=True, or set training.history"
                " of the study"
            )
        neuron, m = check_int("neuron", neuron), self.training.m
        if not 0 <= neuron < m:
            raise RarefeatError(f"neuron: must be from 0 to {m - 1}, got {shorten_repr(neuron)}")
        colours = [f"colour {index}" for index in range(self.data.views.colour)]
        names = [*range(self.data.d), *colours, "norm", "bias"]
        values = self.history[:, neuron].numpy()
        return pd.DataFrame(values, columns=names, index=pd.Index(self.steps, name="step"))

    @entry_point
    def sample_pairs(self, n: int, seed: int = 0) -> Batch:
        """Draw new positive pairs of its data model, at its eps_min and sigma.

        Parameters
        ----------
        n : int
            Number of pairs, at least 1.
        seed : int
            Seed of this draw; no training has seen its pairs.

        Returns
        -------
        Batch
            `latents`, int8 (n, 2, L, d), and `tokens`, (n, 2, L, P), in the coordinates of
            `weights`; those beyond its p take part in the attention alone.

        References
        ----------
        imbalance_and_pruning, Assumptions 3.1 to 3.4.

        Examples
        --------
        >>> encoder = rarefeat.train(T=20, N=512)
        >>> pairs = encoder.sample_pairs(64)
        >>> tuple(pairs.tokens.shape[:3]), tuple(encoder(pairs).shape)
        ((64, 2, 4), (64, 2, 30))
        >>> tuple(encoder(pairs.tokens[0, 0]).shape)
        (30,)
        """
        n, seed = check_int("n", n), check_int("seed", seed)
        data = self.data
        probability = activation_probability(
            frequencies(data.d, data.minority, self.eps_min), data.C
        )
        latents = latent_pairs(
            n, data.L, probability, generator(self.study, self.seed, f"batch {seed}")
        )
        space = make_simulator(
            self.simulator, self.study, data.d, data.d1, self.training.m, [self.seed]
        )
        noise = [generator(self.study, self.seed, f"noise of batch {seed}")]
        pairs = PairSampler(data.views, space, self.simulator, self.study, [self.seed])
        pairs.masks, pairs.colours = (
            [generator(self.study, self.seed, f"{purpose} of batch {seed}")]
            for purpose in ("mask", "colour")
        )
        # Pairs come as K first views and then K second ones.
        views = pairs.sample_pair_tokens(
            latents.transpose(0, 1).flatten(0, 1)[None].float(), self.sigma, noise
        )[0, : 2 * n]
        return Batch(latents, views.unflatten(0, (2, n)).transpose(0, 1))

    @entry_point
    def __call__(self, samples: Tensor | Batch) -> Tensor:
        """Embed samples.

        Parameters
        ----------
        samples : Tensor of shape (..., L, P), or Batch
            Tokens of samples, or both views of n pairs.

        Returns
        -------
        Tensor of shape (..., m)
            f(X) of each sample, float32; (n, 2, m) of a batch.

        Raises
        ------
        RarefeatError
            If the samples are no tokens of at least p coordinates.
        """
        tokens, p = samples.tokens if isinstance(samples, Batch) else samples, self.weights.shape[1]
        tokens = torch.as_tensor(tokens, dtype=torch.float32)
        if tokens.dim() < 2 or tokens.shape[-1] < p:
            raise RarefeatError(
                f"samples: must be tokens (..., L, P) with P of at least {p}, got"
                f" {(*tokens.shape,)}"
            )
        shape = (*tokens.shape[:-2], self.weights.shape[0])
        flat = tokens.reshape(1, -1, *tokens.shape[-2:])
        attended = attend(flat, self.training.logit_scale(self.data.d1))
        pre = pre_activations(attended, self.weights[None])
        return embed(pre, self.bias[None])[0].view(shape)

    @entry_point
    def plot(self, neuron: int | None = None, ax: Axes | None = None) -> Axes:
        """Draw how well the rare feature and the others are learned, or the history of a neuron.

        Parameters
        ----------
        neuron : int, optional
            Number of a neuron, of which |cos(w_i, M_j)| is drawn for every feature j, the rare ones
            dashed; needs a history.
        ax : matplotlib Axes, optional
            Axes; those of a new figure by default.
        """
        if neuron is not None:
            return plot_neuron(self.neuron_history(neuron), self.rare_features, neuron, ax)
        point = rf"$\varepsilon_{{\min}}$ = {self.eps_min:g}, seed {self.seed}"
        return plot_metrics(self.trajectory, f"{arm_label(self.arm.arm)}, {point}", ax)

    @entry_point
    def save(self, path: str | Path) -> None:
        """Write the encoder to a file of safetensors, which `rarefeat.load` reads.

        A file that is there is replaced.
        """
        metrics = list(dict.fromkeys(self.trajectory["metric"]))
        names = (*ALWAYS, "dictionary")
        tensors = {name: torch.as_tensor(getattr(self, FIELDS.get(name, name))) for name in names}
        columns = {**self.trajectory, "metric": self.trajectory["metric"].map(metrics.index)}
        tensors |= {
            name: torch.as_tensor(columns[name].to_numpy().copy())
            for name in ("step", "metric", "value")
        }
        origin = {key: dump_config(getattr(self, key)) for key in SAVED} | {"metrics": metrics}
        write_tensors(path, tensors, json.dumps(origin, sort_keys=True))

    @entry_point
    def module(self) -> torch.nn.Module:
        """Return the encoder as a plain module, tokens (n, L, P) to (n, m).

        `torch.export.save(torch.export.export(module, (tokens,)), "encoder.pt2")` writes it for
        programs that have torch alone.
        """
        P = self.sample_pairs(1).tokens.shape[-1]
        module = Paper(P, self.training.m, 1.0, self.training.logit_scale(self.data.d1))
        # Coordinates beyond those of the weights take part in the attention alone.
        weights = pad(self.weights, (0, P - self.weights.shape[1]))
        module.load_state_dict({"weights": weights, "bias": self.bias})
        return module.eval()


FIELDS = {"ends": "milestones"}
"""Attributes of an encoder whose names in files are others."""
SAVED = ("study", "eps_min", "sigma", "arm", "seed", "simulator", "data", "training")
"""Attributes that stand in the metadata of a saved encoder."""


def read_saved(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read metadata and tensors of what `save` has written, an encoder or learners."""
    origin = read_job_metadata(path) if path.suffix == ".safetensors" else None
    if not origin or not ({*SAVED, "metrics"} == set(origin) or "learner" in origin):
        problem = "holds no saved encoder" if path.is_file() else "does not exist"
        raise RarefeatError(f"{path} {problem}; load_encoder reads those of the workflow")
    try:
        with safe_open(path, framework="pt") as handle:
            names = list(handle.keys())
        return origin, dict(zip(names, read_tensors(path, *names), strict=True))
    except (sealed_files.DamagedFileError, SafetensorError) as error:
        raise RarefeatError(f"{path} is damaged; save it again") from error


def read_training(values: Mapping[str, Any]) -> Training:
    """Return the section `training` of a saved config, in which no rule is looked up."""
    bias = Bias.model_construct(**values["bias"])
    return Training.model_construct(**{**values, "bias": bias})


def load_encoder_file(origin: dict[str, Any], values: dict[str, Any]) -> Encoder:
    """Build an encoder from what `save` has written."""
    rows = pd.DataFrame({name: values.pop(name).numpy() for name in ("step", "metric", "value")})
    rows["metric"] = rows["metric"].map(dict(enumerate(origin.pop("metrics"))))
    values |= {"T1": int(values["T1"]), "T2": int(values["T2"]), "loss": float(values["loss"])}
    origin |= {
        "arm": Arm.model_construct(**origin["arm"]),
        "training": read_training(origin["training"]),
        "data": Data.model_validate(origin["data"]),
    }
    values = {FIELDS.get(name, name): value for name, value in values.items()}
    return Encoder(**values, **origin, trajectory=rows)


@entry_point
def train(
    eps_min: float = 0.5,
    sigma: float = 0.05,
    arm: ArmArgument = "dense",
    seed: int = 100,
    *,
    study: str = "paper",
    config: Project | None = None,
    progress: bool = True,
    on_step: Callable[[int, dict[int, float]], None] | None = None,
    **changes: Any,
) -> Encoder:
    """Train one encoder, with the values of a study of the config but for those given here.

    The numbers are those of the workflow: at the same values, on one machine, the encoder is byte
    for byte that of its files.

    Parameters
    ----------
    eps_min : float
        Frequency of the rare feature in units of the others', eps_min / eps_max in (0, 1].
    sigma : float
        Standard deviation of the noise of a token.
    arm : str, function or mapping
        A built-in arm: dense, pruned_neuron, largest_neuron, oracle_gated, ..., with the ratio of
        the study's arms unless alpha is given; `pruned_weight` needs simulator="direct". Or the
        label of one arm of the study, as in `pruned_neuron-alpha=0.1`. Or a rule of your own: a
        function of `rarefeat.PruningContext` that this session defines and that returns a mask,
        bool (S, m) or (S, m, p); or that of a file, by its name MODULE:FUNCTION. Or the keys of an
        arm, as in ``{"arm": "pruned_neuron", "alpha": 0.3}``.
    seed : int
        Keys every random draw, together with `draws`, the study's name by default.
    study : str
        The study whose values hold where none are given here.
    config : Project, optional
        What `load_config` returns; `config/config.yaml` by default.
    progress : bool
        Whether to show a bar.
    on_step : callable, optional
        Called as ``on_step(step, losses)`` at every step, with its loss by seed.
    **changes
        Keys of the study (simulator, draws), of its `data` (d1, N, ...), of its `training` (T, eta,
        bias, ...; `lambda_` for lambda) or of its arm (alpha, onset, pruned_update). A section is
        a mapping of the keys that differ, as in ``bias={"share": 0}``, or ``bias={"rule": rule}``
        with a function of `rarefeat.BiasContext` that returns the bias, float32 (S, m).
        docs/reference/config.md lists the keys and their bounds.

    Raises
    ------
    RarefeatError
        With one line that names a key that is unknown, of another type, out of its bounds, or at
        odds with another one; or a rule of your own that is no function of its context.

    References
    ----------
    imbalance_and_pruning: the data model is Assumptions 3.1 to 3.4, the training eq. (1) to (5) and
    Algorithm 1. docs/own_rule.md is about rules of your own.

    Examples
    --------
    >>> encoder = rarefeat.train(eps_min=0.3, arm="oracle_all", T=20, N=512)
    >>> tuple(encoder.weights.shape), tuple(encoder.cosines.shape)
    ((30, 40), (30, 9))
    >>> encoder.trajectory.query("metric == 'loss'")["step"].tolist() == encoder.steps
    True
    >>> rarefeat.train(eps_min="0.5")
    Traceback (most recent call last):
    ...
    rarefeat.errors.RarefeatError: train: eps_min: must be a number, got '0.5'
    """
    seed = check_int("seed", seed)
    register_rules([arm], [changes.get("bias")])
    points = {"eps_min": [eps_min], "sigma": [sigma]}
    chosen = build_study(config, study, points, [arm], [seed], changes)
    only, *others = chosen.arms
    if others or not only.trained:
        raise RarefeatError(f"arm: must be one with a training, got {arm!r}; see rarefeat.sweep")
    (point,) = chosen.cells()
    sigma, eps_min = cast(float, point["sigma"]), cast(float, point["eps_min"])
    settings = (chosen.draws, chosen.simulator, chosen.data, chosen.training)
    with progress_display(bool(progress), on_step):
        latents = synthesise(chosen.draws, chosen.data, eps_min, [seed])["train"]
        encoders, rows = pretrain(*settings, [only], sigma, [seed], latents, label="train")
    tensors = [getattr(encoders[only.label], name)[0] for name in ALWAYS]
    return build_encoder(tensors, pd.DataFrame(rows), eps_min, sigma, only, seed, *settings)


def build_encoder(
    tensors: Iterable[Tensor],
    trajectory: pd.DataFrame,
    eps_min: float,
    sigma: float,
    arm: Arm,
    seed: int,
    draws: str,
    simulator: Literal["direct", "reduced"],
    data: Data,
    training: Training,
) -> Encoder:
    """Build an encoder from the result of a training.

    The tensors are those of a `TrainedEncoder`, each without the axis of replicas, and the rows of
    the trajectory those of this arm and seed. The dictionary is drawn again.
    """
    weights, bias, T1, T2, history, milestones, loss = tensors
    space = make_simulator(simulator, draws, data.d, data.d1, training.m, [seed])
    return Encoder(
        weights=weights,
        bias=bias,
        T1=int(T1),
        T2=int(T2),
        history=history,
        milestones=milestones,
        loss=float(loss),
        dictionary=space.dictionary[0],
        trajectory=trajectory[["step", "metric", "value"]].reset_index(drop=True),
        study=draws,
        eps_min=eps_min,
        sigma=sigma,
        arm=arm,
        seed=seed,
        simulator=simulator,
        data=data,
        training=training,
    )


@entry_point
def load_encoder(
    results: str | Path, study: str, cell: Mapping[str, float], arm: str = "dense", seed: int = 100
) -> Encoder:
    """Load an encoder that the workflow has trained.

    The file's hash is checked, and that it is of this study, cell and seed block. The config of its
    training comes from the file itself, whatever the config of today is; `snakemake -n` says if the
    file is up to date.

    Parameters
    ----------
    results : str or Path
        Folder of results, as in "results/quick".
    study : str
        Name of a study of the contrastive encoder.
    cell : mapping
        Point of its grid, as in ``{"eps_min": 0.5, "sigma": 0.05}``.
    arm : str
        A trained arm by its label, as in `pruned_neuron-alpha=0.1`, or by its name if one arm alone
        has it.
    seed : int
        The seed.

    Raises
    ------
    RarefeatError
        If there is no such file, arm or seed; or a file is damaged, or is not what its name says.

    Warns
    -----
    UserWarning
        If the encoder was trained by other code than this: its `dictionary` is drawn again, and may
        be another.

    Examples
    --------
    >>> cell = {"eps_min": 0.2, "sigma": 0.05}
    >>> encoder = rarefeat.load_encoder("results/quick", "paper", cell, "dense", seed=100)
    >>> encoder.training.T, tuple(encoder.cosines.shape)
    (60, (30, 9))
    """
    results, seed = Path(check_type("results", results, str, Path)), check_int("seed", seed)
    if set(check_type("cell", cell, Mapping)) != set(AXES):
        keys = ", ".join(map(str, cell)) or "none"
        raise RarefeatError(f"cell: must have the keys {' and '.join(AXES)}, got {keys}")
    # 0.0 for -0.0, as in the names of files.
    point = make_cell(
        **{axis: float(check_number(f"cell: {axis}", cell[axis])) + 0.0 for axis in AXES}
    )
    block, job = find_seed_block(results, check_type("study", study, str), point, seed)
    encoders, trajectories = (
        results / cell_path(kind, study, point, block, suffix)
        for kind, suffix in (("encoders", "safetensors"), ("trajectories", "parquet"))
    )
    only = find_arm(job.config_section("arms", list[Arm]), study, check_type("arm", arm, str))
    row = job.seed_list.index(seed)
    names = [f"{only.label}/{name}" for name in ALWAYS]
    expected = job.model_dump(include={"study", "cell", "seeds", "config", "code"})
    tensors = [tensor[row] for tensor in read_tensors(encoders, *names, expected=expected)]
    table = sealed_files.read_table(trajectories, expected).to_pandas()
    is_arm = (table[list(only.model_dump())] == pd.Series(only.model_dump())).all(axis=1)
    if not module_hashes(*PRETRAIN.lineage).items() <= job.code.items():  # own code is in it, too
        message = f"{encoders} was trained by other code than this; its dictionary may be another"
        warnings.warn(message, stacklevel=3)
    kinds = {"draws": str, "simulator": str, "data": Data, "training": Training}
    settings = [job.config_section(name, kind) for name, kind in kinds.items()]
    rows = table[is_arm & (table["seed"] == seed)]
    eps_min, sigma = (cast(float, point[axis]) for axis in AXES)
    return build_encoder(tensors, rows, eps_min, sigma, only, seed, *settings)


def find_seed_block(results: Path, study: str, point: Cell, seed: int) -> tuple[str, Job]:
    """Find the seed block, FIRST-LAST, that holds a seed, and the job that trained it.

    Several files may hold it after a change of `seeds_per_block`; their numbers are the same if
    config and code are, and RarefeatError is raised if these are not.
    """
    folder = results / "encoders" / study / point.path
    blocks = sorted(
        path.stem.removeprefix("seeds=") for path in folder.glob("seeds=*-*.safetensors")
    )
    jobs: dict[str, Job] = {}
    for block in blocks:
        first, last = map(int, block.split("-"))
        if first <= seed <= last:
            path = folder / f"seeds={block}.safetensors"
            read_tensors(path, expected={"study": study, "cell": point.values, "seeds": block})
            jobs[block] = Job.model_validate(read_job_metadata(path))
    if not jobs:
        studies = [path.name for path in (results / "encoders").glob("*")]
        hint = "" if study in studies else suggest(study, studies)
        raise RarefeatError(
            f"{folder} holds no encoder of seed {seed}{hint}; its seed blocks are"
            f" {', '.join(blocks) or 'none'}: is the cell in the grid of {study}, and has snakemake"
            " trained it?"
        )
    first_job = next(iter(jobs.values()))
    if any((job.config, job.code) != (first_job.config, first_job.code) for job in jobs.values()):
        raise RarefeatError(
            f"{folder}: seeds={' and seeds='.join(jobs)} both hold seed {seed}, of"
            " another config or code; delete one"
        )
    return next(iter(jobs.items()))
