"""Dictionary data with labels that the relevant patterns decide (eq. 2.1, A.7).

All is in the D coordinates of the dictionary.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.two_layer.config import Problem

REDRAWS = 64
"""Draws of n samples after which a class that has not filled up is called too rare."""


class LabelledPatterns(NamedTuple):
    """n labelled samples in the coordinates of the dictionary: x~ = M patterns."""

    patterns: Tensor
    """phi~, (n, D), float32: 0 or 1, or the Gaussian mixture's coordinates."""
    labels: Tensor
    """y, (n,), +1 or -1."""


class DataDistribution:
    """One replica's data distribution: the problem with its set A and its codes drawn.

    `structure` is false for uniform patterns.
    """

    def __init__(self, problem: Problem, draws: str, seed: int, structure: bool = True):
        self.problem, self.structure = problem, structure
        self.draws, self.seed = draws, seed
        once = generator(draws, seed, "relevant patterns")
        self.relevant = torch.randperm(problem.D, generator=once)[: problem.k].sort().values
        """A, (k,)."""
        self.codes = _distinct_codes(2 * problem.codes, problem.k, once) if problem.codes else None
        """(2 codes, k); the first half is of class +1."""

    def draw(self, n: int, purpose: str) -> LabelledPatterns:
        """Draw n samples with the problem's class ratio.

        The stream is keyed by the replica and the purpose (`train`, `test`).
        """
        structure = "structured" if self.structure else "uniform"
        random = generator(self.draws, self.seed, f"{purpose}, {structure}")
        problem = self.problem
        if problem.labels == "hypercube":
            signs = 2.0 * torch.randint(2, (n, problem.k), generator=random) - 1
            x = (
                problem.sigma_r
                * (problem.k / problem.d) ** 0.5
                * torch.randn(n, problem.d, generator=random)
            )
            x[:, self.relevant] += signs
            return LabelledPatterns(x, signs.prod(1))
        present, odds, labels = self._relevant_parts(n, random)
        patterns = (torch.rand(n, problem.D, generator=random) < odds[:, None]).float()
        patterns[:, self.relevant] = present
        return LabelledPatterns(patterns, labels)

    def _relevant_parts(self, n: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the relevant patterns, the odds of the others and the labels.

        They are phi~_A (n, k), the probability (n,) of each pattern outside A, and the labels (n,),
        in the problem's class ratio.
        """
        share = self.problem.negatives
        if share is None:
            return self._natural(n, random)
        rows = []
        for y, wanted in ((-1, round(share * n)), (+1, n - round(share * n))):
            accepted, tries = [], 0
            while sum(map(len, accepted)) < wanted:
                if tries == REDRAWS:
                    raise RarefeatError(
                        f"problem.negatives: {share} cannot be had, since class {y:+d} is too rare"
                        f" under this law"
                    )
                present, odds, labels = self._natural(n, random)
                accepted.append(
                    torch.cat([present, odds[:, None], labels[:, None]], dim=1)[labels == y]
                )
                tries += 1
            rows += [torch.cat(accepted)[:wanted]] if wanted else []
        shuffled = torch.cat(rows)[torch.randperm(n, generator=random)]
        return shuffled[:, :-2], shuffled[:, -2], shuffled[:, -1]

    def _natural(self, n: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draw as `_relevant_parts`, in the class ratio that the distribution itself gives."""
        problem, k = self.problem, self.problem.k
        odds = torch.full((n,), problem.p_o)
        if not self.structure:
            # (A1'): every pattern is a fair coin.
            present = torch.randint(2, (n, k), generator=random).float()
            odds = torch.full((n,), 0.5)
        elif problem.labels == "codes":
            code = torch.randint(len(self.codes), (n,), generator=random)
            return self.codes[code], odds, torch.where(code < problem.codes, 1.0, -1.0)
        elif problem.labels == "interval":
            present = (torch.rand(n, k, generator=random) < problem.p_A).float()
        else:
            # D^mix of A.5: uniform with probability p_o, else all of A or none of it.
            uniform = torch.rand(n, generator=random) < problem.p_o
            present = torch.randint(2, (n, k), generator=random).float()
            present[~uniform] = present[~uniform, :1]
            odds = torch.where(uniform, 0.5, problem.p_o / (2 - 2 * problem.p_o))
        if problem.frequency and self.structure:
            present = present * (
                torch.rand(n, k, generator=random) < torch.tensor(problem.frequency)
            )
        return present, odds, labels_of(present, problem, self.codes)


def labels_of(present: Tensor, problem: Problem, codes: Tensor | None = None) -> Tensor:
    """Return the labels y of relevant patterns.

    present (..., k), codes (2 codes, k) -> (...).
    """
    count = present.sum(-1)
    match problem.labels:
        case "parity":
            positive = count % 2 == 1
        case "majority":
            positive = count > problem.k / 2
        case "interval":
            positive = (count >= problem.interval[0]) & (count <= problem.interval[1])
        case "codes":
            positive = torch.cdist(present, codes).argmin(-1) < problem.codes
        case _:
            raise RarefeatError(f"labels: {problem.labels} are not a function of pattern counts")
    return torch.where(positive, 1.0, -1.0)


def _distinct_codes(n: int, k: int, random: torch.Generator) -> Tensor:
    """Draw n different binary vectors, (n, k)."""
    codes = torch.empty(0, k)
    while len(codes) < n:
        codes = torch.cat([codes, torch.randint(2, (n, k), generator=random).float()])
        codes = torch.stack(list(dict((tuple(row.tolist()), row) for row in codes).values()))
    return codes[:n]


class Normalisation(NamedTuple):
    """phi = (phi~ - E phi~) / sigma~, with the moments of a training sample (section 2.3.1)."""

    mean: Tensor
    """(D,)."""
    sigma: float
    """sigma~: the root of the total variance."""

    def __call__(self, patterns: Tensor) -> Tensor:
        """(n, D) -> (n, D)."""
        return (patterns - self.mean) / self.sigma


def normalisation(patterns: Tensor) -> Normalisation:
    """Return the moments of a training sample, (n, D).

    Without variance there is nothing to divide by, which raises a RarefeatError.
    """
    mean = patterns.mean(0)
    sigma = float((patterns - mean).square().sum(1).mean().sqrt())
    if not sigma > 0:
        raise RarefeatError(
            "the training sample has no variance: every sample is the same; raise n or p_o"
        )
    return Normalisation(mean, sigma)


def correlation(sample: LabelledPatterns, relevant: Tensor) -> float:
    """Return gamma of (A1), the correlation of labels and relevant patterns.

    The root mean square over A of (E[phi~_j | +] - E[phi~_j | -]) / 2, which (A1) makes equal. The
    form of A.8.1, which is (A1)'s covariance E[y phi~] - E[y] E[phi~] for balanced classes.
    """
    positive = sample.labels > 0
    if positive.all() or not positive.any():
        raise RarefeatError(
            "the training sample has one class only; raise n or change the law's labels"
        )
    present = sample.patterns[:, relevant]
    return float(
        ((present[positive].mean(0) - present[~positive].mean(0)) / 2).square().mean().sqrt()
    )


def class_weights(labels: Tensor) -> Tensor:
    """Return alpha_y = 1 / (2 Pr[y]) of every sample, (n,) -> (n,) (eq. A.293)."""
    positive = (labels > 0).float().mean()
    return torch.where(labels > 0, 0.5 / positive, 0.5 / (1 - positive))


def batches(n: int, batch: int, steps: int, random: torch.Generator) -> Tensor:
    """Draw the samples of every step, without repetition within a pass.

    -> (steps, batch).
    """
    passes = -(-steps // (n // batch))
    return torch.cat(
        [
            torch.randperm(n, generator=random)[: n // batch * batch].view(-1, batch)
            for _ in range(passes)
        ]
    )[:steps]
