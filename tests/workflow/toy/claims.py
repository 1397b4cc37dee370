"""The claim of the toy study."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.run.job import Job

MORE = Claim(
    id="more-samples",
    group="learning",
    source="folklore",
    statement="more samples help",
    quantity="accuracy with the most samples less that with the fewest, seed by seed",
    side="above",
    threshold=(0.0,),
    reason="higher",
)
CLAIMS = [MORE]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every study."""
    rows = []
    for name, table in tables.items():
        wide = table.pivot(index="seed", columns="samples", values="accuracy")
        gain = wide[wide.columns.max()] - wide[wide.columns.min()]
        rows.append(Measured(MORE, name.removesuffix("_accuracy"), of_seeds(gain.to_numpy())))
    return rows
