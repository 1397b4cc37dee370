"""Table 2 on photographs, stage after stage, with choices by rules written beforehand.

The rules were written before any of it ran.

`python docs/build/staged_protocol.py RESULTS` prints the arguments of Snakemake
that come next, nothing once all is there, and writes the choices so far as a config,
RESULTS/chosen.yaml. `make photographs` goes on until it prints nothing.

1. Regime. The candidates of REGIMES are tried in order. One passes where the tail visibly pays
   for imbalance: of the dense arm, accuracy of the balanced probe on the rarest third of the
   classes after pretraining on balanced images, less that after long-tailed ones of the same
   number, seed by seed, has an interval above VISIBLE. Where none passes, the one whose interval
   begins highest is taken, and everything after it is undecided. No pruned arm is trained before
   that. FORMER is no candidate any more: it did not pass, and what comes after could not be
   afforded on its network.
2. Screen. Of each update the ratio alpha is picked at which the rarest third gains most over the
   most frequent classes (balanced probe, less dense, mean over the class orders), among the
   ratios whose accuracy over all classes falls by no more than AFFORDED: what costs more than
   that is capacity, not frequency. The smaller of equal ones; where every ratio costs more, the
   one that costs least.
3. Confirm. Dense, dense on balanced images, each picked arm, a random mask of the same ratio
   beside it, and REFERENCE_RATIO, which Jiang et al. 2021 have; the paper of Table 2 prints none.
   As many class orders as show a mean gain of EFFECT with a power of 0.8 at the spread of the
   dense arm's accuracy over the class orders of the regime, but FEWEST to MOST.
4. Milder, where there is time: dense and each picked arm at rho = 10, on as many class orders,
   then at rho = 50. The first was added when the screen had run, the second when the rest had.
"""

import argparse
import itertools
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import nctdtrinc, stdtrit

from rarefeat.errors import RarefeatError
from rarefeat.statistics import student_interval
from rarefeat.studies.experiment import minus
from rarefeat.workflow.config.images import ImageArm
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.cli_helpers import run_main
from rarefeat.workflow.run.metadata import read_table_and_origin

RECIPE = "config/cifar10_two_cores.yaml"
FORMER = "cifar10_regime_1000"
REGIMES = ("cifar10_strided_1000", "cifar10_strided_500")
SCREEN, WIDTHS, CONFIRM = "cifar10_screen", "cifar10_widths", "cifar10_confirm"
MILDER, BETWEEN = "cifar10_milder", "cifar10_rho50"
STAGES = {
    **dict.fromkeys(REGIMES, "regime"),
    **dict.fromkeys((SCREEN, WIDTHS), "screen"),
    CONFIRM: "confirm",
    **dict.fromkeys((MILDER, BETWEEN), "milder"),
}
VISIBLE, AFFORDED, EFFECT = 0.02, 0.02, 0.05
FEWEST, MOST = 5, 8
REFERENCE_RATIO = 0.9
ARM = list(ImageArm.model_fields)
UPDATE = ["arm", "pruned_update"]
GAINED = ["accuracy", "tail_less_head"]

Tables = Mapping[str, pd.DataFrame]
"""The table `longtail` of each study that has one, by its name: a row for each replica."""


class ImbalanceCost(NamedTuple):
    """The cost of imbalance, with its interval."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def visible(self) -> bool:
        """Return whether the interval lies above VISIBLE."""
        return self.low > VISIBLE


def gap(replicas: pd.DataFrame, metric: str = "balanced_few") -> ImbalanceCost:
    """Estimate a metric of dense after balanced less long-tailed pretraining, seed by seed."""
    dense = replicas[replicas["arm"] == "dense"].pivot(index="seed", columns="split", values=metric)
    mean, _, low, high, n = student_interval((dense["balanced"] - dense["long_tailed"]).to_numpy())
    return ImbalanceCost(mean, low, high, n)


def choose_regime(tables: Tables) -> str | None:
    """Return the study whose regime is taken; None while the next candidate has to be run."""
    gaps = {name: gap(tables[name]) for name in REGIMES if name in tables}
    if passed := [name for name, cost in gaps.items() if cost.visible]:
        return passed[0]
    return max(gaps, key=lambda name: gaps[name].low) if len(gaps) == len(REGIMES) else None


def gains(replicas: pd.DataFrame) -> pd.DataFrame:
    """Return the gain of every masked arm over dense in accuracy, and in tail less head."""
    table = replicas[replicas["split"] == "long_tailed"]
    table = table.assign(
        accuracy=table["balanced_accuracy"],
        tail_less_head=table["balanced_few"] - table["balanced_many"],
    )
    dense, masked = table[table["arm"] == "dense"], table[table["arm"] != "dense"]
    keys = ["width", "seed"]
    return masked[[*ARM, *keys]].assign(**minus(masked, dense, keys, GAINED))


def mean_gains(screen: pd.DataFrame) -> pd.DataFrame:
    """Return the mean gains of each update and ratio over the class orders."""
    return gains(screen).groupby([*UPDATE, "alpha"])[GAINED].mean().reset_index()


def pick_ratios(screen: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Pick the ratio alpha of each (arm, update) that is confirmed, from the screen."""
    ratios = {}
    for update, means in mean_gains(screen).groupby(UPDATE):
        afforded = means[means["accuracy"] >= -AFFORDED]
        tail, accuracy = afforded["tail_less_head"], means["accuracy"]
        best = tail.idxmax() if len(tail) else accuracy.idxmax()
        ratios[update] = float(means.loc[best, "alpha"])
    return ratios


def milder_arms(screen: pd.DataFrame) -> list[dict[str, Any]]:
    """Return dense and the picked arms in the form of a config."""
    arms: list[dict[str, Any]] = [{"arm": "dense"}]
    for (arm, update), alpha in pick_ratios(screen).items():
        of_pruned = {"pruned_update": update} if arm == "pruned" else {}
        arms.append({"arm": arm, **of_pruned, "alpha": alpha})
    return arms


def confirmation_arms(screen: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the arms that are confirmed in the form of a config."""
    dense, *masked = milder_arms(screen)
    arms = [dense]
    for arm in masked:
        arms += [arm, arm | {"threshold": "random"}]
        if arm["alpha"] != REFERENCE_RATIO:
            arms.append(arm | {"alpha": REFERENCE_RATIO})
    return arms


def class_orders(replicas: pd.DataFrame) -> int:
    """Compute the number of class orders of the confirmation from the regime's replicas."""
    dense = replicas[(replicas["arm"] == "dense") & (replicas["split"] == "long_tailed")]
    _, sd, *_ = student_interval(dense["balanced_accuracy"].to_numpy())
    return min(max(required_sample_size(sd, EFFECT), FEWEST), MOST)


def minimum_detectable_mean(sd: float, n: int, power: float = 0.8, level: float = 0.95) -> float:
    """Compute the minimum detectable mean of a two-sided one-sample t test."""
    if n < 2:
        return np.nan
    return float(nctdtrinc(n - 1, 1 - power, stdtrit(n - 1, (1 + level) / 2)) * sd / np.sqrt(n))


def required_sample_size(sd: float, mean: float, power: float = 0.8, level: float = 0.95) -> int:
    """Compute the sample size at which a two-sided one-sample t test detects a mean."""
    return next(
        n for n in itertools.count(2) if minimum_detectable_mean(sd, n, power, level) <= mean
    )


class NextRun(NamedTuple):
    """A run that Snakemake is asked for."""

    study: str
    orders: int = 0
    """Class orders, where not all at once."""


def next_run(tables: Tables) -> NextRun | None:
    """Return the run that comes next, of whole class orders; None once everything is there."""
    taken = choose_regime(tables)
    if not taken:
        return NextRun(next(name for name in REGIMES if name not in tables))
    if missing := [name for name in (SCREEN, WIDTHS) if name not in tables]:
        return NextRun(missing[0])
    done = {
        name: tables[name]["seed"].nunique() if name in tables else 0
        for name in (CONFIRM, MILDER, BETWEEN)
    }
    missing = [name for name in done if done[name] < class_orders(tables[taken])]
    return NextRun(missing[0], done[missing[0]] + 1) if missing else None


def overlay(tables: Tables, regimes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the choices so far as a config."""
    taken = choose_regime(tables)
    if not taken:
        return {"long_tail": {}}
    data, training = (regimes[taken][name] for name in ("data", "training"))
    same = {"data": {"n_max": data["n_max"]}, "training": {"epochs": training["epochs"]}}
    studies: dict[str, Any] = dict.fromkeys((SCREEN, WIDTHS, CONFIRM, MILDER, BETWEEN), same)
    if SCREEN in tables:
        orders = class_orders(tables[taken])
        studies[CONFIRM] = same | {"arms": confirmation_arms(tables[SCREEN]), "seeds": orders}
        for name in (MILDER, BETWEEN):
            studies[name] = same | {"arms": milder_arms(tables[SCREEN]), "seeds": orders}
    return {"long_tail": {"studies": studies}}


def main() -> None:
    """Print the arguments of the next run, and write the choices so far."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="folder of results")
    stages = list(dict.fromkeys(STAGES.values()))
    parser.add_argument("--until", choices=stages, default="confirm", help="the last stage to run")
    args = parser.parse_args()
    if shlex.quote(str(args.results)) != str(args.results):
        raise RarefeatError(
            f"{args.results}: make passes this name on as it is; use letters, digits, / . - and _"
        )
    paths = {name: args.results / f"tables/{name}.longtail.parquet" for name in STAGES}
    products = {name: read_table_and_origin(path) for name, path in paths.items() if path.exists()}
    tables = {name: table for name, (table, _) in products.items()}
    regimes = {name: products[name][1]["config"][name] for name in REGIMES if name in products}
    chosen = args.results / "chosen.yaml"
    write_file(chosen, json.dumps(overlay(tables, regimes), indent=1) + "\n")
    following = next_run(tables)
    if following and stages.index(STAGES[following.study]) <= stages.index(args.until):
        orders = [f"most_seeds={following.orders}"] if following.orders else []
        config = ["--config", f"results={args.results}", *orders]
        print("--configfile", RECIPE, chosen, *config, "--", following.study)


if __name__ == "__main__":
    run_main(main)
