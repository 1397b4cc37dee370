"""Choose the hyper-parameters of the grid, by the loss and the majority features alone.

Every feature has the same frequency here (eps_min = 1), so that nothing in this table can see the
effect of imbalance. The seeds are 0-4 of a study of their own, so that no reported replica took
part. The rule, fixed before the table was made:

1. candidates: lambda inside the theory's range d^-1.499 ... d^-1.001 (0.037 ... 0.111 at d = 9)
   and one value below it; no bias, or a `follow` bias of 0.2 or 0.3, but not 1, which the papers
   print at T1; C = 1 or 2;
2. T is the smallest of 250, 500, 1000 at which the excess loss has changed by less than 5 % since
   T / 2;
3. every candidate whose features all reach a cosine of 0.9 on average at that T is admissible; the
   one with the lowest excess loss whose lambda lies inside the theory's range is the regime of the
   paper's grid, and the best one outside it the neighbouring regime.
"""

import argparse
import concurrent.futures
import itertools

import pandas as pd
import torch

from rarefeat.stages.synthesise import synthesise
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.project import load

STEPS = (125, 250, 500, 1000)


def measure(job: tuple) -> dict:
    """Train the balanced cell of one candidate; return its loss and majority alignment."""
    path, C, lambda_, share = job
    torch.set_num_threads(1)
    study = load(path).studies["paper"]
    data = study.data.model_copy(update={"C": C, "minority": [1.0]})
    bias = study.training.bias.model_copy(update={"share": share})
    training = study.training.model_copy(update={"lambda_": lambda_, "bias": bias, "T": max(STEPS)})
    seeds = list(range(5))
    latents = synthesise("choose_regime", data, 1.0, seeds)
    _, rows = pretrain(
        "choose_regime", "direct", data, training, [Arm(arm="dense")], 0.05, seeds, latents["train"]
    )
    mean = pd.DataFrame(rows).groupby(["metric", "step"])["value"].mean()
    excess = mean["loss"] - mean["loss_floor"]
    # The loss of one batch is noisy: average the recorded steps of the last third of a decade.
    smooth = {T: excess[(excess.index > T / 2) & (excess.index <= T)].mean() for T in STEPS}
    converged = [T for T in STEPS[1:] if abs(smooth[T] / smooth[T // 2] - 1) < 0.05]
    T = converged[0] if converged else None
    alignment = mean["majority_alignment"]
    nearest = alignment.index[abs(alignment.index - (T or max(STEPS))).argmin()]
    return {
        "C": C,
        "lambda": lambda_,
        "bias share": share,
        **{f"excess {T}": smooth[T] for T in STEPS},
        "T": str(T or "> 1000"),
        "majority cosine": alignment[nearest],
        "pure neurons": mean["pure_neurons"][nearest],
    }


def main() -> None:
    """Print the table of candidates in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", default="config/config.yaml")
    parser.add_argument("--cores", type=int, default=2)
    args = parser.parse_args()
    jobs = [
        (args.config, *point)
        for point in itertools.product((1.0, 2.0), (0.02, 0.05, 0.1), (0.0, 0.2, 0.3))
    ]
    with concurrent.futures.ProcessPoolExecutor(args.cores) as pool:
        table = pd.DataFrame(pool.map(measure, jobs))
    print(table.to_markdown(index=False, floatfmt=".3f"))


if __name__ == "__main__":
    main()
