"""The figure of long-tailed images from planted tables."""

import numpy as np
import planted
import pytest
from printed import check, texts

from rarefeat.run.job import Job
from rarefeat.studies.long_tail.figures import longtail

JOB = Job(stage="studies.long_tail.figures")


@pytest.mark.parametrize(("ratios", "seeds"), [((5.0,), 2), ((5.0, 10.0, 50.0), 6)], ids=["few", "many"])
def test_figure(ratios, seeds):
    figure = check(lambda: longtail(planted.long_tail(ratios, seeds), JOB), seeds, twice=seeds == 2)
    assert {"pruned, plain update", "pruned, straight-through update", "dense, balanced images"} <= set(texts(figure))


def test_no_accuracy_is_above_one():
    figure = check(lambda: longtail(planted.long_tail((5.0, 50.0), 2, accuracy=0.99), JOB))
    bars = [path.vertices[:, 1] for part in figure.axes[2].containers for bar in part[2] for path in bar.get_paths()]
    assert len(bars)
    assert np.max(bars) <= 1
