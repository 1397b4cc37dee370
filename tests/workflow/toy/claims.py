"""The claim of the toy study."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.claim import Claim, Measured, Regime
from rarefeat.claims.estimate import of_seeds
from rarefeat.run.job import Job

MORE = Claim(
    id="more-samples",
    group="learning",
    paper="toy",
    source="folklore",
    statement="more samples help",
    quantity="accuracy with the most samples less that with the fewest, seed by seed",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="higher",
    primary="toy_study",
    effect=2.0,
    seeds=6,
    tolerance=0.01,
    control="as many samples as the other",
)
CLAIMS = [MORE]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every study."""
    rows = []
    for name, table in tables.items():
        wide = table.pivot(index="seed", columns="samples", values="accuracy")
        gain = wide[wide.columns.max()] - wide[wide.columns.min()]
        rows.append(Measured(MORE, Regime(name.removesuffix("_accuracy")), of_seeds(gain.to_numpy())))
    return rows
