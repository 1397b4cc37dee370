"""Train networks on modular addition at the sizes that chapter 4 of shi_feature_learning prints.

As printed (section C.10.1): m = 2^(2k - 2) (p - 1) neurons for (k, p) = (3, 97), (4, 47) and
(5, 23); half of the table for training; batches of 1024, AdamW's betas (0.9, 0.98), a step of 0.005
after 10 of warm-up, lambda = 0.005 of the L_{2,k+1} norm. Not printed, ours: the number of epochs,
initial weights (normal, of deviation 1 / sqrt(p)), no decay beside the norm. Products are in
bfloat16, as a processor that has them is four times as fast; weights, sums and AdamW are in
float32. Measured at recorded epochs: accuracy on both halves, the margin over the largest, and of
the neurons what the study modular_addition measures. Stated: every neuron has one frequency, and
all (p - 1) / 2 are there. About 22,000 steps each: three seeds of 50 epochs for k = 3, one of 10
for k = 4, one of 7 for k = 5 (20 and 10 were declared, and cut for their cost before either ended);
and for k = 3 as controls a network in float32, and initial weights of 2 and 0.3 times the size,
which a pilot of five epochs chose. A training is written after every epoch that is recorded and
goes on from there.

    python benchmarks/modular_addition.py --k 4 5 3 --seeds 1 1 3 --epochs 10 7 50 --publish
"""

import argparse
import math
from pathlib import Path

import pandas as pd
import torch
from published import publish
from torch import Tensor
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.modular_addition import largest_margin, measure_neurons, norm
from rarefeat.workflow.run.cli_helpers import progress

NAME = "modular_addition"
SIZES = {3: 97, 4: 47, 5: 23}
BATCH, LR, PENALTY, WARMUP = 1024, 0.005, 0.005, 10
MEASURED = 2**17
"""Sums of each half on which accuracy and margin are measured."""
CHUNK = 256
"""Inputs whose neurons fit into a processor's cache: 2.5 times as fast as a batch at once."""
CONTROLS = ((5, "float32", 1.0), (20, "bfloat16", 2.0), (5, "bfloat16", 0.3))
"""Epochs, precision and size of the initial weights of further networks with k = 3."""
RECORDED = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def hidden(u: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums (B, m) of neurons, and their powers of k - 1; u is (k, p, m)."""
    total = u[0][inputs[:, 0]]
    for table, column in zip(u[1:], inputs.T[1:], strict=True):
        total += table[column]
    power = total
    for _ in range(len(u) - 2):
        power = power * total
    return total, power


def gradients(
    u: Tensor, w: Tensor, inputs: Tensor, precision: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the mean cross-entropy of a batch and of the penalty."""
    k, p, _ = u.shape
    low_w = w.to(precision)
    of_u, of_w = torch.zeros_like(u), torch.zeros_like(w)
    for rows in inputs.split(CHUNK):
        total, power = hidden(u, rows)
        neurons = (power * total).to(precision)
        error = (neurons @ low_w).float().softmax(1)
        error -= functional.one_hot(rows.sum(1) % p, p)
        error = (error / len(inputs)).to(precision)
        back = (power * k * (error @ low_w.T)).to(precision)
        of_u += functional.one_hot(rows.T, p).to(precision).mT @ back
        of_w += neurons.T @ error
    size = u.square().sum((0, 1)) + w.square().sum(1)
    total_norm = size.pow((k + 1) / 2).sum() ** (1 / (k + 1))
    pull = PENALTY * total_norm**-k * size ** ((k - 1) / 2)
    return of_u + pull * u, of_w + pull[:, None] * w


def measure(u: Tensor, w: Tensor, halves: dict[str, Tensor]) -> dict[str, float]:
    """Return accuracy on each half, the margin over the largest, and what neurons have."""
    k, p, _ = u.shape
    found, least = {}, math.inf
    for name, half in halves.items():
        right, inputs = 0, half[:MEASURED]
        for rows in inputs.split(CHUNK):
            total, power = hidden(u, rows)
            scores = total * power @ w
            target = (rows.sum(1) % p)[:, None]
            own = scores.gather(1, target)
            gaps = (own - scores.scatter(1, target, -torch.inf).amax(1, keepdim=True))[:, 0]
            right += int((gaps > 0).sum())
            least = min(least, gaps.min().item())
        found[f"{name}_accuracy"] = right / len(inputs)
    theirs = u.mT.double(), w.double()
    found["margin_ratio"] = least / norm(*theirs).item() ** (k + 1) / largest_margin(k, p)
    return found | {name: value for name, (value, _) in measure_neurons(*theirs).items()}


def train(
    k: int, seed: int, epochs: int, folder: Path, precision: str = "bfloat16", start: float = 1.0
) -> list[dict]:
    """Train one network, from its file if there is one; return the rows of recorded epochs."""
    p = SIZES[k]
    m, key = 2 ** (2 * k - 2) * (p - 1), f"k={k} p={p}"
    table = torch.cartesian_prod(*[torch.arange(p)] * k)
    table = table[torch.randperm(len(table), generator=generator(NAME, seed, f"{key} halves"))]
    halves = dict(zip(("train", "test"), table.tensor_split(2), strict=True))
    stream = generator(NAME, seed, f"{key} weights")
    u, w = (
        start * torch.randn(*shape, generator=stream) / math.sqrt(p)
        for shape in ((k, p, m), (m, p))
    )
    optimiser = torch.optim.AdamW([u, w], LR, (0.9, 0.98), weight_decay=0, fused=True)
    path, rows, first = folder / f"{key} {seed} {precision} {start:g}.pt", [], 0
    if path.exists():
        saved = torch.load(path)
        rows, first = saved["rows"], saved["epoch"]
        u.copy_(saved["u"])
        w.copy_(saved["w"])
        optimiser.load_state_dict(saved["optimiser"])
    steps = len(halves["train"]) // BATCH
    for epoch in progress(range(first, epochs + 1), epochs + 1 - first, key):
        if epoch in (*RECORDED, epochs) and epoch not in [row["epoch"] for row in rows]:
            rows.append({"k": k, "p": p, "m": m, "seed": seed, "precision": precision})
            rows[-1] |= {"start": start, "epoch": epoch}
            rows[-1] |= measure(u, w, halves)
            print(rows[-1], flush=True)
            saved = {"u": u, "w": w, "rows": rows, "epoch": epoch}
            torch.save(saved | {"optimiser": optimiser.state_dict()}, path)
        if epoch == epochs:
            break
        order = torch.randperm(
            len(halves["train"]), generator=generator(NAME, seed, f"{key} {epoch}")
        )
        for step, batch in enumerate(order[: steps * BATCH].split(BATCH)):
            optimiser.param_groups[0]["lr"] = LR * min(1, (epoch * steps + step + 1) / WARMUP)
            inputs = halves["train"][batch]
            u.grad, w.grad = gradients(u, w, inputs, getattr(torch, precision))
            optimiser.step()
    return rows


def main() -> None:
    """Train, print, and publish if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--k", type=int, nargs="+", default=[3], choices=SIZES)
    parser.add_argument("--epochs", type=int, nargs="+", default=[50], help="one for each k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3], help="likewise")
    parser.add_argument("--first-seed", type=int, default=53000)
    parser.add_argument("--out", type=Path, default=Path("results/modular_addition"))
    parser.add_argument("--publish", action="store_true", help=f"write docs/tables/{NAME}.csv")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    seeds = range(args.first_seed, args.first_seed + max(args.seeds))
    rows = [
        row
        for k, number, epochs in zip(args.k, args.seeds, args.epochs, strict=True)
        for seed in seeds[:number]
        for row in train(k, seed, epochs, args.out)
    ]
    for epochs, precision, start in CONTROLS:
        rows += train(3, args.first_seed, epochs, args.out, precision, start)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format="%.3f"))
    if args.publish:
        publish(NAME, table, seeds)


if __name__ == "__main__":
    main()
