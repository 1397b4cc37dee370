"""Many trainings at once, as the workflow's jobs do them: the same tokens for all arms, seeds as one tensor program."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from rarefeat.api.arguments import (
    ARGUMENT_SECTIONS,
    AnArm,
    build_study,
    check_type,
    one_thread,
    to_python_scalar,
)
from rarefeat.api.deprecated import former
from rarefeat.chain.aggregate import summary_table
from rarefeat.chain.pretrain import pretrain
from rarefeat.chain.probe import probe
from rarefeat.chain.synthesise import synthesise
from rarefeat.chain.tables import GRID, METRICS, POINT, TRAJECTORIES
from rarefeat.config.cells import Cell
from rarefeat.config.model import Arm
from rarefeat.config.names import suggest
from rarefeat.config.study import Study
from rarefeat.core import user_functions
from rarefeat.core.errors import RarefeatError
from rarefeat.core.training import replicas_per_batch
from rarefeat.project import Project
from rarefeat.run.cli_helpers import progress_display
from rarefeat.run.code_hashes import code_hash
from rarefeat.run.job import Job, make_job
from rarefeat.storage.schema import validate_sorted
from rarefeat.storage.sealed_files import write_file
from rarefeat.study_kind import PROBE

SESSION_CACHE: dict[str, "TrainingRecord"] = {}
"""What this process has trained, by key: who stops a sweep and asks again goes on from there."""
TrainingRecord = tuple[dict[str, Any], list[dict[str, Any]]]
"""Of one training, its row of the grid and those of its trajectory."""


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """What a sweep has measured.

    Attributes
    ----------
    table : DataFrame
        A row for each point, arm and seed, with the columns of the workflow's table `{study}_grid`, after those of `axes`.
    trajectories : DataFrame
        A row for each of them, step and metric, with the columns of `{study}_trajectories`.
    axes : tuple of str
        Keys of `train` that were given lists, beside eps_min, sigma, arm, seed and the keys of an arm.

    Both tables are those of the workflow to the last bit. docs/reference/tables says what their columns mean.
    """

    table: pd.DataFrame
    trajectories: pd.DataFrame
    axes: tuple[str, ...] = ()

    def summary(self) -> pd.DataFrame:
        """Mean, spread, 95 % Student interval and n of every metric at every point and arm, and the difference to dense.

        Returns
        -------
        DataFrame
            The columns of the workflow's table `{study}_summary`, after those of `axes`. Differences are paired, seed by seed.
        """
        if not self.axes:
            return summary_table(self.table)
        parts = self.table.groupby(list(self.axes), sort=False)
        return concat_with_axes([(key, summary_table(part)) for key, part in parts], self.axes)

    def select(self, **values: Any) -> "Sweep":
        """The part of it where some columns have these values, as in ``found.at(eps_min=0.3, arm="dense")``."""
        table, course = self.table, self.trajectories
        for name, value in values.items():
            if name not in table:
                raise RarefeatError(
                    f"at: {name}: no such column{suggest(name, table)}; there are {', '.join(table)}"
                )
            table, course = (
                table[table[name] == value],
                course[course[name] == value] if name in course else course,
            )
        if table.empty:
            raise RarefeatError(
                f"at: nothing has {', '.join(f'{name} = {value}' for name, value in values.items())}"
            )
        return Sweep(table.reset_index(drop=True), course.reset_index(drop=True), self.axes)

    def plot(
        self,
        metric: str = "max_alignment",
        x: str = "eps_min",
        hue: str | None = "arm",
        ax: Any = None,
        **options: Any,
    ):
        """Draw a metric: means and 95 % Student intervals over the seeds.

        Parameters
        ----------
        metric : str
            A metric of `table`; with x="step" one of `trajectories`.
        x, hue : str
            Columns: against what, and what is told apart by colour. Any other column of points has one value: see `at`.
        ax : matplotlib Axes, optional
            Where; a new figure if not given.
        **options
            Of `seaborn.lineplot`.

        Returns
        -------
        matplotlib Axes
        """
        from rarefeat.api.plots import sweep_axes

        return sweep_axes(self, metric, x, hue, ax, options)

    at = former("at", "select")

    def __repr__(self) -> str:
        """Its size."""
        points = self.table[[*self.axes, *POINT]].drop_duplicates()
        return f"Sweep: {len(points)} points, {len(self.table)} encoders, {self.table['seed'].nunique()} seeds"

    def _repr_html_(self) -> str:
        from rarefeat.api.plots import sweep_html

        return sweep_html(self)


def sweep(
    eps_min: float | Sequence[float] = 0.5,
    sigma: float | Sequence[float] = 0.05,
    arm: AnArm | Sequence[AnArm] = "dense",
    seed: int | Sequence[int] = range(10),
    *,
    study: str = "paper",
    config: Project | None = None,
    cache: str | Path | None = None,
    progress: bool = True,
    **changes: Any,
) -> Sweep:
    """Train and measure every arm at every point, all seeds at once.

    The numbers are those of the workflow to the last bit, whatever else is in the sweep. Who stops it with Ctrl-C keeps what is
    done: the same call goes on from there.

    Parameters
    ----------
    eps_min, sigma, seed : number or sequence of numbers
        See `train`.
    arm : str, function, mapping or sequence of them
        See `train`; a mapping has the keys of an arm, as in ``{"arm": "pruned_neuron", "alpha": 0.3}``.
    study, config, progress
        See `train`.
    cache : str or Path, optional
        A folder that keeps what was trained, a small file for each training, by a digest of all that it depends on: values, and
        code, that of a rule of your own too. Without one it is kept as long as Python runs.
    **changes
        As in `train`. A list stands for each of its values: of a key of an arm (alpha, onset, pruned_update) for an arm each,
        of another key for a column of its own. Keys of an arm hold for the arms that can have them.

    Returns
    -------
    Sweep

    Raises
    ------
    RarefeatError
        As `train`.

    Examples
    --------
    >>> found = rarefeat.sweep(eps_min=[0.2, 1.0], arm=["dense", "pruned_neuron"], seed=range(3), T=20, N=512, progress=False)
    >>> len(found.table), len(found.at(eps_min=0.2, arm="dense").table)
    (12, 3)
    >>> found.summary().query("metric == 'max_alignment' and arm == 'dense' and eps_min == 1")["n"].item()
    3
    """
    of = "sweep"
    points = {"eps_min": to_list(eps_min), "sigma": to_list(sigma)}
    arms, seeds = to_list(arm), to_list(seed)
    for name, values in (*points.items(), ("arm", arms), ("seed", seeds)):
        if not values:
            raise RarefeatError(f"{of}: {name}: must be a value or some, got none")
    of_arms = {key: to_list(changes.pop(key)) for key in ARGUMENT_SECTIONS["arm"] if key in changes}
    axes = {key: to_list(value) for key, value in changes.items() if is_list_of_values(key, value)}
    grids, courses, planned = [], [], []
    for values in itertools.product(*axes.values()):
        now = changes | dict(zip(axes, values, strict=True))
        parts = [
            build_study(
                config, study, points, arms, seeds, now | dict(zip(of_arms, keys, strict=True)), of
            )
            for keys in itertools.product(*of_arms.values())
        ]
        every = {item.label: item for part in parts for item in part.arms}
        chosen = parts[0].model_copy(update={"arms": list(every.values())})
        planned.append(
            (values, SweepPlan(chosen, [int(to_python_scalar(one)) for one in seeds], cache))
        )
    with one_thread():
        run_plans(planned, progress)
    names = tuple("lambda" if key == "lambda_" else key for key in axes)
    for values, plan in planned:
        found = [
            (at, plan.found(at, arm, one))
            for at in plan.cells
            for arm in at.arms
            for one in plan.seeds
        ]
        rows = pd.DataFrame([row for _, (row, _) in found])
        rows[list(METRICS)] = rows[list(METRICS)].astype(float)
        grids.append((values, validate_sorted(GRID, rows)))
        if steps := [at.values | step for at, (_, steps) in found for step in steps]:
            courses.append((values, validate_sorted(TRAJECTORIES, pd.DataFrame(steps))))
    return Sweep(
        concat_with_axes(grids, names),
        concat_with_axes(courses, names) if courses else pd.DataFrame(),
        names,
    )


class SweepPlan:
    """The trainings of one study, each by its key."""

    def __init__(self, study: Study, seeds: list[int], cache: str | Path | None) -> None:
        self.study, self.seeds = study, list(dict.fromkeys(seeds))
        self.cache = (
            Path(check_type("sweep", "cache", cache, str, Path)) if cache is not None else None
        )
        self.cells = [Cell(at.axes, tuple(study.arms)) for at in study.cells()]
        self.jobs = {arm.label: self.job_of(arm) for arm in study.arms}

    def job_of(self, arm: Arm) -> tuple[Job, str]:
        """What a training of an arm is told, but for its point and seed; and a digest of functions that Python was given."""
        at = self.study.cells()[0]
        only = Cell(at.axes, (arm,))
        names = (arm.arm, self.study.training.bias.rule)
        functions = [
            hash_function(user_functions.REGISTERED[name])
            for name in names
            if name in user_functions.REGISTERED
        ]
        return make_job(PROBE.function, PROBE.lineage[:-1], self.study.probe_config(only)), "".join(
            functions
        )

    def key(self, at: Cell, arm: Arm, seed: int) -> str:
        """Of one training."""
        told, functions = self.jobs[arm.label]
        text = told.model_copy(update={"cell": at.values, "seeds": str(seed)}).identity + functions
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def found(self, at: Cell, arm: Arm, seed: int) -> TrainingRecord | None:
        """What is kept of a training; None where nothing is."""
        key = self.key(at, arm, seed)
        if key not in SESSION_CACHE and self.cache:
            try:
                SESSION_CACHE[key] = tuple(
                    json.loads((self.cache / f"{key}.json").read_text(encoding="utf-8"))
                )
            except (OSError, ValueError):
                return None
        return SESSION_CACHE.get(key)

    def keep(self, at: Cell, arm: Arm, seed: int, found: TrainingRecord) -> None:
        """Keep what was trained."""
        key = self.key(at, arm, seed)
        SESSION_CACHE[key] = found
        if self.cache:
            write_file(self.cache / f"{key}.json", json.dumps(found))

    def blocks(self) -> Iterator[tuple[list[tuple[Cell, list[Arm]]], list[int]]]:
        """What is not kept yet: seeds of one tensor program, with the points of one eps_min and the arms that lack them."""
        data, training = self.study.data, self.study.training
        width = data.d1 if self.study.simulator == "direct" else min(data.d1, data.d + training.m)
        size = replicas_per_batch(training.K, data.L, width)
        for _, cells in itertools.groupby(self.cells, lambda at: at["eps_min"]):
            work: dict[tuple, list[int]] = {}
            here = list(cells)
            for seed in self.seeds:
                lacking = (
                    (at, [arm for arm in at.arms if not self.found(at, arm, seed)]) for at in here
                )
                if missing := tuple(
                    (at.restrict_to("eps_min", "sigma"), tuple(a.label for a in arms))
                    for at, arms in lacking
                    if arms
                ):
                    work.setdefault(missing, []).append(seed)
            by_label = {arm.label: arm for arm in self.study.arms}
            for missing, seeds in work.items():
                points = [(at, [by_label[label] for label in labels]) for at, labels in missing]
                for first in range(0, len(seeds), size):
                    yield points, seeds[first : first + size]


def run_plans(planned: Iterable[tuple[Any, SweepPlan]], progress: bool) -> None:
    """Do all that is planned and not kept."""
    work = [(plan, points, seeds) for _, plan in planned for points, seeds in plan.blocks()]
    steps = sum((plan.study.training.T + 1) * len(points) for plan, points, _ in work)
    wanted = sum(len(arms) * len(seeds) for _, points, seeds in work for _, arms in points)
    done = 0
    with tqdm(
        total=steps, unit=" steps", desc=f"{wanted} encoders", disable=not progress or not work
    ) as bar:

        def passed(items: Iterable) -> Iterator:
            for item in items:
                yield item
                bar.update(isinstance(items, range))

        try:
            with progress_display(passed):
                for plan, points, seeds in work:
                    study = plan.study
                    latents = synthesise(study.draws, study.data, points[0][0]["eps_min"], seeds)
                    for at, arms in points:
                        train_and_probe(plan, at, arms, seeds, latents)
                        done += len(arms) * len(seeds)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{done} of {wanted} encoders are kept; the same call goes on from there"
            ) from None


def train_and_probe(
    plan: SweepPlan,
    at: Cell,
    arms: list[Arm],
    seeds: list[int],
    latents: Mapping[str, torch.Tensor],
) -> None:
    """Train some arms at a point, probe them, and keep what was found."""
    study, sigma = plan.study, at["sigma"]
    of_study = study.draws, study.simulator, study.data, study.training
    training = [arm for arm in arms if arm.trained]
    encoders, course = (
        pretrain(*of_study, training, sigma, seeds, latents["train"]) if training else ({}, [])
    )
    answers = {label: (found.weights, found.bias, found.loss) for label, found in encoders.items()}
    keys = {**at.values, "nsr": sigma**2 * study.data.d1, "simulator": study.simulator}
    rows = [keys | row for row in probe(*of_study, arms, sigma, seeds, dict(latents), answers)]
    names = list(Arm.model_fields)
    for arm in arms:
        for seed in seeds:
            mine = {**arm.model_dump(), "seed": seed}
            (row,) = (
                row for row in rows if all(row[name] == mine[name] for name in (*names, "seed"))
            )
            steps = [
                step
                for step in course
                if all(step[name] == mine[name] for name in (*names, "seed"))
            ]
            plan.keep(at, arm, seed, (row, steps))


def to_list(value: Any) -> list[Any]:
    """One value or several, as a list."""
    if (
        isinstance(value, str | Mapping)
        or callable(value)
        or not isinstance(value, Iterable)
        or np.ndim(value) == 0
    ):
        return [to_python_scalar(value)]
    return [to_python_scalar(one) for one in value]


def is_list_of_values(key: str, value: Any) -> bool:
    """Whether a change is a list of values, not one value that is a list."""
    return (
        key != "minority" and not isinstance(value, str | Mapping) and np.ndim(value) > 0
    ) or isinstance(value, range)


def concat_with_axes(parts: list[tuple[tuple, pd.DataFrame]], names: Sequence[str]) -> pd.DataFrame:
    """Tables in one, with columns for what they differ in."""
    if not names:
        return parts[0][1]
    tables = [
        table.assign(**dict(zip(names, key if isinstance(key, tuple) else (key,), strict=True)))
        for key, table in parts
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[[*names, *(name for name in table if name not in names)]]


def hash_function(function: Callable) -> str:
    """A digest of what a function that Python was given does, and of all that it reaches, for a notebook as for a file.

    Raises:
        RarefeatError: where it reads what has no digest.
    """
    met: dict[int, int] = {}

    def walked(value: Any, name: str) -> Any:
        if isinstance(value, FunctionType | type | BuiltinFunctionType | ModuleType):
            module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
            if module.partition(".")[0] == "rarefeat" and isinstance(value, FunctionType | type):
                return code_hash(f"{module.partition('.')[2]}:{value.__qualname__}")
            if not isinstance(value, FunctionType) or "site-packages" in value.__code__.co_filename:
                return f"{module}.{getattr(value, '__qualname__', '')}"
            if id(value) in met:
                return met[id(value)]
            met[id(value)] = len(met)
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            used = {
                key: value.__globals__[key]
                for key in sorted(names_of(value.__code__))
                if key in value.__globals__
            }
            return [
                of_code(value.__code__),
                walked([cells, value.__defaults__, value.__kwdefaults__, used], name),
            ]
        if isinstance(value, dict):
            return [[walked(key, name), walked(item, key)] for key, item in value.items()]
        if isinstance(value, list | tuple):
            return [walked(item, name) for item in value]
        if isinstance(value, torch.Tensor | np.ndarray):
            array = np.asarray(value)
            return [
                str(array.dtype),
                list(array.shape),
                hashlib.sha256(array.tobytes()).hexdigest(),
            ]
        if value is None or isinstance(
            value, bool | int | float | str | bytes | complex | torch.dtype
        ):
            return repr(value)
        raise RarefeatError(
            f"the rule {function.__name__} reads {name}, a {type(value).__name__}, of which no digest can be taken; give it"
            " plain values, or write it in a file, MODULE:FUNCTION"
        )

    def of_code(found: CodeType) -> list[Any]:
        consts = [
            of_code(part) if isinstance(part, CodeType) else repr(part) for part in found.co_consts
        ]
        return [found.co_code.hex(), consts, found.co_names, found.co_varnames, found.co_freevars]

    text = json.dumps(walked(function, function.__name__), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def names_of(code: CodeType) -> set[str]:
    """List the names of globals and attributes in a function's code, and in functions within it."""
    parts = [part for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*map(names_of, parts))
