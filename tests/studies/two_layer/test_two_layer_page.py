"""What the page is filled in from."""

import pandas as pd

from rarefeat.studies.two_layer.page import beside_printed


def test_each_setting_has_the_printed_table_that_it_belongs_to_and_its_last_step():
    rows = [
        (setting, arm, step, quantity, 0.5 + step / 100, 0.4, 0.6, 10, 1.0)
        for setting in ("parity", "hypercube_1", "rare_0.1")
        for arm in ("network", "ticket-random-4")
        for step in (0, 10)
        for quantity in ("train_accuracy", "test_accuracy", "cosine", "least_coverage", "alive")
    ]
    columns = ["setting", "arm", "step", "quantity", "mean", "ci_low", "ci_high", "n", "printed"]
    found = beside_printed(pd.DataFrame(rows, columns=columns))
    assert dict(zip(found["setting"], found["printed_in"], strict=True)) == {
        "parity": "A.1", "hypercube_1": "A.6", "rare_0.1": "not printed"
    }  # fmt: skip
    assert set(found["arm"]) == {"network"}
    assert set(found["quantity"]) == {"train_accuracy", "test_accuracy", "cosine", "least_coverage"}
    assert set(found["mean"]) == {0.6}
