"""What the study of the fate over time has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import joined
from rarefeat.storage.markdown import each, interval, one, rows
from rarefeat.studies.fate.config import Fate

TABLES = ("fate_points", "fate_shares", "verdicts_fate_over_time")


def found(section: Fate, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """What comes late and on which sample; what is shown of why; and what is never learned."""
    points, shares, claims = (tables[name] for name in TABLES)
    end = points["T"].max()

    def learned(**where) -> str:
        row = one(rows(shares, step=end), **where)
        return f"{interval(row, 'learned_share', 0, times=100)} %"

    reuse = sorted(each(rows(points, study="reuse")), key=lambda row: row["N"] or float("inf"))
    samples = {row["N"]: f"{row['N']:,} pairs" if row["N"] else "fresh pairs at every step" for row in reuse}
    by_sample = joined(f"{learned(study='reuse', N=N)} with {sample}" for N, sample in samples.items())
    first, verdict = reuse[0], one(claims, claim_id="F-reuse")
    shown = "shown to be" if verdict["verdict"] == "supported" else "not shown to be, by the test that was declared,"
    leak, rarest = (points[points["study"] == name].iloc[-1] for name in ("leak", "rarest"))
    soon = sum(row["at_once"] for row in reuse) or "none"
    return [
        f"A rare feature that is not learned at once may come late. At {first['eps_min']:g} times the others' frequency and"
        f" a weight decay of {first['lambda']:g} {soon} of the replicas have learned it by step 500; by step {end} it is"
        f" {by_sample} (n = {first['n']}).",
        "That a sample of 8,192 which comes back lets in more than fresh pairs is"
        f" {shown} more than chance: the difference is {interval(verdict, 'estimate', 2, '+')}."
        " It takes samples in which the feature occurs with others: where it occurs alone"
        f" {learned(study='untied', latents='apart')} learn it.",
        f"At {leak['eps_min']:g} times it comes late from any sample, by step {end} in {learned(study='leak', N=0)} with fresh"
        f" pairs; at {rarest['eps_min']:g} times {learned(study='rarest')} have learned it by then.",
    ]
