"""Stages of the study of learners: the choice of a learning rate, and the trainings of a cell."""

from typing import Any

import pandas as pd

from rarefeat.studies.learners.config import LearnerChoice
from rarefeat.training.learners import (
    Learner,
    PairSource,
    train_learners,
    untrained_learners,
)
from rarefeat.training.readout import measure_learners
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

BALANCED = 1.0
"""eps_min at which all features are as frequent."""
TIE = 0.005
"""Rates whose R^2 differs by less are equal: the smallest of them is taken."""


def train_and_measure(
    job: Job, eta: float | None, eps_min: float, fresh: bool, seeds: list[int]
) -> list[dict]:
    """Train and measure the learner of a job, some replicas at a time."""
    draws, sigma = job.config_section("draws", str), job.config_section("sigma", float)
    data, training = job.config_section("data", Data), job.config_section("training", Training)
    choice = job.config_section("learner", LearnerChoice)
    learner = Learner(**choice.model_dump(exclude={"arm"}), fresh=fresh)
    if eta is not None:
        training = training.model_copy(update={"eta": eta})
    size = replicas_per_batch(training.K, data.L, data.d1)
    rows: list[dict[str, Any]] = []
    for first in range(0, len(seeds), size):
        chunk = seeds[first : first + size]
        # Embeddings are measured on the processor, wherever they were trained.
        on_cpu = training.model_copy(update={"device": "cpu"})
        source = PairSource(draws, learner, data, on_cpu, sigma, chunk)
        if eta is None:
            learners = untrained_learners(draws, learner, source)
        else:
            label = f"{job.label} eta {eta:g} from seed {chunk[0]}"
            learners = train_learners(
                draws, learner, data, training, choice.arm, sigma, eps_min, chunk, label
            )
        rows += measure_learners(learners, draws, learner, source)
    return rows


def choose_rate(inputs: JobInputs, job: Job) -> list[dict]:
    """Train a learner on balanced data at every rate, and mark the rate that it takes.

    It is the rate with the largest mean R^2 over features and seeds, among those at which no
    replica diverged; of equals, the smallest. Inputs: none. Config: that of a cell, `rates`,
    `rate_seeds`, `first_rate_seed`. Output: a row for each rate and seed, rate 0 before training.
    """
    first = job.config_section("first_rate_seed", int)
    seeds = list(range(first, first + job.config_section("rate_seeds", int)))
    rates = job.config_section("rates", list[float])
    tables = {}
    for eta in (0.0, *sorted(rates)):
        table = pd.DataFrame(train_and_measure(job, eta or None, BALANCED, False, seeds))
        tables[eta] = table.groupby("seed", as_index=False).agg(
            {"r2": lambda values: values.mean(skipna=False), "loss": "first", "diverged": "max"}
        )
    default = job.config_section("training", Training).eta
    chosen = best_rate({eta: tables[eta] for eta in rates}) if rates else default
    if not rates:
        tables[default] = tables[0.0].iloc[:0]
    return [
        {"learner": job.cell["learner"], "eta": eta, "chosen": float(eta == chosen), **row}
        for eta, table in tables.items()
        for row in table.to_dict("records")
    ] + [
        {"learner": job.cell["learner"], "eta": default, "chosen": 1.0, "seed": seed,
         "r2": None, "loss": None, "diverged": 0.0}
        for seed in (seeds if not rates else [])
    ]  # fmt: skip


def best_rate(tables: dict[float, pd.DataFrame]) -> float:
    """Return the rate with the largest mean R^2; of equals, the smallest.

    Rates at which a replica diverged are left out, unless one did at all of them.
    """
    means = {
        eta: table["r2"].where(table["diverged"] == 0).mean(skipna=False)
        for eta, table in tables.items()
    }
    sound = {eta: mean for eta, mean in means.items() if mean == mean}
    if not sound:
        return min(means)
    return min(eta for eta, mean in sound.items() if mean >= max(sound.values()) - TIE)


def learn(inputs: JobInputs, job: Job) -> list[dict]:
    """Train and measure a learner at one frequency, at its rate.

    Inputs: the file of rates. Config: `draws`, `data`, `training`, `sigma`, `learner`. Output: a
    row for each seed and feature.
    """
    rates = inputs.file("rates").table()
    eta = float(rates.loc[rates["chosen"] == 1, "eta"].iloc[0])
    cell = job.cell
    rows = train_and_measure(job, eta, cell["eps_min"], cell["pairs"] == "fresh", job.seed_list)
    return [cell | {"eta": eta} | row for row in rows]
