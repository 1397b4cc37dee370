"""The measured summary in Markdown: the trend of each figure with its interval, dense against pruned, convergence, heat map."""

import math
from pathlib import Path

import pandas as pd

from rarefeat.core.statistics import student_interval
from rarefeat.run.command import run, stage
from rarefeat.run.metadata import write_page
from rarefeat.storage.files import read_table
from rarefeat.storage.markdown import interval, number, pipe_table

SHOWN = {
    "figure1_aligned_neurons": ["aligned_neurons"],
    "figure2_max_alignment": ["max_alignment"],
    "figure3_cosine_similarity": ["cosine_similarity_balanced", "cosine_similarity_matched"],
    "figure4_regression_mse": ["regression_mse_balanced", "regression_mse_matched", "regression_r2_balanced",
                               "regression_r2_matched"],
    "arms": ["aligned_neurons", "max_alignment", "pure_minority_neurons", "pure_neurons", "majority_alignment",
             "cosine_similarity_balanced", "regression_mse_balanced", "mask_minority_overlap"],
}  # fmt: skip

BLOCKS = {
    "figure1_aligned_neurons": "figures_1_and_2",
    "figure2_max_alignment": "figures_1_and_2",
    "figure3_cosine_similarity": "figure_3",
    "figure4_regression_mse": "figure_4",
    "arms": "arms",
}

REGIME = ["aligned_neurons", "max_alignment", "majority_alignment", "pure_minority_neurons", "cosine_similarity_balanced",
          "regression_mse_balanced"]  # fmt: skip


def trend_rows(trends: pd.DataFrame, nsr: dict[float, float]) -> pd.DataFrame:
    """The rows of a trends table as text: ends of the curve, slope in eps_min, mean difference to dense over the block."""
    return pd.DataFrame(
        [
            {
                "metric": row.metric,
                "NSR": f"{nsr[row.sigma]:.3g}",
                "arm": row.arm,
                "lowest eps_min": number(row.at_lowest),
                "highest eps_min": number(row.at_highest),
                "slope in eps_min": interval(row.slope, row.ci_low, row.ci_high),
                "difference to dense": interval(row.paired_difference, row.paired_ci_low, row.paired_ci_high),
            }
            for row in trends.itertuples()
        ]
    )


def convergence_rows(trajectories: pd.DataFrame) -> pd.DataFrame:
    """How far the dense arm has come, by eps_min: excess loss in two halves of the end of training, T1, and alignment."""
    dense = trajectories[trajectories["arm"] == "dense"]
    T = dense["step"].max()
    wide = dense.pivot_table(index=["eps_min", "sigma", "seed", "step"], columns="metric", values="value").reset_index()
    wide["excess"] = wide["loss"] - wide["loss_floor"]
    keys = ["eps_min", "seed"]
    earlier = wide[(wide["step"] > T / 4) & (wide["step"] <= T / 2)].groupby(keys)["excess"].mean()
    later = wide[wide["step"] > T / 2].groupby(keys)["excess"].mean()
    last = wide[wide["step"] == T].groupby(keys)[["T1", "max_alignment", "majority_alignment"]].mean()
    rows = []
    for eps_min in wide["eps_min"].unique():
        change = student_interval((later / earlier - 1)[eps_min].to_numpy())
        row = {"eps_min": f"{eps_min:g}", f"excess loss after T/2 = {T // 2}": number(later[eps_min].mean())}
        row["relative change since T/4"] = interval(change[0], change[2], change[3])
        for name in ("T1", "max_alignment", "majority_alignment"):
            row[name] = f"{last[name][eps_min].mean():.3g}"
        rows.append(row)
    return pd.DataFrame(rows)


def heatmap_rows(heatmap: pd.DataFrame) -> pd.DataFrame:
    """Largest squared cosine of a feature, and neurons aligned with it: mean over features of a kind, interval over seeds."""
    by_feature = heatmap.groupby(["arm", "minority", "seed", "feature"])["squared_cosine"]
    values = pd.DataFrame(
        {
            "largest squared cosine": by_feature.max(),
            "neurons with absolute cosine >= 0.3": by_feature.agg(lambda x: (x >= 0.09).sum()),
        }
    )
    per_seed = values.groupby(["arm", "minority", "seed"]).mean()
    rows = []
    for (arm, minority), group in per_seed.groupby(["arm", "minority"]):
        row = {"arm": arm, "features": "minority" if minority else "majority"}
        for name in values:
            inside = (0, 1) if name == "largest squared cosine" else (0, math.inf)
            mean, _, low, high, _ = student_interval(group[name].to_numpy(), inside=inside)
            row[name] = f"{mean:.3f} [{low:.3f}, {high:.3f}]"
        rows.append(row)
    return pd.DataFrame(rows)


def cross_check_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The cross-check metric by metric: how many cells, how far the means are apart, and what the tests say."""
    rows = []
    for metric, part in table.groupby("metric", sort=False):
        worst = part.loc[part["p_value"].idxmin()]
        covered = (part["ci_low"] <= 0) & (part["ci_high"] >= 0)
        rows.append(
            {
                "metric": metric,
                "cells": str(len(part)),
                "covered by the 95 % interval of the difference": f"{covered.mean():.2f}",
                "smallest p": f"{worst['p_value']:.2g}",
                "after Holm": f"{worst['adjusted_p_value']:.2g}",
                "there: reduced - direct": interval(worst["difference"], worst["ci_low"], worst["ci_high"]),
                "disagree": str((~part["agrees"]).sum()),
            }
        )
    return pd.DataFrame(rows)


def page(tables: dict[str, pd.DataFrame]) -> str:
    """The whole summary from the tables by name."""
    nsr = dict(tables["paper_grid"][["sigma", "nsr"]].drop_duplicates().itertuples(index=False))
    seeds = tables["paper_grid"]["seed"].nunique()
    lines = ["# Measured summary", "", f"{seeds} seeds a cell of the study `paper`; 95 % Student intervals over seeds."]
    for figure, metrics in SHOWN.items():
        trends = tables["paper_trends"]
        trends = trends[(trends["grid"] == BLOCKS[figure]) & trends["metric"].isin(metrics)]
        order = trends["metric"].map(metrics.index)
        lines += ["", f"## {figure}", "", *pipe_table(trend_rows(trends.loc[order.sort_values(kind="stable").index], nsr))]
    direct = tables["direct_trends"]
    direct = direct[(direct["grid"] == "arms") & direct["metric"].isin(SHOWN["arms"])]
    lines += ["", f"## arms, study direct, {direct['n'].max()} seeds", "", *pipe_table(trend_rows(direct, nsr))]
    check = tables["cross_check"]
    lines += [
        "",
        "## cross_check",
        "",
        f"{check['n_reduced'].max()} seeds under the reduced simulator against {check['n_direct'].max()} under the direct one; "
        f"{len(check)} tests, {int((~check['agrees']).sum())} disagree.",
        "",
        *pipe_table(cross_check_rows(check)),
    ]
    for study in ("neighbour", "without_bias"):
        trends = tables[f"{study}_trends"]
        seeds = tables[f"{study}_trajectories"]["seed"].nunique()
        lines += [
            "",
            f"## neighbour_regime, study {study}, {seeds} seeds",
            "",
            *pipe_table(trend_rows(trends[trends["metric"].isin(REGIME)], nsr)),
        ]
    heatmap = tables["alignment_heatmap"]
    lines += ["", f"## alignment_heatmap, {heatmap['seed'].nunique()} seeds", "", *pipe_table(heatmap_rows(heatmap))]
    for study in ("paper", "neighbour", "without_bias"):
        rows = convergence_rows(tables[f"{study}_trajectories"])
        lines += ["", f"## Convergence of the dense arm, study {study}", "", *pipe_table(rows)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs="+", type=Path, required=True, help="Parquet files, known by their names")
    parser.add_argument("--output", required=True, help="Markdown file to write")
    args = parser.parse_args()
    text = page({path.stem: read_table(path).to_pandas() for path in args.tables})
    write_page(args.output, text, args.job)


if __name__ == "__main__":
    run(main)
