"""The exact results together: means over seeds beside what is stated and printed, and claims.

Beside them the cost of the experiments of the dissertation that are not run here. Operations are
counted from the sizes that it prints. `out_of_reach.csv` says of each how many operations it takes,
as a product. `passes`: a training step costs about three forward passes a sample, a language model
two operations a parameter and token. `size`: those of a forward pass, twice the multiplications and
additions of the networks' own papers (1.1e9 for ResNet-18 on 32 by 32 pixels, 8.2e9 for ResNet-50
and 9.2e9 for ViT-S on 224 by 224), or parameters. `number`: samples of all its runs together, or
tokens.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import pandas as pd

from rarefeat.claims.measurements import Measurement
from rarefeat.studies.experiment import SIZE, TableColumns, column, text
from rarefeat.studies.theorems import (
    digit_neurons,
    looped_transformer,
    low_rank_attention,
    modular_addition,
    nuclear_norm,
    spurious_features,
    task_mixture,
)
from rarefeat.studies.theorems.problems import MachineSpeed
from rarefeat.studies.theorems.results import NUMBER, PLACE, SETTING, SHI, means
from rarefeat.workflow.files.schema import validate_sorted

PARTS = (
    looped_transformer, low_rank_attention, spurious_features, task_mixture, modular_addition,
    digit_neurons, nuclear_norm,
)  # fmt: skip
KEYS = ["result", "setting", "at", "quantity"]
hours = partial(column, bounds=SIZE, unit="hours")
SCHEMA = TableColumns(
    "exact_results",
    f"a row per ({', '.join(KEYS)})",
    {
        "result": text("the result's table"),
        "setting": SETTING,
        "at": PLACE,
        "quantity": text("as in the result's table"),
        "mean": column("mean over seeds", **NUMBER),
        "ci_low": column("lower end of its 95 % interval (Student)", **NUMBER),
        "ci_high": column("upper end", **NUMBER),
        "n": column("seeds with a value", SIZE, "replicas", kind=int),
        "stated": column("what the text has of it, mean over seeds", source=SHI, **NUMBER),
        "printed": column("as printed; null where nothing is", source=SHI, **NUMBER),
    },
    KEYS,
).schema
OUT_OF_REACH = TableColumns(
    "out_of_reach",
    "a row per experiment of the dissertation that is not run here",
    {
        "experiment": text("number of the experiment: chapter and place in it"),
        "what": text("what it is", source=SHI),
        "source": text("where it stands", source=SHI),
        "needs": text("what it needs that is not here"),
        "assumed": text("what of its size is not printed, and what was taken"),
        "operations": column("of all its runs together", SIZE, "floating-point operations"),
        "hours_cores": hours("on two cores, at `machine.cores` of the config"),
        "hours_gpu": hours("on one GPU, at `machine.gpu`"),
    },
    ["experiment"],
).schema
PRINTED = {
    (looped_transformer.STUDY, f"n={n}", "kappa"): value
    for n, value in looped_transformer.KAPPA.items()
}


def summarise(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return means over seeds of every quantity at each place of its axis."""
    rows = pd.concat([table.assign(result=name) for name, table in tables.items()])
    # Its axis is drawn by the seed: rows come together over it.
    rows["at"] = rows["at"].mask(rows["result"] == spurious_features.STUDY, 0.0)
    table = means(rows, KEYS)
    names = zip(table["result"], table["setting"], table["quantity"], strict=True)
    printed = pd.Series([PRINTED.get(name) for name in names], dtype=float)
    return validate_sorted(SCHEMA, table.assign(printed=printed))


def claims(tables: Mapping[str, pd.DataFrame]) -> Iterator[Measurement]:
    """Measure the claims of every result."""
    for part in PARTS:
        yield from part.claims(tables[part.STUDY])


def costs(experiments: list[dict[str, str]], machine: MachineSpeed) -> pd.DataFrame:
    """Return a row for each experiment, with hours on two cores and on one GPU."""
    table = pd.DataFrame(experiments)
    table["operations"] = table[["passes", "size", "number"]].astype(float).prod(axis=1)
    for name, speed in (("hours_cores", machine.cores), ("hours_gpu", machine.gpu)):
        table[name] = table["operations"] / speed / 3600
    return validate_sorted(OUT_OF_REACH, table.drop(columns=["passes", "size", "number"]))
