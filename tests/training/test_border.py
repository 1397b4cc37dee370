"""Choices that break their contract are refused in one line."""

import pytest
import torch
from conftest import refusal
from torch import nn

from rarefeat.training.learners import Learner, train_learners
from rarefeat.workflow.config.model import Arm

CALLS = []


def run(settings, **choices):
    data, training = settings
    training = training.model_copy(update={"T": 2})
    return train_learners(
        "test", Learner(**choices), data, training, Arm(arm="dense"), 0.1, 0.5, [3, 4]
    )


def sample(n, generator, probability):
    return 1.0 * (torch.rand(n, len(probability), generator=generator) < probability)


def law_global(n, generator, probability):
    return sample(n, generator, probability) * torch.randn(1)


def law_state(n, generator, probability):
    CALLS.append(n)
    return sample(n, generator, probability) * len(CALLS)


def law_mutating(n, generator, probability):
    probability *= 2
    return sample(n, generator, probability)


def law_shape(n, generator, probability):
    return sample(n, generator, probability)[:, :2]


def law_nan(n, generator, probability):
    return sample(n, generator, probability) / 0


def law_error(n, generator, probability):
    raise ValueError("my own\nreason")


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (law_global, "draws from a global generator"),
        (law_state, "must keep no state"),
        (law_mutating, "changes its input"),
        (law_shape, "must be of shape (64, 5) or (64, 2, 3, 5), got (64, 2)"),
        (law_nan, "must be finite, got NaN or infinity"),
        (law_error, "fails: ValueError: my own"),
    ],
)
def test_bad_data_law_is_refused(settings, law, words):
    message = refusal(run, settings, data_law=law, loss="spectral")
    assert message.startswith(f"data_law {law.__name__}")
    assert words in message


def test_correlation_out_of_range_is_refused(settings):
    message = refusal(run, settings, data_law="correlated", data_options={"rho": 2})
    assert message == "data_law correlated: rho must be in [0, 1], got 2"


class Plain(nn.Module):
    """A linear map, of which each encoder below breaks one thing."""

    def __init__(self, d1, m):
        super().__init__()
        self.layer = nn.Linear(d1, m)

    def forward(self, tokens):
        return self.layer(tokens).sum(-2)


class Noisy(Plain):
    def forward(self, tokens):
        return super().forward(tokens) + torch.randn(1)


class Counting(Plain):
    n = 0

    def forward(self, tokens):
        self.n += 1
        return super().forward(tokens) * self.n


class Running(Plain):
    def __init__(self, d1, m):
        super().__init__(d1, m)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, tokens):
        self.calls += 1
        return super().forward(tokens)


class PerToken(Plain):
    def forward(self, tokens):
        return self.layer(tokens)


class Branching(Plain):
    def forward(self, tokens):
        f = super().forward(tokens)
        return f if f.mean() > 0 else -f


class Normalised(Plain):
    def __init__(self, d1, m, running=True):
        super().__init__(d1, m)
        self.norm = nn.BatchNorm1d(m, track_running_stats=running)

    def forward(self, tokens):
        return self.norm(super().forward(tokens))


def test_encoder_with_statistics_of_the_batch_trains(settings):
    run(settings, encoder=Normalised, encoder_options={"running": False})


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (Noisy, "draws from a global generator"),
        (Counting, "must keep no state"),
        (Running, "changes a buffer"),
        (PerToken, "must be of shape (6, m)"),
        (lambda d1, m: 3, "must be a torch.nn.Module, got int"),
        (Branching, "encoder Branching: depends on the value of a tensor"),
        (Normalised, "is another function in training mode"),
    ],
)
def test_bad_encoder_is_refused(settings, encoder, words):
    message = refusal(run, settings, encoder=encoder)
    assert words in message


def loss_vector(f_x, f_y):
    return (f_x - f_y).square().mean(1)


def loss_detached(f_x, f_y):
    return (f_x - f_y).detach().square().mean()


def loss_branching(f_x, f_y):
    return (f_x if f_x.mean() > 0 else f_y).square().mean()


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (loss_vector, "must be of shape ()"),
        (loss_detached, "has no gradient"),
        (loss_branching, "depends on the value of a tensor"),
    ],
)
def test_bad_loss_is_refused(settings, loss, words):
    message = refusal(run, settings, loss=loss)
    assert message.startswith(f"loss {loss.__name__}")
    assert words in message


class Clipped(torch.optim.SGD):
    """SGD with gradients that are clipped by the norm over all replicas."""

    def step(self):
        nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 0.1)
        super().step()


def optimiser_of_lists(parameters, lr, weight_decay):
    return parameters


def test_bad_optimiser_is_refused(settings):
    assert "depends on the others" in refusal(run, settings, optimiser=Clipped)
    message = refusal(run, settings, optimiser=optimiser_of_lists)
    assert message.startswith("optimiser optimiser_of_lists: fails: AttributeError")


def test_unknown_choice_or_option_is_refused(settings):
    message = refusal(run, settings, loss="infonse")
    assert "must be one of infonce," in message
    assert "did you mean 'infonce'" in message
    assert "has no option tao" in refusal(run, settings, loss_options={"tao": 1.0})


def test_own_choices_of_functions_and_files_agree(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def square(f_x, f_y, scale=1.0):\n"
        "    return scale * (f_x - f_y).square().mean()\n"
        "class Sum(nn.Module):\n"
        "    def __init__(self, d1, m):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(d1, m)\n"
        "    def forward(self, tokens):\n"
        "        return self.layer(tokens).sum(-2)\n"
    )

    def square(f_x, f_y, scale=1.0):
        return scale * (f_x - f_y).square().mean()

    by_name = run(settings, loss="mine:square", encoder="mine:Sum", loss_options={"scale": 2.0})
    by_value = run(settings, loss=square, encoder=Plain, loss_options={"scale": 2.0})
    assert by_name.neurons == "layer.weight"
    assert torch.equal(by_name.weights, by_value.weights)
