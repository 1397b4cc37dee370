"""Stage 4 for what magnitude pruning takes for granted: how far the smallest neurons are those of the minority feature.

Read from the kept history of the dense arm, so that every pruning ratio and every recorded step costs no training.
"""

import argparse
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from rarefeat.command import run, section
from rarefeat.config import Study
from rarefeat.core.neurons import ALIGNED
from rarefeat.core.statistics import student_interval
from rarefeat.metadata import made_from, write_product
from rarefeat.pretrain import log_spaced
from rarefeat.tables import checked
from rarefeat.tensors import read_tensors


def smallest_of_minority(history: Tensor, d: int, minority: int) -> Tensor:
    """Share of the k neurons of smallest norm that are aligned (|cos| >= 0.3) with a minority feature, for k = 1 ... m.

    Args:
        history: (..., m, d + 2), <w_i, M_j>, ||w_i|| and b_i; the minority features are the last ones of the d.

    Returns:
        (..., m), entry k - 1 for k neurons.
    """
    norms = history[..., d]
    aligned = (history[..., d - minority : d].abs() >= ALIGNED * norms[..., None]).any(-1).double()
    ordered = aligned.gather(-1, norms.argsort(dim=-1, stable=True))
    return ordered.cumsum(-1) / torch.arange(1, norms.shape[-1] + 1)


def overlap_rows(study: Study, encoders: Path) -> pd.DataFrame:
    """One row per point, recorded step and pruning ratio k / m."""
    rows, m = [], study.training.m
    for point in study.points():
        paths = study.paths([point], "safetensors")
        history = torch.cat([read_tensors(encoders / path, "dense/history")[0] for path in paths])
        shares = smallest_of_minority(history, study.data.d, len(study.data.minority)).numpy()
        for index, step in enumerate(log_spaced(study.training.T)):
            for k in range(1, m + 1):
                mean, _, low, high, n = student_interval(shares[:, index, k - 1])
                rows.append(
                    {"eps_min": point.eps_min, "sigma": point.sigma, "step": step, "alpha": k / m, "overlap": mean,
                     "ci_low": low, "ci_high": high, "n": n}
                )  # fmt: skip
    return checked("overlap", pd.DataFrame(rows))


def main() -> None:
    """Command line of the stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=section(Study), required=True, help="a study with training.history, as YAML or JSON")
    parser.add_argument("--encoders", type=Path, required=True, help="the study's folder of encoders")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    table = overlap_rows(args.study, args.encoders)
    name = Path(args.output).stem.removesuffix("_overlap")
    found = made_from("overlap", {name: args.study})
    write_product(args.output, table, found)


if __name__ == "__main__":
    run(main)
