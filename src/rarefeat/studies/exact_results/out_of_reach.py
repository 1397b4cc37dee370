"""What of the dissertation is not run here.

What it would cost: operations counted from the sizes that it prints.

`out_of_reach.csv` says of each experiment how many operations it takes, as a product. `passes`: a
training step costs about three forward passes a sample, a language model two operations a parameter
and token. `size`: those of a forward pass, twice
the multiplications and additions of the networks' own papers (1.1e9 for ResNet-18 on 32 by 32
pixels, 8.2e9 for ResNet-50 and 9.2e9 for ViT-S on 224 by 224), or parameters. `number`: samples of
all its runs together, or tokens.
"""

from collections.abc import Mapping

import pandas as pd

from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.exact_results.config import MachineSpeed
from rarefeat.studies.exact_results.tables import OUT_OF_REACH


def costs(experiments: list[dict[str, str]], machine: MachineSpeed) -> pd.DataFrame:
    """A row for each, with hours on two cores and on one GPU."""
    found = pd.DataFrame(experiments)
    found["operations"] = found[["passes", "size", "number"]].astype(float).prod(axis=1)
    for column, speed in (("hours_cores", machine.cores), ("hours_gpu", machine.gpu)):
        found[column] = found["operations"] / speed / 3600
    return validate_sorted(OUT_OF_REACH, found.drop(columns=["passes", "size", "number"]))


def out_of_reach(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """What each would cost on the machine of the config."""
    return costs(
        job.config_section("experiments", list[dict[str, str]]),
        job.config_section("machine", MachineSpeed),
    )
