"""A loss of one's own: each positive is to exceed every negative by a margin, and no more."""

import matplotlib.pyplot as plt
import torch

import rarefeat


def margin(f_x, f_y, width=1.0):
    similarity = f_x @ f_y.mT
    return torch.relu(width + similarity - similarity.diagonal()[:, None]).mean()


def main(seeds=range(100, 110), **size):
    losses = {"InfoNCE": ("infonce", "o-"), "margin": (margin, "s--")}
    for name, (loss, style) in losses.items():
        learners = rarefeat.train_learners(eps_min=0.3, loss=loss, seed=seeds, **size)
        r2 = learners.table.groupby("feature")["r2"].agg(["mean", "std"])
        plt.errorbar(r2.index, r2["mean"], r2["std"], fmt=style, capsize=2, label=name)
        rare, others = r2["mean"].iloc[-1], r2["mean"].iloc[:-1].mean()
        print(f"{name}: R^2 of the rare feature is {rare:.2f}, of the others {others:.2f}.")
    plt.gca().set(xlabel="feature, the rare one last", ylabel="$R^2$ of a linear readout")
    plt.legend(title=f"mean and SD, {len(learners.seeds)} seeds")
    plt.savefig("own_loss.png", dpi=110)


if __name__ == "__main__":
    main(sigma=0.14, d1=64, sigma_0=0.014, T=300)
