"""Section 5.4: the optimum of rank r, its loss, and what more directions cost."""

from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Measured
from rarefeat.studies.exact_results.claims.reader import by_seed, row, settings
from rarefeat.studies.exact_results.claims.reader import declare as of_paper

STUDY = "low_rank_attention"
declare = partial(of_paper, group="low-rank attention", effect=1.25, seeds=20)
OPTIMUM = declare(
    id="5.4.1",
    source="Theorem 5.4.1",
    statement="the best attention of rank r is the best one of full rank, cut to the leading r directions",
    quantity="log of the least pretraining loss that a search finds over that of the theorem, mean over ranks",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=1e-4,
    reason="equal; a search ends a little above",
    primary=f"{STUDY}: signal=10",
    tolerance=1e-4,
    control="directions other than the leading ones cost per cents; a test plants them",
)
LOSS = declare(
    id="5.4.2",
    source="Theorem 5.4.2",
    statement="the loss in evaluation is the sum of its four terms",
    quantity="log of the simulated loss over the closed form",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.02,
    reason="equal; two per cent for the sampling of prompts",
    primary=f"{STUDY}: signal=10, rank 5",
    tolerance=0.02,
    control="s as the whole of w, or a factor r for r + 1 in the term of the inputs, is outside of the margin",
)
INCREMENT = declare(
    id="5.4.3",
    source="Theorem 5.4.3",
    statement="where the task lies in the leading directions, every further one costs (|s|_D^2 + sigma^2) (lambda v*)^2 / M",
    quantity="log of the simulated loss of full rank less that of the signal's, over the closed form",
    test="equivalence",
    side="around",
    threshold=0.0,
    margin=0.1,
    reason="equal; a tenth for the sampling of prompts, which differences feel more",
    primary=f"{STUDY}: signal=3",
    tolerance=0.1,
    control="without label noise the same difference is several times smaller",
)
CLAIMS = (OPTIMUM, LOSS, INCREMENT)


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each signal, and for the loss for each rank."""
    rows = []
    for setting in settings(table, "loss"):
        part = table[table["setting"] == setting]
        of_rank = {quantity: rows_of.groupby("seed") for quantity, rows_of in part.groupby("quantity")}
        ratio = of_rank["pretraining_loss"].apply(_mean_log_ratio, include_groups=False)
        rows.append(row(OPTIMUM, STUDY, setting, ratio))
        for rank in sorted(part.loc[part["quantity"] == "loss", "at"].unique()):
            value, stated = (by_seed(part, setting, "loss", rank, column) for column in ("value", "stated"))
            rows.append(row(LOSS, STUDY, f"{setting}, rank {rank:g}", np.log(value / stated)))
        if "increment" in of_rank:
            total = of_rank["increment"][["value", "stated"]].sum()
            rows.append(row(INCREMENT, STUDY, setting, np.log(total["value"] / total["stated"])))
    return rows


def _mean_log_ratio(part: pd.DataFrame) -> float:
    return float(np.log(part["value"] / part["stated"]).mean())
