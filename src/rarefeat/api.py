"""The laboratory from Python: train an encoder, load one, predict where one learns, read a table, read the config."""

import contextlib
import difflib
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from pandera.pandas import DataFrameSchema
from pydantic import ValidationError
from torch import Tensor

from rarefeat.chain.pretrain import Encoder as Trained
from rarefeat.chain.pretrain import pretrain
from rarefeat.chain.synthesise import synthesise
from rarefeat.config.cells import Cell, path_of
from rarefeat.config.cells import cell as a_cell
from rarefeat.config.model import Arm, Data, Training
from rarefeat.config.section import Section, one_line, told
from rarefeat.config.study import Study, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import absolute_cosines, alignment_metrics
from rarefeat.core.recording import log_spaced
from rarefeat.core.simulators import make_simulator
from rarefeat.project import DEFAULT, Project, load
from rarefeat.report.reference import schemas
from rarefeat.run.dependencies import code
from rarefeat.run.job import Job, job
from rarefeat.run.memory import refuse_too_large
from rarefeat.run.metadata import read_job, read_origin
from rarefeat.storage import files
from rarefeat.storage.schema import checked
from rarefeat.storage.tensors import read_tensors
from rarefeat.studies.selection import law
from rarefeat.studies.selection.regimes import Point

CHECKOUT = Path(__file__).parents[2]
AXES = ("eps_min", "sigma")


@dataclass(frozen=True, eq=False)
class Encoder:
    """A trained encoder of one seed, with what it was trained from.

    It maps a sample X of L tokens to f(X) in R^m: after attention, neuron i answers to token x with
    ReLU(<w_i, x> - b_i) - ReLU(-<w_i, x> - b_i).

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
        Unmasked InfoNCE of the last step's batch, in nat; above twice log K the training has diverged.
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
    def rare(self) -> list[int]:
        """Numbers j of the rare features."""
        return list(range(self.data.d - len(self.data.minority), self.data.d))

    @property
    def steps(self) -> list[int]:
        """The recorded steps, of `history` and of `trajectory`."""
        return log_spaced(self.training.T)

    @property
    def metrics(self) -> dict[str, float]:
        """What the neurons have learned: the metrics of Figures 1 and 2 and their like, by name."""
        found = alignment_metrics(self.weights[None], self.dictionary[None], len(self.data.minority))
        return {name: value.item() for name, value in found.items()}

    def course(self, neuron: int) -> pd.DataFrame:
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
            raise RarefeatError("this training kept no history; train with history=True, or set training.history of the study")
        if not 0 <= neuron < self.training.m:
            raise RarefeatError(f"neuron must be from 0 to {self.training.m - 1}, got {neuron}")
        colours = [f"colour {index}" for index in range(self.data.views.colour)]
        names = [*range(self.data.d), *colours, "norm", "bias"]
        return pd.DataFrame(self.history[:, neuron].numpy(), columns=names, index=pd.Index(self.steps, name="step"))


def load_config(*paths: str | Path) -> Project:
    """The config as typed objects, as the workflow has it.

    Parameters
    ----------
    *paths : str or Path
        Config files, each laid over `config/config.yaml` and those before it, as `snakemake --configfile` does. A relative path
        is looked up in the working directory, then in the checkout that rarefeat is installed from.

    Returns
    -------
    rarefeat.project.Project
        `studies` by name, `tables`, `figures`, `targets` and `results`, the folder of results.

    Raises
    ------
    RarefeatError
        With one line, where a file cannot be read or a value is not allowed.

    Examples
    --------
    >>> project = rarefeat.load_config("config/quick.yaml")
    >>> project.results, project.studies["paper"].training.T
    ('results/quick', 60)
    """
    base = located(DEFAULT)
    return load(base, *(place for path in paths if (place := located(path)) != base))


def located(path: str | Path) -> Path:
    """A file in the working directory, or else in the checkout."""
    path = Path(path)
    return CHECKOUT / path if not path.exists() and (CHECKOUT / path).exists() else path


def train(
    eps_min: float = 0.5,
    sigma: float = 0.05,
    arm: str = "dense",
    seed: int = 100,
    *,
    study: str = "paper",
    config: Project | None = None,
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
    arm : str
        dense, pruned_neuron, oracle_gated, ...; or the label of one arm of the study, as in `pruned_neuron-alpha=0.1`.
    seed : int
        Keys every random draw, together with the study's name.
    study : str
        The study whose values hold where nothing else is said.
    config : Project, optional
        What `load_config` returns; `config/config.yaml` if not given.
    **changes
        Keys of the study (simulator, draws), of its `data` (d1, N, ...), of its `training` (T, eta, bias, ...; `lambda_` for
        lambda) or of its arm (alpha, onset, pruned_update). A section takes a mapping of what differs, as in
        ``bias={"share": 0}``. docs/reference/config.md says what is allowed.

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
    rarefeat.core.errors.RarefeatError: train: grid.point.eps_min.0: Input should be less than or equal to 1, got 2
    """
    chosen = one_point(config or load_config(), study, eps_min, sigma, arm, seed, changes)
    refuse_too_large({study: chosen})
    (only,) = chosen.arms
    (point,) = chosen.cells()
    with one_thread():
        latents = synthesise(chosen.draws, chosen.data, eps_min, [seed])["train"]
        what = chosen.draws, chosen.simulator, chosen.data, chosen.training, [only], sigma, [seed], latents
        encoders, rows = pretrain(*what, label="train")
    told_to = job("chain.pretrain", (), chosen.pretrained(point), chosen.draws, point, f"{seed}-{seed}")
    return assembled((part[0] for part in encoders[only.label]), told_to, only, seed, pd.DataFrame(rows))


def predict_step(
    kappa: float,
    gamma: float,
    sigma: float = 0.05,
    *,
    study: str = "paper",
    config: Project | None = None,
    replicas: int = 200,
    **changes: Any,
) -> float:
    """Predict the eps_min at which half of the replicas learn the rare feature, without training any.

    The law knows sigma, C, L, d, d1, m, K, tau, lambda, sigma_0 and the bias's share; other keys do not move it. It was tested
    in the ranges of `law_test` in config/studies/selection.yaml.

    Parameters
    ----------
    kappa, gamma : float
        The two constants of the law: a replica learns the feature with probability 1 / (1 + exp(-gamma (x - log kappa))), x
        being its margin. Those that were fitted stand in docs/studies/selection.md, and as exp(centre) and steepness in the
        table `selection_law`.
    sigma : float
        Standard deviation of the noise of a token.
    study : str
        The study whose values hold where nothing else is said.
    config : Project, optional
        What `load_config` returns; `config/config.yaml` if not given.
    replicas : int
        Initial weights that the law is averaged over.
    **changes
        As in `train`.

    Returns
    -------
    float
        In (0, 1); 0 where half or more learn the feature however rare it is, and 1 where fewer than half do at every eps_min.

    Raises
    ------
    RarefeatError
        As `train`; or where a constant or `replicas` is not above 0.

    References
    ----------
    docs/method/selection.md derives the law, and docs/studies/selection.md says how far it was off.

    Examples
    --------
    >>> rare, frequent = (rarefeat.predict_step(0.8, 10, bias={"share": share}) for share in (0.2, 0.7))
    >>> 0 < rare < frequent < 1
    True
    >>> rarefeat.predict_step(0, 10)
    Traceback (most recent call last):
    ...
    rarefeat.core.errors.RarefeatError: predict_step: kappa: must be a number above 0, got 0
    """
    for name, value in (("kappa", kappa), ("gamma", gamma)):
        if not (isinstance(value, Real) and 0 < value < math.inf):
            raise RarefeatError(f"predict_step: {name}: must be a number above 0, got {value!r}")
    if not (isinstance(replicas, int) and replicas > 0):
        raise RarefeatError(f"predict_step: replicas: must be a whole number above 0, got {replicas!r}")
    chosen = one_point(config or load_config(), study, 1.0, sigma, "dense", 0, changes, of="predict_step")
    at = Point(chosen.data, chosen.training, sigma, 1.0)
    return law.step(at, law.Constants(math.log(kappa), gamma), replicas=replicas)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Sums in the order that the workflow's jobs have, for the same bytes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_point(
    config: Project,
    study: str,
    eps_min: float,
    sigma: float,
    arm: str,
    seed: int,
    changes: Mapping[str, Any],
    of: str = "train",
) -> Study:
    """A study of the config with changes, at one point, with one arm and one seed; `of` is who asks, for a message."""
    of_study = encoder_study(config, study)
    parts: dict[str, dict[str, Any]] = {part: {} for part in PLACES}
    for key, value in changes.items():
        name = key.removesuffix("_")
        place = next((place for place, keys in PLACES.items() if name in keys), None)
        if place is None:
            allowed = ", ".join(name for keys in PLACES.values() for name in keys)
            raise RarefeatError(f"{of}: {key}: no such key; known are {allowed}")
        parts[place][name] = value
    only = merged(told(one_arm(of_study.arms, study, arm)), parts.pop("arm"))
    whole = merged(told(of_study), parts.pop("study") | parts) | {
        "seeds": 1,
        "first_seed": seed,
        "seeds_per_block": 1,
        "arms": [only],
        "grid": {"point": {"eps_min": [eps_min], "sigma": [sigma], "arms": [only["arm"]]}},
    }
    try:
        return Study.model_validate(whole)
    except ValidationError as error:
        raise RarefeatError(f"{of}: {one_line(error)}") from error


def keys(section: type[Section]) -> list[str]:
    """The keys of a section as the config has them."""
    return [item.alias or name for name, item in section.model_fields.items()]


PLACES = {
    "study": ["simulator", "draws"],
    "data": keys(Data),
    "training": keys(Training),
    "arm": [name for name in keys(Arm) if name != "arm"],
}
"""Where in a study the keys of `train` stand; no two sections have the same."""


def encoder_study(config: Project, name: str) -> Study:
    """A study of the contrastive encoder by its name."""
    encoded = {study: item for study, item in config.studies.items() if isinstance(item, Study)}
    if name not in encoded:
        raise RarefeatError(f"study {name!r} is none of the contrastive encoder in this config{near(name, encoded)}")
    return encoded[name]


def near(name: str, known: Iterable[str]) -> str:
    """What a misspelt name may have meant, for a message."""
    found = difflib.get_close_matches(name, list(known))
    return f"; near it: {', '.join(found)}" if found else ""


def one_arm(arms: list[Arm], study: str, arm: str) -> Arm:
    """A trained arm of a study by its label, or by its name where there is one of that name."""
    trained = [item for item in arms if item.trained]
    found = [item for item in trained if item.label == arm] or [item for item in trained if item.arm == arm]
    if len(found) != 1:
        several = "several" if found else "none"
        labels = ", ".join(item.label for item in trained)
        raise RarefeatError(f"arm {arm!r} names {several} of the trained arms of the study {study}: {labels}")
    return found[0]


def assembled(tensors: Iterable[Tensor], trained_by: Job, arm: Arm, seed: int, trajectory: pd.DataFrame) -> Encoder:
    """An encoder from what training changes, each without the axis of replicas, and from the job that trained it."""
    weights, bias, T1, T2, history, ends, loss = tensors
    draws, simulator = trained_by.part("draws", str), trained_by.part("simulator", str)
    data, training = trained_by.part("data", Data), trained_by.part("training", Training)
    dictionary = make_simulator(simulator, draws, data.d, data.d1, training.m, [seed]).dictionary[0]
    return Encoder(
        weights=weights, bias=bias, T1=int(T1), T2=int(T2), history=history, ends=ends, loss=float(loss), dictionary=dictionary,
        trajectory=trajectory[["step", "metric", "value"]].reset_index(drop=True), study=draws, arm=arm, seed=seed,
        simulator=simulator, data=data, training=training, **trained_by.cell,
    )  # fmt: skip


def load_encoder(results: str | Path, study: str, cell: Mapping[str, float], arm: str = "dense", seed: int = 100) -> Encoder:
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
    if set(cell) != set(AXES):
        raise RarefeatError(f"cell must have the keys {' and '.join(AXES)}, got {', '.join(map(str, cell)) or 'none'}")
    at = a_cell(**{axis: float(cell[axis]) for axis in AXES})
    block, trained_by = block_of(Path(results), study, at, seed)
    encoders, trajectories = (
        Path(results) / path_of(kind, study, at, block, suffix)
        for kind, suffix in (("encoders", "safetensors"), ("trajectories", "parquet"))
    )
    only, row = one_arm(trained_by.part("arms", list[Arm]), study, arm), trained_by.seed_list.index(seed)
    names = [f"{only.label}/{name}" for name in Trained._fields]
    expected = trained_by.model_dump(include={"study", "cell", "seeds", "config", "code"})
    tensors = [tensor[row] for tensor in read_tensors(encoders, *names, expected=expected)]
    table = files.read_table(trajectories, expected).to_pandas()
    of_arm = (table[list(only.model_dump())] == pd.Series(only.model_dump())).all(axis=1)
    if trained_by.code.get("chain.pretrain") != code("chain.pretrain"):
        warnings.warn(f"{encoders} was trained by other code than this; its dictionary may be another", stacklevel=2)
    return assembled(tensors, trained_by, only, seed, table[of_arm & (table["seed"] == seed)])


def block_of(results: Path, study: str, at: Cell, seed: int) -> tuple[str, Job]:
    """The block of seeds that holds a seed, and the job that trained it.

    Where several files hold it, as after a change of `seeds_per_block`, the numbers are the same if config and code are.
    """
    folder = (results / path_of("encoders", study, at, "", "safetensors")).parent
    blocks = sorted(path.stem.removeprefix("seeds=") for path in folder.glob("seeds=*-*.safetensors"))
    if not blocks:
        raise RarefeatError(f"{folder} holds no encoders; is the cell in the grid of {study}, and has snakemake trained it?")
    found: dict[str, Job] = {}
    for block in blocks:
        first, last = map(int, block.split("-"))
        if first <= seed <= last:
            path = folder / f"seeds={block}.safetensors"
            read_tensors(path, expected={"study": study, "cell": at.values, "seeds": block})
            found[block] = Job.model_validate(read_job(path))
    if not found:
        raise RarefeatError(f"{folder} holds no encoder of seed {seed}; its blocks of seeds are {', '.join(blocks)}")
    if any((job.config, job.code) != (other.config, other.code) for job in found.values() for other in found.values()):
        raise RarefeatError(
            f"{folder}: seeds={' and seeds='.join(found)} both hold seed {seed}, of another config or code; delete one"
        )
    return next(iter(found.items()))


def read_table(results: str | Path, name: str) -> pd.DataFrame:
    """Read a table of the workflow.

    Its hash is checked, its columns and their bounds against the schema, and for a table of one study that it was made from it.

    Parameters
    ----------
    results : str or Path
        Folder of results, as in "results/quick".
    name : str
        Name of the table without suffix, as in "paper_grid" or "paper.figure_3_grid". docs/reference/tables has their columns.

    Returns
    -------
    DataFrame

    Raises
    ------
    RarefeatError
        With one line: there is no such table, or the file is damaged or holds another table.

    Examples
    --------
    >>> grid = rarefeat.read_table("results/quick", "paper_grid")
    >>> sorted(set(grid["eps_min"])), sorted(set(grid["arm"]))[:2]
    ([0.2, 1.0], ['dense', 'ideal'])
    """
    folder = Path(results) / "tables"
    path = folder / f"{name}.parquet"
    schema, study = schema_of(name)
    if not path.is_file():
        there = [item.stem for item in folder.glob("*.parquet")]
        raise RarefeatError(
            f"{path} does not exist{near(name, there)}; is this the folder of results, and has snakemake made it?"
        )
    table = files.read_table(path).to_pandas()
    if study and not any(study == made or study.startswith(f"{made}.") for made in read_origin(path)["config"]):
        raise RarefeatError(f"{path} is not the table that its name says: it was made from another study; run snakemake again")
    try:
        return checked(schema, table)
    except RarefeatError as error:
        raise RarefeatError(f"{path} is not the table that its name says: {error}; run snakemake again") from error


def schema_of(name: str) -> tuple[DataFrameSchema, str]:
    """The schema of a table by its name, and the study, or block of a study's grid, that it is of; empty for one of several."""
    known = schemas()
    study, _, table = name.rpartition(".")
    if table in known:
        return known[table], study
    for template, schema in known.items():
        before, wildcard, after = re.fullmatch(r"([^{]*)(?:\{(\w+)\})?(.*)", template).groups()
        if wildcard and name.startswith(before) and name.endswith(after):
            return schema, name.removesuffix(after) if wildcard == "study" else ""
    raise RarefeatError(f"{name!r} is the name of no table; docs/reference/tables has them")
