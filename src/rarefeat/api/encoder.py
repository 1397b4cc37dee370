"""An encoder: trained here or by the workflow, saved and loaded, called, drawn."""

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rarefeat.api.arguments import (
    ARGUMENT_SECTIONS,
    AnArm,
    build_study,
    check_int,
    check_number,
    check_study_name,
    check_type,
    find_arm,
    one_thread,
)
from rarefeat.api.deprecated import former
from rarefeat.chain.pretrain import TrainedEncoder as Trained
from rarefeat.chain.pretrain import pretrain
from rarefeat.chain.synthesise import synthesise
from rarefeat.config.cells import Cell, cell_path
from rarefeat.config.cells import cell as a_cell
from rarefeat.config.model import Arm, Bias, Data, Training
from rarefeat.config.names import shorten_repr, suggest
from rarefeat.config.section import dump_config
from rarefeat.config.study import AXES
from rarefeat.core.encoder import attend, embed, pre_activations
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import absolute_cosines, alignment_metrics
from rarefeat.core.positive_pairs import PairSampler
from rarefeat.core.randomness import generator
from rarefeat.core.recorded_steps import log_spaced
from rarefeat.core.simulators import make_simulator
from rarefeat.core.sparse_coding import frequencies, latent_pairs
from rarefeat.core.theory import activation_probability
from rarefeat.project import Project
from rarefeat.run.cli_helpers import progress_display
from rarefeat.run.code_hashes import code_hash
from rarefeat.run.job import Job, make_job
from rarefeat.run.metadata import read_job_metadata
from rarefeat.storage import sealed_files
from rarefeat.storage.tensors import read_tensors, write_tensors
from rarefeat.study_kind import PRETRAIN


@dataclass(frozen=True, eq=False)
class Encoder:
    """A trained encoder of one seed, with what it was trained from.

    It maps a sample X of L tokens to f(X) in R^m: after attention, neuron i answers to token x with
    ReLU(<w_i, x> - b_i) - ReLU(-<w_i, x> - b_i). Call it with tokens, or with what `batch` draws.

    Attributes
    ----------
    weights : Tensor
        w_i in the simulator's p coordinates, (m, p).
    bias : Tensor
        b_i, (m,).
    T1 : int
        The step that ended stage 1; -1 for none.
    T2 : int
        The step that ended stage 2, where the history is kept: a neuron has grown d-fold in norm^2 since T1; -1 for none.
    history : Tensor
        (R, m, d + 2): <w_i, M_j>, ||w_i|| and b_i at the R recorded `steps`; with a colour nuisance, its directions stand after
        the d features. R = 0 unless `training.history` is true. `course` shows one neuron's as a table.
    ends : Tensor
        (2, m, d + 2), the same at T1 and at T2, NaN where that was not reached; (0, m, d + 2) without a history.
    loss : float
        Unmasked InfoNCE of the last step's batch, in nat; above twice log K, or infinite, the training has diverged.
    dictionary : Tensor
        The features M_j as columns, (p, d), the rare ones last.
    trajectory : DataFrame
        A row (step, metric, value) for each recorded step and metric; losses are those of the step's own batch.
    study : str
        Name that keys the random draws.
    eps_min, sigma : float
        Where in the grid it stands.
    arm : rarefeat.config.model.Arm
    seed : int
    simulator : str
        direct or reduced.
    data : rarefeat.config.model.Data
    training : rarefeat.config.model.Training

    References
    ----------
    imbalance_and_pruning: eq. (1) for the encoder, Algorithm 1 for its training, eq. (34) for T1, eq. (61) for T2. The names of
    metrics are those of `chain/tables.py`.
    """

    weights: Tensor = field(repr=False)
    bias: Tensor = field(repr=False)
    T1: int
    T2: int
    history: Tensor = field(repr=False)
    ends: Tensor = field(repr=False)
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
    def cosines(self) -> Tensor:
        """|<w_i, M_j>| / ||w_i||, (m, d)."""
        return absolute_cosines(self.weights[None], self.dictionary[None])[0]

    @property
    def rare_features(self) -> list[int]:
        """Numbers j of the rare features."""
        return list(range(self.data.d - len(self.data.minority), self.data.d))

    @property
    def steps(self) -> list[int]:
        """The recorded steps, of `history` and of `trajectory`."""
        return log_spaced(self.training.T)

    @property
    def metrics(self) -> dict[str, float]:
        """What the neurons have learned: the metrics of Figures 1 and 2 and their like, by name."""
        found = alignment_metrics(
            self.weights[None], self.dictionary[None], len(self.data.minority)
        )
        return {name: value.item() for name, value in found.items()}

    def neuron_history(self, neuron: int) -> pd.DataFrame:
        """What one neuron did during training.

        Parameters
        ----------
        neuron : int
            Its number i, from 0 to m - 1.

        Returns
        -------
        DataFrame
            A row for each recorded step, which is the index; columns 0 to d - 1 hold <w_i, M_j>, `norm` ||w_i|| and `bias` b_i,
            and between them `colour 0` and so on the nuisance's directions where there is one.

        Raises
        ------
        RarefeatError
            Where the training kept no history, or has no such neuron.

        Examples
        --------
        >>> encoder = rarefeat.train(eps_min=1.0, T=50, history=True)
        >>> rare, best = encoder.rare[0], int(encoder.cosines[:, encoder.rare[0]].argmax())
        >>> course = encoder.course(best)
        >>> bool((course[rare].abs() / course["norm"]).iloc[-1] > (course[rare].abs() / course["norm"]).iloc[0])
        True
        """
        if not len(self.history):
            raise RarefeatError(
                "this training kept no history; train with history=True, or set training.history of the study"
            )
        neuron = check_int("course", "neuron", neuron)
        if not 0 <= neuron < self.training.m:
            raise RarefeatError(f"neuron must be from 0 to {self.training.m - 1}, got {neuron}")
        colours = [f"colour {index}" for index in range(self.data.views.colour)]
        names = [*range(self.data.d), *colours, "norm", "bias"]
        return pd.DataFrame(
            self.history[:, neuron].numpy(), columns=names, index=pd.Index(self.steps, name="step")
        )

    def sample_pairs(self, n: int, seed: int = 0) -> "Batch":
        """Draw fresh positive pairs of its data model, from Assumptions 3.1 to 3.4 at its eps_min and sigma.

        Parameters
        ----------
        n : int
            Number of pairs.
        seed : int
            Of this draw; no training has seen it.

        Returns
        -------
        Batch
            `latents`, int8 (n, 2, L, d), and `tokens`, (n, 2, L, P), in the coordinates of `weights`; those beyond its p take
            part in the attention alone.

        Examples
        --------
        >>> encoder = rarefeat.train(T=20, N=512)
        >>> pairs = encoder.batch(64)
        >>> tuple(pairs.tokens.shape[:3]), tuple(encoder(pairs).shape), tuple(encoder(pairs.tokens[0, 0]).shape)
        ((64, 2, 4), (64, 2, 30), (30,))
        """
        n, seed = check_int("batch", "n", n), check_int("batch", "seed", seed)
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
            [generator(self.study, self.seed, f"{what} of batch {seed}")]
            for what in ("mask", "colour")
        )
        # Pairs come as K first views and then K second ones.
        views = pairs.sample_pair_tokens(
            latents.transpose(0, 1).flatten(0, 1)[None].float(), self.sigma, noise
        )[0, : 2 * n]
        return Batch(latents, views.unflatten(0, (2, n)).transpose(0, 1))

    course = former("course", "neuron_history")
    rare = former("rare", "rare_features")
    batch = former("batch", "sample_pairs")

    def __call__(self, samples: "Tensor | Batch") -> Tensor:
        """Embeddings f(X), (..., m), of samples of tokens, (..., L, P), or of both views of a batch, (n, 2, m)."""
        tokens = torch.as_tensor(
            samples.tokens if isinstance(samples, Batch) else samples, dtype=torch.float32
        )
        least = self.weights.shape[-1]
        if tokens.dim() < 2 or tokens.shape[-1] < least:
            raise RarefeatError(
                f"samples must be tokens (..., L, P) with P of at least {least}, got {(*tokens.shape,)}"
            )
        attended = attend(tokens.flatten(0, -3)[None] if tokens.dim() > 2 else tokens[None, None])
        return embed(pre_activations(attended, self.weights[None]), self.bias[None])[0].view(
            *tokens.shape[:-2], -1
        )

    def plot(self, neuron: int | None = None, ax: Any = None) -> Any:
        """Draw its course: how well the rare feature and the others are learned; or what one neuron did.

        Parameters
        ----------
        neuron : int, optional
            Its number; needs a history. |cos(w_i, M_j)| for every feature j, the rare ones dashed.
        ax : matplotlib Axes, optional
            Where; a new figure if not given.

        Returns
        -------
        matplotlib Axes
        """
        from rarefeat.api.plots import plot_metrics, plot_neuron

        return plot_metrics(self, ax) if neuron is None else plot_neuron(self, neuron, ax)

    def save(self, path: str | Path) -> None:
        """Write it to a file of safetensors; `rarefeat.load` reads it."""
        metrics = list(dict.fromkeys(self.trajectory["metric"]))
        kept = {
            name: torch.as_tensor(getattr(self, name)) for name in (*Trained._fields, "dictionary")
        }
        columns = {**self.trajectory, "metric": self.trajectory["metric"].map(metrics.index)}
        kept |= {
            name: torch.as_tensor(columns[name].to_numpy().copy())
            for name in ("step", "metric", "value")
        }
        said = {key: dump_config(getattr(self, key)) for key in SAVED} | {"metrics": metrics}
        write_tensors(path, kept, json.dumps(said, sort_keys=True))

    def _repr_html_(self) -> str:
        from rarefeat.api.plots import encoder_html

        return encoder_html(self)


class Batch(NamedTuple):
    """Positive pairs that `Encoder.sample_pairs` draws."""

    latents: Tensor
    """int8 (n, 2, L, d), entries in {-1, 0, 1}."""
    tokens: Tensor
    """(n, 2, L, P)."""


SAVED = ("study", "eps_min", "sigma", "arm", "seed", "simulator", "data", "training")
"""What a saved encoder says of itself."""


def load(path: str | Path) -> Encoder:
    """Read an encoder that `Encoder.save` has written.

    Raises
    ------
    RarefeatError
        With one line: there is no such file, or it is damaged or holds something else.

    Examples
    --------
    >>> encoder = rarefeat.train(T=20, N=512)
    >>> encoder.save("one.safetensors")
    >>> rarefeat.load("one.safetensors").metrics == encoder.metrics
    True
    """
    path = Path(check_type("load", "path", path, str, Path))
    said = read_job_metadata(path)
    if not said or set(said) != {*SAVED, "metrics"}:
        raise RarefeatError(
            f"{path} is no encoder that was saved; load_encoder reads those of the workflow"
        )
    names = (*Trained._fields, "dictionary", "step", "metric", "value")
    parts = dict(zip(names, read_tensors(path, *names), strict=True))
    rows = pd.DataFrame({name: parts.pop(name).numpy() for name in ("step", "metric", "value")})
    rows["metric"] = rows["metric"].map(dict(enumerate(said.pop("metrics"))))
    parts |= {"T1": int(parts["T1"]), "T2": int(parts["T2"]), "loss": float(parts["loss"])}
    # Without a look at whether a rule of the user's own is here.
    training = said["training"] | {"bias": Bias.model_construct(**said["training"]["bias"])}
    said |= {
        "arm": Arm.model_construct(**said["arm"]),
        "training": Training.model_construct(**training),
    }
    said["data"] = Data.model_validate(said["data"])
    return Encoder(**parts, **said, trajectory=rows)


def train(
    eps_min: float = 0.5,
    sigma: float = 0.05,
    arm: AnArm = "dense",
    seed: int = 100,
    *,
    study: str = "paper",
    config: Project | None = None,
    progress: bool = True,
    **changes: Any,
) -> Encoder:
    """Train one encoder, with the values of a study of the config but for those given here.

    The numbers are those of the workflow: at the same values, on one machine, the encoder is byte for byte that of its files.

    Parameters
    ----------
    eps_min : float
        Frequency of the rare feature in units of the others', eps_min / eps_max in (0, 1].
    sigma : float
        Standard deviation of the noise of a token.
    arm : str or function
        Any that is built in, dense, pruned_neuron, largest_neuron, oracle_gated, ..., with the ratio of the study's arms unless
        alpha is given; `pruned_weight` needs simulator="direct". Or the label of one arm of the study, as in
        `pruned_neuron-alpha=0.1`; or a rule of your own, a function of `rarefeat.Seen` that returns a mask, bool (S, m) or
        (S, m, p), or its name MODULE:FUNCTION.
    seed : int
        Keys every random draw, together with the study's name.
    study : str
        The study whose values hold where nothing else is said.
    config : Project, optional
        What `load_config` returns; `config/config.yaml` if not given.
    progress : bool
        Whether to show a bar.
    **changes
        Keys of the study (simulator, draws), of its `data` (d1, N, ...), of its `training` (T, eta, bias, ...; `lambda_` for
        lambda) or of its arm (alpha, onset, pruned_update). A section takes a mapping of what differs, as in
        ``bias={"share": 0}``, or ``bias={"rule": my_rule}`` with a function of `rarefeat.Moved` that returns the bias, (S, m).
        docs/reference/config.md says what is allowed.

    Returns
    -------
    Encoder

    Raises
    ------
    RarefeatError
        With one line that names the key: unknown, of another type, out of its bounds, or at odds with another one.

    References
    ----------
    imbalance_and_pruning: the data model is Assumptions 3.1 to 3.4, the training eq. (1) to (5) and Algorithm 1.

    Examples
    --------
    >>> encoder = rarefeat.train(eps_min=0.3, arm="oracle_all", T=20, N=512)
    >>> tuple(encoder.weights.shape), tuple(encoder.cosines.shape)
    ((30, 40), (30, 9))
    >>> encoder.trajectory.query("metric == 'loss'")["step"].tolist() == encoder.steps
    True
    >>> rarefeat.train(eps_min=2)
    Traceback (most recent call last):
    ...
    rarefeat.core.errors.RarefeatError: train: eps_min: Input should be less than or equal to 1, got 2
    """
    of = "train"
    if several := [
        key for key in ARGUMENT_SECTIONS["arm"] if isinstance(changes.get(key), list | tuple)
    ]:
        raise RarefeatError(
            f"{of}: {several[0]}: must be one value, got {shorten_repr(changes[several[0]])}; see rarefeat.sweep"
        )
    chosen = build_study(
        config, study, {"eps_min": [eps_min], "sigma": [sigma]}, [arm], [seed], changes, of
    )
    (only,) = chosen.arms
    if not only.trained:
        find_arm([], study, only.arm)
    (point,) = chosen.cells()
    seed, sigma = chosen.first_seed, point["sigma"]
    with one_thread(), progress_display(progress):
        latents = synthesise(chosen.draws, chosen.data, point["eps_min"], [seed])["train"]
        what = (
            chosen.draws,
            chosen.simulator,
            chosen.data,
            chosen.training,
            [only],
            sigma,
            [seed],
            latents,
        )
        encoders, rows = pretrain(*what, label="train")
    told_to = make_job(
        PRETRAIN.function, (), chosen.pretrain_config(point), chosen.draws, point, f"{seed}-{seed}"
    )
    return build_encoder(
        (part[0] for part in encoders[only.label]), told_to, only, seed, pd.DataFrame(rows)
    )


def build_encoder(
    tensors: Iterable[Tensor], trained_by: Job, arm: Arm, seed: int, trajectory: pd.DataFrame
) -> Encoder:
    """An encoder from what training changes, each without the axis of replicas, and from the job that trained it."""
    weights, bias, T1, T2, history, ends, loss = tensors
    draws, simulator = (
        trained_by.config_section("draws", str),
        trained_by.config_section("simulator", str),
    )
    data, training = (
        trained_by.config_section("data", Data),
        trained_by.config_section("training", Training),
    )
    dictionary = make_simulator(simulator, draws, data.d, data.d1, training.m, [seed]).dictionary[0]
    return Encoder(
        weights=weights, bias=bias, T1=int(T1), T2=int(T2), history=history, ends=ends, loss=float(loss), dictionary=dictionary,
        trajectory=trajectory[["step", "metric", "value"]].reset_index(drop=True), study=draws, arm=arm, seed=seed,
        simulator=simulator, data=data, training=training, **trained_by.cell,
    )  # fmt: skip


def load_encoder(
    results: str | Path, study: str, cell: Mapping[str, float], arm: str = "dense", seed: int = 100
) -> Encoder:
    """Load an encoder that the workflow trained.

    Nothing is read that was not written so: the file's hash is checked, and that it is of this study, cell and block of seeds.
    What it was trained from comes from the file itself, whatever the config says by now; `snakemake -n` says whether that is
    up to date.

    Parameters
    ----------
    results : str or Path
        Folder of results, as in "results/quick".
    study : str
        Name of a study of the contrastive encoder.
    cell : mapping
        Its point in the grid, as in ``{"eps_min": 0.5, "sigma": 0.05}``.
    arm : str
        A trained arm by its label, as in `pruned_neuron-alpha=0.1`, or by its name where there is one of that name.
    seed : int

    Returns
    -------
    Encoder

    Raises
    ------
    RarefeatError
        With one line: there is no such file, arm or seed; a file is damaged, or another than its name says.

    Warns
    -----
    UserWarning
        Where the encoder was trained by other code than this: `dictionary` is drawn anew, and may be another.

    Examples
    --------
    >>> encoder = rarefeat.load_encoder("results/quick", "paper", {"eps_min": 0.2, "sigma": 0.05}, "dense", seed=100)
    >>> encoder.training.T, tuple(encoder.cosines.shape)
    (60, (30, 9))
    """
    of = "load_encoder"
    results = Path(check_type(of, "results", results, str, Path))
    study, seed = check_study_name(of, "study", study), check_int(of, "seed", seed)
    if set(check_type(of, "cell", cell, Mapping)) != set(AXES):
        raise RarefeatError(
            f"cell must have the keys {' and '.join(AXES)}, got {', '.join(map(str, cell)) or 'none'}"
        )
    at = a_cell(
        **{axis: float(check_number(of, f"cell: {axis}", cell[axis])) + 0.0 for axis in AXES}
    )
    block, trained_by = find_seed_block(results, study, at, seed)
    encoders, trajectories = (
        results / cell_path(kind, study, at, block, suffix)
        for kind, suffix in (("encoders", "safetensors"), ("trajectories", "parquet"))
    )
    only, row = (
        find_arm(trained_by.config_section("arms", list[Arm]), study, arm),
        trained_by.seed_list.index(seed),
    )
    names = [f"{only.label}/{name}" for name in Trained._fields]
    expected = trained_by.model_dump(include={"study", "cell", "seeds", "config", "code"})
    tensors = [tensor[row] for tensor in read_tensors(encoders, *names, expected=expected)]
    table = sealed_files.read_table(trajectories, expected).to_pandas()
    of_arm = (table[list(only.model_dump())] == pd.Series(only.model_dump())).all(axis=1)
    if trained_by.code.get(PRETRAIN.function) != code_hash(PRETRAIN.function):
        warnings.warn(
            f"{encoders} was trained by other code than this; its dictionary may be another",
            stacklevel=2,
        )
    return build_encoder(tensors, trained_by, only, seed, table[of_arm & (table["seed"] == seed)])


def find_seed_block(results: Path, study: str, at: Cell, seed: int) -> tuple[str, Job]:
    """The block of seeds that holds a seed, and the job that trained it.

    Where several files hold it, as after a change of `seeds_per_block`, the numbers are the same if config and code are.
    """
    folder = (results / cell_path("encoders", study, at, "", "safetensors")).parent
    blocks = sorted(
        path.stem.removeprefix("seeds=") for path in folder.glob("seeds=*-*.safetensors")
    )
    if not blocks:
        there = [path.name for path in (results / "encoders").glob("*")]
        meant = "" if study in there else suggest(study, there)
        raise RarefeatError(
            f"{folder} holds no encoders{meant}; is the cell in the grid of {study}, and has snakemake trained it?"
        )
    found: dict[str, Job] = {}
    for block in blocks:
        first, last = map(int, block.split("-"))
        if first <= seed <= last:
            path = folder / f"seeds={block}.safetensors"
            read_tensors(path, expected={"study": study, "cell": at.values, "seeds": block})
            found[block] = Job.model_validate(read_job_metadata(path))
    if not found:
        raise RarefeatError(
            f"{folder} holds no encoder of seed {seed}; its blocks of seeds are {', '.join(blocks)}"
        )
    if any(
        (job.config, job.code) != (other.config, other.code)
        for job in found.values()
        for other in found.values()
    ):
        raise RarefeatError(
            f"{folder}: seeds={' and seeds='.join(found)} both hold seed {seed}, of another config or code; delete one"
        )
    return next(iter(found.items()))
