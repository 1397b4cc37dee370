"""Result 6-1 (section 6.3.1): the two-dimensional example of nuclear-norm regularisation, by
several readings of the text.

Axes: n samples, P penalties; of two features the invariant one is the first.
"""

from collections.abc import Iterator, Mapping

import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.errors import RarefeatError
from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import panels, plot_points, titled
from rarefeat.figures.style import GREY, NARROW, STYLES
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.plots import SHARE, STATED
from rarefeat.studies.theorems.problems import NuclearProblem
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    of_quantity,
    result_schema,
    setting_rows,
)

STUDY = "nuclear_norm"
QUANTITIES = {
    "slope": "t = w_2 / w_1 of the rule that is learned with the penalty `at`",
    "id_accuracy": "accuracy in domain, on test samples; stated: 1 - 0.15 t for t in [0, 1]",
    "ood_accuracy": "accuracy out of domain, on test samples; stated: 1 - 0.35 t for t in [0, 1]",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
OPEN = "the text prints neither the size of the sample nor the penalty nor the rate"
AGREES = 0.7
"""How often the environmental feature has the label's sign in domain, and has not out of domain."""
OOD_ERM, OOD_NUCLEAR = 0.76, 0.94
"""Accuracy out of domain as printed, without and with the nuclear norm."""


def sample(
    n: int, agrees: float, stream: torch.Generator
) -> tuple[Float[Tensor, "n 2"], Float[Tensor, " n"]]:
    """Draw inputs and their labels -1 and 1."""
    draws = torch.rand(n, 4, generator=stream, dtype=torch.double)
    y = torch.where(draws[:, 0] < 0.5, 1.0, -1.0).double()
    sign = torch.where(draws[:, 1] < agrees, 1.0, -1.0)
    return torch.stack([draws[:, 2] * y, draws[:, 3] * sign * y], 1), y


def accuracy(w: Float[Tensor, "*P 2"], agrees: float) -> Float[Tensor, "*P"]:
    """Return the exact accuracy of the rule sign <w, x>: 1 - t (1 - agrees) / 2 for t = w_2 / w_1
    in [0, 1].

    The rule fails where the second feature votes against the label, and outvotes the first: with
    probability t / 2 for t <= 1, 1 - 1 / (2 t) beyond.
    """
    first, t = w[..., 0], (w[..., 1] / w[..., 0]).abs()
    outvoted = torch.where(t <= 1, t / 2, 1 - 1 / (2 * t))
    against = torch.where(w[..., 1] * first > 0, 1 - agrees, agrees)
    # A rule that follows -x_1 is right exactly where its opposite is wrong.
    right = 1 - against * outvoted
    return torch.where(first > 0, right, 1 - right)


def nuclear_norm(F: Float[Tensor, "*P n 2"]) -> Float[Tensor, "*P"]:
    """Return the sum of the two singular values."""
    gram = F.mT @ F
    determinant = (gram[..., 0, 0] * gram[..., 1, 1] - gram[..., 0, 1] ** 2).clamp_min(1e-24)
    return (gram[..., 0, 0] + gram[..., 1, 1] + 2 * determinant.sqrt()).sqrt()


def trained(
    problem: NuclearProblem, model: str, X: Float[Tensor, "n 2"], y: Float[Tensor, " n"],
    stream: torch.Generator,
) -> Float[Tensor, "P 2"]:  # fmt: skip
    """Return the linear rule that gradient descent finds with each penalty: the logistic loss plus
    lambda |A X|_*, as in the printed code.
    """
    P = len(problem.penalty)
    penalty = torch.tensor(problem.penalty, dtype=X.dtype)
    # As torch's linear layer begins: uniform up to 1 / sqrt(2).
    start = (2 * torch.rand(3, 2, generator=stream, dtype=X.dtype) - 1) / 2**0.5
    A = start[:2].repeat(P, 1, 1).requires_grad_()
    fixed = {"logits": [1.0, -1.0], "fixed_head": [1.0, 1.0]}
    if model in fixed:
        head = torch.tensor(fixed[model], dtype=X.dtype).repeat(P, 1)
        parameters = [A]
    else:
        head = start[2].repeat(P, 1).requires_grad_()
        parameters = [A, head]
    optimiser = torch.optim.SGD(parameters, lr=problem.lr)
    for _ in range(problem.steps):
        optimiser.zero_grad()
        features = X @ A.mT
        loss = functional.softplus(-y * torch.einsum("pni,pi->pn", features, head)).mean(1)
        (loss + penalty * nuclear_norm(features)).sum().backward()
        optimiser.step()
    rules = torch.einsum("pij,pi->pj", A, head).detach()
    if not rules.isfinite().all():
        raise RarefeatError(
            "training with the nuclear norm diverged: the weights are no longer finite; lower lr"
        )
    return rules


def measure(cell: dict, seeds: list[int], problem: NuclearProblem) -> list[dict]:
    """Measure slopes and accuracies in and out of domain of each seed's rules."""
    n, rows = int(cell["n"]), []
    for seed in seeds:
        X, y = sample(n, AGREES, generator(STUDY, seed, f"n={n}"))
        rules = trained(problem, cell["model"], X, y, generator(STUDY, seed, "weights"))
        tests = {
            domain: (agrees, *sample(problem.test, agrees, generator(STUDY, seed, domain)))
            for domain, agrees in (("id", AGREES), ("ood", 1 - AGREES))
        }
        for penalty, w in zip(problem.penalty, rules, strict=True):
            rows.append(Row(seed, "slope", w[1] / w[0], at=penalty))
            for domain, (agrees, inputs, labels) in tests.items():
                right = ((inputs @ w) * labels > 0).double().mean()
                rows.append(Row(seed, f"{domain}_accuracy", right, accuracy(w, agrees), penalty))
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims for each reading and size; the effect of the penalty for each penalty."""
    for setting, v in by_setting(table).items():
        here, stated = {"setting": setting}, v.rows[v.rows["stated"].notna()]
        error = (stated["value"] - stated["stated"]).groupby(stated["seed"]).mean()
        without = v("ood_accuracy", 0.0)
        yield measurement("6-1-line", STUDY, here, error)
        yield measurement("6-1-erm", STUDY, here, without, remark=OPEN)
        for penalty in v.places("ood_accuracy"):
            if penalty:
                gain, place = v("ood_accuracy", penalty) - without, {**here, "penalty": penalty}
                yield measurement("6-1-better", STUDY, place, gain, remark=OPEN)


def plot(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot accuracy out of domain of two logits by the penalty, at the middle sample size."""
    (table,) = tables.values()
    keys = table["setting"].str.extract(r"model=(?P<model>\w+)/n=(?P<n>\d+)").astype({"n": int})
    sizes = sorted(keys["n"].unique())
    n = sizes[len(sizes) // 2]
    rows = of_quantity(table[(keys["n"] == n) & (keys["model"] == "logits")], "ood_accuracy")
    penalties = sorted(rows["at"].unique())
    names = {at: f"penalty λ = {at:g}" if at else "no penalty" for at in penalties}
    rows, order = rows.assign(place=rows["at"].map(names)), list(names.values())
    figure, ((ax,),) = panels(height=0.9 + 0.25 * len(order), width=NARROW)
    look = STYLES[0].without_line
    plot_points(ax, rows, "value", "place", look, bounds=SHARE, order=order, horizontal=True)
    ax.vlines([OOD_ERM, OOD_NUCLEAR], [-0.4, 0.6], [0.4, len(order) - 0.6], GREY, STATED.dash)
    for x, name in ((OOD_ERM, "printed "), (OOD_NUCLEAR, "printed for some λ ")):
        ax.text(x, int(x > OOD_ERM), name, color="0.35", ha="right", va="center")
    ax.set(xlim=(0.68, 1.005), xlabel="accuracy out of domain")
    return titled(
        figure,
        f"Accuracy out of domain with {n} samples, here and as printed",
        f"dots: here, {INTERVALS}, {seeds_of(rows)}",
    )
