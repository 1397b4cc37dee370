"""What the study of imbalance has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.core.arms import ARMS
from rarefeat.run.job import Job
from rarefeat.storage.answer import joined, reduced, written
from rarefeat.storage.markdown import each, interval, number, one, rows
from rarefeat.studies.imbalance import page
from rarefeat.studies.imbalance.config import Imbalance

TABLES = ("confirmation_fates", "paper_trends", "without_bias_convergence")
SIGMA = 0.05
SHOWN = (0.3, 0.5, 0.7)
"""Frequencies of the rare feature, of which the fate is told; both ends of the grid where it lacks them."""


def found(section: Imbalance, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The rare feature's fate by its frequency; what masks change; what the bias does."""
    fates, trends, free = (tables[name] for name in TABLES)
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
    masks = [
        f"{interval(row, 'paired_difference', 3, '+')} ({ARMS[row['arm']].label})"
        for row in each(rows(arms, metric="max_alignment"))
        if row["paired_difference"] == row["paired_difference"]
    ]
    if masks:
        sentences.append(
            "Pruning does not open a door for a feature that is locked out. Averaged over all frequencies, masks change the"
            f" largest cosine to the rare feature by {joined(masks)}."
            if (rows(arms, arm="pruned_neuron", metric="max_alignment")["paired_ci_low"] <= 0).all()
            else f"Pruning raises the largest cosine to it, averaged over all frequencies, by {joined(masks)}."
        )
    half = free.iloc[(free["eps_min"] - 0.5).abs().argmin()]
    sentences.append(
        f"The bias shuts it out. Without one, at {half['eps_min']:g} times the others' frequency, its best neuron ends with a"
        f" cosine of {number(half['max_alignment'], 2)} to it, where those of the frequent features have"
        f" {number(half['majority_alignment'], 2)} to theirs; but then neurons mix features."
        if half["max_alignment"] > 0.5
        else f"Without a bias, at {half['eps_min']:g} times the others' frequency, its best neuron ends with a cosine of"
        f" {number(half['max_alignment'], 2)} to it."
    )
    return sentences


def answer(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The page of a run."""
    return written("Imbalance and pruning", found(job.part("imbalance", Imbalance), reduced(TABLES, page.TABLES, tables)))
