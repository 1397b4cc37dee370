"""Choices that break their contract are refused in one line."""

import pytest
import torch
from conftest import refusal
from torch import nn

from rarefeat.training.learners import Learner
from rarefeat.training.readout import learn
from rarefeat.workflow.config.model import Arm


def run(settings, **choices):
    data, training = settings
    training = training.model_copy(update={"T": 2})
    learner = Learner(**choices)
    return learn("test", learner, data, training, Arm(arm="dense"), 0.1, 0.5, [3, 4]).learners


def sample(n, generator, probability):
    return 1.0 * (torch.rand(n, len(probability), generator=generator) < probability)


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


class PerToken(Plain):
    def forward(self, tokens):
        return self.layer(tokens)


class Normalised(Plain):
    def __init__(self, d1, m, running=True):
        super().__init__(d1, m)
        self.norm = nn.BatchNorm1d(m, track_running_stats=running)

    def forward(self, tokens):
        return self.norm(super().forward(tokens))


class Spectral(Plain):
    def __init__(self, d1, m):
        super().__init__(d1, m)
        nn.utils.parametrizations.spectral_norm(self.layer, n_power_iterations=20)


def test_encoder_with_statistics_of_the_batch_trains(settings):
    run(settings, encoder=Normalised, encoder_options={"running": False})


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (Noisy, "must keep no state, and draw nothing"),
        (Counting, "must keep no state"),
        (PerToken, "must be of shape (6, m)"),
        (lambda d1, m: 3, "must be a torch.nn.Module, got int"),
        (Normalised, "is another function in training mode"),
        (Spectral, "is another function in training mode"),
    ],
)
def test_bad_encoder_is_refused(settings, encoder, words):
    message = refusal(run, settings, encoder=encoder)
    assert words in message


def loss_vector(f_x, f_y):
    return (f_x - f_y).square().mean(1)


SCALE = nn.Parameter(torch.ones(1))


def loss_scaled(f_x, f_y):
    return (SCALE * f_x - f_y).square().mean()


def loss_detached(f_x, f_y):
    return (f_x - f_y).detach().square().mean()


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (loss_vector, "must be of shape ()"),
        (loss_detached, "has no gradient"),
        (loss_scaled, "has parameters that nothing trains"),
    ],
)
def test_bad_loss_is_refused(settings, loss, words):
    message = refusal(run, settings, loss=loss)
    assert message.startswith(f"loss {loss.__name__}")
    assert words in message


def optimiser_of_lists(parameters, lr, weight_decay):
    return parameters


def test_bad_optimiser_is_refused(settings):
    message = refusal(run, settings, optimiser=optimiser_of_lists)
    assert "optimiser_of_lists: step 0: fails: AttributeError" in message


def test_unknown_choice_or_option_is_refused(settings):
    message = refusal(run, settings, loss="infonse")
    assert "must be one of infonce," in message
    assert "did you mean 'infonce'" in message
    assert "has no option tao" in refusal(run, settings, loss_options={"tao": 1.0})
    for key in ("f_x", "features"):  # which the training gives
        message = refusal(run, settings, loss="supervised", loss_options={key: 1.0})
        assert message.endswith(f"supervised has no option {key}; it has none")


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
