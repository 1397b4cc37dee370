"""An encoder of one's own: neurons of which only the k most active of a token fire."""

import matplotlib.pyplot as plt
import torch
from torch import nn

import rarefeat


class TopK(nn.Module):
    def __init__(self, d1, m, sigma_0, k=5):
        super().__init__()
        self.weights, self.k = nn.Parameter(sigma_0 * torch.randn(m, d1)), k

    def forward(self, tokens):
        s = torch.softmax(tokens @ tokens.mT, -1) @ tokens @ self.weights.mT
        least = s.abs().topk(self.k, -1).values[..., -1:]
        return torch.where(s.abs() >= least, s, 0.0).sum(-2)


def main(seeds=range(100, 110), **size):
    encoders = {"paper": ("paper", "o"), "linear": ("linear", "x"), "top 5": (TopK, "^")}
    for name, (encoder, marker) in encoders.items():
        learners = rarefeat.train_learners(eps_min=0.3, encoder=encoder, seed=seeds, **size)
        rare = learners.table.query("feature == @learners.rare_features[0]")
        plt.scatter(rare["cosine"], rare["r2"], marker=marker, label=name)
        cosine, r2 = rare["cosine"].mean(), rare["r2"].mean()
        print(f"{name}: R^2 of the rare feature is {r2:.2f}, its best cosine {cosine:.2f}.")
    plt.gca().set(xlabel="largest cosine of a neuron", ylabel="$R^2$ of a linear readout")
    plt.legend(title=f"the rare feature, {len(learners.seeds)} seeds")
    plt.savefig("own_encoder.png", dpi=110)


if __name__ == "__main__":
    main(sigma=0.14, d1=64, sigma_0=0.014, T=300)
