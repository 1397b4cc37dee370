"""Beyond the paper: is the imbalance transient or lasting, and when does a rare feature start?"""

from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Measured
from rarefeat.studies.theory.claims.reader import Reader, by_seed, point_of

GROUP = "imbalance"
declare = partial(
    Claim, group=GROUP, paper="beyond imbalance_and_pruning", source="beyond the papers", effect=1.5, seeds=12,
    primary="phase: eps_min 0.5, sigma 0.05, step 2000",
)  # fmt: skip
LASTING = declare(
    id="lasting",
    statement="the imbalance lasts: the minority feature stays behind the majority ones to the end",
    quantity="majority_alignment less max_alignment at T",
    test="superiority",
    side="above",
    threshold=0.05,
    reason="more than a twentieth of a cosine",
    tolerance=0.05,
    control="0 at eps_min = 1 by symmetry",
)
EQUAL = declare(
    id="equal",
    statement="the imbalance is transient: the rare feature ends up learned as strongly as the common ones",
    quantity="majority_alignment less max_alignment at T",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.05,
    reason="within a twentieth of a cosine",
    tolerance=0.05,
    control="lasting, on the same numbers",
)
LATER = declare(
    id="onset",
    statement="the minority feature starts later, by a factor of about 1 / eps_min",
    quantity="log2 of (steps until max_alignment >= 0.5 over those of the majority, times eps_min)",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=1.0,
    reason="to a factor of two",
    primary="phase_without_bias: eps_min 0.5, sigma 0.05, step 2000",
    tolerance=0.5,
    control="log2 eps_min if both started together",
)
CLAIMS = (LASTING, EQUAL, LATER)
REACHED = 0.5


def first_step(table: pd.DataFrame, metric: str) -> pd.Series:
    """The first recorded step at which a metric reaches 0.5, by seed; NaN where it never does."""
    reached = table[(table["metric"] == metric) & (table["value"] >= REACHED)]
    return reached.groupby("seed")["step"].min().reindex(sorted(table["seed"].unique())).astype(float)


def measure(reader: Reader) -> list[Measured]:
    """Every point of the studies of the phase."""
    rows = []
    for name in reader.studies("phase", table="trajectories"):
        for (eps_min, sigma), point in reader.tables[f"{name}_trajectories"].groupby(["eps_min", "sigma"]):
            if eps_min == 1:
                continue
            said = f"{point_of(eps_min, sigma)}, step {point['step'].max()}"
            gap = (by_seed(point, "majority_alignment") - by_seed(point, "max_alignment")).to_numpy()
            rows += [reader.row(claim, name, said, gap) for claim in (LASTING, EQUAL)]
            ratio = first_step(point, "max_alignment") / first_step(point, "majority_alignment")
            missing = int(ratio.isna().sum())
            # A start that is not seen is later than T: the mean of the others would be too early.
            late = f"{missing} of {len(ratio)} replicas do not learn the feature within T" if missing else ""
            values = np.log2(ratio * eps_min).to_numpy()
            untestable = late if 10 * missing > len(ratio) else ""
            rows.append(reader.row(LATER, name, said, values, "", untestable, remark=late and f"{late}, and are left out"))
    return rows
