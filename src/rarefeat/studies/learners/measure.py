"""What runs on a learner: the choice of its rate, then a training and its readout at each point."""

from dataclasses import replace
from functools import partial

import pandas as pd

from rarefeat.training import readout
from rarefeat.training.learners import Learner
from rarefeat.training.step import replicas_per_batch
from rarefeat.workflow.config.model import Arm, Data, Training
from rarefeat.workflow.run.job_inputs import JobInputs

BALANCED = 1.0
"""eps_min at which all features are as frequent."""


def train_and_measure(
    label: str, draws: str, data: Data, training: Training, sigma: float, learner: Learner,
    arm: Arm, eta: float, eps_min: float, seeds: list[int],
) -> list[dict]:  # fmt: skip
    """Train a learner at a rate, 0 for not at all, and measure it, some replicas at a time."""
    training = training.model_copy(update={"eta": eta or training.eta})
    size = replicas_per_batch(training.K, data.L, data.d1)
    return readout.learn(
        draws, learner, data, training, arm, sigma, eps_min if eta else None, seeds, size,
        f"{label} eta {eta:g}",
    ).rows  # fmt: skip


def choose_rate(
    cell: dict, label: str, draws: str, data: Data, training: Training, sigma: float,
    learner: Learner, arm: Arm, rates: list[float], rate_seeds: int, first_rate_seed: int,
) -> list[dict]:  # fmt: skip
    """Train a learner on balanced data at every rate; return a row for each rate and seed.

    Rate 0 is before training. Without rates it takes that of `training`, which is not tried.
    """
    seeds = list(range(first_rate_seed, first_rate_seed + rate_seeds))
    measure = partial(train_and_measure, label, draws, data, training, sigma, learner, arm)
    tables = {}
    for eta in (0.0, *sorted(rates)):
        features = pd.DataFrame(measure(eta, BALANCED, seeds)).groupby("seed", as_index=False)
        tables[eta] = features.agg(
            {"r2": lambda values: values.mean(skipna=False), "loss": "first", "diverged": "max"}
        )
    if rates:
        chosen = best_rate({eta: tables[eta] for eta in rates})
    else:
        chosen = training.eta
        tables[chosen] = tables[0.0][["seed"]].assign(r2=None, loss=None, diverged=0.0)
    return [
        {"learner": cell["learner"], "eta": eta, "chosen": float(eta == chosen), **row}
        for eta, table in tables.items()
        for row in table.to_dict("records")
    ]


def best_rate(tables: dict[float, pd.DataFrame]) -> float:
    """Return the rate with the smallest mean loss over seeds.

    Rates at which a replica diverged are left out, unless one did at all of them.
    """
    means = {
        eta: table["loss"].where(table["diverged"] == 0).mean(skipna=False)
        for eta, table in tables.items()
    }
    sound = {eta: mean for eta, mean in means.items() if mean == mean}
    return min(sound, key=sound.get) if sound else min(means)


def learn(
    inputs: JobInputs, cell: dict, seeds: list[int], label: str, draws: str, data: Data,
    training: Training, sigma: float, learner: Learner, arm: Arm,
) -> list[dict]:  # fmt: skip
    """Train a learner at one frequency, at its rate; return a row for each seed and feature.

    Where the rare features never occur, the untrained encoder is measured, too.
    """
    tried = inputs.file("rates").table()
    eta = float(tried.loc[tried["chosen"] == 1, "eta"].iloc[0])
    learner = replace(learner, fresh=cell["pairs"] == "fresh")
    measure = partial(train_and_measure, label, draws, data, training, sigma, learner, arm)
    rates = (eta,) if cell["eps_min"] else (0.0, eta)
    return [
        cell | {"eta": rate} | row
        for rate in rates
        for row in measure(rate, cell["eps_min"], seeds)
    ]
