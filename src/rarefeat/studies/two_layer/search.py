"""Results of every candidate of the step sizes that the dissertation leaves open.

They are on draws that no table uses.
"""

import itertools
import math
from collections.abc import Iterable, Iterator

import pandas as pd

from rarefeat.studies.two_layer import run_replica
from rarefeat.studies.two_layer.config import LEARNERS, Rates, Setting
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

DRAWS = "two_layer_rates"
"""First part of the key of the random streams: own dictionaries, networks and samples."""


def candidates(setting: Setting, learner: str, grid: dict[str, list[float]]) -> Iterator[Setting]:
    """Yield the setting with one arm, for every combination of the rates that concern it."""
    arm, keys = LEARNERS[learner]
    for values in itertools.product(*(grid[key] for key in keys)):
        rates = Rates(**setting.rates.model_dump() | dict(zip(keys, values, strict=True)))
        alone = {
            "rates": rates,
            "arms": [arm],
            "tickets": None,
            "fixed_features": [],
            "neurons": [],
        }
        yield setting.model_copy(update=alone)


def measure(
    setting: Setting, name: str, grid: dict[str, list[float]], seeds: Iterable[int]
) -> pd.DataFrame:
    """Measure the accuracies of every candidate, by learner and seed."""
    rows = []
    tried = [
        (learner, candidate)
        for learner in LEARNERS
        for candidate in candidates(setting, learner, grid)
    ]
    for learner, candidate in progress(tried, len(tried), f"rates of {name}"):
        rates = {key: getattr(candidate.rates, key) for key in LEARNERS[learner][1]}
        for seed in seeds:
            outcome = run_replica.run(candidate, f"{DRAWS}/{name}", seed).rows
            values = {row.quantity: row.value for row in outcome}
            curve = [row.value for row in outcome if row.quantity == "curve"]
            rows.append(
                {
                    "setting": name,
                    "learner": learner,
                    "seed": seed,
                    **dict.fromkeys(grid, math.nan),
                    **rates,
                }
                | {
                    "train_accuracy": values["train_accuracy"],
                    "held_out_accuracy": values["test_accuracy"],
                }
                | {"held_out_over_steps": sum(curve) / len(curve)}
            )
    return pd.DataFrame(rows)


def search_rates(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure all candidates for a setting and seed.

    Config: `setting`; `candidates`, by the name of the rate. Output: a row per candidate.
    """
    grid = job.config_section("candidates", dict[str, list[float]])
    return measure(job.config_section("setting", Setting), job.cell["setting"], grid, job.seed_list)
