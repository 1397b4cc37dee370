"""What the study of long-tailed images has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.figures.labels import arm_name
from rarefeat.run.job import Job
from rarefeat.storage.findings import count_text, format_findings, reduce_tables
from rarefeat.storage.markdown import interval, records, select_rows
from rarefeat.studies.long_tail import doc_tables
from rarefeat.studies.long_tail.config import LongTail
from rarefeat.studies.long_tail.paper_values import printed_gain

TABLES = ("table2",)


def findings(section: LongTail, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Of each data set how often pruning gains or loses accuracy, by the interval of the paired difference; and the best"
    " arm."""
    accuracy = select_rows(tables["table2"], metric="accuracy", split="long_tailed")
    sentences = []
    for name, part in accuracy.groupby("dataset", sort=False):
        pruned, dense = part[part["arm"] != "dense"], select_rows(part, arm="dense")
        gains, losses = (
            int((pruned["paired_ci_low"] > 0).sum()),
            int((pruned["paired_ci_high"] < 0).sum()),
        )
        said = (
            f"On {name} ({count_text(int(part['n'].max()), 'seed')}) a linear probe on dense features is right on"
            f" {100 * dense['mean'].min():.1f} to {100 * dense['mean'].max():.1f} % of the test images. Of {len(pruned)}"
            f" comparisons of a pruned arm with it, {gains or 'none'} {'shows' if gains < 2 else 'show'} a gain and"
            f" {losses or 'none'} {'shows' if losses < 2 else 'show'} a loss."
        )
        if len(pruned):
            best = max(records(pruned), key=lambda row: row["paired_difference"])
            said += (
                f" The highest is {arm_name(best['arm'])} at ρ = {best['rho']:g}:"
                f" {interval(best, 'paired_difference', 1, '+', 100)} points of accuracy."
            )
        table2 = section.studies[name].table2 if section else ""
        printed = {rho: printed_gain(table2, rho) for rho in sorted(set(part["rho"]))}
        printed = {rho: gain for rho, gain in printed.items() if gain == gain}
        if printed:
            said += (
                " The paper prints "
                + ", ".join(f"{gain:+g} at ρ = {rho:g}" for rho, gain in printed.items())
                + "."
            )
        sentences.append(said)
    return sentences


def answer(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The page of a run: of all its studies, or of one, whose tables have its name before theirs."""
    whole = dict(zip(doc_tables.TABLES["table2"][0], tables.values(), strict=True))
    return format_findings(
        "Long-tailed images",
        findings(
            job.config_section("long_tail", LongTail),
            reduce_tables(TABLES, doc_tables.TABLES, whole),
        ),
    )
