"""How many replicas a claim needs: what the seeds of the declared claims are held to."""

import numpy as np
from scipy.special import stdtrit
from scipy.stats import nct

from rarefeat.claims.measurements import MIN_DOF
from rarefeat.claims.verdict import ALPHA_LEVEL

POWER = 0.9


def power(n: int, effect: float, level: float, both: bool = False) -> float:
    """Compute the power of a one-sided Student test of n replicas.

    The mean lies `effect` standard deviations beyond the bound.

    both: of two one-sided tests, for a mean in the middle with `effect` to either end; a lower
    bound (Bonferroni).
    """
    one = float(nct.sf(stdtrit(n - 1, 1 - level), n - 1, effect * np.sqrt(n)))
    return max(0.0, 2 * one - 1) if both else one


def seeds_needed(test: str, effect: float, rows: int) -> int:
    """Return the replicas that give a primary row a power of 0.9 at the strictest step of Holm.

    `rows` primary rows of its paper are tested together.
    """
    return next(
        n
        for n in range(MIN_DOF + 1, 100_000)
        if power(n, effect, ALPHA_LEVEL / rows, test == "equivalence") >= POWER
    )
