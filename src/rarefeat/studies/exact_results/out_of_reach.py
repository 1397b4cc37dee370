"""Cost of the experiments of the dissertation that are not run here.

Operations are counted from the sizes that it prints. `out_of_reach.csv` says of each experiment how
many operations it takes, as a product. `passes`: a training step costs about three forward passes a
sample, a language model two operations a parameter and token. `size`: those of a forward pass,
twice the multiplications and additions of the networks' own papers (1.1e9 for ResNet-18 on 32 by 32
pixels, 8.2e9 for ResNet-50 and 9.2e9 for ViT-S on 224 by 224), or parameters. `number`: samples of
all its runs together, or tokens.
"""

from collections.abc import Mapping

import pandas as pd

from rarefeat.studies.exact_results.config import MachineSpeed
from rarefeat.studies.exact_results.tables import OUT_OF_REACH
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job


def costs(experiments: list[dict[str, str]], machine: MachineSpeed) -> pd.DataFrame:
    """Return a row for each experiment, with hours on two cores and on one GPU."""
    table = pd.DataFrame(experiments)
    table["operations"] = table[["passes", "size", "number"]].astype(float).prod(axis=1)
    for column, speed in (("hours_cores", machine.cores), ("hours_gpu", machine.gpu)):
        table[column] = table["operations"] / speed / 3600
    return validate_sorted(OUT_OF_REACH, table.drop(columns=["passes", "size", "number"]))


def out_of_reach(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the cost of each experiment on the machine of the config.

    Config: `experiments`, `machine`.
    """
    return costs(
        job.config_section("experiments", list[dict[str, str]]),
        job.config_section("machine", MachineSpeed),
    )
