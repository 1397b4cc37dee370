"""Many trainings at once: every arm on the same tokens, and seeds as one tensor program.

They are what the jobs of the workflow do, to the last bit. Each is kept by a hash of everything
that sets its numbers. A function of the session has no hash that is certain to move with all that
it reaches, so its trainings are kept for one call alone.
"""

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
from matplotlib.axes import Axes
from pandera.pandas import Column

from rarefeat.api.arguments import (
    ArmArgument,
    axis_label,
    build_study,
    check_seeds,
    check_type,
    check_values,
    is_list,
    register_rules,
    to_list,
)
from rarefeat.api.entry_points import entry_point
from rarefeat.api.keys import SECTIONS
from rarefeat.api.plots import paired_differences, plot_sweep
from rarefeat.errors import RarefeatError
from rarefeat.model.own_code import REGISTERED
from rarefeat.stages.aggregate import DENSE, column_bounds, summarise
from rarefeat.stages.probe import probe
from rarefeat.stages.synthesise import synthesise
from rarefeat.stages.tables import ARM, GRID, METRICS, POINT, TRAJECTORIES
from rarefeat.statistics import UNBOUNDED
from rarefeat.training.border import own_rules
from rarefeat.training.pretraining import pretrain
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.config.names import shorten_repr, suggest
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.files.sealed_files import BLANK, SEAL, verify, write_file
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.cli_helpers import progress_display
from rarefeat.workflow.run.job import Job, make_job
from rarefeat.workflow.run.metadata import machine, packages
from rarefeat.workflow.study_kind import PROBE

TrainingRecord = tuple[dict[str, Any], list[dict[str, Any]]]
"""Result of one training: its row of the grid, and its rows of the trajectories."""
SESSION_CACHE: dict[str, TrainingRecord] = {}
"""Records of this process by key: a sweep that was stopped goes on from there."""


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """The measurements of a sweep: those of the workflow to the last bit, or of learners.

    Attributes
    ----------
    table : DataFrame
        A row for each point, arm and seed, with the columns of the workflow's table `{study}_grid`,
        after those of `axes`; docs/reference/tables describes them. Of learners, the columns that
        `sweep_learners` describes.
    trajectories : DataFrame
        A row for each of them, step and metric, with the columns of `{study}_trajectories`.
    axes : tuple of str
        Keys of `train` that were given lists, beside eps_min, sigma, arm, seed and the keys of an
        arm. A mapping or a list among the values stands in its column as a text, `share=0.2`.
    baseline : dict
        Columns and their values in the rows that paired differences are to: those of dense, or of
        the first learner.
    metrics : dict
        Columns of `table` that are measured, with their meaning and bounds.
    """

    table: pd.DataFrame
    trajectories: pd.DataFrame
    axes: tuple[str, ...] = ()
    baseline: Mapping[str, Any] = field(default_factory=lambda: dict(zip(ARM, DENSE, strict=True)))
    metrics: Mapping[str, Column] = field(default_factory=lambda: METRICS)

    @property
    def settings(self) -> list[str]:
        """Columns that tell settings apart."""
        names = dict.fromkeys((*self.axes, *POINT, *ARM))
        return [name for name in names if name in self.table]

    @entry_point
    def summary(self) -> pd.DataFrame:
        """Summarise every metric at every point and arm, over the seeds.

        Returns
        -------
        DataFrame
            The columns of the workflow's table `{study}_summary`, after those of `axes`: mean,
            spread, 95 % interval and n, and the difference to dense, or to the first learner,
            paired seed by seed. Intervals are Student's, and exact for fractions of replicas.
        """
        point = [name for name in self.settings if name not in self.baseline]
        chosen = tuple(self.baseline.values())
        return summarise(self.table, point, list(self.baseline), chosen, self.metrics)

    @entry_point
    def select(self, **values: Any) -> "Sweep":
        """Return the rows that have some values, as in ``.select(eps_min=0.3, arm="dense")``.

        Parameters
        ----------
        **values
            Value of each column (`lambda_` for lambda), as it was given to `sweep`.

        Raises
        ------
        RarefeatError
            If there is no such column, or no row has these values.
        """
        table, steps = self.table, self.trajectories
        for key, value in values.items():
            name, label = column_name(key), axis_label(value)
            if name not in table:
                raise RarefeatError(
                    f"{key}: no such column{suggest(name, table)}; there are {', '.join(table)}"
                )
            there = ", ".join(map(str, dict.fromkeys(table[name])))
            table = table[table[name] == label]
            if table.empty:
                raise RarefeatError(f"{key}: no row has {shorten_repr(label)}; there are {there}")
            steps = steps[steps[name] == label] if name in steps else steps
        table, steps = table.reset_index(drop=True), steps.reset_index(drop=True)
        return replace(self, table=table, trajectories=steps)

    @entry_point
    def plot(
        self,
        metric: str = "",
        x: str = "eps_min",
        hue: str | None = "",
        ax: Axes | None = None,
        *,
        col: str | None = None,
        paired: bool = False,
        **options: Any,
    ) -> Any:
        """Draw a metric: means and 95 % Student intervals over the seeds.

        Nothing else is averaged: what varies besides the seeds is on the axis, a colour or a panel,
        or `select` chooses a value.

        Parameters
        ----------
        metric : str
            A metric of `table`; with x="step" one of `trajectories`. By default the largest cosine
            with the rare feature, and of learners R^2 of its readout.
        x, hue, col : str, optional
            Columns of the axis, of the colours, and of panels side by side. By default colours are
            arms, or what differs among learners.
        ax : matplotlib Axes, optional
            Axes; those of a new figure by default.
        paired : bool
            Whether to draw the difference to dense, or to the first learner, at the same setting
            and seed.
        **options
            Options of `seaborn.lineplot`.

        Returns
        -------
        matplotlib Axes, or a list of them with `col`

        Raises
        ------
        RarefeatError
            For an unknown metric or column; where settings would be averaged; or for a paired
            difference without dense.
        """
        hue = next(iter(self.baseline), None) if hue == "" else hue
        x, hue, col = column_name(x), hue and column_name(hue), col and column_name(col)
        table, metrics = self.table, [*self.metrics]
        if x == "step":
            table = self.trajectories
            metrics = sorted(set(table["metric"])) if len(table) else []
        metric = metric or next((name for name in (*MAIN, *metrics) if name in metrics), "")
        if metric not in metrics:
            raise RarefeatError(
                f"{metric}: no such metric{suggest(metric, metrics)};"
                f" there are {', '.join(metrics) or 'none'}"
            )
        if x == "step":
            table = table[table["metric"] == metric].rename(columns={"value": metric})
        minus = ""
        if paired:
            if not self.baseline:
                raise RarefeatError("paired: needs several learners, and there is one")
            column, minus = next(iter(self.baseline.items()))
            keys = [name for name in self.settings if name not in self.baseline]
            table = paired_differences(table, metric, keys, column, minus)
        bounds = column_bounds(self.metrics[metric]) if metric in self.metrics else UNBOUNDED
        return plot_sweep(table, metric, x, hue, col, ax, self.settings, options, bounds, minus)

    def __repr__(self) -> str:
        """Return its size in words."""
        n_points = len(self.table[[*self.axes, *POINT]].drop_duplicates())
        n_seeds = self.table["seed"].nunique()
        return f"Sweep: {n_points} points, {len(self.table)} encoders, {n_seeds} seeds"


MAIN = ("r2_rare", "max_alignment")
"""Metrics that are drawn by default, where there are they."""


@entry_point
def sweep(
    eps_min: float | Sequence[float] = 0.5,
    sigma: float | Sequence[float] = 0.05,
    arm: ArmArgument | Sequence[ArmArgument] = "dense",
    seed: int | Iterable[int] = range(100, 110),
    *,
    study: str = "paper",
    config: Project | None = None,
    cache: str | Path | None = None,
    progress: bool = True,
    **changes: Any,
) -> Sweep:
    """Train and measure every arm at every point, all seeds at once.

    The numbers are those of the workflow to the last bit, whatever else is in the sweep. After
    Ctrl-C the same call goes on with the trainings that are missing.

    Parameters
    ----------
    eps_min, sigma, arm, seed
        As in `train`, or a sequence of such values, none twice. By default the seeds are the first
        ten of the workflow.
    study, config, progress
        As in `train`.
    cache : str or Path, optional
        Folder that keeps each training in a small file, by a hash of everything that it depends on:
        values, code (the files of your own rules, too), packages and machine. By default trainings
        are kept as long as Python runs. A function of the session is trained anew at each call;
        one of a file, given as MODULE:FUNCTION, is kept.
    **changes
        As in `train`. A list stands for each of its values: of a key of an arm (alpha, onset,
        pruned_update) for an arm each, of another key for a column of its own. Keys of an arm hold
        for the arms that can have them.

    Raises
    ------
    RarefeatError
        As `train`; for a value twice on an axis; and for a rule's file that was edited while it
        trained.

    Examples
    --------
    >>> runs = rarefeat.sweep(
    ...     eps_min=[0.2, 1.0], arm=["dense", "pruned_neuron"], seed=range(3), T=20, N=512,
    ...     progress=False,
    ... )
    >>> len(runs.table), len(runs.select(eps_min=0.2, arm="dense").table)
    (12, 3)
    >>> query = "metric == 'max_alignment' and arm == 'dense' and eps_min == 1"
    >>> runs.summary().query(query)["n"].item()
    3
    """
    if changes.get("history"):
        raise RarefeatError("history: has no effect: a sweep keeps none, `train` does")
    points = {"eps_min": to_list(eps_min), "sigma": to_list(sigma)}
    arms, seeds = to_list(arm), check_seeds(seed)
    arm_axes = {key: to_list(changes[key]) for key in SECTIONS["arm"] if key in changes}
    axes = {
        key: to_list(value)
        for key, value in changes.items()
        if key not in arm_axes and is_axis(key, value)
    }
    register_rules(arms, axes.get("bias", [changes.get("bias")]))
    for name, values in {**points, "arm": arms, **arm_axes, **axes}.items():
        check_values(name, values)
    plans: list[tuple[tuple, SweepPlan]] = []
    for label, fixed in settings_of(changes, axes):
        every_arm: dict[str, Arm] = {}
        for _, keys in settings_of(fixed, arm_axes):
            chosen = build_study(config, study, points, arms, seeds, keys)
            every_arm |= {item.label: item for item in chosen.arms}
        chosen = chosen.model_copy(update={"arms": list(every_arm.values())})
        plans.append((label, SweepPlan(chosen, seeds, cache)))
    names = tuple(map(column_name, axes))
    return Sweep(*run_sweep(plans, names, progress), names)


def settings_of(
    keys: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[tuple, dict[str, Any]]]:
    """Yield every combination of values of some keys: their labels, and all keys with them."""
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        yield tuple(map(axis_label, values)), {**keys, **chosen}


def run_sweep(
    plans: Sequence[tuple[tuple, "SweepPlan"]], names: Sequence[str], progress: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Run plans, each with its values on the axes; return the measurements and trajectories."""
    run_plans([plan for _, plan in plans], progress)
    tables = [(label, plan.tables()) for label, plan in plans]
    grids, steps = ([(label, pair[i]) for label, pair in tables if len(pair[i])] for i in (0, 1))
    return concat_with_axes(grids, names), concat_with_axes(steps, names)


def column_name(key: str) -> str:
    """Return the column of a key: `lambda_` is the key of Python."""
    return "lambda" if key == "lambda_" else key


def is_axis(key: str, value: Any) -> bool:
    """Return whether a change has several values, and is not one value that is a list."""
    return is_list(value) and (key != "minority" or any(map(is_list, value)))


class SweepPlan:
    """The trainings of one study, each with its key in the cache: a folder, or this process."""

    def __init__(self, study: Study, seeds: list[int], cache: str | Path | None) -> None:
        self.study, self.seeds = study, seeds
        self.cache = None if cache is None else Path(check_type("cache", cache, str, Path))
        self.cells = [Cell(cell.axes, tuple(study.arms)) for cell in study.cells()]
        self.jobs = {arm.label: self.identify(arm) for arm in study.arms}
        self.records: dict[str, TrainingRecord] = {}
        data, training = study.data, study.training
        # Seeds between which a stop loses nothing; own code has a process for each.
        width = data.d1 if study.simulator == "direct" else min(data.d1, data.d + training.m)
        self.size = replicas_per_batch(training.K, data.L, width)
        if any(own_rules(arm, training) for arm in study.arms):
            self.size = len(seeds)

    def identify(self, arm: Arm) -> Job | None:
        """Return the job of an arm without its point; None if it uses a session function."""
        if {arm.arm, self.study.training.bias.rule} & REGISTERED.keys():
            return None
        cell = Cell(self.study.cells()[0].axes, (arm,))
        return make_job(PROBE.function, PROBE.lineage[:-1], PROBE.config_of(self.study, cell) or {})

    def place(
        self, cell: Cell, arm: Arm, seed: int
    ) -> tuple[str, dict[str, TrainingRecord], Path | None]:
        """Return the key of a training, and the records and the file that keep it.

        The key is the hash of what sets its result, which a session function has not.
        """
        if not (job := self.jobs[arm.label]):
            return f"{cell.path} {arm.label} {seed}", self.records, None
        values = job.model_copy(update={"cell": cell.values, "seeds": str(seed)}).to_json
        text = json.dumps([values, packages(), machine()], sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        return key, SESSION_CACHE, self.cache and self.cache / f"{key}.json"

    def find(self, cell: Cell, arm: Arm, seed: int) -> TrainingRecord | None:
        """Return the record of a training; None if there is none, or its file is damaged."""
        key, records, path = self.place(cell, arm, seed)
        if key in records and path and not path.exists():
            self.store(cell, arm, seed, records[key])
        elif key not in records and path and path.exists():
            with contextlib.suppress(RarefeatError):
                verify(path)
                entry = json.loads(path.read_bytes())
                records[key] = entry["row"], entry["steps"]
        return records.get(key)

    def store(self, cell: Cell, arm: Arm, seed: int, record: TrainingRecord) -> None:
        """Keep the record of a training."""
        key, records, path = self.place(cell, arm, seed)
        records[key] = record
        if path:
            entry = {"key": key, "row": record[0], "steps": record[1], SEAL: BLANK}
            write_file(path, json.dumps(entry), sealed=True)

    def missing(self) -> Iterator[tuple[Cell, list[Arm], list[int]]]:
        """Yield each point with the arms and seeds that have no record, some seeds at a time."""
        for cell in self.cells:
            work: dict[tuple[int, ...], list[int]] = {}
            for seed in self.seeds:
                found = [self.find(cell, arm, seed) for arm in self.study.arms]
                places = tuple(place for place, record in enumerate(found) if not record)
                work.setdefault(places, []).append(seed)
            work.pop((), None)
            for places, seeds in work.items():
                arms = [self.study.arms[place] for place in places]
                for first in range(0, len(seeds), self.size):
                    yield cell, arms, seeds[first : first + self.size]

    def train_and_probe(self, cell: Cell, arms: list[Arm], seeds: list[int]) -> None:
        """Train some arms at a point, probe them, and store the records.

        The seeds are one tensor program.
        """
        study, sigma = self.study, cast(float, cell["sigma"])
        settings = study.draws, study.simulator, study.data, study.training
        latents = synthesise(study.draws, study.data, cast(float, cell["eps_min"]), seeds)
        trained = [arm for arm in arms if arm.trained]
        encoders, steps = (
            pretrain(*settings, trained, sigma, seeds, latents["train"]) if trained else ({}, [])
        )
        results = {
            label: tuple(x for x in (one.weights, one.bias, one.loss, one.query_key) if x.numel())
            for label, one in encoders.items()
        }
        rows = probe(*settings, arms, sigma, seeds, latents, results)
        axes = {**cell.values, "nsr": sigma**2 * study.data.d1, "simulator": study.simulator}
        self.check_unedited(arms)
        for (seed, arm), row in zip(itertools.product(seeds, arms), rows, strict=True):
            own = [
                step for step in steps if all(step[name] == row[name] for name in (*ARM, "seed"))
            ]
            self.store(cell, arm, seed, (axes | row, own))

    def check_unedited(self, arms: list[Arm]) -> None:
        """Raise RarefeatError if a file of one's own was edited since the plan was made."""
        for arm in arms:
            if self.identify(arm) != self.jobs[arm.label]:
                raise RarefeatError(
                    f"arm: {arm.label}: the file of a rule was edited while it trained; run it"
                    " again"
                )

    def rows(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rows of the grid and of the trajectories, of which there may be none."""
        rows, steps = [], []
        for cell, arm, seed in itertools.product(self.cells, self.study.arms, self.seeds):
            row, own_steps = cast(TrainingRecord, self.find(cell, arm, seed))
            rows.append(row)
            steps += [cell.values | step for step in own_steps]
        return pd.DataFrame(rows), pd.DataFrame(steps)

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rows, validated."""
        grid, steps = self.rows()
        grid[list(METRICS)] = grid[list(METRICS)].astype(float)
        steps = validate_sorted(TRAJECTORIES, steps) if len(steps) else steps
        return validate_sorted(GRID, grid), steps


def run_plans(plans: Iterable[SweepPlan], progress: bool) -> None:
    """Run the trainings that have no record yet."""
    from tqdm.auto import tqdm  # here, since in a notebook without ipywidgets its import warns

    work = [(plan, *block) for plan in plans for block in plan.missing()]
    n_encoders = sum(len(arms) * len(seeds) for *_, arms, seeds in work)
    n_steps = sum(plan.study.training.T + 1 for plan, *_ in work)
    silent = not progress or not work
    with tqdm(total=n_steps, unit=" steps", desc=f"{n_encoders} encoders", disable=silent) as bar:

        def pass_items(items: Iterable) -> Iterator:
            # The steps of a training come as a range, and the seeds of a probe as a list.
            for item in items:
                yield item
                bar.update(isinstance(items, range))

        with progress_display(pass_items):
            for plan, cell, arms, seeds in work:
                before = bar.n
                plan.train_and_probe(cell, arms, seeds)
                bar.update(before + plan.study.training.T + 1 - bar.n)


def concat_with_axes(
    tables: list[tuple[tuple, pd.DataFrame]], names: Sequence[str]
) -> pd.DataFrame:
    """Concatenate tables, with columns before theirs for the values in which they differ."""
    labelled = [table.assign(**dict(zip(names, key, strict=True))) for key, table in tables]
    table = pd.concat(labelled or [pd.DataFrame()], ignore_index=True)
    return table[[*names, *(name for name in table if name not in names)]] if labelled else table
