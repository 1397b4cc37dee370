"""Published tables of the study of learners."""

import pandas as pd

TABLES = {
    "learner_frequencies": (("which_learners_frequencies",), pd.DataFrame.copy),
    "learner_shares": (("which_learners_learners",), pd.DataFrame.copy),
}
