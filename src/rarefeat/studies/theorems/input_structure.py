"""Result 2-10 on scikit-learn's digits (A.7.5): a student on digits and on Gaussian inputs.

A teacher learns the digits and labels both kinds of input. Axes: n inputs, d = 64 pixels, 10
classes, m hidden units.
"""

import pandas as pd
import torch
from jaxtyping import Float, Int64
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.studies.theorems.problems import InputStructure
from rarefeat.studies.theorems.results import Numbers, Row

QUANTITIES = {
    "digits_isotropic": "share of fresh digits that the student puts where the teacher does, after"
    " training on as many isotropic Gaussian inputs",
    "digits_isotropic_course": "its mean over recorded steps",
    "gaussians_isotropic": "that share of fresh Gaussian inputs",
    "gaussians_isotropic_course": "its mean over recorded steps",
    "digits_matched": "as `digits_isotropic`, with Gaussian inputs of the digits' covariance",
    "digits_matched_course": "its mean over recorded steps",
    "gaussians_matched": "as `gaussians_isotropic`, with inputs of the digits' covariance",
    "gaussians_matched_course": "its mean over recorded steps",
    "teacher_isotropic": "accuracy of the teacher on fresh digits",
    "teacher_matched": "that of the teacher regularised on the matched inputs",
    "common_isotropic": "share of Gaussian inputs in the teacher's most frequent class",
    "common_matched": "that of the matched inputs",
}
CLASSES = 10
Inputs = Float[Tensor, "n d"]


class QuadraticNetwork(nn.Module):
    """FC(m): one hidden layer with a quadratic activation."""

    def __init__(self, d: int, m: int, stream: torch.Generator):
        super().__init__()
        self.W = nn.Parameter(torch.randn(m, d, generator=stream) / d**0.5)
        self.b = nn.Parameter(torch.zeros(m))
        self.A = nn.Parameter(torch.randn(CLASSES, m, generator=stream) / m**0.5)
        self.c = nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x: Inputs) -> Float[Tensor, "n 10"]:
        """Return the logits."""
        return (x @ self.W.T + self.b).square() @ self.A.T + self.c


def images() -> tuple[Inputs, Int64[Tensor, " n"]]:
    """Return all digits, with mean 0 and mean square 1 over pixels, and labels."""
    bunch = load_digits()
    x = torch.from_numpy(bunch.data).float()
    x = x - x.mean(0)
    return x / x.square().mean().sqrt(), torch.from_numpy(bunch.target)


def regulariser(logits: Float[Tensor, "n 10"], weight: float) -> Float[Tensor, ""]:
    """Return R of (A.289): even classes over the inputs, and sure ones for each input."""
    shares = logits.softmax(1).mean(0)
    entropy = -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()
    return (shares * shares.log()).sum() + weight * entropy


def train_teacher(
    problem: InputStructure, x: Inputs, y: Int64[Tensor, " n"], others: Inputs,
    stream: torch.Generator,
) -> QuadraticNetwork:  # fmt: skip
    """Train the teacher on the digits, regularised on the other inputs (Algorithm 3)."""
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
def agreement(network: QuadraticNetwork, teacher: QuadraticNetwork, x: Inputs) -> Float[Tensor, ""]:
    """Return the share of inputs that both networks put into one class."""
    return (network(x).argmax(1) == teacher(x).argmax(1)).double().mean()


def train_student(
    problem: InputStructure, m: int, teacher: QuadraticNetwork, train: Inputs,
    tests: tuple[Inputs, Inputs], stream: torch.Generator,
) -> Float[Tensor, "steps 2"]:  # fmt: skip
    """Train FC(m) on the teacher's labels; return its accuracies on tests at recorded steps."""
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


def measure(m: int, seeds: list[int], draws: str, problem: InputStructure) -> list[Row]:
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
            both, tests = torch.cat([x[train], inputs[train]]), (x[test], inputs[test])
            course = train_student(problem, m, teacher, both, tests, stream)
            with torch.no_grad():
                right = (teacher(x[test]).argmax(1) == y[test]).double().mean()
                common = teacher(inputs[test]).argmax(1).bincount().max() / len(test)
            for name, shares in zip(("digits", "gaussians"), course.T, strict=True):
                rows.append(Row(seed, f"{name}_{kind}", shares[-1]))
                rows.append(Row(seed, f"{name}_{kind}_course", shares.mean()))
            rows.append(Row(seed, f"teacher_{kind}", right))
            rows.append(Row(seed, f"common_{kind}", common))
    return rows


def claims(v: Numbers) -> dict[str, pd.Series]:
    """Return what the claims look at, of a student."""
    return {
        "2-10-better": v("digits_isotropic") - v("gaussians_isotropic"),
        "2-10-faster": v("digits_isotropic_course") - v("gaussians_isotropic_course"),
        "2-10-matched": v("digits_matched") - v("gaussians_matched"),
        "2-10-teacher": v("teacher_isotropic"),
    }
