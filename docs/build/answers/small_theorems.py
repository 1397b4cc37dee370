"""Findings of the small theorems; their numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.studies.small_theorems import SmallTheorems
from rarefeat.workflow.files.markdown import interval, number, select_rows, single_row

TABLES = ("theorem_means",)


def findings(section: SmallTheorems, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Write a sentence on each theorem at the last of its points in the config."""
    table = tables["theorem_means"]
    describers = {
        "parity_in_context": describe_parity,
        "gradient_features": describe_features,
        "input_structure": describe_inputs,
        "first_stages": describe_stages,
        "invariant_features": describe_invariant,
    }
    order = [(cell["result"], str(cell["point"])) for cell in section.cells()]
    sentences = []
    for result, describe in describers.items():
        rows = select_rows(table, result=result)
        points = set(rows["point"])
        for point in [point for name, point in order if name == result and point in points][-1:]:
            sentences += describe(point, select_rows(rows, point=point, at=0.0))
    return sentences


def describe_parity(d: str, rows: pd.DataFrame) -> list[str]:
    """Say whether Theorem 5.5.1's heads are the best, and which noise they let in."""
    norm, four, noise = (
        single_row(rows, quantity=name) for name in ("least_norm", "ranked_loss", "smaller_noise")
    )
    smaller = norm["ci_high"] < 1
    return [
        f"With d = {d} features the heads that Theorem 5.5.1 calls optimal"
        f" {'are not' if smaller else 'may be'} of least norm: others without any loss have"
        f" {interval(norm, 'mean', 2)} of their squared norm.",
        f"Four heads reach a loss of {number(four['mean'], 4)} over all tasks; the theorem's"
        f" smaller model, with as many, has {number(four['stated'], 4)}. This model lets in"
        f" {interval(noise, 'mean', 2)} of the larger one's noise (stated:"
        f" {number(noise['stated'], 2)}).",
    ]


def describe_features(law: str, rows: pd.DataFrame) -> list[str]:
    """Compare the error after training with that of the frozen first layer."""
    trained, frozen = (single_row(rows, quantity=name) for name in ("error", "error_frozen"))
    apart = trained["ci_high"] < frozen["ci_low"]
    return [
        f"Algorithm 1 ends with an error of {interval(trained, 'mean', 3)} on the data `{law}`."
        f" With a frozen first layer it is {interval(frozen, 'mean', 3)},"
        f" {'more' if apart else 'not shown to be more'}."
    ]


def describe_inputs(m: str, rows: pd.DataFrame) -> list[str]:
    """Say whether a student learns a teacher's labels better on digits than on Gaussians."""
    digits, gaussians = (
        single_row(rows, quantity=f"{name}_isotropic") for name in ("digits", "gaussians")
    )
    matched = single_row(rows, quantity="gaussians_matched")
    apart = digits["ci_low"] > gaussians["ci_high"]
    return [
        f"A student with {m} units learns a teacher's labels"
        f" {'better' if apart else 'not visibly better'} on digits than on Gaussian inputs: it is"
        f" right on {interval(digits, 'mean', 1, times=100)} and"
        f" {interval(gaussians, 'mean', 1, times=100)} % of fresh ones. Gaussian inputs with the"
        f" covariance of the digits have {interval(matched, 'mean', 1, times=100)} %."
    ]


def describe_stages(eps_min: str, rows: pd.DataFrame) -> list[str]:
    """Say when the first stage of Liao et al. ends, and what lucky neurons have at T2."""
    T1, lucky = (single_row(rows, quantity=name) for name in ("T1", "lucky"))
    return [
        f"At a relative frequency of {eps_min}, stage 1 ends at step {number(T1['mean'], 0)} by"
        f" eq. (41) of Liao et al., and at {number(T1['stated'], 0)} by eq. (34) of the pruning"
        f" paper. After stage 2 a lucky neuron has {interval(lucky, 'mean', 2)} of its norm along"
        " its feature."
    ]


def describe_invariant(norm: str, rows: pd.DataFrame) -> list[str]:
    """Say what the optimum of the contrastive loss keeps of spurious features."""
    alone, shared = (single_row(rows, quantity=name) for name in ("spurious", "spurious_shared"))
    return [
        "If each view draws its own spurious features, the optimal contrastive representation moves"
        f" with them by {interval(alone, 'mean', 4)} of its largest distance (norm {norm}); if a"
        f" pair shares them, by {interval(shared, 'mean', 2)}."
    ]
