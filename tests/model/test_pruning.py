import pytest
import torch
from conftest import (
    dictionaries,
    embed_tokens,
    initial_weights,
    pretrain_arm,
    tiny_data,
    tiny_training,
    tokens_of_step,
)
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.model.arms import (
    ARMS,
    PruningContext,
    is_minority_neuron,
    mask_oracle_all,
    mask_smallest_weights,
)
from rarefeat.model.contrastive import infonce
from rarefeat.model.neurons import absolute_cosines
from rarefeat.model.pruning import mask_smallest
from rarefeat.stages.synthesise import synthesise
from rarefeat.workflow.config.model import Arm

ratios = st.floats(0, 0.999)
magnitudes = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 7.0]), min_size=1, max_size=30)


def test_mask_smallest_count_is_exact_for_percentages():
    """0.29 * 100 is 28.999999999999996 in floating point."""
    for percent in range(100):
        assert mask_smallest(torch.ones(1, 100), percent / 100).sum().item() == percent


def test_mask_smallest_ties_go_to_lower_index():
    assert mask_smallest(torch.tensor([[1.0, 0.5, 1.0, 1.0, 2.0]]), 0.6).tolist() == [
        [True, True, True, False, False]
    ]
    assert mask_smallest(torch.ones(1, 100), 0.5)[0].tolist() == [True] * 50 + [False] * 50


@given(magnitudes, ratios)
def test_mask_smallest_prunes_smallest_values(values, alpha):
    values = torch.tensor([values])
    mask = mask_smallest(values, alpha)
    assert mask.sum().item() == int(alpha * values.numel() + 1e-9)
    if mask.any():
        assert values[mask].max() <= values[~mask].min()


def test_weight_mask_uses_whole_layer():
    weights = torch.tensor(
        [[[0.1, -0.2, 0.3], [5.0, -4.0, 6.0]], [[-9.0, 0.1, 8.0], [7.0, -0.2, 0.3]]]
    )
    mask = mask_smallest_weights(PruningContext(weights, weights, 1, 0.5))
    assert mask.tolist() == [
        [[True, True, True], [False, False, False]],
        [[False, True, False], [False, True, True]],
    ]


def test_oracle_all_masks_minority_neurons():
    M = torch.eye(5)[None, :, :4]  # d1 = 5, d = 4, the last two features are the minority
    neurons = {  # and whether each is masked for two minority features, for one, and as a pure one
        (0.0, 0.0, 0.0, 2.0, 0.0): (True, True, True),  # the last feature
        (0.0, 0.0, -0.01, 0.0, 0.0): (True, False, True),  # the other one, of either sign
        (1.0, 0.0, 0.0, 0.0, 0.0): (False, False, False),  # a majority feature
        (0.8, 0.0, 0.0, 0.6, 0.0): (False, False, False),  # more of a majority feature
        (0.6, 0.0, 0.0, 0.8, 0.0): (True, True, False),  # a mixture, most of it minority
        (0.0, 0.0, 0.0, 0.4, 1.0): (False, False, False),  # the largest, but below the threshold
        (0.0, 0.0, 0.0, 0.0, 0.0): (False, False, False),  # a dead neuron
    }
    weights = torch.tensor([*neurons])[None]
    two, one, pure = (list(column) for column in zip(*neurons.values(), strict=True))
    assert mask_oracle_all(PruningContext(weights, M, 2))[0].tolist() == two
    assert mask_oracle_all(PruningContext(weights, M, 1))[0].tolist() == one
    cosines = absolute_cosines(weights, M)
    assert is_minority_neuron(cosines, 2, threshold=0.9)[0].tolist() == pure


STUDY, SIGMA, SEED = "one step", 0.2, 5
DATA = tiny_data(d1=6, minority=[1.0, 1.0])


def naive_step(x, y, weights, bias, mask, training):
    """Algorithm 1 with eq. (5) in loops over samples and candidates: x, y (K, L, d1), float64."""
    K, tau = len(x), training.tau
    masked = weights.masked_fill(mask, 0.0)

    def f(batch, w):
        return embed_tokens(batch[None], w[None], bias[None])[0]

    h_x_masked, h_y_masked, h_y = f(x, masked), f(y, masked), f(y, weights)
    slope = torch.zeros_like(weights)
    for k in range(K):
        exponentials = torch.stack([(h_x_masked[k] @ h_y_masked[n] / tau).exp() for n in range(K)])
        logit = exponentials / exponentials.sum()
        attended = torch.softmax(x[k] @ x[k].T, -1) @ x[k]
        for i, w in enumerate(weights):
            gradient_of_h = sum((z for z in attended if abs(w @ z) >= bias[i]), torch.zeros_like(w))
            for n in range(K):
                slope[i] += (logit[n] - int(n == k)) * h_y[n, i] * gradient_of_h / (K * tau)
    return (1 - training.eta * training.lambda_) * weights - training.eta * slope


def autograd_step(x, y, weights, bias, mask, training):
    masked = weights.masked_fill(mask, 0.0).requires_grad_()
    f_x, f_y = (embed_tokens(view[None], masked[None], bias[None]) for view in (x, y))
    infonce(f_x, f_y.detach(), training.tau).sum().backward()
    return (1 - training.eta * training.lambda_) * weights - training.eta * masked.grad


def trained(arm, T, **changes):
    """Weights (m, d1) and bias (m,) of one replica after T steps, and its dictionary."""
    data, training = DATA, tiny_training(T=T, **changes)
    latents = synthesise(STUDY, data, 0.5, [SEED])
    encoder, _ = pretrain_arm(STUDY, "direct", data, training, arm, SIGMA, [SEED], latents["train"])
    return encoder.weights[0], encoder.bias[0], dictionaries(STUDY, data, [SEED])


def relative_error(value, right, start):
    """Of the change that the step makes, weight decay apart."""
    decayed = (1 - tiny_training().eta * tiny_training().lambda_) * start
    return ((value.double() - right).norm() / (right - decayed).norm()).item()


# Single precision, against changes of the formula that must be seen at a hundred times as much.
TOLERANCE = 2e-5

BY_NAME = {"pruned_neuron": 0.5, "pruned_weight": 0.5, "oracle_all": 0.0}
NOTHING = torch.zeros(8, 1, dtype=torch.bool)


def take_step(arm, step):
    """Weights before a step, the dictionary, and the error of a formula with some mask.

    Step 0 has no bias. At step 2 it is half the typical norm, so that the gates matter as well.
    """
    changes = {"bias": {"share": 0.5}}
    after, _, M = trained(arm, step + 1, **changes)
    weights = initial_weights(STUDY, "direct", DATA, tiny_training(), [SEED])[0]
    bias = torch.zeros(8)
    if step:
        weights, bias, _ = trained(arm, step, **changes)
        assert (bias > 0).all()
    x, y = tokens_of_step(STUDY, DATA, tiny_training(), SIGMA, SEED, step)
    start, b = weights.double(), bias.double()

    def error(formula, mask):
        return relative_error(after, formula(x, y, start, b, mask, tiny_training()), start)

    return weights, M, error


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize(
    ("update", "formula", "other"),
    [
        ("unmasked", naive_step, autograd_step),
        ("straight_through", autograd_step, naive_step),
    ],
)
def test_pruned_step_equals_eq_5_or_masked_gradient(name, step, update, formula, other):
    """Each update rule agrees with its own formula, and neither with the other nor with dense."""
    arm = Arm(arm=name, alpha=BY_NAME[name], pruned_update=update)
    weights, M, error = take_step(arm, step)
    mask = ARMS[name].rule(PruningContext(weights[None], M, 2, arm.alpha))[0]
    mask = mask if mask.dim() == 2 else mask[:, None]
    assert mask.any()
    assert error(formula, mask) < TOLERANCE
    assert error(other, mask) > 100 * TOLERANCE
    assert error(formula, NOTHING) > 100 * TOLERANCE


@pytest.mark.parametrize("step", [0, 2])
def test_dense_step_equals_eq_5(step):
    *_, error = take_step(Arm(arm="dense"), step)
    assert error(naive_step, NOTHING) < TOLERANCE
    assert error(autograd_step, NOTHING) < TOLERANCE


@pytest.mark.parametrize("name", ["pruned_neuron", "pruned_weight"])
@pytest.mark.parametrize("update", ["unmasked", "straight_through"])
def test_pruned_arm_equals_dense_before_onset(name, update):
    arm = Arm(arm=name, alpha=0.5, onset=4, pruned_update=update)
    for T in (1, 4):
        for pruned, dense in zip(trained(arm, T), trained(Arm(arm="dense"), T), strict=True):
            assert torch.equal(pruned, dense)
    assert not torch.equal(trained(arm, 5)[0], trained(Arm(arm="dense"), 5)[0])
