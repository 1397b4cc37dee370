"""Tests of the comparison of a GPU with the processor."""

import pandas as pd
import pytest

from rarefeat.studies.imbalance.doc_tables import DEVICE_METRICS, compare_devices


def test_devices_are_compared_seed_by_seed():
    values = dict.fromkeys(DEVICE_METRICS[1:], 0.4)
    cpu = pd.DataFrame([{"arm": "dense", "seed": seed, **values} for seed in range(5)])
    gpu = cpu.iloc[::-1].copy()
    gpu.loc[gpu["seed"] == 3, "max_alignment"] = 0.9
    table = compare_devices(gpu, cpu).set_index("metric")
    assert table.loc["learned", ["gpu", "cpu", "difference"]].tolist() == pytest.approx(
        [0.2, 0, 0.2]
    )
    assert table.loc["max_alignment", "difference"] == pytest.approx(0.1)
    assert table.loc["final_loss", ["ci_low", "ci_high"]].tolist() == [0, 0]
