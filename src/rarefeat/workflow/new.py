"""What `rarefeat new` writes: a small working file of a user's own, and the YAML that uses it."""

import importlib.util
import os
import re
import sys
from pathlib import Path

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.names import check_name
from rarefeat.workflow.project import PACKAGED_FILES, SINGLE_FILE_STUDIES, load

RULE = '''\
"""A pruning rule of the study in {name}.yaml."""

from torch import Tensor

from rarefeat import PruningContext
from rarefeat.model.pruning import mask_smallest


def mine(context: PruningContext) -> Tensor:
    """Mask the neurons whose embeddings agree least over positive pairs; bool (S, m)."""
    return mask_smallest(context.moments.agreement, context.alpha)
'''
LAW = '''\
"""A data law of the study in {name}.yaml."""

import torch


def mine(n, generator, probability):
    """Draw n samples, (n, d), in which the rare feature comes only together with the first one."""
    active = torch.rand(n, len(probability), generator=generator) < probability
    active[:, 0] |= active[:, -1]
    return active * (1.0 - 2.0 * torch.randint(2, active.shape, generator=generator))
'''
ENCODER = '''\
"""An encoder of the study in {name}.yaml."""

import torch
from torch import nn


class Mine(nn.Module):
    """Neurons that saturate, summed over tokens: (n, L, d1) to (n, m)."""

    def __init__(self, d1, m, sigma_0):
        super().__init__()
        self.weights = nn.Parameter(sigma_0 * torch.randn(m, d1))

    def forward(self, tokens):
        return torch.tanh(tokens @ self.weights.mT).sum(-2)
'''
LOSS = '''\
"""A loss of the study in {name}.yaml."""


def mine(f_x, f_y, width=1.0):
    """Each positive is to exceed every negative by a margin; one number of (K, m) twice."""
    similarity = f_x @ f_y.mT
    return (width + similarity - similarity.diagonal()[:, None]).relu().mean()
'''
OPTIMISER = '''\
"""An optimiser of the study in {name}.yaml."""

import torch


class Mine(torch.optim.SGD):
    """Gradient descent with a bound on each entry of the gradient."""

    def step(self, closure=None):
        for group in self.param_groups:
            for weights in group["params"]:
                weights.grad.clamp_(-0.01, 0.01)
        return super().step(closure)
'''
ARMS = """\
# `{command}` makes its tables and Figures 1 to 4
# of its grid. Other keys of config/config.yaml can be set here too, e.g. training.
results: results
imbalance:
  studies:
    {name}:
      seeds: 10
      arms:
        - {{arm: dense}}
        - {{arm: random_neuron, alpha: 0.1}}
        - {{arm: "{name}:{own}", alpha: 0.1}}  # the function `{own}` of {name}.py
      grid:
        all:
          eps_min: [0.3, 0.5, 0.7]
          sigma: [0.05]
          arms: [dense, random_neuron, "{name}:{own}"]
"""
LEARNERS = """\
# `{command}` finds the frequency from which
# each learner learns the rare feature. Other keys of the study `learners` can be set here too.
results: results
learners:
  studies:
    {name}:
      seeds: 10
      seeds_per_block: 10
      pairs: [returning]
      eps_min: [0.3, 0.5, 0.7, 1.0]
      learners:
        paper: {{}}
        mine: {{{key}: "{name}:{own}"}}  # `{own}` of {name}.py
"""
SNAKEFILE = '''\
"""The workflow of the installed package rarefeat; `rarefeat list` names the targets."""
from rarefeat import SNAKEFILE

include: SNAKEFILE
workflow.default_target = "{name}"
'''
KINDS = {
    "rule": ("arm", RULE, ARMS),
    "law": ("data_law", LAW, LEARNERS),
    "encoder": ("encoder", ENCODER, LEARNERS),
    "loss": ("loss", LOSS, LEARNERS),
    "optimiser": ("optimiser", OPTIMISER, LEARNERS),
}
"""Key of the config, file and YAML of each kind; a study is a copy of the toy."""
TOY = PACKAGED_FILES / "toy"


def write(kind: str, name: str) -> str:
    """Write the files of one of KINDS, or of a study; return a line that says how they run."""
    if not name.isidentifier() or not name.isascii():
        raise RarefeatError(f"new: {name!r}: use letters, digits and _, not beginning with a digit")
    try:
        check_name(name)
    except ValueError as error:
        raise RarefeatError(f"new: {error}") from error
    if kind == "study":
        module, command = f"rarefeat.studies.{name}", f"{name} claims_{name} --config size=quick"
        # Where kinds of studies are: in a clone src/rarefeat/studies.
        folder = Path(os.path.relpath(SINGLE_FILE_STUDIES))
        texts = {end: (TOY / f"toy.{end}").read_text(encoding="utf-8") for end in ("py", "yaml")}
        files = {folder / f"{name}.{end}": text.replace("toy", name) for end, text in texts.items()}
    else:
        module, command = name, f"{name} --configfile {name}.yaml"
        key, code, config = KINDS[kind]
        own = re.search(r"^(?:def|class) (\w+)", code, re.MULTILINE)[1]
        words = {"name": name, "key": key, "own": own, "command": f"snakemake --cores 2 {command}"}
        files = {Path(f"{name}.yaml"): config.format(**words)}
        files[Path(f"{name}.py")] = code.format(**words)
    if existing := [path for path in files if path.exists()]:
        raise RarefeatError(f"new: {existing[0]} exists; choose another name or delete it")
    if name in load().targets:
        raise RarefeatError(f"new: {name} is a target of the workflow; choose another name")
    if module in sys.modules or importlib.util.find_spec(module):
        raise RarefeatError(f"new: {module} is an installed Python module; choose another name")
    if not any(map(os.path.exists, ("Snakefile", "workflow/Snakefile"))):
        files[Path("Snakefile")] = SNAKEFILE.format(name=name)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return f"{', '.join(map(str, files))} written; run `snakemake --cores 2 {command}`"
