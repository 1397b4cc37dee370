"""A small learner's settings."""

import pytest

from rarefeat.workflow.config.model import Arm, Data, Training


@pytest.fixture(scope="session")
def settings() -> tuple[Data, Training]:
    """Return a config with which a training takes a tenth of a second."""
    data = Data(d=5, d1=16, L=3, C=1.0, minority=[1.0], N=64, probe_pairs=200, test_pairs=2)
    bias = {"rule": "follow", "share": 0.2, "cap": 2.2, "T1": 4}
    training = Training(
        m=12, K=16, tau=1.0, eta=0.1, lambda_=0.05, sigma_0=0.05, T=10, bias=bias, history=False
    )
    return data, training


@pytest.fixture(scope="session")
def dense() -> Arm:
    return Arm(arm="dense")
