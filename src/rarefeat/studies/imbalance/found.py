"""What the study of imbalance has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.core.arms import ARMS
from rarefeat.core.definitions import ALIGNED
from rarefeat.storage.answer import answering, joined
from rarefeat.storage.markdown import each, interval, number, one, rows
from rarefeat.studies.imbalance import page
from rarefeat.studies.imbalance.config import Imbalance

TABLES = ("confirmation_fates", "paper_trends", "paper_convergence", "without_bias_trends", "without_bias_convergence")
SIGMA = 0.05
SHOWN = (0.3, 0.5, 0.7)
"""Frequencies of the rare feature, of which the fate is told; both ends of the grid where it lacks them."""


def found(section: Imbalance, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The rare feature's fate by its frequency; what masks change; what the bias does."""
    fates, trends, bound, free_trends, free = (tables[name] for name in TABLES)
    training = section.studies["paper"].training
    sigma = SIGMA if SIGMA in set(fates["sigma"]) else fates["sigma"].iloc[0]
    fates = rows(fates, sigma=sigma, fate="learned")
    there = set(fates["eps_min"])
    shown = [eps for eps in SHOWN if eps in there] or [min(there), max(there)]
    learned = joined(f"{interval(one(fates, eps_min=eps), 'share', 0, times=100)} % at {eps:g} times" for eps in shown)
    sentences = [
        f"Within {training.T} steps at a weight decay of {training.lambda_:g}, a feature that is rare enough is locked out, and"
        " one that is frequent enough is learned. The share of the seeds in which some neuron ends with a cosine above 0.9 to"
        f" it is {learned} the frequency of the others (n = {fates['n'].max()}, noise σ = {sigma:g})."
    ]
    arms = rows(trends, grid="arms")
    arms = rows(arms, sigma=sigma) if sigma in set(arms["sigma"]) else arms
    cosines = rows(arms, metric="max_alignment")
    masked = [row for row in each(cosines) if row["paired_difference"] == row["paired_difference"]]
    if masked:
        masks = joined(f"{interval(row, 'paired_difference', 3, '+')} ({ARMS[row['arm']].label})" for row in masked)
        most = max(row["at_lowest"] for row in masked)
        sentences.append(
            "Pruning does not open a door for a feature that is locked out: at"
            f" {min(section.studies['paper'].grid['arms'].eps_min):g} times the others' frequency the largest cosine to it is"
            f" {number(most, 3)} with a mask at most, and {number(one(cosines, arm='dense')['at_lowest'], 3)} without. Averaged"
            f" over all frequencies masks change it by {masks}."
            if (rows(cosines, arm="pruned_neuron")["paired_ci_low"] <= 0).all()
            else f"Pruning raises the largest cosine to it, averaged over all frequencies, by {masks}."
        )
    of_bias = without_and_with(free, bound) if len(free) and len(bound) else ""
    errors = [rows(table, grid="arms", arm="dense", metric="regression_mse_balanced") for table in (free_trends, arms)]
    if all(len(row) == 1 for row in errors):
        unbiased, biased = ((number(row["at_lowest"].item()), number(row["at_highest"].item())) for row in errors)
        of_bias += (
            f" Without a bias neurons mix features, but a linear head reads them: its test error is {unbiased[0]} at the lowest"
            f" frequency and {unbiased[1]} at that of the others, with a bias {biased[0]} and {biased[1]}."
        )
    return [*sentences, of_bias.strip()] if of_bias else sentences


def without_and_with(free: pd.DataFrame, bound: pd.DataFrame) -> str:
    """The largest cosine to the rare feature without and with a bias, at a frequency of both; empty where there is none."""
    shared = set(free["eps_min"]) & set(bound["eps_min"])
    if not shared:
        return ""
    eps = min(shared, key=lambda eps: abs(eps - SHOWN[0]))
    without, with_one = (one(table, eps_min=eps)["max_alignment"] for table in (free, bound))
    rarest = free.loc[free["eps_min"].idxmin()]
    said = (
        f"{'The bias shuts it out: at' if without > ALIGNED > with_one else 'At'} {eps:g} times the others' frequency its best"
        f" neuron ends with a cosine of {number(without, 2)} without a bias and {number(with_one, 2)} with one."
    )
    if rarest["max_alignment"] < ALIGNED and rarest["eps_min"] < eps:
        said += f" At {rarest['eps_min']:g} times it is not learned without one either ({number(rarest['max_alignment'], 2)})."
    return said


answer = answering("Imbalance and pruning", "imbalance", Imbalance, found, TABLES, page.TABLES)
