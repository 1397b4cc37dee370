"""Section 6.3.1: what holds of every linear rule, and what the text says of two."""

from functools import partial

import pandas as pd

from rarefeat.claims.claim import SHARE, Measured
from rarefeat.studies.exact_results.claims.reader import by_seed, row, settings
from rarefeat.studies.exact_results.claims.reader import declare as of_paper
from rarefeat.studies.exact_results.printed import OOD_ERM

STUDY = "nuclear_norm"
OPEN = "the text prints neither the size of the sample nor the penalty nor the rate"
declare = partial(of_paper, group="nuclear norm", effect=1.55, seeds=15)
LINE = declare(
    id="6-1-line",
    source="section 6.3.1, a consequence",
    statement="a linear rule of slope t is right with probability 1 - 0.15 t in domain and 1 - 0.35 t out of domain",
    quantity="measured accuracies less these, mean over penalties and domains",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.005,
    reason="equal; half a per cent for twenty thousand test samples",
    primary=f"{STUDY}: model=logits/n=100",
    tolerance=0.005,
    control="0.76 out of domain goes with 0.90 in domain, which is not nearly perfect",
)
ERM = declare(
    id="6-1-erm",
    source="section 6.3.1, Figure 6.2",
    statement="without the penalty the accuracy out of domain is 0.76",
    quantity="that accuracy",
    test="equivalence",
    side="around",
    threshold=OOD_ERM,
    margin=0.05,
    reason="as printed; a twentieth",
    primary=f"{STUDY}: model=logits/n=100",
    tolerance=0.05,
    control="the invariant feature alone separates the classes, so that descent goes on to the widest margin",
    bounds=SHARE,
)
BETTER = declare(
    id="6-1-better",
    source="section 6.3.1, Figure 6.3",
    statement="the penalty raises the accuracy out of domain",
    quantity="accuracy with the penalty less without, on the same samples and initial weights",
    test="superiority",
    side="above",
    threshold=0.0,
    reason="raises",
    primary=f"{STUDY}: model=logits/n=100, lambda 0.01",
    tolerance=0.01,
    control="every reading of the text, and every penalty",
)
CLAIMS = (LINE, ERM, BETTER)


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each reading and size; for the effect of the penalty for each penalty."""
    rows = []
    for setting in settings(table, "slope"):
        part = table[(table["setting"] == setting) & table["stated"].notna()]
        rows.append(row(LINE, STUDY, setting, (part["value"] - part["stated"]).groupby(part["seed"]).mean()))
        without = by_seed(part, setting, "ood_accuracy", 0.0)
        rows.append(row(ERM, STUDY, setting, without, OPEN))
        for penalty in sorted(part["at"].unique()):
            if penalty:
                values = by_seed(part, setting, "ood_accuracy", penalty) - without
                rows.append(row(BETTER, STUDY, f"{setting}, lambda {penalty:g}", values, OPEN))
    return rows
