"""Measurements for the claims on learners."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.learners.config import LearnerStudies
from rarefeat.studies.learners.lockout import outcomes, thresholds
from rarefeat.workflow.run.job import Job

CONTRASTS = {
    "B-threshold": "linear",
    "B-supervised": "supervised",
    "B-cosine": "nt_xent",
    "B-adam": "adam",
}
"""Learner whose threshold frequency is subtracted from that of the paper's, by claim."""
LOCKS = {"B-infonce": "infonce", "B-barlow": "barlow_twins"}
"""Learner whose threshold frequency is compared with the smallest one, by claim."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim for each kind of pairs.

    Inputs: `which_learners_readouts`. Config: the section `learners`. Quantities are threshold
    frequencies, seed by seed (lockout.py).
    """
    section = job.config_section("learners", LearnerStudies)
    rows = []
    for name, table in tables.items():
        study = section.studies[name.removesuffix("_readouts")]
        values = thresholds(outcomes(table, len(study.data.minority)))
        smallest = min(study.eps_min)
        for pairs in study.pairs:
            regime = {"pairs": pairs}
            for claim, learner in LOCKS.items():
                if (learner, pairs) in values:
                    rows.append(
                        measurement(
                            claim, "which_learners", regime, values[learner, pairs] - smallest
                        )
                    )
            for claim, learner in CONTRASTS.items():
                if {(learner, pairs), ("infonce", pairs)} <= set(values.columns):
                    gain = values["infonce", pairs] - values[learner, pairs]
                    rows.append(measurement(claim, "which_learners", regime, gain.dropna()))
        for learner in study.learners:
            both = [(learner, pairs) for pairs in ("fresh", "returning")]
            if learner == "infonce" and set(both) <= set(values.columns):
                gain = (values[both[0]] - values[both[1]]).dropna()
                regime = {"pairs": "both"}
                rows.append(measurement("B-fresh", "which_learners", regime, gain))
    return rows
