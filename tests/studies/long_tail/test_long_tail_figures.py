"""The figure of long-tailed images from planted tables."""

import pytest
import synthetic_tables
from paper_values import check, texts

from rarefeat.studies.long_tail.figures import BALANCED, longtail


@pytest.mark.parametrize(
    ("ratios", "seeds"), [((5.0,), 2), ((5.0, 10.0, 50.0), 6)], ids=["few", "many"]
)
def test_figure(ratios, seeds):
    table = synthetic_tables.long_tail(ratios, seeds)
    figure = check(lambda: longtail({"summary": table}), seeds, twice=seeds == 2)
    masks = {f"{name}, 70 % masked" for name in ("eq. (5)", "straight-through", "dual branch")}
    assert masks <= set(texts(figure))
    assert BALANCED not in texts(figure)


def test_one_class_order_has_no_interval():
    """As the first class order of a confirmation has it."""
    check(lambda: longtail({"summary": synthetic_tables.long_tail((5.0,), 1)}), 1)


def test_balanced_images_are_the_last_row():
    table = synthetic_tables.long_tail((5.0,), 3)
    balanced = table["split"] == "balanced"
    table.loc[balanced, ["paired_difference", "paired_ci_low", "paired_ci_high"]] = 0.1, 0.05, 0.15
    figure = check(lambda: longtail({"summary": table}), 3)
    assert figure.axes[0].get_yticklabels()[-1].get_text() == BALANCED
