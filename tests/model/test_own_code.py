"""Own rules: they see copies, and the form of what they return is checked."""

from pathlib import Path

import pytest
import torch
from conftest import refusal

from rarefeat.errors import RarefeatError
from rarefeat.model import own_files
from rarefeat.model.activation_moments import Moments
from rarefeat.model.arms import PruningContext
from rarefeat.model.bias import BiasContext
from rarefeat.model.own_code import (
    REGISTERED,
    OwnRule,
    check_bias,
    check_mask,
    explain_missing,
    register_function,
)
from rarefeat.model.pruning import mask_smallest

S, m, p, K, d = 3, 6, 8, 4, 2


def mask_context(step: int = 0, replicas: int = S) -> PruningContext:
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

    def make(rule, check=check_mask):
        def mine(context):
            return rule(context)

        return OwnRule(register_function(mine, ()), check)

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
    checked, contexts, others = register(rule), [mask_context(0)], [mask_context(0)]
    contexts += [mask_context(i)._replace(generators=contexts[0].generators) for i in range(1, 9)]
    others += [mask_context(i)._replace(generators=others[0].generators) for i in range(1, 9)]
    for context, other in zip(contexts, others, strict=True):
        assert checked(context).equal(rule(other))


def tensors(context) -> list[torch.Tensor]:
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
    assert register(rule, check_bias)(context).equal(context.bias + 1)
    for value, expected in zip(context[:4], bias_context()[:4], strict=True):
        assert value.equal(expected)
    assert context.gradient().equal(bias_context().gradient())


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (lambda context: context.norms[:1] > 0, "must return a mask, bool (S, m) = (3, 6) or (S,"),
        (lambda context: 1 / 0, "rule mine: fails: ZeroDivisionError: division by zero"),
        (lambda context: context.norms, "got torch.float32 (3, 6) at step 0"),
        (lambda context: (context.norms > 0)[0], "got torch.bool (6,)"),
        (lambda context: context.norms.numpy() > 0, "must return a tensor, got ndarray at step 0"),
        (lambda context: (context.norms > 0).to("meta"), "must return a tensor on cpu, got one on"),
    ],
)
def test_mask_rule_refuses_result_in_one_line(register, rule, line):
    assert line in refusal(register(rule), mask_context())


def test_bias_rule_refuses_result_in_one_line(register):
    checked = register(lambda context: context.norms.double(), check_bias)
    assert "must return float32 (S, m) = (3, 6), got torch.f" in refusal(checked, bias_context())
    undefined = register(lambda context: context.bias + float("nan"), check_bias)
    assert "must return no NaN" in refusal(undefined, bias_context())


def test_single_weights_are_for_the_direct_simulator(register):
    def rule(context):
        return context.weights > 0

    context = mask_context()
    assert register(rule)(context).equal(context.weights > 0)
    reduced = context._replace(dictionary=torch.eye(p)[:, :d].expand(S, -1, -1))
    assert "masks single weights, which only the simulator direct has" in refusal(
        register(rule), reduced
    )


def test_names_of_functions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("named.py").write_bytes(b'\xef\xbb\xbfdef one(x):\n    """Say it.\n\n    More."""\n')
    assert explain_missing("named:one") == ""
    assert explain_missing("named:two").endswith("named.py has no function two; it has one")
    monkeypatch.setattr(own_files, "FOLDERS", ["configs"])
    places = f"{tmp_path}/configs or {tmp_path}"
    assert explain_missing("unnamed:one") == f"there is no file unnamed.py in {places}"
    with pytest.raises(RarefeatError, match="needs a name"):
        register_function(lambda context: context, ())
    with pytest.raises(RarefeatError, match="is called smallest, as one that is built in"):
        register_function(smallest, ("smallest",))
