"""Result 6-1 (section 6.3.1): the two-dimensional example of nuclear-norm regularisation.

The text may be read in several ways.
"""

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import NuclearProblem
from rarefeat.studies.exact_results.paper_values import AGREES
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def sample(n: int, agrees: float, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw n inputs, (n, 2), invariant feature first, and labels -1 and 1, (n,)."""
    draws = torch.rand(n, 4, generator=stream, dtype=torch.double)
    y = torch.where(draws[:, 0] < 0.5, 1.0, -1.0).double()
    sign = torch.where(draws[:, 1] < agrees, 1.0, -1.0)
    return torch.stack([draws[:, 2] * y, draws[:, 3] * sign * y], 1), y


def accuracy(w: Tensor, agrees: float) -> Tensor:
    """Return the exact accuracy of the rule sign <w, x>, (..., 2) -> (...).

    With t = w_2 / w_1 in [0, 1] it is 1 - t (1 - agrees) / 2. The rule fails where the second
    feature votes against the label, and outvotes the first: with probability t / 2 for t <= 1, 1 -
    1 / (2 t) beyond.
    """
    first, t = w[..., 0], (w[..., 1] / w[..., 0]).abs()
    outvoted = torch.where(t <= 1, t / 2, 1 - 1 / (2 * t))
    against = torch.where(w[..., 1] * first > 0, 1 - agrees, agrees)
    # A rule that follows -x_1 is right exactly where its opposite is wrong.
    right = 1 - against * outvoted
    return torch.where(first > 0, right, 1 - right)


def nuclear_norm(F: Tensor) -> Tensor:
    """Return the sum of the two singular values of matrices (..., n, 2) -> (...)."""
    gram = F.mT @ F
    determinant = (gram[..., 0, 0] * gram[..., 1, 1] - gram[..., 0, 1] ** 2).clamp_min(1e-24)
    return (gram[..., 0, 0] + gram[..., 1, 1] + 2 * determinant.sqrt()).sqrt()


def rule(A: Tensor, head: Tensor) -> Tensor:
    """Return the weights of the linear rule that a head makes of the features A x.

    (..., 2, 2), (..., 2) -> (..., 2).
    """
    return torch.einsum("...ij,...i->...j", A, head)


def trained(
    problem: NuclearProblem, model: str, X: Tensor, y: Tensor, stream: torch.Generator
) -> Tensor:
    """Return the rules that gradient descent finds, one for each penalty.

    The loss is the logistic loss plus lambda |A X|_* as in the printed code.

    X (n, 2), y (n,) -> (penalties, 2).
    """
    P = len(problem.penalty)
    penalty = torch.tensor(problem.penalty, dtype=X.dtype)
    # As torch's linear layer begins: uniform up to 1 / sqrt(2).
    start = (2 * torch.rand(3, 2, generator=stream, dtype=X.dtype) - 1) / 2**0.5
    A = start[:2].repeat(P, 1, 1).requires_grad_()
    fixed = {"logits": [1.0, -1.0], "fixed_head": [1.0, 1.0]}
    head = (
        torch.tensor(fixed[model], dtype=X.dtype).repeat(P, 1)
        if model in fixed
        else start[2].repeat(P, 1).requires_grad_()
    )
    parameters = [A] if model in fixed else [A, head]
    optimiser = torch.optim.SGD(parameters, lr=problem.lr)
    for _ in range(problem.steps):
        optimiser.zero_grad()
        features = X @ A.mT
        loss = functional.softplus(-y * torch.einsum("pni,pi->pn", features, head)).mean(1)
        (loss + penalty * nuclear_norm(features)).sum().backward()
        optimiser.step()
    rules = rule(A, head).detach()
    if not rules.isfinite().all():
        raise RarefeatError(
            "training with the nuclear norm diverged: the weights are no longer finite; lower lr"
        )
    return rules


def rows(problem: NuclearProblem, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure slopes and accuracies in and out of domain of each seed's rules.

    Accuracies are on test samples and stated as 1 - 0.15 t and 1 - 0.35 t.
    """
    n, results = int(cell["n"]), []
    for seed in seeds:
        X, y = sample(n, AGREES, generator(draws, seed, f"n={n}"))
        rules = trained(problem, cell["model"], X, y, generator(draws, seed, "weights"))
        tests = {
            domain: (agrees, *sample(problem.test, agrees, generator(draws, seed, domain)))
            for domain, agrees in (("id", AGREES), ("ood", 1 - AGREES))
        }
        for penalty, w in zip(problem.penalty, rules, strict=True):
            results.append(ResultRow(seed, penalty, "slope", w[1] / w[0]))
            for domain, (agrees, inputs, labels) in tests.items():
                right = ((inputs @ w) * labels > 0).double().mean()
                results.append(
                    ResultRow(seed, penalty, f"{domain}_accuracy", right, accuracy(w, agrees))
                )
    return results


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed, penalty and quantity.
    """
    return rows_to_table(
        rows(
            job.config_section("parameters", NuclearProblem),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
