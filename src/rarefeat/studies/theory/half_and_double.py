"""The share of replicas that learn the rare feature, at half and double each hyper-parameter."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.statistics import fraction_interval, sign_test
from rarefeat.studies.theory import HALF_AND_DOUBLE, Theory


def half_and_double(tables: Mapping[str, pd.DataFrame], theory: Theory) -> pd.DataFrame:
    """Return the share that learns the rare feature under each setting, beside that of the study.

    Replicas of one seed have the same draws, so that a change is tested by the seeds on which two
    settings disagree (McNemar's exact test).
    """
    base, *varied = (find_learners(table) for table in tables.values())
    names = [name for name in theory.every_study() if name not in theory.studies]
    settings = [("", 1.0), *((key.rpartition(".")[2], f) for key, f in theory.settings())]
    values = ["", *(theory.varied(name)[1].partition(" = ")[2] for name in names)]
    rows = []
    for setting, value, learned in zip(settings, values, (base, *varied), strict=True):
        for eps_min in theory.sensitivity.eps_min:
            by_seed = learned[eps_min]
            low, high = fraction_interval(by_seed.to_numpy())
            share = by_seed.mean(), low, high, len(by_seed)
            rows.append((*setting, value, eps_min, *share, *sign_test(by_seed - base[eps_min])))
    table = pd.DataFrame(rows, columns=list(HALF_AND_DOUBLE.columns))
    return table.sort_values(list(HALF_AND_DOUBLE.keys), ignore_index=True)


def find_learners(milestones: pd.DataFrame) -> dict[float, pd.Series]:
    """Return by eps_min whether each seed's dense replica has learned the rare feature."""
    learned = milestones[(milestones["metric"] == "learned") & (milestones["arm"] == "dense")]
    return {
        eps_min: replicas.set_index("seed")["value"].dropna()
        for eps_min, replicas in learned.groupby("eps_min")
    }
