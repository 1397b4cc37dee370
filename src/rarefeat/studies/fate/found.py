"""What the study of the fate over time has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import joined
from rarefeat.storage.markdown import each, interval, one, rows
from rarefeat.studies.fate.config import Fate
from rarefeat.studies.fate.figures import LATE, pairs
from rarefeat.studies.fate.times import exact_interval

TABLES = ("fate_points", "verdicts_fate_over_time")
SHOWN = {
    "supported": "lets in more replicas than fresh pairs do",
    "contradicted": "lets in no more replicas than fresh pairs do, but for a quarter of them at most",
    "undecided": "is not shown to let in more or fewer replicas than fresh pairs do",
}

TOLD = {
    "supported": "is right more often than the better of the answers late and never",
    "contradicted": "is right no more often than the better of the answers late and never",
    "undecided": "is not shown to be right more often than the better of the answers late and never",
}


def learned(point: Mapping) -> str:
    """The share of a point's replicas that have learned the feature by its last step."""
    ones = point["at_once"] + point["late"]
    low, high = exact_interval(ones, point["n"])
    return f"{100 * ones / point['n']:.0f} [{100 * low:.0f}, {100 * high:.0f}] %"


def found(section: Fate, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """What comes late and on which sample; what is shown of why; and how frequency and decay set it."""
    points, claims = (tables[name] for name in TABLES)
    late = rows(points, **{"lambda": LATE})
    reuse = sorted(each(rows(late, study="reuse")), key=lambda point: point["N"] or float("inf"))
    first, verdict = reuse[0], one(claims, claim_id="F-reuse")
    samples = [f"{learned(point)} of those with {pairs(point['N'])} pairs" for point in reuse]
    soon = sum(point["at_once"] for point in reuse)
    apart = one(points, study="untied", latents="apart")
    fresh = rows(points, study=["rarest", "reuse", "leak"], N=0)
    often = fresh[fresh["at_once"] + fresh["late"] > fresh["n"] / 2].groupby("lambda")["eps_min"].min()
    border, least = one(claims, claim_id="F-border"), rows(fresh, eps_min=fresh["eps_min"].min())
    none = sorted(least.loc[least["at_once"] + least["late"] == 0, "lambda"])
    places = [f"from {eps_min:g} on at a decay of {decay:g}" for decay, eps_min in often.items()]
    never = (
        f" At {least['eps_min'].min():g} none has it with a decay of {joined((f'{decay:g}' for decay in none), 'or')}."
        if none
        else ""
    )

    return [
        f"A rare feature that is not learned at once may come late. At {first['eps_min']:g} times the others' frequency and a"
        f" weight decay of {LATE:g}, {soon or 'none'} of {sum(point['n'] for point in reuse)} replicas had learned it by step"
        f" 500. By step {first['T']:,} it had been learned by {joined(samples)} at every step (n = {first['n']}).",
        f"At this point a sample of 8,192 pairs that comes back {SHOWN.get(verdict['verdict'], 'is not tested')}:"
        f" the difference is {interval(verdict, 'estimate', 2, '+')} of the replicas. Where the feature occurs by itself in its"
        f" samples {learned(apart)} learn it.",
        f"With fresh pairs at every step more than half of the replicas have it by step {first['T']:,}"
        f" {joined(places) if places else 'nowhere'}.{never}",
        "The border between late and never that theory gives without a fitted constant"
        f" {TOLD.get(border['verdict'], 'is not tested')}: {interval(border, 'estimate', 2, '+')} of the points.",
    ]
