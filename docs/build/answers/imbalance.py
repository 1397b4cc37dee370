"""Findings of the study of imbalance, in sentences that follow from its numbers."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from answers.words import count_text, enumerate_words
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.statistics import fraction_interval
from rarefeat.studies.imbalance.config import Imbalance
from rarefeat.workflow.files.markdown import interval, number, select_rows, single_row, trend_word

TABLES = (
    "confirmation_fates",
    "paper_trends",
    "paper_convergence",
    "without_bias_convergence",
)
OPTIONAL = ("paper_fates", "baselines")
"""Tables of which each has a sentence that is left out without it."""
SIGMA = 0.05
SHOWN = (0.3, 0.5, 0.7)
"""Frequencies whose shares are printed; both ends of the grid where it lacks them."""


def findings(section: Imbalance, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say who learns the rare feature at which frequency, and what masks and the bias change."""
    fates, trends, bound, free = (tables[name] for name in TABLES)
    training = section.studies["paper"].training
    sigma = SIGMA if SIGMA in set(fates["sigma"]) else fates["sigma"].iloc[0]
    fates = select_rows(fates, sigma=sigma, fate="learned").sort_values("eps_min")
    frequencies = set(fates["eps_min"])
    shown = [eps for eps in SHOWN if eps in frequencies] or [min(frequencies), max(frequencies)]
    sentences = [
        f"{describe_shares(fates)}.",
        f"A run has learned the feature if some neuron ends with an absolute cosine of at least"
        f" {HALF_LEARNED:g} to it. After {training.T} steps (weight decay {training.lambda_:g},"
        f" noise σ = {sigma:g}) this holds for {list_shares(fates, shown)}"
        f" (n = {fates['n'].max()} runs that were set aside for it).",
    ]
    if "paper_fates" in tables:
        others = select_rows(tables["paper_fates"], sigma=sigma, fate="learned")
        common = [eps for eps in shown if eps in set(others["eps_min"])]
        if common:
            sentences[1] += (
                f" Together with the {others['n'].max()} other runs of the grid it is"
                f" {list_shares(pool(fates, others), common)}."
            )
    arms = select_rows(trends, grid="arms")
    arms = select_rows(arms, sigma=sigma) if sigma in set(arms["sigma"]) else arms
    if select_rows(arms, metric="max_alignment")["paired_difference"].notna().any():
        sentences.append(describe_masks(arms, min(section.studies["paper"].grid["arms"].eps_min)))
    if "baselines" in tables:
        sentences.append(describe_baselines(tables["baselines"]))
    if len(free) and len(bound):
        sentences.append(describe_bias(free, bound))
    return [sentence for sentence in sentences if sentence]


def list_shares(shares: pd.DataFrame, frequencies: list[float]) -> str:
    """List the share of runs that learn the feature at some relative frequencies."""
    return enumerate_words(
        f"{interval(single_row(shares, eps_min=eps), 'share', 0, times=100)} % at {eps:g}"
        for eps in frequencies
    )


def pool(*fates: pd.DataFrame) -> pd.DataFrame:
    """Return the share over all seeds of several tables, at the frequencies that they have."""
    table = pd.concat(fates)
    counts = table.assign(k=table["share"] * table["n"]).groupby("eps_min")[["k", "n"]].sum()
    rows = []
    for eps_min, k, n in counts.round().astype(int).itertuples():
        low, high = fraction_interval(np.repeat([1.0, 0.0], [k, n - k]))
        rows.append({"eps_min": eps_min, "share": k / n, "ci_low": low, "ci_high": high, "n": n})
    return pd.DataFrame(rows)


def describe_shares(shares: pd.DataFrame) -> str:
    """Say from which frequency on most runs learn the feature, by exact intervals."""
    every = shares["eps_min"].tolist()
    most = shares.loc[shares["ci_low"] > 0.5, "eps_min"].tolist()
    few = shares.loc[shares["ci_high"] < 0.5, "eps_min"].tolist()
    if most != every[len(every) - len(most) :] or few != every[: len(few)]:
        frequencies = (
            enumerate_words(f"{eps:g}" for eps in values) if values else "none"
            for values in (most, few)
        )
        return (
            "Whether most runs learn the rare feature does not simply go with its relative"
            " frequency: most do at {}, and most do not at {}"
        ).format(*frequencies)
    if not most and not few:
        return "These runs show at no relative frequency whether most of them learn the feature"
    if not few:
        return (
            f"Most runs learn the feature from a relative frequency of {most[0]:g} on, and at none"
            " is it shown that most do not"
        )
    rarest = f"Most runs do not learn the feature up to a relative frequency of {few[-1]:g}, and"
    if not most:
        return f"{rarest} at none is it shown that most do"
    return f"{rarest} most learn it from {most[0]:g} on"


def describe_masks(arms: pd.DataFrame, lowest: float) -> str:
    """Say how many masks raise or lower the largest cosine to the rare feature, and how far.

    The sentence ends with the largest cosines at the lowest frequency.
    """
    cosines = select_rows(arms, metric="max_alignment")
    masked = cosines.dropna(subset=["paired_difference"])
    up = int((masked["paired_ci_low"] > 0).sum())
    down = int((masked["paired_ci_high"] < 0).sum())
    dense = single_row(cosines, arm="dense")
    return (
        f"Of {count_text(len(masked), 'mask')}, {up or 'none'} {'raises' if up < 2 else 'raise'}"
        f" the largest cosine to the rare feature and {down or 'none'}"
        f" {'lowers' if down < 2 else 'lower'} it, by at most"
        f" {number(masked['paired_difference'].abs().max(), 3)} on average over the frequencies."
        f" At a relative frequency of {lowest:g} it is {number(masked['at_lowest'].max(), 3)} with"
        f" the best mask and {number(dense['at_lowest'], 3)} without one."
    )


def describe_baselines(table: pd.DataFrame) -> str:
    """Say what oversampling and re-weighting change beside pruning, at the lowest frequency."""
    if table.empty:
        return ""
    lowest = select_rows(table, eps_min=table["eps_min"].min(), metric="max_alignment")
    words = ("raises", "lowers", "is not shown to change")
    ways = {
        "oversampled": "Drawing its pairs until it is as frequent",
        "reweighted": "Giving their loss that weight",
        "pruned_neuron": "Magnitude pruning",
    }
    changes = []
    for way, name in ways.items():
        row = single_row(lowest, way=way)
        learned = row["learned"]
        changes.append(
            f"{name} {trend_word(row, 'paired_difference', *words)} the largest cosine to it, by"
            f" {interval(row, 'paired_difference', 3, '+')}; {learned or 'none'} of {row['n']} runs"
            f" {'learns' if learned < 2 else 'learn'} it."
        )
    dense = single_row(lowest, way="dense")
    return (
        f"At a relative frequency of {dense['eps_min']:g}, {dense['learned'] or 'none'} of"
        f" {dense['n']} dense runs {'learns' if dense['learned'] < 2 else 'learn'} the feature."
        f" {' '.join(changes)}"
    )


def describe_bias(free: pd.DataFrame, bound: pd.DataFrame) -> str:
    """Compare the largest cosine to the rare feature without and with a bias.

    The text is empty where no frequency has both.
    """
    shared = set(free["eps_min"]) & set(bound["eps_min"])
    if not shared:
        return ""
    eps = min(shared, key=lambda eps: abs(eps - SHOWN[0]))
    without, with_one = (single_row(table, eps_min=eps)["max_alignment"] for table in (free, bound))
    rarest = free.loc[free["eps_min"].idxmin()]
    text = (
        f"At a relative frequency of {eps:g} the best neuron's mean cosine to the rare feature"
        f" is {number(without, 2)} without a bias and {number(with_one, 2)} with one."
    )
    if rarest["eps_min"] < eps:
        text += (
            f" At {rarest['eps_min']:g} it is {number(rarest['max_alignment'], 2)} without a bias."
        )
    return text
