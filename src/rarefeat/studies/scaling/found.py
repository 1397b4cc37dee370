"""What the report's first page says of this kind of study, from the tables of its run."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.studies.scaling.config import Scaling

TABLES = ("scaling_exponents",)


def found(section: Scaling, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """How many fitted exponents agree with their bounds, and which do not."""
    (exponents,) = tables.values()
    against = exponents[~exponents["consistent"]]["quantity"].value_counts()
    said = f": {', '.join(f'{name} ({number} of them)' for name, number in against.items())}" if len(against) else ""
    sizes = f"d = {', '.join(map(str, section.d))} at initialisation, {', '.join(map(str, section.trained_d))} trained"
    ratios = ", ".join(f"{ratio:g}" for ratio in section.ratio)
    return [
        f"{section.seeds} seeds from {section.first_seed}; {sizes}; eps_min {ratios}. Of {len(exponents)} fitted exponents"
        f" {int(exponents['consistent'].sum())} agree with their bounds, and {int(against.sum())} contradict them{said}."
    ]
