"""One look for all figures."""

import contextlib
from collections.abc import Iterator

import matplotlib as mpl
import seaborn as sns


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of this project's figures."""
    with mpl.rc_context():
        sns.set_theme(context="paper", style="ticks", rc={"axes.spines.top": False, "axes.spines.right": False})
        yield
