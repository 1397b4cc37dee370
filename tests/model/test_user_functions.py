"""User-defined rules: their results are copied, and they may depend on their context alone."""

import os
import random
import re
from pathlib import Path

import pytest
import torch
from conftest import refusal

from rarefeat.errors import RarefeatError
from rarefeat.model import user_modules
from rarefeat.model.activation_moments import Moments
from rarefeat.model.arms import PruningContext
from rarefeat.model.bias import BiasContext
from rarefeat.model.pruning import mask_smallest
from rarefeat.model.user_functions import (
    REGISTERED,
    copy_context,
    explain_missing,
    first_docstring_line,
    make_user_bias_rule,
    make_user_mask_rule,
    register_function,
)

S, m, p, K, d = 3, 6, 8, 4, 2


def mask_context(step: int = 0, replicas: int = S) -> PruningContext:
    """Return a context of numbers that differ with the step."""
    g = torch.Generator().manual_seed(step)
    weights = torch.randn(replicas, m, p, generator=g)
    f_x, f_y = torch.randn(2, replicas, K, m, generator=g)
    draw = torch.rand(replicas, m, generator=g)
    moments = Moments(*torch.rand(len(Moments._fields), replicas, m, generator=g))
    generators = [torch.Generator().manual_seed(seed) for seed in range(replicas)]
    dictionary = torch.randn(replicas, p, d, generator=g)
    bias = torch.rand(replicas, m, generator=g)
    return PruningContext(
        weights, dictionary, 1, 0.5, draw, bias, f_x, f_y, moments, step, generators
    )


def bias_context(step: int = 1, replicas: int = S) -> BiasContext:
    g = torch.Generator().manual_seed(step)
    bias, norms, gradient = torch.rand(3, replicas, m, generator=g)
    weights = torch.randn(replicas, m, p, generator=g)
    T1 = torch.full((replicas,), -1)
    return BiasContext(bias, weights, norms, T1, step, lambda: gradient)


@pytest.fixture
def register(monkeypatch):
    """Register a rule of a script, and return a function that makes it anew for a training."""
    monkeypatch.setitem(globals(), "__name__", "__main__")

    def make(rule, kind=make_user_mask_rule):
        def mine(context):
            return rule(context)

        return kind(register_function(mine, ()))

    yield make
    REGISTERED.pop("mine", None)


def smallest(context):
    return mask_smallest(context.norms, context.alpha)


def coin(context):
    return torch.stack([torch.rand(m, generator=g) < 0.5 for g in context.generators])


def by_moments(context):
    return context.moments.agreement < context.moments.fires


@pytest.mark.parametrize("rule", [smallest, coin, by_moments])
def test_mask_rule_returns_what_the_function_returns(register, rule):
    """Also the draws of its generators, which the tests of a rule do not move on."""
    checked, contexts, others = register(rule), [mask_context(0)], [mask_context(0)]
    contexts += [mask_context(i)._replace(generators=contexts[0].generators) for i in range(1, 9)]
    others += [mask_context(i)._replace(generators=others[0].generators) for i in range(1, 9)]
    for context, other in zip(contexts, others, strict=True):
        assert checked(context).equal(rule(other))


def tensors(context) -> list[torch.Tensor]:
    """All tensors of a context, those of its moments among them."""
    values = [*context[: context._fields.index("moments")], *context.moments]
    return [value for value in values if isinstance(value, torch.Tensor)]


def test_mask_rule_changes_nothing_of_its_context(register):
    def overwrite(context):
        for tensor in tensors(context):
            tensor.numpy()[:] = 0
            tensor.data.mul_(3)
        return mask_smallest(context.draw + 1, 0.5)

    context = mask_context()
    register(overwrite)(context)
    assert len(tensors(context)) > 8
    assert all(map(torch.equal, tensors(context), tensors(mask_context())))


def test_bias_rule_changes_nothing_of_its_context(register):
    def rule(context):
        context.gradient().zero_()
        context.norms.numpy()[:] = 1
        context.T1.fill_(5)
        return context.bias.add_(1)

    context = bias_context()
    assert register(rule, make_user_bias_rule)(context).equal(context.bias + 1)
    for value, expected in zip(context[:4], bias_context()[:4], strict=True):
        assert value.equal(expected)
    assert context.gradient().equal(bias_context().gradient())


def test_rule_is_loaded_once_for_a_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "def rule(context):\n    return context.norms > {}\n"
    Path("mine_once.py").write_text(text.format(0))
    rule = make_user_mask_rule("mine_once:rule")
    assert rule(mask_context()).all()
    Path("mine_once.py").write_text(text.format(100))
    assert rule(mask_context()).all()
    assert not make_user_mask_rule("mine_once:rule")(mask_context()).any()


MIXING = {
    "mean": lambda context: context.norms < context.norms.mean(),
    "place of a replica": lambda context: torch.arange(len(context.norms))[:, None] < context.norms,
    "number of replicas": lambda context: context.norms > len(context.norms),
    "generator of the first": lambda context: (
        torch.rand(context.norms.shape, generator=context.generators[0]) < 0.5
    ),
}
"""Rules whose result for a replica would depend on the others, if they saw these."""


@pytest.mark.parametrize("name", MIXING)
def test_rule_sees_one_replica_at_a_time(register, name):
    """The numbers are those of each replica alone, whichever are trained together."""
    together = register(MIXING[name])(mask_context())
    for row in range(S):
        alone = register(MIXING[name])(copy_context(mask_context(), row))
        assert alone.equal(together[row : row + 1])


def counting():
    calls = []

    def rule(context):
        calls.append(1)
        return mask_smallest(context.norms, 0.2 + 0.3 * (len(calls) % 2))

    return rule


def remembering_steps():
    steps = []

    def rule(context):
        steps.append(context.step)
        return mask_smallest(context.norms, 0.3 if max(steps) < 3 else 0.5)

    return rule


def caching():
    """Compute once a step, so that a second replica gets what the first one got."""
    masks = {}

    def rule(context):
        return masks.setdefault(context.step, mask_smallest(context.norms, 0.5))

    return rule


STATEFUL = {
    "counts calls": counting,
    "remembers steps": remembering_steps,
    "computes once a step": caching,
}
RANDOM = {
    "draws of torch": lambda context: torch.rand(context.norms.shape) < 0.5,
    "draws of Python": lambda context: torch.tensor([[random.random() for _ in range(m)]]) < 0.5,
    "draws of the system": lambda context: torch.tensor([[*os.urandom(m)]]) < 128,
}


@pytest.mark.parametrize("replicas", [1, S])
@pytest.mark.parametrize("name", [*STATEFUL, *RANDOM])
def test_rule_of_more_than_its_context_is_refused(register, name, replicas):
    checked = register(STATEFUL[name]() if name in STATEFUL else RANDOM[name])

    def train():
        first = mask_context(replicas=replicas)
        for step in range(16):
            context = mask_context(step, replicas)
            checked(context._replace(generators=first.generators))

    lines = "another result (when it is called again|for an)|. rows for . replicas; it must keep no"
    assert re.match(f"rule mine: returns ({lines})", refusal(train))


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (lambda context: context.norms[:1] > 0, "returns 1 rows for 2 replicas"),
        (lambda context: 1 / 0, "rule mine: fails at step 0: ZeroDivisionError: division by zero"),
        (lambda context: context.norms, "must return a mask, bool (S, m) = (1, 6) or (S, m, p)"),
        (lambda context: (context.norms > 0)[0], "got torch.bool (6,)"),
        (
            lambda context: context.weights > 0 if context.norms[0, 0] > 2.6 else context.norms > 0,
            "masks neurons in one replica, weights in another",
        ),
        (lambda context: context.norms.numpy() > 0, "must return a tensor, got ndarray at step 0"),
        (lambda context: (context.norms > 0).to("meta"), "must return a tensor on cpu, got one on"),
    ],
)
def test_mask_rule_refuses_result_in_one_line(register, rule, line):
    assert line in refusal(register(rule), mask_context())


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (
            lambda context: context.norms.double(),
            "must return float32 (S, m) = (1, 6), got torch.f",
        ),
        (lambda context: context.norms * random.random(), "returns another result when"),
    ],
)
def test_bias_rule_refuses_result_in_one_line(register, rule, line):
    assert line in refusal(register(rule, make_user_bias_rule), bias_context())


def test_rule_that_changes_settings_of_torch_is_refused(register):
    def rule(context):
        torch.set_default_dtype(torch.float64)
        return context.norms > 0

    try:
        line = refusal(register(rule), mask_context())
    finally:
        torch.set_default_dtype(torch.float32)
    assert line == "rule mine: changes settings of torch: default dtype"


def test_single_weights_are_for_the_direct_simulator(register):
    def rule(context):
        return context.weights > 0

    context = mask_context()
    assert register(rule)(context).equal(context.weights > 0)
    reduced = context._replace(dictionary=torch.eye(p)[:, :d].expand(S, -1, -1))
    assert "masks single weights, which only the simulator direct has" in refusal(
        register(rule), reduced
    )


def test_files_that_a_rule_opens_are_declared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        "{}\nimport numpy as np\ndef rule(context):\n    import {}\n"
        "    return context.norms > float(np.loadtxt('levels.csv'))\n"
    )
    Path("levels.csv").write_text("0\n")
    Path("late_levels.py").write_text("")
    name = "reading_rules:rule"
    Path("reading_rules.py").write_text(text.format("", "late_levels"))
    line = refusal(make_user_mask_rule(name), mask_context())
    assert "levels.csv, which may be edited unseen; declare it in reading_rules.py: reads" in line
    Path("reading_rules.py").write_text(text.format('reads = ["levels.csv"]', "late_levels"))
    assert make_user_mask_rule(name)(mask_context()).all()
    computed = "importlib\n    importlib.import_module('late' + '_computed')"
    Path("late_computed.py").write_text("")
    Path("reading_rules.py").write_text(text.format('reads = ["levels.csv"]', computed))
    assert (
        "late_computed.py, which may be edited unseen; import it at the top of reading_rules.py"
        in refusal(make_user_mask_rule(name), mask_context())
    )


def test_names_of_functions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("named.py").write_bytes(b'\xef\xbb\xbfdef one(x):\n    """Say it.\n\n    More."""\n')
    assert explain_missing("named:one") == ""
    assert explain_missing("named:two").endswith("named.py has no function two; it has one")
    monkeypatch.setattr(user_modules, "FOLDERS", ["configs"])
    places = f"{tmp_path}/configs or {tmp_path}"
    assert explain_missing("unnamed:one") == f"there is no file unnamed.py in {places}"
    assert first_docstring_line("named:one") == "Say it."
    with pytest.raises(RarefeatError, match="needs a name"):
        register_function(lambda context: context, ())
    with pytest.raises(RarefeatError, match="is called smallest, as one that is built in"):
        register_function(smallest, ("smallest",))
