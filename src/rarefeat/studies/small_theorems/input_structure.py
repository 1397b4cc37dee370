"""Result 2-10 on scikit-learn's digits (A.7.5): a student on digits and on Gaussian inputs.

A teacher learns the digits and labels both kinds of input. Axes: m hidden units, 64 pixels.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.studies.small_theorems.config import InputStructure
from rarefeat.studies.small_theorems.result_rows import ResultRow

CLASSES = 10


class QuadraticNetwork(nn.Module):
    """FC(m): one hidden layer with a quadratic activation."""

    def __init__(self, d: int, m: int, stream: torch.Generator):
        super().__init__()
        self.W = nn.Parameter(torch.randn(m, d, generator=stream) / d**0.5)
        self.b = nn.Parameter(torch.zeros(m))
        self.A = nn.Parameter(torch.randn(CLASSES, m, generator=stream) / m**0.5)
        self.c = nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, (n, d) -> (n, 10)."""
        return (x @ self.W.T + self.b).square() @ self.A.T + self.c


def images() -> tuple[Tensor, Tensor]:
    """Return all digits, with mean 0 and mean square 1 over pixels, (n, 64), and labels, (n,)."""
    bunch = load_digits()
    x = torch.from_numpy(bunch.data).float()
    x = x - x.mean(0)
    return x / x.square().mean().sqrt(), torch.from_numpy(bunch.target)


def regulariser(logits: Tensor, weight: float) -> Tensor:
    """Return R of (A.289): even classes over the inputs, and sure ones for each input."""
    shares = logits.softmax(1).mean(0)
    entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
    return (shares * shares.log()).sum() + weight * entropy


def train_teacher(
    problem: InputStructure, x: Tensor, y: Tensor, others: Tensor, stream: torch.Generator
) -> QuadraticNetwork:
    """Train the teacher on the digits, regularised on the other inputs (Algorithm 3).

    x (n, 64), y (n,), others (n, 64).
    """
    network = QuadraticNetwork(x.shape[1], problem.teacher, stream)
    optimiser = torch.optim.Adam(network.parameters(), lr=problem.lr)
    for _ in range(problem.steps):
        rows = torch.randint(len(x), (problem.batch,), generator=stream)
        optimiser.zero_grad()
        loss = functional.cross_entropy(network(x[rows]), y[rows])
        (loss + regulariser(network(others[rows]), problem.entropy)).backward()
        optimiser.step()
    return network


@torch.no_grad()
def agreement(network: QuadraticNetwork, teacher: QuadraticNetwork, x: Tensor) -> Tensor:
    """Return the share of inputs that both networks put into one class.

    x (n, 64).
    """
    return (network(x).argmax(1) == teacher(x).argmax(1)).double().mean()


def train_student(
    problem: InputStructure,
    m: int,
    teacher: QuadraticNetwork,
    train: Tensor,
    tests: tuple[Tensor, Tensor],
    stream: torch.Generator,
) -> Tensor:
    """Train FC(m) on the teacher's labels; return its accuracy at recorded steps, (steps, 2).

    train (n, 64), tests (n, 64).
    """
    student = QuadraticNetwork(train.shape[1], m, stream)
    optimiser = torch.optim.Adam(student.parameters(), lr=problem.lr)
    with torch.no_grad():
        labels = teacher(train).argmax(1)
    recorded_steps, course = set(log_spaced(problem.steps)), []
    for step in range(problem.steps + 1):
        if step in recorded_steps:
            course.append(torch.stack([agreement(student, teacher, x) for x in tests]))
        rows = torch.randint(len(train), (problem.batch,), generator=stream)
        optimiser.zero_grad()
        functional.cross_entropy(student(train[rows]), labels[rows]).backward()
        optimiser.step()
    return torch.stack(course)


def measure(problem: InputStructure, m: int, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure students with m hidden units on digits and Gaussians, isotropic ones and matched."""
    x, y = images()
    values, vectors = torch.linalg.eigh(x.T @ x / len(x))
    root = vectors * values.clamp_min(0).sqrt() @ vectors.T
    rows = []
    for seed in seeds:
        stream = generator(draws, seed, f"m={m}")
        order = torch.randperm(len(x), generator=stream)
        train, test = order[: problem.train], order[problem.train :]
        noise = torch.randn(len(x), x.shape[1], generator=stream)
        for kind, inputs in (("isotropic", noise), ("matched", noise @ root)):
            teacher = train_teacher(problem, x[train], y[train], inputs[train], stream)
            course = train_student(
                problem,
                m,
                teacher,
                torch.cat([x[train], inputs[train]]),
                (x[test], inputs[test]),
                stream,
            )
            with torch.no_grad():
                right = (teacher(x[test]).argmax(1) == y[test]).double().mean()
                common = teacher(inputs[test]).argmax(1).bincount().max() / len(test)
            for place, name in enumerate(("digits", "gaussians")):
                rows += [
                    ResultRow(seed, f"{name}_{kind}", course[-1, place]),
                    ResultRow(seed, f"{name}_{kind}_course", course[:, place].mean()),
                ]
            rows += [
                ResultRow(seed, f"teacher_{kind}", right),
                ResultRow(seed, f"common_{kind}", common),
            ]
    return rows
