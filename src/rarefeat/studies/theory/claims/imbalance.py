"""Beyond the paper: is the imbalance transient or lasting, and when does a rare feature start?"""

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.claims.evidence import named
from rarefeat.studies.theory.claims.evidence import Evidence

GROUP = "imbalance"
LASTING = Claim(
    id="lasting",
    group=GROUP,
    source="beyond the papers",
    statement="the imbalance lasts: the minority feature stays behind the majority ones to the end",
    quantity="majority_alignment less max_alignment at T",
    side="above",
    threshold=(0.05,),
    reason="more than a twentieth of a cosine",
)
EQUAL = Claim(
    id="equal",
    group=GROUP,
    source="beyond the papers",
    statement="the imbalance is transient: the rare feature ends up learned as strongly as the common ones",
    quantity="majority_alignment less max_alignment at T",
    side="within",
    threshold=(-0.05, 0.05),
    reason="within a twentieth of a cosine",
)
LATER = Claim(
    id="onset",
    group=GROUP,
    source="beyond the papers",
    statement="the minority feature starts later, by a factor of about 1 / eps_min",
    quantity="log2 of (steps until max_alignment >= 0.5 over those of the majority, times eps_min)",
    side="within",
    threshold=(-1.0, 1.0),
    reason="to a factor of two",
)
REACHED = 0.5


def first_step(table: pd.DataFrame, metric: str) -> pd.Series:
    """The first recorded step at which a metric reaches 0.5, by seed; NaN where it never does."""
    reached = table[(table["metric"] == metric) & (table["value"] >= REACHED)]
    return reached.groupby("seed")["step"].min().reindex(sorted(table["seed"].unique())).astype(float)


def measure(evidence: Evidence) -> list[Measured]:
    """Every point of the phase studies."""
    rows = []
    for study in evidence.of_role("phase"):
        table = evidence.trajectories[study]
        for (eps_min, sigma), point in table.groupby(["eps_min", "sigma"]):
            last = point[point["step"] == point["step"].max()].pivot(index="seed", columns="metric", values="value")
            regime = f"{named(study, eps_min, sigma)}, step {point['step'].max()}"
            gap = of_seeds((last["majority_alignment"] - last["max_alignment"]).to_numpy())
            if eps_min < 1:
                rows += [Measured(LASTING, regime, gap), Measured(EQUAL, regime, gap)]
                ratio = first_step(point, "max_alignment") / first_step(point, "majority_alignment")
                onset = of_seeds(np.log2(ratio * eps_min).to_numpy())
                reason = "too few replicas learn the minority feature within T" if onset.n < 5 else ""
                rows.append(Measured(LATER, regime, onset, reason))
    return rows
