"""Steps at which a training is recorded."""

import math


def log_spaced(T: int, per_decade: int = 10) -> list[int]:
    """Return the recorded steps: 0, 1, 2, ..., log-spaced up to T."""
    count = math.ceil(per_decade * math.log10(max(T, 1)))
    return sorted({0, T, *(min(T, round(10 ** (k / per_decade))) for k in range(count))})
