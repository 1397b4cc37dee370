"""Many learners at once, and the frequency from which each learns a rare feature."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rarefeat.api.arguments import check_seeds, check_type, check_values, to_list
from rarefeat.api.entry_points import check_keys, entry_point
from rarefeat.api.keys import KEYS, LEARNER_KEYS
from rarefeat.api.learners import LearnerPlan, plan_learner
from rarefeat.api.sweeps import Sweep, SweepPlan, column_name, is_axis, run_sweep, settings_of
from rarefeat.errors import RarefeatError
from rarefeat.model.own_code import REGISTERED
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.stages.tables import cosine, number, r2, share
from rarefeat.training.learners import KINDS, Learner
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.run.cli_helpers import progress_display
from rarefeat.workflow.run.job import Job, make_job

ALIGNED = "1 if a first-layer neuron has a cosine of at least 0.5 to each rare feature"
METRICS = {
    "r2_rare": r2("R^2 of a linear readout of the rare features, on a balanced test set"),
    "r2_frequent": r2("the same of the frequent features"),
    "r2_rare_untrained": r2("the same of the rare features, before training"),
    "r2_frequent_untrained": r2("the same of the frequent features, before training"),
    "r2_shuffled": r2("the same of all features, shuffled over samples: a control"),
    "aligned": share(f"{ALIGNED}; null without such neurons"),
    "aligned_untrained": share("the same before training"),
    "cosine": cosine("largest |cos| of a first-layer neuron to the rare feature"),
    "cosine_untrained": cosine("the same before training"),
    "norm": number(None, "1", "mean norm of the embeddings"),
    "rank": number(None, "1", "effective rank of the embeddings"),
    "batch_loss": number(None, "of the loss", "loss of the last batch"),
    "diverged": share("1 if the loss or an embedding is not finite"),
}
"""What a sweep of learners measures of each replica."""


class LearnerSweepPlan(SweepPlan):
    """The trainings of one learner at the points of a sweep."""

    def __init__(self, plan: LearnerPlan, seeds: list[int], cache: str | Path | None) -> None:
        self.plan = plan
        super().__init__(plan.study, seeds, cache)
        self.cells, self.size = plan.cells, len(seeds)  # which a training divides itself

    def identify(self, arm: Arm) -> Job | None:
        """Return the job of a learner without its point; None if it uses a session function."""
        learner, study = self.plan.learner, self.study
        options = [value for name, _ in KINDS.values() for value in getattr(learner, name).values()]
        parts = [*(getattr(learner, kind) for kind in KINDS), *options]
        is_plain = all(isinstance(part, str | int | float | bool | None) for part in parts)
        if not is_plain or {arm.arm, study.training.bias.rule} & REGISTERED.keys():
            return None
        stages = "training.learners:train_learners", "training.readout:measure_learners"
        sections = {name: getattr(study, name) for name in ("draws", "data", "training")}
        config = {"learner": learner, "arm": arm, **sections}
        return make_job("training.readout:learn", stages, config)

    def train_and_probe(self, cell: Cell, arms: list[Arm], seeds: list[int]) -> None:
        """Train the learner at a point, measure it, and store the records of the seeds."""
        result, table, _ = self.plan.train(cell, seeds)
        rows = seed_rows(table, len(self.study.data.minority))
        self.check_unedited(arms)
        for seed in seeds:
            # An axis of a sweep may be called loss.
            steps = [
                {**row, "metric": "batch_loss" if row["metric"] == "loss" else row["metric"]}
                for row in result.trajectory
                if row["seed"] == seed
            ]
            row = {**cell.values, "seed": seed, **rows.loc[seed]}
            self.store(cell, arms[0], seed, (row, steps))

    tables = SweepPlan.rows


def seed_rows(table: pd.DataFrame, n_rare: int) -> pd.DataFrame:
    """Return the metrics of each seed, from the rows of its features."""
    is_rare = table["feature"] > table["feature"].max() - n_rare
    rows = table.groupby("seed")[["norm", "rank", "loss", "diverged", "given"]].first()
    rows = rows.rename(columns={"loss": "batch_loss"})
    rows["r2_shuffled"] = table.groupby("seed")["r2_shuffled"].mean()
    # A replica that was stopped as diverged keeps its last weights, and has an R^2.
    table = table.assign(r2=table["r2"].where(table["diverged"] == 0))
    for end in ("", "_untrained"):
        rare, frequent = (
            table[chosen].groupby("seed")[f"r2{end}"].mean() for chosen in (is_rare, ~is_rare)
        )
        cosines = table[is_rare].groupby("seed")[f"cosine{end}"]
        cosine = cosines.agg(lambda values: values.min(skipna=False))
        aligned = (cosine >= HALF_LEARNED).astype(float)
        rows[f"r2_rare{end}"], rows[f"r2_frequent{end}"] = rare, frequent
        rows[f"cosine{end}"] = cosine
        rows[f"aligned{end}"] = aligned.where(rare.notna() & cosine.notna())
    return rows[[*METRICS, "given"]]


@entry_point
def sweep_learners(
    eps_min: float | Sequence[float] = 0.5,
    sigma: float | Sequence[float] = 0.05,
    seed: int | Iterable[int] = range(100, 110),
    *,
    learners: Mapping[str, Mapping[str, Any]] | None = None,
    cache: str | Path | None = None,
    progress: bool = True,
    **keys: Any,
) -> Sweep:
    """Train and measure every learner at every point.

    The numbers are those of `train_learners`. After Ctrl-C the same call goes on with the trainings
    that are missing.

    Parameters
    ----------
    eps_min, sigma, seed
        As in `train_learners`, or a list of such values.
    learners : mapping, optional
        Learners by name, each with the arguments and keys in which it differs, as in
        ``{"infonce": {}, "mine": {"loss": mine, "loss_options": {"width": 2}, "eta": 0.01}}``: what
        the workflow has under `learners`. They stand in the column `learner`.
    cache, progress
        As in `sweep`. A learner with a function or a class of the session is trained anew at each
        call; one of a file, given as MODULE:NAME, is kept.
    **keys
        Arguments and keys of `train_learners`: data_law, encoder, loss, optimiser, their options,
        fresh, arm, study, config, and keys of `data` and `training`. A list stands for each of its
        values.

    Returns
    -------
    Sweep
        Its `table` has a row for each learner, point and seed: R^2 of the readout of the rare and
        of the frequent features, and whether the rare ones are `aligned` with a neuron, each also
        before training, and `given`, what the parts were given. Paired
        differences are to the first value of the first list.

    Raises
    ------
    RarefeatError
        As `train_learners`; for a value twice in a list.

    Examples
    --------
    >>> runs = rarefeat.sweep_learners(
    ...     eps_min=[0.2, 1.0], loss=["infonce", "spectral"], seed=range(2), T=20, N=512, d1=32,
    ...     progress=False,
    ... )
    >>> runs
    Sweep: 4 points, 8 encoders, 2 seeds
    >>> list(runs.summary().query("metric == 'r2_rare' and loss == 'spectral'")["n"])
    [2, 2]
    """
    plans, columns = plan_sweep(eps_min, sigma, seed, learners, cache, keys)
    baseline = dict(list(zip(columns, plans[0][0], strict=True))[:1])
    return Sweep(*run_sweep(plans, columns, progress), columns, baseline, METRICS)


def plan_sweep(
    eps_min: Any,
    sigma: Any,
    seed: Any,
    learners: Mapping[str, Mapping[str, Any]] | None,
    cache: str | Path | None,
    given: Mapping[str, Any],
) -> tuple[list[tuple[tuple, LearnerSweepPlan]], tuple[str, ...]]:
    """Return a plan for each learner, with its values on the axes, and the names of these."""
    by_name = check_type("learners", learners or {}, Mapping)
    keys = {"study": "paper", "config": None, "arm": "dense", **vars(Learner()), **given}
    points = {"eps_min": to_list(eps_min), "sigma": to_list(sigma)}
    axes = {key: to_list(value) for key, value in keys.items() if is_axis(key, value)}
    for name, values in {**points, **axes}.items():
        check_values(name, values)
    for name, differing in by_name.items():
        check_keys(differing, [*LEARNER_KEYS, *KEYS])
        if twice := [key for key in differing if key in axes]:
            raise RarefeatError(f"learners: {name}: {twice[0]}: given as a list, too")
    if by_name:
        axes = {"learner": list(by_name), **axes}
    seeds, plans = check_seeds(seed), []
    for label, setting in settings_of(keys, axes):
        chosen = setting | dict(by_name.get(setting.pop("learner", ""), {}))
        plan = plan_learner(chosen.pop("config"), chosen.pop("study"), points, seeds, chosen)
        plans.append((label, LearnerSweepPlan(plan, seeds, cache)))
    return plans, tuple(map(column_name, axes))


def estimate_seconds(plans: Iterable[LearnerSweepPlan], steps: int = 10) -> float:
    """Return how long plans will take, from some steps of each learner."""
    total = 0.0
    with progress_display(False):
        for item in plans:
            took = []
            for T in (0, steps, 2 * steps):
                training = item.study.training.model_copy(update={"T": T})
                study = item.study.model_copy(update={"training": training})
                started = time.perf_counter()
                item.plan._replace(study=study).train(item.cells[-1], item.seeds)
                took.append(time.perf_counter() - started)
            step = max(took[2] - took[1], 0.0) / steps
            each = took[1] + step * (item.study.training.T - steps)
            total += each * len(item.cells)
    return total
