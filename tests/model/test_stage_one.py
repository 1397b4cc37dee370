"""The closed form of stage 1, eq. (7), against training itself.

While the weights are tiny every logit is 1/K and the bias is 0, so that a step is linear in the
weights and its mean is known. <w_i(n), M_j> is regressed on <w_i(0), M_j> over the neurons; the
n-th root of the slope is the growth in one step. Few features overlap in a sample (C is small),
every pair is visited once (N = n K), and eta is small, so that the mean of the log is the log of
the mean. Replicas give the standard errors.
"""

import math
from typing import NamedTuple

import pytest
import torch
from conftest import dictionaries, initial_weights, pretrain_arm, seeded
from scipy.stats import t as student

from rarefeat.model.encoder import attention
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import attended_count, stage1_growth
from rarefeat.stages.synthesise import synthesise
from rarefeat.workflow.config.model import Arm, Data, Training

REPLICAS = 24
MINORITY = [1.0, 0.6]
EPS_MIN = 0.5
# Two-sided, over 9 features: false alarm below 1e-4 for a test.
STANDARD_ERRORS = student.isf(0.5e-4 / 9, REPLICAS - 1)


class Regime(NamedTuple):
    L: int
    nsr: float
    K: int
    tau: float
    eta: float
    lambda_: float
    steps: int
    C: float
    d: int = 9
    d1: int = 120


REGIMES = {
    "large batch": Regime(L=4, nsr=0.3, K=256, tau=1.0, eta=0.05, lambda_=0.05, steps=120, C=0.1),
    "small batch, noisy, tau 0.5": Regime(
        L=3, nsr=2.0, K=8, tau=0.5, eta=0.008, lambda_=0.03, steps=1800, C=0.2
    ),
}


class Measured(NamedTuple):
    regime: Regime
    growth: torch.Tensor  # (S, d), factor a step along each feature
    complement: torch.Tensor  # (S,), the same outside span(M)

    def z(self, predicted, columns=slice(None)):
        """Return how many standard errors the mean growth lies from a prediction, (d',)."""
        growth = self.growth[:, columns]
        return (growth.mean(0) - predicted[columns]) / (growth.std(0) / math.sqrt(len(growth)))

    def predicted(self, **changes):
        r = self.regime
        arguments = {
            "eps": frequencies(r.d, MINORITY, EPS_MIN),
            "C": r.C,
            "L": r.L,
            "nsr": r.nsr,
            "K": r.K,
            "tau": r.tau,
        }
        return stage1_growth(**arguments | {"eta": r.eta, "lambda_": r.lambda_} | changes)

    def signal(self, growth):
        """Return the growth that is due to the feature, without weight decay."""
        return growth - 1 + self.regime.eta * self.regime.lambda_


@pytest.fixture(
    scope="module",
    params=list(REGIMES),
    ids=[name.replace(",", "").replace(" ", "_") for name in REGIMES],
)
def measured(request):
    r = REGIMES[request.param]
    sizes = {"d": r.d, "d1": r.d1, "L": r.L, "N": r.K * r.steps}
    data = Data(**sizes, C=r.C, minority=MINORITY, probe_pairs=2, test_pairs=2)
    bias = {"rule": "follow", "share": 0.0, "cap": 1.0, "T1": r.steps}
    rates = {"tau": r.tau, "eta": r.eta, "lambda": r.lambda_}
    training = Training(**rates, m=24, K=r.K, sigma_0=1e-6, T=r.steps, bias=bias, history=False)
    seeds = list(range(REPLICAS))
    latents = synthesise("growth", data, EPS_MIN, seeds)
    M = dictionaries("growth", data, seeds)
    sigma = math.sqrt(r.nsr / r.d1)
    encoder, _ = pretrain_arm(
        "growth", "direct", data, training, Arm(arm="dense"), sigma, seeds, latents["train"]
    )
    assert not encoder.bias.any()

    def slope(before, after, dim):
        before, after = before.double(), after.double()
        return ((before * after).sum(dim) / before.square().sum(dim)) ** (1 / r.steps)

    start, end = initial_weights("growth", "direct", data, training, seeds), encoder.weights
    outside = [w - w @ M @ M.mT for w in (start, end)]
    return Measured(r, slope(start @ M, end @ M, 1), slope(*outside, (1, 2)))


def test_growth_equals_closed_form_for_every_feature(measured):
    assert measured.z(measured.predicted()).abs().max() < STANDARD_ERRORS


def test_weights_outside_features_decay_as_in_eq_8(measured):
    r = measured.regime
    z = (measured.complement.mean() - (1 - r.eta * r.lambda_)) / (
        measured.complement.std() / math.sqrt(REPLICAS)
    )
    assert z.abs() < STANDARD_ERRORS
    # Features grow, the rest shrinks: the difference is what stage 1 is about.
    assert (measured.complement.mean() < measured.growth.mean(0)).all()


def test_planted_errors_in_closed_form_are_detected(measured):
    r = measured.regime
    right = measured.predicted()

    def off(predicted, columns=slice(None)):
        return measured.z(predicted, columns).abs().max() > STANDARD_ERRORS

    rare = slice(-2, None)
    assert off(measured.predicted(eps=torch.ones(r.d, dtype=torch.float64)), rare)
    assert off(measured.predicted(lambda_=0.0))
    # Majority features pooled: one number, a smaller error.
    pooled = Measured(r, measured.growth[:, :-2].mean(1, keepdim=True), measured.complement)
    first = right[:1]
    factors = {
        "uniform attention": ((r.L + 1) / 2 / attended_count(r.L, r.nsr)) ** 2,
        "attended count not squared": 1 / attended_count(r.L, r.nsr),
        "rate of a token in place of a sample": (r.L + 1) / (2 * r.L),
        "noise left out of the attention": (attended_count(r.L, 0.0) / attended_count(r.L, r.nsr))
        ** 2,
        "tau left out": r.tau,
        "1/K left out": 1 / (1 - 1 / r.K),
    }
    invisible = {"tau left out"} if r.tau == 1 else set()
    if r.K > 100:
        invisible |= {"1/K left out"}
    if r.nsr < 1:
        invisible |= {"noise left out of the attention"}
    assert pooled.z(first).abs().max() < STANDARD_ERRORS
    for name, factor in factors.items():
        wrong = first + (factor - 1) * measured.signal(first)
        assert bool(off_pooled := pooled.z(wrong).abs().max() > STANDARD_ERRORS) != (
            name in invisible
        ), (name, off_pooled)


@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_attended_count_equals_simulated_attention(scale):
    """Averaged over token patterns and noise; the neglected noise terms are of order sigma."""
    n, L, d1, nsr = 20_000, 4, 400, 0.3
    z = latent_pairs(n, L, torch.ones(1, dtype=torch.float64), seeded(0))[:, 0].float()
    x = math.sqrt(nsr / d1) * torch.randn(n, L, d1, generator=seeded(1))
    x[..., :1] += z
    count = (attention(x, scale) @ x)[..., 0].sum(1) * z.sum((1, 2)).sign()
    error = (count.double().std() / math.sqrt(n)).item()
    assert abs(count.double().mean().item() - attended_count(L, nsr, scale)) < 4.5 * error
    assert abs((L + 1) / 2 - attended_count(L, nsr, scale)) > 4.5 * error
