"""How many samples does a linear model need to find the sign of a sum of sparse features?"""

from rarefeat.studies.experiment import SHARE, Experiment, Pick, column, setting


def learn(cell: dict, seeds: list[int], draws: str, d: int) -> list[dict]:
    """Fit the signs by least squares, for one number of samples and a seed block."""
    import torch  # here, so that a plan needs no torch

    from rarefeat.model.randomness import generator

    n, rows = cell["samples"], []
    for seed in seeds:
        g = generator(draws, seed, "samples")
        x = torch.randn(n + 1000, d, generator=g) * (torch.rand(n + 1000, d, generator=g) < 0.1)
        y = x.sum(1).sign()
        right = x[n:] @ torch.linalg.pinv(x[:n]) @ y[:n] * y[n:] > 0
        rows.append({"samples": n, "seed": seed, "accuracy": float(right.double().mean())})
    return rows


def toy_curve(tables):
    """Draw accuracy over the number of samples."""
    import seaborn as sns

    ax = sns.lineplot(tables["toy_replicas"], x="samples", y="accuracy", errorbar=("ci", 95))
    ax.set(xscale="log", xlabel="number of samples", ylabel="test accuracy")
    return ax.figure


STUDY = Experiment(
    __name__,
    "The toy study",
    "Do more samples help?",
    axes={"samples": column("training samples", {"ge": 2}, "samples", kind=int)},
    settings={"d": setting(int, "features, of which each sample has a tenth", ge=1)},
    columns={"accuracy": column("fraction of fresh samples with the right sign", SHARE)},
    measure=learn,
    means={"base": ["accuracy"]},
    published="toy_accuracy",
    picks={"toy-beats-chance": Pick("accuracy")},
    figures={"toy_curve": "Accuracy over the number of samples. See whether it rises."},
)
