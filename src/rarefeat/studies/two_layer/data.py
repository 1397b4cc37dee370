"""Dictionary data with labels that the relevant patterns decide (eq. 2.1, A.7).

All is in the coordinates of the dictionary, x~ = M phi~. Axes: n samples, D patterns, of which k
are relevant.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.two_layer.config import Problem

REDRAWS = 64
"""Draws of n samples after which a class that has not filled up is called too rare."""


class LabelledPatterns(NamedTuple):
    """Labelled samples in the coordinates of the dictionary."""

    patterns: Float[Tensor, "n D"]
    """phi~: 0 or 1, or the Gaussian mixture's coordinates."""
    labels: Float[Tensor, " n"]
    """y, +1 or -1."""


class DataDistribution:
    """One replica's law with its set A and codes; without structure all are coins (A1')."""

    def __init__(self, problem: Problem, draws: str, seed: int, structure: bool = True):
        self.problem, self.structure = problem, structure
        self.draws, self.seed = draws, seed
        once = generator(draws, seed, "relevant patterns")
        self.relevant = torch.randperm(problem.D, generator=once)[: problem.k].sort().values
        """A, of shape (k,)."""
        self.codes = _distinct_codes(2 * problem.codes, problem.k, once) if problem.codes else None
        """Of shape (2 codes, k); the first half is of class +1."""

    def draw(self, n: int, purpose: str) -> LabelledPatterns:
        """Draw n samples in the problem's class ratio, for a purpose: `train` or `test`."""
        structure = "structured" if self.structure else "uniform"
        random = generator(self.draws, self.seed, f"{purpose}, {structure}")
        problem = self.problem
        if problem.labels == "hypercube":
            signs = 2.0 * torch.randint(2, (n, problem.k), generator=random) - 1
            scale = problem.sigma_r * (problem.k / problem.d) ** 0.5
            x = scale * torch.randn(n, problem.d, generator=random)
            x[:, self.relevant] += signs
            return LabelledPatterns(x, signs.prod(1))
        present, odds, labels = self._relevant_parts(n, random)
        patterns = (torch.rand(n, problem.D, generator=random) < odds[:, None]).float()
        patterns[:, self.relevant] = present
        return LabelledPatterns(patterns, labels)

    def targets(self) -> tuple[Float[Tensor, "r D"], list[str]]:
        """Return the directions that neurons are compared with, and the kind of each.

        They are the corners of the hypercube, by class; else E[y phi~] up to its length, and its
        opposite. That is sum_{j in A} M_j for counts, and the difference of mean codes for codes.
        """
        k, codes = self.problem.k, self.problem.codes
        if self.problem.labels == "hypercube":
            part = 2.0 * torch.cartesian_prod(*[torch.arange(2)] * k).view(-1, k) - 1
            kinds = ["positive" if sign > 0 else "negative" for sign in part.prod(1)]
        else:
            mean = (
                self.codes[:codes].mean(0) - self.codes[codes:].mean(0) if codes else torch.ones(k)
            )
            part, kinds = torch.stack([mean, -mean]), ["target", "opposite"]
        directions = torch.zeros(len(part), self.problem.D)
        directions[:, self.relevant] = part
        return directions, kinds

    def _relevant_parts(
        self, n: int, random: torch.Generator
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Draw phi~_A, the probability of each pattern outside A, and labels in the class ratio."""
        share = self.problem.negatives
        if share is None:
            return self._natural(n, random)
        rows = []
        for y, wanted in ((-1, round(share * n)), (+1, n - round(share * n))):
            found = torch.empty(0, self.problem.k + 2)
            for _ in range(REDRAWS):
                if len(found) >= wanted:
                    break
                present, odds, labels = self._natural(n, random)
                both = torch.cat([present, odds[:, None], labels[:, None]], dim=1)
                found = torch.cat([found, both[labels == y]])
            if len(found) < wanted:
                raise RarefeatError(
                    f"problem.negatives: {share} cannot be had, since class {y:+d} is too rare"
                    " under this law"
                )
            rows.append(found[:wanted])
        shuffled = torch.cat(rows)[torch.randperm(n, generator=random)]
        return shuffled[:, :-2], shuffled[:, -2], shuffled[:, -1]

    def _natural(
        self, n: int, random: torch.Generator
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Draw the same in the class ratio that the distribution itself gives."""
        problem, k = self.problem, self.problem.k
        odds = torch.full((n,), problem.p_o)
        if not self.structure:
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
            kept = torch.rand(n, k, generator=random) < torch.tensor(problem.frequency)
            present = present * kept
        return present, odds, labels_of(present, problem, self.codes)


def labels_of(
    present: Float[Tensor, "*n k"], problem: Problem, codes: Float[Tensor, "c k"] | None = None
) -> Float[Tensor, "*n"]:
    """Return the labels y of relevant patterns."""
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
    return torch.where(positive, 1.0, -1.0)


def _distinct_codes(n: int, k: int, random: torch.Generator) -> Float[Tensor, "n k"]:
    """Draw different binary vectors."""
    codes: dict[tuple, Tensor] = {}
    while len(codes) < n:
        drawn = torch.randint(2, (n, k), generator=random).float()
        codes |= {tuple(row.tolist()): row for row in drawn}
    return torch.stack(list(codes.values())[:n])


def moments(patterns: Float[Tensor, "n D"]) -> tuple[Float[Tensor, " D"], float]:
    """Return E phi~ and sigma~, the root of the total variance; phi = (phi~ - E phi~) / sigma~."""
    mean = patterns.mean(0)
    sigma = float((patterns - mean).square().sum(1).mean().sqrt())
    if not sigma > 0:
        raise RarefeatError(
            "the training sample has no variance: every sample is the same; raise n or p_o"
        )
    return mean, sigma


def correlation(sample: LabelledPatterns, relevant: Int[Tensor, " k"]) -> float:
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
    differences = present[positive].mean(0) - present[~positive].mean(0)
    return float((differences / 2).square().mean().sqrt())


def class_weights(labels: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return alpha_y = 1 / (2 Pr[y]) of every sample (eq. A.293)."""
    positive = (labels > 0).float().mean()
    return torch.where(labels > 0, 0.5 / positive, 0.5 / (1 - positive))


def batches(n: int, batch: int, steps: int, random: torch.Generator) -> Int[Tensor, "steps batch"]:
    """Draw the samples of every step, without repetition within a pass."""
    per_pass = n // batch
    passes = [
        torch.randperm(n, generator=random)[: per_pass * batch].view(per_pass, batch)
        for _ in range(math.ceil(steps / per_pass))
    ]
    return torch.cat(passes)[:steps]
