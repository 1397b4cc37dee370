"""What the study across sizes has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import answering, joined
from rarefeat.storage.markdown import interval, one, rows
from rarefeat.studies.scaling import page
from rarefeat.studies.scaling.config import Scaling

TABLES = ("scaling_exponents",)
NAMES = {
    "lucky_probability": "the share of lucky neurons at the start",
    "ordinary_features": "the number of features that a neuron is ordinary for at the start",
    "pure_minority_share": "the share of neurons that end pure in the rare feature",
    "single_minority_share": "the share of neurons that end with that feature alone",
    "learned_features": "the number of features of a trained neuron",
}
"""Of quantities."""


def found(section: Scaling, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """How many fitted exponents agree with their bounds, which do not, and what the missing logarithm explains."""
    (fits,) = tables.values()
    plain = rows(fits, log_power=0.0)
    sentences = [
        f"Of {len(plain)} fits of exponents in the number of features d, some over overlapping ranges of it,"
        f" {int(plain['consistent'].sum())} agree with the bounds of Theorem 3.1 and Lemma B.2; a bound is contradicted where"
        " the whole interval lies on the forbidden side."
    ]
    against = plain[~plain["consistent"]]
    if len(against):
        which = joined(
            f"{NAMES[name]} ({len(part)} of {len(rows(plain, quantity=name))} fits)"
            for name, part in against.groupby("quantity", sort=False)
        )
        divided = fits[(fits["log_power"] != 0) & ~fits["consistent"]]
        sentences.append(
            f"Those that do not: {which}. With the factor 1/√log d divided out, which eq. (238) has and eq. (239) drops,"
            f" {'none does any more' if divided.empty else f'{len(divided)} still do'}."
        )
    trained = rows(plain, quantity="pure_minority_share", ratio=1.0)
    if len(trained):
        row = one(trained.head(1))
        sentences.append(
            f"After training at equal frequencies {NAMES['pure_minority_share']} falls with an exponent of"
            f" {interval(row, 'exponent', 2)}, where the bound is {row['bound_side']} {row['bound']:g}."
        )
    return sentences


answer = answering("Theorem 3.1 across sizes", "scaling", Scaling, found, TABLES, page.TABLES)
