"""One setting and block of seeds: every arm trained and measured.

The picture of the first seed's neurons is made here too.
"""

from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rarefeat.studies.two_layer import metrics, run_replica
from rarefeat.studies.two_layer.config import Setting
from rarefeat.studies.two_layer.data import DataDistribution
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

NUMBERS = ["setting", "seed", "arm", "step", "quantity", "value"]
PICTURES = ["setting", "arm", "step", "point", "kind", "near", "x", "y"]


def draws(name: str) -> str:
    """Return the first part of the key of a setting's random streams."""
    return f"two_layer/{name}"


class BlockTables(NamedTuple):
    """The tables of some seeds of a setting."""

    numbers: pd.DataFrame
    """Columns NUMBERS: curves (`curve`, test accuracy at a step) and what is measured at steps 0,
    1, 2 and T."""
    pictures: pd.DataFrame
    """Columns PICTURES, of the seed that is pictured if it is among them."""


def measure(name: str, setting: Setting, seeds: list[int], pictured: int) -> BlockTables:
    """Train and measure every arm of a setting for some seeds, one after the other.

    A seed's numbers do not depend on the others.
    """
    numbers, pictures = [], []
    for seed in progress(seeds, len(seeds), name):
        outcome = run_replica.run(setting, draws(name), seed)
        numbers.append(pd.DataFrame(outcome.rows).assign(setting=name, seed=seed))
        if seed == pictured:
            pictures += _pictures(setting, name, seed, outcome)
    picture_table = pd.concat(pictures, ignore_index=True) if pictures else NO_PICTURE
    return BlockTables(pd.concat(numbers, ignore_index=True)[NUMBERS], picture_table[PICTURES])


NO_PICTURE = pd.DataFrame(
    {
        name: pd.Series(dtype=kind)
        for name, kind in zip(
            PICTURES, ["str", "str", *["int64"] * 2, "str", "int64", *["float64"] * 2], strict=True
        )
    }
)


def _pictures(
    setting: Setting, name: str, seed: int, outcome: run_replica.ReplicaResult
) -> list[pd.DataFrame]:
    tables = []
    for arm in dict.fromkeys(arm for arm, _ in outcome.neurons):
        law = DataDistribution(
            setting.problem, draws(name), seed, structure="no_structure" not in arm
        )
        states = {
            step: neurons for (label, step), neurons in outcome.neurons.items() if label == arm
        }
        tables.append(metrics.picture(states, *_targets(law)).assign(setting=name, arm=arm))
    return tables


def _targets(law: DataDistribution) -> tuple[Tensor, list[str]]:
    """Return what the pictures show with the neurons, directions and the kind of each.

    They are the corners with their class for the hypercube, else the labels' direction and its
    opposite.
    """
    centres = run_replica.centres(law)
    if law.problem.labels == "hypercube":
        return centres, [
            "positive" if sign > 0 else "negative" for sign in centres[:, law.relevant].prod(1)
        ]
    return torch.cat([centres, -centres]), ["target", "opposite"]


def measure_two_layer(inputs: JobInputs, job: Job) -> BlockTables:
    """Measure a setting and block of seeds.

    Config: `setting`; `pictured`, the seed whose neurons are embedded in the plane. Outputs:
    numbers and pictures.
    """
    return measure(
        job.cell["setting"],
        job.config_section("setting", Setting),
        job.seed_list,
        job.config_section("pictured", int),
    )
