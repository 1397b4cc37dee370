"""Correlated features: the rare one comes only in the company of the first one."""

import matplotlib.pyplot as plt
import torch

import rarefeat


def in_company(n, generator, probability):
    active = torch.rand(n, len(probability), generator=generator) < probability
    active[:, 0] |= active[:, -1]
    return active * (1.0 - 2.0 * torch.randint(2, active.shape, generator=generator))


def main(seeds=range(100, 110), frequencies=(0.3, 0.5, 0.7), **size):
    laws = {"independent": ("paper", "o-"), "in company": (in_company, "s--")}
    for name, (law, style) in laws.items():
        r2 = []
        for eps_min in frequencies:
            learners = rarefeat.train_learners(eps_min, data_law=law, seed=seeds, **size)
            r2.append(learners.table.query("feature == @learners.rare_features[0]")["r2"])
        means, spreads = [item.mean() for item in r2], [item.std() for item in r2]
        plt.errorbar(frequencies, means, spreads, fmt=style, capsize=2, label=name)
        print(f"{name}: R^2 of the rare feature is {means[0]:.2f} at {frequencies[0]}.")
    plt.gca().set(xlabel=r"frequency $\varepsilon_{\min}$", ylabel="$R^2$ of a linear readout")
    plt.legend(title=f"the rare feature, mean and SD, {len(learners.seeds)} seeds")
    plt.savefig("correlated_features.png", dpi=110)


if __name__ == "__main__":
    main(sigma=0.14, d1=64, sigma_0=0.014, T=300)
