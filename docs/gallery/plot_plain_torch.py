"""
The same in plain torch
=======================

Three learners that are not in the package, trained by a loop of one's own that draws its own data,
and by `rarefeat.sweep_learners` with the same settings.
"""

import math

import matplotlib.pyplot as plt
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import normalize

import rarefeat

torch.set_num_threads(1)  # the products are small
SIZE = {"d1": 32, "K": 64, "m": 30, "N": 1024, "L": 4, "C": 1.0, "probe_pairs": 1000}
T, ETA, EPS_MIN, SIGMA, SEEDS = 200, 0.01, 0.3, 0.1, range(8)


class Network(nn.Module):
    """Two layers with LayerNorm, on each token."""

    def __init__(self, d1, m):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d1, m), nn.LayerNorm(m), nn.ReLU(), nn.Linear(m, m))

    def forward(self, tokens):
        """Embed samples."""
        return self.layers(tokens).sum(-2)


def dcl(f_x, f_y, tau=0.5):
    """Decoupled contrastive loss (Yeh et al. 2022)."""
    logits = normalize(f_x, dim=-1) @ normalize(f_y, dim=-1).mT / tau
    itself = torch.eye(len(f_x), dtype=torch.bool)
    return (logits.masked_fill(itself, -torch.inf).logsumexp(-1) - logits.diagonal()).mean()


def alignment_uniformity(f_x, f_y):
    """Alignment and uniformity (Wang & Isola 2020)."""
    x, y = normalize(f_x, dim=-1), normalize(f_y, dim=-1)
    itself = torch.eye(len(x), dtype=torch.bool)
    near = (4 * (x @ x.mT - 1)).masked_fill(itself, -torch.inf).flatten().logsumexp(0)
    return (x - y).square().sum(-1).mean() + near - math.log(len(x) * (len(x) - 1))


def signs(active, generator):
    """Give active features signs."""
    return active * (1.0 - 2.0 * torch.randint(2, active.shape, generator=generator))


def independent(n, generator, probability):
    """Draw features one by one."""
    return signs(torch.rand(n, len(probability), generator=generator) < probability, generator)


def zipf(n, generator, probability):
    """Frequencies fall with the rank; a common factor makes features come together."""
    d = len(probability)
    common = torch.randn(n, 1, generator=generator)
    score = math.sqrt(0.5) * (common + torch.randn(n, d, generator=generator))
    active = torch.special.ndtr(score) < probability / torch.arange(1, d + 1)
    return signs(active, generator)


# %%
# The loop. A token has each feature of its sample with probability 1/2, one of them for certain.
def two_views(features, dictionary, generator):
    """Draw the tokens of both views."""
    n, d = features.shape
    keep = torch.rand(n, 2, SIZE["L"], d, generator=generator) < 0.5
    keep.scatter_(2, torch.randint(SIZE["L"], (n, 2, 1, d), generator=generator), True)
    tokens = (keep * features[:, None, None]) @ dictionary.mT
    return (tokens + SIGMA * torch.randn(tokens.shape, generator=generator)).unbind(1)


def readout(f, features, n):
    """R^2 of a ridge regression that the first n samples fit, on the others."""
    f, y = f.double() - f[:n].double().mean(0), features.double() - features[:n].double().mean(0)
    gram = f[:n].mT @ f[:n]
    penalty = 1e-3 * gram.diagonal().mean() * torch.eye(len(gram))
    error = y[n:] - f[n:] @ torch.linalg.solve(gram + penalty, f[:n].mT @ y[:n])
    return 1 - error.square().mean(0) / y[n:].var(0, correction=0)


def by_hand(seed, d, loss, data_law):
    """Train and measure one network."""
    generator, n = torch.manual_seed(seed), SIZE["probe_pairs"]
    dictionary = torch.linalg.qr(torch.randn(SIZE["d1"], d, generator=generator))[0]
    balanced = torch.full((d,), SIZE["C"] * math.log(math.log(d)) / d)
    probability = balanced * torch.tensor([1.0] * (d - 1) + [EPS_MIN])
    network = Network(SIZE["d1"], SIZE["m"])
    optimiser = torch.optim.Adam(network.parameters(), lr=ETA)
    for _ in range(T):
        x, y = two_views(data_law(SIZE["K"], generator, probability), dictionary, generator)
        optimiser.zero_grad()
        loss(network(x), network(y)).backward()
        optimiser.step()
    features = independent(2 * n, generator, balanced)
    with torch.no_grad():
        f = network(two_views(features, dictionary, generator)[0])
    r2 = readout(f, features, n)
    return {"r2_rare": r2[-1].item(), "r2_frequent": r2[:-1].mean().item()}


# %%
# Filled marks are the loop's and open ones the laboratory's: means and 95 % intervals over seeds.
LEARNERS = {
    "DCL": {"loss": dcl, "d": 9, "data_law": independent},
    "alignment and uniformity": {"loss": alignment_uniformity, "d": 9, "data_law": independent},
    "Zipf's law, correlated": {"loss": dcl, "d": 20, "data_law": zipf},
}
runs = rarefeat.sweep_learners(
    EPS_MIN, SIGMA, SEEDS, learners=LEARNERS, encoder=Network, optimiser=torch.optim.Adam,
    fresh=True, eta=ETA, T=T, progress=False, **SIZE,
)  # fmt: skip
columns = ["learner", "r2_rare", "r2_frequent"]
rows = [{"learner": name} | by_hand(s, **keys) for name, keys in LEARNERS.items() for s in SEEDS]
both = {"loop": pd.DataFrame(rows), "laboratory": runs.table[columns]}
means, errors = (
    pd.concat({name: table.groupby("learner").agg(how) for name, table in both.items()}, axis=1)
    for how in ("mean", "sem")
)
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for (name, metric), marker, fill in zip(means, "soso", ("C1", "C0", "w", "w"), strict=True):
    shift, colour = 0.1 * (name == "loop"), "C1" if metric == "r2_rare" else "C0"
    x = [i + shift for i in range(len(means))]
    ax.errorbar(
        x, means[name, metric], 2.36 * errors[name, metric], fmt=marker, color=colour, mfc=fill,
        capsize=2,
    )  # fmt: skip
ax.set(ylabel="$R^2$ of the rare (squares) and\nfrequent features (circles)", xticks=range(3))
ax.set_xticklabels(means.index)

# %%
# Differences in standard errors:
variance = errors["loop"] ** 2 + errors["laboratory"] ** 2
difference = (means["loop"] - means["laboratory"]) / variance**0.5
print(difference.round(1))

# %%
# No difference is larger than two standard errors: loop and laboratory train the same networks.
