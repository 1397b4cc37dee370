"""The figure of long-tailed images from planted tables."""

import numpy as np
import pytest
import synthetic_tables
from paper_values import check, texts

from rarefeat.run.job import Job
from rarefeat.studies.long_tail.figures import gains, longtail

JOB = Job(stage="studies.long_tail.figures")


@pytest.mark.parametrize(
    ("ratios", "seeds"), [((5.0,), 2), ((5.0, 10.0, 50.0), 6)], ids=["few", "many"]
)
def test_figure(ratios, seeds):
    figure = check(
        lambda: longtail(synthetic_tables.long_tail(ratios, seeds), JOB), seeds, twice=seeds == 2
    )
    assert {
        "pruned, plain update",
        "pruned, straight-through update",
        "dense, balanced images",
    } <= set(texts(figure))
    assert len(figure.legends[0].get_texts()) == 5


def test_no_accuracy_is_above_one():
    figure = check(lambda: longtail(synthetic_tables.long_tail((5.0, 50.0), 2, accuracy=0.99), JOB))
    drawn = np.concatenate([line.get_ydata() for line in figure.axes[2].lines]).astype(float)
    assert 0.99 < np.nanmax(drawn) <= 1


def test_gains_have_columns_by_update_and_styles_by_ratio():
    """Planted: the ratio 0.3 gains late, and in the rare classes alone."""
    tables = synthetic_tables.long_tail_courses(alphas=(0.3, 0.9), seeds=3)
    figure = check(lambda: gains(tables, JOB), 3)
    assert {"pruned, plain update", "pruned, straight-through update", "self-damaging"} <= set(
        texts(figure)
    )
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels >= {
        "dense",
        "dense, balanced images",
        r"$\alpha$ = 0.3",
        r"$\alpha$ = 0.3, random mask",
        r"$\alpha$ = 0.9",
    }
    late, by_size = (figure.axes[3 * row].lines for row in (1, 2))
    assert any(line.get_ydata()[0] < 0.02 and line.get_ydata()[-1] > 0.05 for line in late)
    # From the class with fewest images to the one with most.
    assert any(line.get_ydata()[0] > 0.05 and line.get_ydata()[-1] < 0.02 for line in by_size)


def test_gains_show_a_range_for_two_class_orders():
    tables = synthetic_tables.long_tail_courses(seeds=2)
    figure = check(lambda: gains(tables, JOB), 2)
    assert "mean and range of the class orders" in figure.legends[0].get_title().get_text()
    course = next(iter(tables.values()))
    dense = course[
        (course["metric"] == "few_shot_accuracy")
        & (course["arm"] == "dense")
        & (course["split"] == "long_tailed")
    ]
    told = dense[dense["rho"] == dense["rho"].max()].groupby("epoch")["value"].agg(["min", "max"])
    ends = {tuple(np.round(row, 12)) for row in told.itertuples(index=False)}
    bands = [path.vertices for band in figure.axes[0].collections for path in band.get_paths()]
    drawn = [
        {tuple(np.round(sorted(set(band[band[:, 0] == x, 1])), 12)) for x in told.index}
        for band in bands
    ]
    assert ends in drawn


def test_figures_of_one_class_order_and_of_dense_alone():
    """As the first class order of a confirmation has them, and the choice of a regime."""
    check(lambda: gains(synthetic_tables.long_tail_courses(seeds=1), JOB), 1)
    tables = synthetic_tables.long_tail((100.0,), 2)
    check(
        lambda: longtail(
            {name: table[table["arm"] == "dense"] for name, table in tables.items()}, JOB
        ),
        2,
    )
