"""Steps at which a training is recorded."""

import math


def log_spaced(T: int) -> list[int]:
    """Return the recorded steps: 0, 1, 2, ..., log-spaced up to T."""
    count = math.ceil(10 * math.log10(max(T, 1)))
    return sorted({0, T, *(min(T, round(10 ** (k / 10))) for k in range(count))})
