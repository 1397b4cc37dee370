"""What the exact results have shown."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import answering, joined
from rarefeat.storage.markdown import each, interval, number, rows
from rarefeat.studies.exact_results import page
from rarefeat.studies.exact_results.config import ExactResults

TABLES = ("exact_results",)


def found(section: ExactResults, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """What is kept of a rare task; the looped transformer with and without rounding; spurious features out of domain."""
    table = tables["exact_results"]
    sentences = []
    mixed = rows(table, result="task_mixture", quantity="private_weight")
    # Three of them say how it goes; a smaller size may have none.
    rare = mixed[mixed["setting"].isin([f"mixture=rare_{often}" for often in (0.3, 0.65, 0.8)])]
    rare = rare[rare["at"] == rare["at"].max()]
    if len(rare):
        told = joined(
            f"{interval(row, 'mean', 2)} where it comes {row['setting'].removeprefix('mixture=rare_')} times as often as the"
            f" others (stated: {number(row['stated'], 2)})"
            for row in each(rare)
        )
        sentences.append(
            f"Contrastive pre-training does not encode a task that is rare enough. The weight of its own features is {told}."
        )
    looped = rows(table, result="looped_transformer").set_index(["quantity", "setting"])["mean"]
    if "error_excess" in looped and "rounded_excess" in looped:
        exact, rounded = (looped[name].max() for name in ("error_excess", "rounded_excess"))
        sentences.append(
            f"The looped transformer's error stays {'below' if exact < 0 else 'not below'} its bound in exact arithmetic; in"
            " double precision it"
            f" ends {'far above' if rounded > 1 else 'below'} it, since rounding sets a floor that the bound does not know."
        )
    spurious = rows(table, result="spurious_features").groupby("quantity")["mean"]
    ends = spurious.agg(["min", "max"]) if len(spurious) else pd.DataFrame()
    if {"id_accuracy", "ood_accuracy", "rank_ood_accuracy"} <= set(ends.index):
        sentences.append(
            f"With spurious features the ridge is right on {number(100 * ends.loc['id_accuracy', 'min'], 0)} % in domain and on"
            f" {number(100 * ends.loc['ood_accuracy', 'max'], 0)} % out of domain; with a bound on the rank it is right on"
            f" {number(100 * ends.loc['rank_ood_accuracy', 'min'], 0)} % there, as Proposition 6.3 says."
        )
    return sentences


answer = answering("Exact results", "exact_results", ExactResults, found, TABLES, page.TABLES)
