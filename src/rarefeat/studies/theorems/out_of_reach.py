"""Cost of the experiments of the dissertation that are not run here.

Operations are counted from the sizes that it prints. `out_of_reach.csv` says of each experiment how
many operations it takes, as a product. `passes`: a training step costs about three forward passes a
sample, a language model two operations a parameter and token. `size`: those of a forward pass,
twice the multiplications and additions of the networks' own papers (1.1e9 for ResNet-18 on 32 by 32
pixels, 8.2e9 for ResNet-50 and 9.2e9 for ViT-S on 224 by 224), or parameters. `number`: samples of
all its runs together, or tokens.
"""

import pandas as pd

from rarefeat.studies.theorems.problems import MachineSpeed
from rarefeat.studies.theorems.tables import SHI
from rarefeat.workflow.files.schema import at_least, column, schema, validate_sorted

HOURS = {"dtype": float, "checks": at_least(0), "unit": "hours"}
SCHEMA = schema(
    "out_of_reach",
    "a row per experiment of the dissertation that is not run here",
    {
        "experiment": column(str, None, "", "number of the experiment: chapter and place in it"),
        "what": column(str, None, "", "what it is", SHI),
        "source": column(str, None, "", "where it stands", SHI),
        "needs": column(str, None, "", "what it needs that is not here"),
        "assumed": column(str, None, "", "what of its size is not printed, and what was taken"),
        "operations": column(
            float, at_least(0), "floating-point operations", "of all its runs together"
        ),
        "hours_cores": column(
            **HOURS, description="on two cores, at `machine.cores` of the config"
        ),
        "hours_gpu": column(**HOURS, description="on one GPU, at `machine.gpu`"),
    },
    unique=["experiment"],
)


def costs(experiments: list[dict[str, str]], machine: MachineSpeed) -> pd.DataFrame:
    """Return a row for each experiment, with hours on two cores and on one GPU."""
    table = pd.DataFrame(experiments)
    table["operations"] = table[["passes", "size", "number"]].astype(float).prod(axis=1)
    for name, speed in (("hours_cores", machine.cores), ("hours_gpu", machine.gpu)):
        table[name] = table["operations"] / speed / 3600
    return validate_sorted(SCHEMA, table.drop(columns=["passes", "size", "number"]))
