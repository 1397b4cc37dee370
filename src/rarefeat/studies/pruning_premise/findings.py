"""Findings of the study of the premise of Theorem 3.2; the numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.findings import count_text, make_findings_page
from rarefeat.storage.markdown import interval, number, records, select_rows
from rarefeat.studies.pruning_premise import doc_tables
from rarefeat.studies.pruning_premise.changes import KEYS
from rarefeat.studies.pruning_premise.config import PruningPremise

TABLES = ("premise_changes",)
SPILL = 1 / 9
"""Largest part of the rare feature's gain that (16) allows the others: 1 / d, as in claim P-16."""
MASK = {"arm": "pruned_neuron", "pruned_update": "unmasked"}
RANDOM = {"arm": "random_neuron", "pruned_update": "unmasked"}
ORACLE = {"arm": "oracle_all", "pruned_update": "unmasked"}
STRAIGHT = {"arm": "pruned_neuron", "pruned_update": "straight_through"}


def findings(section: PruningPremise, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Describe where premise and equations hold, the end of training, and mixed weights."""
    table = tables["premise_changes"]
    sentences = [describe_equations(select_rows(table, purity=1))]
    mixed = table[table["purity"] < 1]
    regime = [key for key in KEYS if key != "purity"]
    for values in records(mixed[regime].drop_duplicates()):
        between = select_rows(table, **values)
        sentences += [describe_end(select_rows(between, purity=1)), describe_between(between)]
    return [sentence for sentence in sentences if sentence]


def bounded_points(rows: pd.DataFrame, low: float, high: float) -> set[tuple]:
    """Return the points at which an interval lies strictly between two bounds.

    Parameters
    ----------
    rows : DataFrame
        Rows of one arm and quantity.
    low, high : float
        Bounds.
    """
    inside = rows[(rows["ci_low"] > low) & (rows["ci_high"] < high)]
    return {tuple(row[key] for key in KEYS) for row in records(inside)}


def describe_equations(table: pd.DataFrame) -> str:
    """Say at how many points from pure weights the premise is met, and (15) and (16) hold."""
    smallest = select_rows(table, arm="dense", quantity="premise")
    met, unmet = bounded_points(smallest, 0.5, 2), bounded_points(smallest, -1, 0.5)
    growth = select_rows(table, **MASK, quantity="growth")
    spill = select_rows(table, **MASK, quantity="spill")
    first = bounded_points(growth, 0, float("inf"))
    both = first & bounded_points(spill, -SPILL, SPILL)
    if not len(smallest):
        return ""
    text = (
        "With equally many pure neurons of one size for every feature, most of the smallest"
        f" neurons are shown to be the rare feature's at {len(met) or 'none'} of"
        f" {count_text(len(smallest), 'point')}."
    )
    if met:
        text += (
            f" Of these, magnitude pruning by eq. (5) makes the rare feature grow faster at"
            f" {len(first & met) or 'none'}, eq. (15), and at {len(both & met) or 'none'} with"
            " less than a ninth of it along the others, eq. (16)."
        )
    if unmet:
        text += (
            f" Of the {len(unmet)} where most are not, both are shown at"
            f" {len(both & unmet) or 'none'}."
        )
    return text


def change(table: pd.DataFrame, arm: Mapping, quantity: str) -> dict | None:
    """Return the row of a quantity of an arm; None where it was not run.

    Parameters
    ----------
    table : DataFrame
        Rows of one point.
    arm : mapping
        Values of `arm` and `pruned_update`.
    quantity : str
        Name of the quantity.
    """
    rows = records(select_rows(table, **arm, quantity=quantity))
    return rows[0] if len(rows) == 1 else None


def describe_end(table: pd.DataFrame) -> str:
    """Describe strength and divergence under each mask, at one point from pure weights."""
    arms = {"mask": MASK, "random": RANDOM, "straight": STRAIGHT, "oracle": ORACLE}
    leads = {name: change(table, arm, "lead") for name, arm in arms.items()}
    if leads["mask"] is None:
        return ""
    regime = records(table)[0]
    text = (
        f"At a relative frequency of {regime['eps_min']:g} and a decay of {regime['lambda']:g}, a"
        " mask of the smallest neurons by eq. (5) changes the rare feature's strength over the"
        f" others', in log2 and against dense, by {interval(leads['mask'], 'mean', 2, '+')}."
    )
    for name, words in (
        ("random", "With as many at random it is"),
        ("straight", "With the gradient of the masked network it is"),
        ("oracle", "With every neuron of it masked it is"),
    ):
        if leads[name] is not None:
            lost = change(table, arms[name], "diverged")["mean"]
            text += f" {words} {interval(leads[name], 'mean', 2, '+')}"
            text += f", and {number(100 * lost, 0)} % of the runs diverge." if lost else "."
    return text


def describe_between(table: pd.DataFrame) -> str:
    """Say from which purity on the gain over a random mask is shown, and what a probe sees."""
    mask, random = (
        select_rows(table, **arm, quantity="lead").sort_values("purity").set_index("purity")
        for arm in (MASK, RANDOM)
    )
    if mask.empty or random.empty or 0 not in mask.index:
        return ""
    above = mask["ci_low"] > random["ci_high"]
    shown = [purity for purity in mask.index if above.loc[purity:].all()]
    text = (
        "Between random weights (0) and pure ones (1) the gain exceeds that of the random mask"
        f" {f'from a purity of {shown[0]:g} on' if shown else 'nowhere'}. From random weights it is"
        f" {interval(mask.loc[0], 'mean', 2, '+')}"
    )
    probe = select_rows(table, **MASK, quantity="r2")
    gained = probe[probe["ci_low"] > 0]
    text += (
        f". A linear probe gains at {len(gained) or 'none'} of the {len(probe)}, by at most"
        f" {interval(probe.loc[probe['mean'].idxmax()], 'mean', 3, '+')} of $R^2$"
        if len(gained)
        else f". A linear probe is shown to gain at none of the {len(probe)}"
    )
    return text + "."


answer = make_findings_page(
    "Pruning where its premise holds",
    "pruning_premise",
    PruningPremise,
    findings,
    TABLES,
    doc_tables.TABLES,
)
