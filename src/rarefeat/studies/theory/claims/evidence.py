"""The tables that claims of the theory are read from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rarefeat.config.study import Study
from rarefeat.studies.theory.config import Role, Theory, TheoryStudy


@dataclass(frozen=True)
class Evidence:
    """Tables by study, the paper's study and grid, and the scaling study's exponents."""

    studies: Mapping[str, TheoryStudy] = field(default_factory=dict)
    milestones: dict[str, pd.DataFrame] = field(default_factory=dict)
    trajectories: dict[str, pd.DataFrame] = field(default_factory=dict)
    one_step: dict[str, pd.DataFrame] = field(default_factory=dict)
    paper: Study | None = None
    grid: pd.DataFrame | None = None
    exponents: pd.DataFrame | None = None

    def of_role(self, *roles: Role) -> list[str]:
        """The studies with one of these roles."""
        return [name for name, study in self.studies.items() if study.role in roles]

    def at(self, study: str, metric: str, **where: float) -> np.ndarray:
        """A milestone's values by seed, at one point of a study."""
        table = self.milestones[study]
        chosen = table[table["metric"] == metric]
        for key, value in where.items():
            chosen = chosen[chosen[key] == value]
        return chosen.sort_values("seed")["value"].to_numpy()

    def points(self, study: str) -> list[tuple[float, float]]:
        """(eps_min, sigma) of a study with milestones."""
        return sorted(set(self.milestones[study][["eps_min", "sigma"]].itertuples(index=False, name=None)))


def gathered(tables: Mapping[str, pd.DataFrame], theory: Theory, paper: Study) -> Evidence:
    """The evidence in tables by their names."""
    studies = theory.every_study()
    kinds = {
        kind: {name: tables[f"{name}_{kind}"] for name in studies if f"{name}_{kind}" in tables}
        for kind in ("milestones", "trajectories", "one_step")
    }
    return Evidence(studies, **kinds, paper=paper, grid=tables["paper_grid"], exponents=tables["scaling_exponents"])
