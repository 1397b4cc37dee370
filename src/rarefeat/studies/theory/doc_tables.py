"""Tables from which docs/studies/theory.md is filled in, beside those of verdicts."""

import pandas as pd

TABLES = {"half_and_double": (("half_and_double",), pd.DataFrame.copy)}
